#include "core/driver.hpp"

#include <cstdlib>
#include <mutex>
#include <vector>

#include "core/device.hpp"

namespace aiocann::core {
namespace {

struct Drivers {
  std::mutex
      mutex;  // held over loading and aclInit: openers wait for each other, nobody else takes it
  std::vector<Driver *> loaded;
};

Drivers &drivers() {
  static auto *all = new Drivers;
  return *all;
}

}  // namespace

Status acquire_driver(const std::string &name, const std::string &sim_library, Driver **out) {
  Drivers &all = drivers();
  std::lock_guard<std::mutex> guard(all.mutex);
  auto fresh = std::make_unique<Driver>();
  std::string error;
  bool found = false;
  if (name == "sim") {
    found = acl::load_simulator(sim_library, &fresh->library, &error);
  } else if (name == "cann") {
    found = acl::load_cann(&fresh->library, &error);
  } else {
    return Status::error(AIOCANN_E_USAGE, "The driver is \"cann\" or \"sim\", not \"%s\".",
                         name.c_str());
  }
  if (!found) return Status::error(AIOCANN_E_LIBRARY, "%s", error.c_str());
  Driver *driver = nullptr;
  for (Driver *known : all.loaded) {
    // The same library by another name, too: it has one state.
    if (known->library.api.aclInit == fresh->library.api.aclInit) driver = known;
  }
  if (driver == nullptr) {
    driver = fresh.release();
    all.loaded.push_back(driver);
  } else if (driver->users == 0) {
    driver->library = fresh->library;  // the simulator may play another CANN by now
  }
  if (driver->users == 0 && !driver->initialised) {
    const int32_t code = driver->library.api.aclInit(nullptr);
    if (code != 0 && code != ACL_ERROR_REPEAT_INITIALIZE) {
      return Status::driver(code, "aclInit", driver->library.api.aclGetRecentErrMsg());
    }
    driver->initialised = code == 0;
  }
  ++driver->users;
  *out = driver;
  return Status::ok();
}

void release_driver(Driver *driver, bool leak) {
  Drivers &all = drivers();
  std::lock_guard<std::mutex> guard(all.mutex);
  if (leak || --driver->users > 0) return;
  const acl::Api &api = driver->library.api;
  forget_faults(api);
  if (!driver->initialised) return;
  uint64_t left = 0;
  const int32_t code =
      api.aclFinalizeReference != nullptr ? api.aclFinalizeReference(&left) : api.aclFinalize();
  driver->initialised = code != 0;  // where it was refused, the next user need not initialise
}

}  // namespace aiocann::core
