// places.hpp: where CANN lives: folders, environment variables, what to advise. Opens nothing.
#pragma once
#include <string>
#include <vector>

#include "acl/loader.hpp"

namespace aiocann::acl {

/// Where a set_env.sh leaves the root of an installation.
constexpr const char *kRootVariables[] = {"ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH"};

#if defined(__aarch64__)
constexpr char kPlatformFolder[] = "aarch64-linux/lib64";
#else
constexpr char kPlatformFolder[] = "x86_64-linux/lib64";
#endif

/// An environment variable that is set and not empty, else nullptr.
const char *environment(const char *name);
bool is_file(const std::string &path);
bool is_folder(const std::string &path);
std::string folder_of(const std::string &path);
std::string base_name(const std::string &path);
std::string list_of(const std::vector<std::string> &items);

/// The installation roots that installers use, in order.
std::vector<std::string> usual_roots(const Places &places);
/// The folders of one installation that may hold libraries. The stub libraries (devlib) are none of
/// them.
std::vector<std::string> library_folders(const std::string &root);
/// Custom operator libraries by priority: ASCEND_CUSTOM_OPP_PATH, then the vendors of the operator
/// package that belongs to the runtime library at `runtime_path`.
std::vector<std::string> custom_operator_libraries(const std::string &runtime_path);
bool has_device_node(const Places &places);

/// Whether dlopen(name) failed because no such library exists, rather than because it does not
/// work.
bool is_absent(const std::string &name, const std::string &dlopen_error);
/// What may cure a library at `path` that did not load; empty, or a sentence that starts with ". ".
std::string hint_for(const std::string &path, const std::string &dlopen_error);

}  // namespace aiocann::acl
