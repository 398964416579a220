// The loader against libraries that stand for CANN (dummies.cmake). Each case runs in a child
// process: a library that is loaded stays loaded, and would serve the next case.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "acl/loader.hpp"
#include "check.hpp"

using aiocann::acl::Library;
using aiocann::acl::Places;

namespace {

std::string root() {
  const char *folder = std::getenv("AIOCANN_TEST_LIBRARIES");
  CHECK(folder != nullptr);
  return folder;
}

// Nothing is installed: no variable, no folder, no device.
Places nothing() {
  for (const char *variable : {"AIOCANN_CANN_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH",
                               "ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH"}) {
    unsetenv(variable);
  }
  setenv("HOME", (root() + "/nobody").c_str(), 1);
  return {root() + "/nothing", root() + "/nothing"};
}

void set(const char *variable, const std::string &folder) {
  setenv(variable, (root() + folder).c_str(), 1);
}

std::string served_by(const Library &library) { return library.api.aclrtGetSocName(); }

std::string load(const Places &places, Library *library) {
  std::string error;
  CHECK(load_cann(library, &error, places));
  CHECK_EQ(error, "");
  return served_by(*library);
}

std::string failure(const Places &places) {
  Library library;
  std::string error;
  CHECK(!load_cann(&library, &error, places));
  return error;
}

int call(aclnnStatus (*function)(void *, uint64_t, aclOpExecutor *, aclrtStream)) {
  CHECK(function != nullptr);
  return function(nullptr, 0, nullptr, nullptr);
}

void chosen_folder_wins() {
  const Places places = nothing();
  set("ASCEND_HOME_PATH", "/home");
  set("AIOCANN_CANN_PATH", "/toolkit");
  Library library;
  CHECK_EQ(load(places, &library), "toolkit");
  CHECK_CONTAINS(library.path, "/toolkit/lib64/libacl_rt.so");
}

void chosen_file_may_have_any_name() {
  const Places places = nothing();
  set("AIOCANN_CANN_PATH", "/single/libeverything.so");
  Library library;
  CHECK_EQ(load(places, &library), "single");
}

void chosen_path_is_final() {
  const Places places = nothing();
  set("ASCEND_HOME_PATH", "/home");
  set("AIOCANN_CANN_PATH", "/nothing");
  std::string error = failure(places);
  CHECK_CONTAINS(error, "AIOCANN_CANN_PATH=" + root() + "/nothing");
  CHECK_CONTAINS(error, "No such file");
  set("AIOCANN_CANN_PATH", "/elsewhere");  // a folder, but no CANN
  error = failure(places);
  CHECK_CONTAINS(error, "libacl_rt.so or libascendcl.so is not there, nor in");
  CHECK_CONTAINS(error, root() + "/elsewhere/lib64");
}

void resident_library_wins_over_the_environment() {
  const Places places = nothing();
  CHECK(dlopen((root() + "/usual/cann/lib64/libacl_rt.so").c_str(), RTLD_NOW | RTLD_LOCAL) !=
        nullptr);
  set("ASCEND_HOME_PATH", "/home");
  Library library;
  CHECK_EQ(load(places, &library), "usual");
}

void toolkit_home_comes_before_home_path() {
  const Places places = nothing();
  set("ASCEND_TOOLKIT_HOME", "/toolkit");
  set("ASCEND_HOME_PATH", "/home");
  Library library;
  CHECK_EQ(load(places, &library), "toolkit");
}

void home_path_comes_before_usual_folders() {
  Places places = nothing();
  places.ascend_root = root() + "/usual";
  set("ASCEND_HOME_PATH", "/home");
  Library library;
  CHECK_EQ(load(places, &library), "home");
}

void usual_folders_come_before_the_users() {
  Places places = nothing();
  set("HOME", "/user");
  Library library;
  places.ascend_root = root() + "/usual";
  CHECK_EQ(load(places, &library), "usual");
}

void users_folder_is_searched() {
  const Places places = nothing();
  set("HOME", "/user");
  Library library;
  CHECK_EQ(load(places, &library), "user");
}

void newer_library_comes_before_older() {
  const Places places = nothing();
  set("ASCEND_HOME_PATH", "/both");
  Library library;
  CHECK_EQ(load(places, &library), "newer");
}

void older_library_completes_the_newer() {
  const Places places = nothing();
  set("ASCEND_HOME_PATH", "/parted");
  Library library;
  CHECK_EQ(load(places, &library), "parted");
  CHECK(library.api.aclrtMalloc != nullptr);
}

void missing_symbol_is_named() {
  const Places places = nothing();
  set("AIOCANN_CANN_PATH", "/lacking");
  const std::string error = failure(places);
  CHECK_CONTAINS(
      error, "/lacking/lib64/libascendcl.so: it lacks aclrtMalloc, which every CANN since 8.1 has");
}

void many_missing_symbols_are_counted() {
  const Places places = nothing();
  set("ASCEND_HOME_PATH", "/foreign");
  const std::string error = failure(places);
  CHECK_CONTAINS(error, "CANN was found but cannot be used: ");
  CHECK_CONTAINS(
      error, "/foreign/lib64/libacl_rt.so: it lacks aclFinalize, aclGetRecentErrMsg, aclInit and ");
}

void missing_dependency_is_named_with_its_cure() {
  const Places places = nothing();
  set("ASCEND_HOME_PATH", "/dependent");
  const std::string error = failure(places);
  CHECK_CONTAINS(
      error,
      "/dependent/lib64/libacl_rt.so: libabsent_dependency.so: cannot open shared object file");
  CHECK_CONTAINS(error, "`source " + root() + "/dependent/set_env.sh`");
}

void broken_installation_does_not_hide_a_good_one() {
  const Places places = nothing();
  set("ASCEND_TOOLKIT_HOME", "/dependent");
  set("ASCEND_HOME_PATH", "/home");
  Library library;
  CHECK_EQ(load(places, &library), "home");
}

void nothing_found_says_where_it_looked() {
  const Places places = nothing();
  set("ASCEND_HOME_PATH", "/elsewhere");
  const std::string error = failure(places);
  for (const std::string &part :
       {std::string("no CANN library was found"), std::string("libacl_rt.so and libascendcl.so"),
        std::string("$ASCEND_TOOLKIT_HOME (not set)"), "$ASCEND_HOME_PATH=" + root() + "/elsewhere",
        places.ascend_root + "/cann", places.ascend_root + "/ascend-toolkit/latest",
        root() + "/nobody/Ascend/ascend-toolkit/latest", std::string("the system's library path"),
        std::string("`source set_env.sh`"), std::string("AIOCANN_CANN_PATH")}) {
    CHECK_CONTAINS(error, part);
  }
}

void operators_come_from_custom_then_split_then_old() {
  const Places places = nothing();
  set("ASCEND_CUSTOM_OPP_PATH", "/custom");
  set("ASCEND_HOME_PATH", "/toolkit");
  Library library;
  load(places, &library);
  CHECK(library.api.aclCreateTensor != nullptr);
  CHECK_EQ(call(library.api.aclnnAdd), 10);
  CHECK_EQ(call(library.api.aclnnAbs), 20);
  CHECK_EQ(call(library.api.aclnnSin), 30);
  CHECK(library.api.aclnnCast == nullptr);
  CHECK_CONTAINS(why_missing(library, "aclnnCast"), "aclnnCast is not in this CANN: it is not in ");
  CHECK_CONTAINS(why_missing(library, "aclnnCast"), "libopapi_math.so, ");
  CHECK_CONTAINS(why_missing(library, "aclrtLaunchHostFunc"),
                 "toolkit/lib64/libacl_rt.so lacks it (known from CANN 9.0)");
}

void vendors_follow_their_priority() {
  const Places places = nothing();
  set("ASCEND_HOME_PATH", "/toolkit");
  Library library;
  load(places, &library);
  CHECK_EQ(call(library.api.aclnnAdd), 12);
  CHECK_EQ(library.operator_paths.size(), 4U);
}

void runtime_without_operators_loads() {
  const Places places = nothing();
  set("ASCEND_HOME_PATH", "/home");
  Library library;
  load(places, &library);
  CHECK(library.api.aclnnAdd == nullptr);
  CHECK_CONTAINS(why_missing(library, "aclnnAdd"),
                 "aclnnAdd is not in this CANN: libopapi.so: cannot open");
}

void single_library_serves_everything() {
  const Places places = nothing();
  set("ASCEND_CUSTOM_OPP_PATH", "/custom");
  set("AIOCANN_CANN_PATH", "/single/libeverything.so");
  Library library;
  load(places, &library);
  CHECK_EQ(call(library.api.aclnnAdd), 1);
  CHECK(library.api.aclnnSin == nullptr);
}

void simulator_loads_by_path_and_stays_local() {
  nothing();
  Library library;
  std::string error;
  CHECK(load_simulator(root() + "/single/libeverything.so", &library, &error));
  CHECK_EQ(served_by(library), "single");
  CHECK_EQ(call(library.api.aclnnAdd), 1);
  CHECK(dlsym(RTLD_DEFAULT, "aclrtGetSocName") == nullptr);
  CHECK(!load_simulator(root() + "/foreign/lib64/libacl_rt.so", &library, &error));
  CHECK_CONTAINS(error, "is not the simulator: it lacks ");
  CHECK(!load_simulator(root() + "/nothing.so", &library, &error));
  CHECK_CONTAINS(error, "the simulator cannot be loaded: " + root() + "/nothing.so: cannot open");
}

void what_the_library_hides_is_absent() {
  const Places places = nothing();
  set("AIOCANN_CANN_PATH", "/hiding/libeverything.so");
  Library library;
  load(places, &library);
  CHECK_EQ(call(library.api.aclnnAdd), 1);
  CHECK(library.api.aclnnAbs == nullptr);
}

void presence_is_seen_without_loading() {
  Places places = nothing();
  CHECK(!cann_present(places));
  places.device_folder = root() + "/manager";  // the driver's manager is no device
  CHECK(!cann_present(places));
  places.device_folder = root() + "/device";
  CHECK(cann_present(places));
  places = nothing();
  set("ASCEND_HOME_PATH", "/dependent");  // broken, but there
  CHECK(cann_present(places));
  places = nothing();
  places.ascend_root = root() + "/usual";
  CHECK(cann_present(places));
  CHECK(dlopen("libacl_rt.so", RTLD_NOW | RTLD_NOLOAD) == nullptr);
  places = nothing();
  set("AIOCANN_CANN_PATH", "/nothing");  // asked for: its failure is for load_cann to tell
  CHECK(cann_present(places));
  CHECK_EQ(setenv("AIOCANN_CANN_PATH", "", 1), 0);
  CHECK(!cann_present(places));
}

void run(const char *name, void (*test)()) {
  std::fflush(nullptr);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    test();
    std::fflush(nullptr);
    _exit(0);
  }
  int status = 0;
  CHECK_EQ(waitpid(child, &status, 0), child);
  if (status != 0) check::fail(__FILE__, __LINE__, name);
}

}  // namespace

#define RUN(test) run(#test, test)

int main() {
  RUN(chosen_folder_wins);
  RUN(chosen_file_may_have_any_name);
  RUN(chosen_path_is_final);
  RUN(resident_library_wins_over_the_environment);
  RUN(toolkit_home_comes_before_home_path);
  RUN(home_path_comes_before_usual_folders);
  RUN(usual_folders_come_before_the_users);
  RUN(users_folder_is_searched);
  RUN(newer_library_comes_before_older);
  RUN(older_library_completes_the_newer);
  RUN(missing_symbol_is_named);
  RUN(many_missing_symbols_are_counted);
  RUN(missing_dependency_is_named_with_its_cure);
  RUN(broken_installation_does_not_hide_a_good_one);
  RUN(nothing_found_says_where_it_looked);
  RUN(operators_come_from_custom_then_split_then_old);
  RUN(vendors_follow_their_priority);
  RUN(runtime_without_operators_loads);
  RUN(single_library_serves_everything);
  RUN(simulator_loads_by_path_and_stays_local);
  RUN(what_the_library_hides_is_absent);
  RUN(presence_is_seen_without_loading);
  return 0;
}
