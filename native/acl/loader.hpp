// loader.hpp: finds a driver library and fills the table of functions. No ACL function is called
// here.
#pragma once
#include <string>
#include <vector>

#include "acl/api.hpp"

namespace aiocann::acl {

/// A loaded driver. Its libraries stay loaded until the process ends: vendor libraries own threads.
struct Library {
  Api api;
  std::string path;  ///< of the library that serves the runtime functions
  std::vector<std::string>
      operator_paths;           ///< of the libraries that serve aclnn functions, in search order
  std::string operator_note;    ///< why there are no aclnn functions; empty when there are some
  std::string unusable;         ///< operator libraries of the user's that cannot be loaded, and why
  std::vector<void *> handles;  ///< of all of them, those with operators first
};

/// Where to look besides the environment; tests put other folders here.
struct Places {
  std::string ascend_root = "/usr/local/Ascend";
  std::string device_folder = "/dev";
};

/// Loads CANN: AIOCANN_CANN_PATH (final) -> already in the process -> ASCEND_TOOLKIT_HOME,
/// ASCEND_HOME_PATH -> the usual folders -> the system's path. On failure returns false, and
/// `error` says what was tried and what to do. Thread: any, one at a time.
bool load_cann(Library *library, std::string *error, const Places &places = {});

/// Loads the simulator from its file, with symbols that stay local to us.
bool load_simulator(const std::string &path, Library *library, std::string *error);

/// True where an NPU's device node or a CANN library is found, working or not. Initialises nothing.
bool cann_present(const Places &places = {});

/// The address of an aclnn function by its name, of operators too that Api does not have; null: there is none.
void *find_operator(const Library &library, const char *name);

/// A sentence for the user about a function that Library::api has no pointer for: "... is not in
/// this CANN".
std::string why_missing(const Library &library, const char *function);

}  // namespace aiocann::acl
