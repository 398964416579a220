#include "acl/loader.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstring>

#include "acl/places.hpp"

namespace aiocann::acl {
namespace {

constexpr char kRuntime[] = "libacl_rt.so";          // 9.x
constexpr char kRuntimeBefore[] = "libascendcl.so";  // 8.x; in 9.x a compatibility library
constexpr char kOperatorBase[] = "libnnopbase.so";   // tensors, executors
// The split operator libraries of 9.x, then the one of 8.x.
constexpr const char *kOperators[] = {"libopapi_math.so", "libopapi_nn.so", "libopapi_cv.so",
                                      "libopapi_transformer.so", "libopapi.so"};

struct Symbol {
  const char *name;
  const char *since;
  size_t offset;  // of the pointer in Api
  bool required;
  bool is_operator;
};

constexpr Symbol kSymbols[] = {
#define ACL_SYMBOL(name, since) {#name, since, offsetof(Api, name), false, false},
#define ACL_REQUIRED_SYMBOL(name, since) {#name, since, offsetof(Api, name), true, false},
#define ACLNN_SYMBOL(name) {#name, "", offsetof(Api, name), false, true},
#include "acl_symbols.inc"
};

// The simulator exports everything, and says itself what the CANN that it plays does not have.
bool is_hidden(void *handle, const char *name) {
  void *address = dlsym(handle, "aiocann_sim_hidden");
  if (address == nullptr) return false;
  int32_t (*hidden)(const char *) = nullptr;
  std::memcpy(&hidden, &address, sizeof(address));
  return hidden(name) != 0;
}

void *find_symbol(const std::vector<void *> &handles, const char *name) {
  for (void *handle : handles) {
    void *address = dlsym(handle, name);
    if (address != nullptr && !is_hidden(handle, name)) return address;
  }
  return nullptr;
}

std::string path_of(void *handle, const std::string &otherwise) {
  link_map *map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || *map->l_name == '\0')
    return otherwise;
  return map->l_name;
}

// Whether a library defines a function itself, rather than one that it depends on.
bool defines(void *handle, const char *name) {
  void *address = dlsym(handle, name);
  link_map *map = nullptr;
  Dl_info info = {};
  return address != nullptr && dladdr(address, &info) != 0 &&
         dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 &&
         info.dli_fbase == reinterpret_cast<void *>(map->l_addr);
}

// RTLD_LOCAL for vendor libraries too: they name what they need, and AIOCANN_CANN_PATH may hold the
// simulator.
void *open_library(const std::string &path, int more_flags = 0) {
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | more_flags);
}

std::string open_error() {
  const char *text = dlerror();
  return text != nullptr ? text : "unknown error";
}

// The required functions that the libraries lack, at most three of them by name; empty: none.
std::string missing_required(const std::vector<void *> &handles) {
  std::string names;
  int count = 0;
  for (const Symbol &symbol : kSymbols) {
    if (!symbol.required || find_symbol(handles, symbol.name) != nullptr) continue;
    if (++count <= 3) names += (count > 1 ? ", " : "") + std::string(symbol.name);
  }
  if (count > 3) names += " and " + std::to_string(count - 3) + " more";
  return names;
}

void fill(Api *api, const std::vector<void *> &runtime, const std::vector<void *> &operators) {
  for (const Symbol &symbol : kSymbols) {
    void *address = symbol.is_operator ? find_symbol(operators, symbol.name) : nullptr;
    if (address == nullptr) address = find_symbol(runtime, symbol.name);
    std::memcpy(reinterpret_cast<char *>(api) + symbol.offset, &address, sizeof(address));
  }
}

// One search: what was found, and what to tell when nothing usable was.
class Search {
 public:
  Search(Library *library, std::string *error, const Places &places)
      : library_(library), error_(error), places_(places) {}

  bool run() {
    if (const char *chosen = environment("AIOCANN_CANN_PATH")) return load_chosen(chosen);
    if (load_resident()) return true;
    for (const char *variable : kRootVariables) {
      const char *root = environment(variable);
      note(std::string("$") + variable +
           (root != nullptr ? "=" + std::string(root) : " (not set)"));
      if (root != nullptr && load_root(root)) return true;
    }
    for (const std::string &root : usual_roots(places_)) {
      note(root);
      if (load_root(root)) return true;
    }
    return load_system() || fail();
  }

  // One library that must be usable.
  bool load_file(const std::string &path) {
    void *handle = open_library(path);
    if (handle == nullptr) {
      complain(path, open_error());
      return false;
    }
    return adopt(handle, path);
  }

 private:
  bool load_chosen(const std::string &path) {
    if (is_folder(path) ? load_root(path) : load_file(path)) return true;
    if (broken_.empty()) {
      *error_ = "AIOCANN_CANN_PATH=" + path + ": " + kRuntime + " or " + kRuntimeBefore +
                " is not there, nor in " + list_of(library_folders(path));
    } else {
      *error_ = "AIOCANN_CANN_PATH=" + path + ": " + broken_ + hint_;
    }
    return false;
  }

  bool load_resident() {
    for (const char *name : {kRuntime, kRuntimeBefore}) {
      if (void *handle = open_library(name, RTLD_NOLOAD)) {
        if (adopt(handle, path_of(handle, name))) return true;
      }
    }
    return false;
  }

  bool load_root(const std::string &root) {
    for (const char *name : {kRuntime, kRuntimeBefore}) {
      for (const std::string &folder : library_folders(root)) {
        const std::string path = folder + "/" + name;
        if (is_file(path) && load_file(path)) return true;
      }
    }
    return false;
  }

  bool load_system() {
    for (const char *name : {kRuntime, kRuntimeBefore}) {
      if (void *handle = open_library(name)) {
        if (adopt(handle, path_of(handle, name))) return true;
      } else {
        const std::string why = open_error();
        if (!is_absent(name, why)) complain(name, why);
      }
    }
    return false;
  }

  bool fail() {
    const std::string looked = "looked for " + std::string(kRuntime) + " and " + kRuntimeBefore +
                               " among the libraries of this process, in " + notes_ +
                               " (in each also lib64 and " + kPlatformFolder +
                               "), and on the system's library path";
    if (broken_.empty()) {
      *error_ = "no CANN library was found: " + looked +
                ". If CANN is installed, `source set_env.sh` of it before starting, or point "
                "AIOCANN_CANN_PATH at it";
    } else {
      *error_ = "CANN was found but cannot be used: " + broken_ + hint_ +
                ". AIOCANN_CANN_PATH is not set; " + looked;
    }
    return false;
  }

  bool adopt(void *handle, const std::string &path) {
    std::vector<void *> runtime = {handle};
    std::string missing = missing_required(runtime);
    if (!missing.empty() && base_name(path) == kRuntime) {
      // Between the versions some functions lived only in the older library, which lies beside the
      // newer one.
      if (void *older = open_beside(path, kRuntimeBefore)) runtime.push_back(older);
      missing = missing_required(runtime);
    }
    if (!missing.empty()) {
      complain(path, "it lacks " + missing + ", which every CANN since 8.1 has");
      return false;
    }
    library_->path = path_of(handle, path);
    library_->operator_paths.clear();
    library_->operator_note.clear();
    library_->unusable.clear();
    std::vector<void *> operators;
    if (defines(handle, "aclCreateTensor")) {
      // One library that is everything, as the simulator is. Nobody else's operators fit its
      // tensors.
      operators.push_back(handle);
      library_->operator_paths.push_back(library_->path);
    } else {
      find_operators(&runtime, &operators);
    }
    fill(&library_->api, runtime, operators);
    library_->handles = operators;
    library_->handles.insert(library_->handles.end(), runtime.begin(), runtime.end());
    return true;
  }

  void find_operators(std::vector<void *> *runtime, std::vector<void *> *operators) {
    std::string absent;
    if (void *base = open_beside(library_->path, kOperatorBase)) {
      runtime->push_back(base);
    } else {
      absent = open_error();
    }
    for (const std::string &path : custom_operator_libraries(library_->path)) {
      if (void *handle = open_library(path)) {
        add_operators(handle, path, operators);
      } else {
        library_->unusable += "; " + path + " cannot be loaded: " + open_error();
      }
    }
    for (const char *name : kOperators) {
      if (void *handle = open_beside(library_->path, name)) {
        add_operators(handle, name, operators);
      } else if (absent.empty() || operators->empty()) {
        absent = open_error();
      }
    }
    if (operators->empty()) library_->operator_note = absent;
  }

  void add_operators(void *handle, const std::string &name, std::vector<void *> *operators) {
    operators->push_back(handle);
    library_->operator_paths.push_back(path_of(handle, name));
  }

  // A further library of the same CANN: the one that the process has, or beside `path`, or the
  // system's.
  void *open_beside(const std::string &path, const char *name) {
    if (void *handle = open_library(name, RTLD_NOLOAD)) return handle;
    const std::string neighbour = folder_of(path) + "/" + name;
    if (is_file(neighbour)) return open_library(neighbour);
    return open_library(name);
  }

  void note(const std::string &place) { notes_ += (notes_.empty() ? "" : ", ") + place; }

  void complain(const std::string &path, const std::string &why) {
    // dlopen names the file first when the fault is in the file itself.
    const bool named = why.compare(0, path.size(), path) == 0;
    broken_ += (broken_.empty() ? "" : "; ") + (named ? why : path + ": " + why);
    if (hint_.empty()) hint_ = hint_for(path, why);
  }

  Library *library_;
  std::string *error_;
  const Places &places_;
  std::string notes_;   // the places that were looked at, in order
  std::string broken_;  // what was found but could not be used, and why
  std::string hint_;    // what may cure the first of those
};

}  // namespace

bool load_cann(Library *library, std::string *error, const Places &places) {
  return Search(library, error, places).run();
}

bool load_simulator(const std::string &path, Library *library, std::string *error) {
  void *handle = open_library(path);
  if (handle == nullptr) {
    *error = "the simulator cannot be loaded: " + open_error();
    return false;
  }
  const std::vector<void *> handles = {handle};
  const std::string missing = missing_required(handles);
  if (!missing.empty()) {
    *error = path + " is not the simulator: it lacks " + missing;
    return false;
  }
  library->path = path_of(handle, path);
  library->operator_paths = {library->path};
  library->operator_note.clear();
  fill(&library->api, handles, {});
  library->handles = handles;
  return true;
}

bool cann_present(const Places &places) {
  if (environment("AIOCANN_CANN_PATH") != nullptr || has_device_node(places)) return true;
  std::vector<std::string> roots = usual_roots(places);
  for (const char *variable : kRootVariables) {
    if (const char *root = environment(variable)) roots.insert(roots.begin(), root);
  }
  for (const char *name : {kRuntime, kRuntimeBefore}) {
    for (const std::string &root : roots) {
      for (const std::string &folder : library_folders(root)) {
        if (is_file(folder + "/" + name)) return true;
      }
    }
    // What opens is kept open: the caller is about to use it.
    if (open_library(name) != nullptr || !is_absent(name, open_error())) return true;
  }
  return false;
}

void *find_operator(const Library &library, const char *name) {
  return find_symbol(library.handles, name);
}

std::string why_missing(const Library &library, const char *function) {
  for (const Symbol &symbol : kSymbols) {
    if (std::strcmp(symbol.name, function) != 0 || symbol.is_operator) continue;
    return std::string(function) + " is not in this CANN: " + library.path +
           " lacks it (known from CANN " + symbol.since + ")";
  }
  return std::string(function) + " is not in this CANN: " +
         (library.operator_paths.empty() ? library.operator_note
                                         : "it is not in " + list_of(library.operator_paths)) +
         library.unusable;
}

}  // namespace aiocann::acl
