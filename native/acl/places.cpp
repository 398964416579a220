#include "acl/places.hpp"

#include <glob.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

namespace aiocann::acl {
namespace {

constexpr char kCustomLibrary[] = "/op_api/lib/libcust_opapi.so";

// The items of "a:b" or "a,b", blanks around them dropped.
std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> items;
  size_t begin = 0;
  while (begin <= text.size()) {
    size_t end = text.find(separator, begin);
    if (end == std::string::npos) end = text.size();
    std::string item = text.substr(begin, end - begin);
    const size_t first = item.find_first_not_of(" \t\r");
    if (first != std::string::npos) {
      items.push_back(item.substr(first, item.find_last_not_of(" \t\r") - first + 1));
    }
    begin = end + 1;
  }
  return items;
}

// The vendors that an operator package's config.ini lists as "load_priority=a,b".
std::vector<std::string> vendor_libraries(const std::string &package) {
  std::vector<std::string> paths;
  std::ifstream config(package + "/vendors/config.ini");
  for (std::string line; std::getline(config, line);) {
    const std::vector<std::string> sides = split(line, '=');
    if (sides.size() != 2 || sides[0] != "load_priority") continue;
    for (const std::string &vendor : split(sides[1], ',')) {
      paths.push_back(package + "/vendors/" + vendor + kCustomLibrary);
    }
  }
  return paths;
}

// The set_env.sh of the installation that holds `path`, if there is one.
std::string set_env_above(std::string path) {
  for (int level = 0; level < 5; ++level) {
    path = folder_of(path);
    if (path.size() < 2) break;
    if (is_file(path + "/set_env.sh")) return path + "/set_env.sh";
  }
  return "";
}

}  // namespace

const char *environment(const char *name) {
  const char *value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

bool is_file(const std::string &path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool is_folder(const std::string &path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string folder_of(const std::string &path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string base_name(const std::string &path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string list_of(const std::vector<std::string> &items) {
  std::string text;
  for (const std::string &item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

std::vector<std::string> usual_roots(const Places &places) {
  std::vector<std::string> bases = {places.ascend_root};
  if (const char *home = environment("HOME")) bases.push_back(std::string(home) + "/Ascend");
  std::vector<std::string> roots;
  for (const std::string &base : bases) {
    for (const char *folder : {"/cann", "/ascend-toolkit/latest", "/nnrt/latest"})
      roots.push_back(base + folder);
  }
  return roots;
}

std::vector<std::string> library_folders(const std::string &root) {
  return {root, root + "/lib64", root + "/" + kPlatformFolder};
}

std::vector<std::string> custom_operator_libraries(const std::string &runtime_path) {
  std::vector<std::string> paths;
  if (const char *custom = environment("ASCEND_CUSTOM_OPP_PATH")) {
    for (const std::string &folder : split(custom, ':')) paths.push_back(folder + kCustomLibrary);
  }
  std::vector<std::string> packages;
  if (const char *package = environment("ASCEND_OPP_PATH")) packages.push_back(package);
  std::string root = folder_of(runtime_path);
  for (int level = 0; level < 2; ++level) {  // ROOT/lib64 or ROOT/<platform>/lib64
    root = folder_of(root);
    packages.push_back(root + "/opp");
  }
  for (const std::string &package : packages) {
    const std::vector<std::string> more = vendor_libraries(package);
    paths.insert(paths.end(), more.begin(), more.end());
    if (!more.empty()) break;  // the same package may be named twice
  }
  std::vector<std::string> present;
  for (const std::string &path : paths) {
    if (is_file(path)) present.push_back(path);
  }
  return present;
}

bool has_device_node(const Places &places) {
  glob_t nodes = {};
  const bool found =
      glob((places.device_folder + "/davinci[0-9]*").c_str(), 0, nullptr, &nodes) == 0;
  globfree(&nodes);
  return found;
}

bool is_absent(const std::string &name, const std::string &dlopen_error) {
  return dlopen_error.compare(0, name.size() + 2, name + ": ") == 0 &&
         dlopen_error.find("cannot open shared object file") != std::string::npos;
}

std::string hint_for(const std::string &path, const std::string &dlopen_error) {
  const bool dependency =
      dlopen_error.find("cannot open shared object file") != std::string::npos &&
      dlopen_error.compare(0, path.size(), path) != 0;
  if (!dependency) return "";
  if (dlopen_error.find("libascend_hal") != std::string::npos || dlopen_error.find("libdrv") == 0) {
    return ". That library belongs to the NPU driver: install the driver, or `source set_env.sh` "
           "of the driver's "
           "installation before starting";
  }
  const std::string script = set_env_above(path);
  return ". `source " + (script.empty() ? "set_env.sh" : script) +
         "` before starting puts it on the library path";
}

}  // namespace aiocann::acl
