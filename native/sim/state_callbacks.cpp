// state_callbacks.cpp: the lists behind state_callbacks.hpp, and the calls that fill them.
#include "sim/state_callbacks.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "sim/entry.hpp"

namespace aiocann::sim {
namespace {

template <class Fn>
struct Registered {
  Fn fn;
  void *user_data;
};

/// By name: each once.
template <class Fn>
class NamedCallbacks {
 public:
  aclError set(const char *function, const char *name, Fn fn, void *user_data) {
    if (name == nullptr || *name == '\0')
      return fail(ACL_ERROR_INVALID_PARAM, "%s: the name is NULL or empty", function);
    std::lock_guard<std::mutex> lock(mutex_);
    const bool is_known = by_name_.count(name) != 0;
    if (is_known != (fn == nullptr))
      return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: '%s' is %s", function, name,
                  is_known ? "registered already" : "not registered");
    if (fn == nullptr)
      by_name_.erase(name);
    else
      by_name_[name] = {fn, user_data};
    n_.store(by_name_.size());
    return ACL_SUCCESS;
  }

  template <class... A>
  void call(A... arguments) {
    if (n_.load() == 0) return;
    std::vector<Registered<Fn>> targets;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (const auto &[name, callback] : by_name_) targets.push_back(callback);
    }
    for (const Registered<Fn> &target : targets) target.fn(arguments..., target.user_data);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Registered<Fn>> by_name_;
  std::atomic<size_t> n_{0};
};

NamedCallbacks<aclrtStreamStateCallback> &of_streams() {
  static auto *const leaked = new NamedCallbacks<aclrtStreamStateCallback>();
  return *leaked;
}

NamedCallbacks<aclrtDeviceStateCallback> &of_devices() {
  static auto *const leaked = new NamedCallbacks<aclrtDeviceStateCallback>();
  return *leaked;
}

template <class Fn>
struct Typed {
  aclRegisterCallbackType type;
  Fn fn;
  void *user_data;
};

struct LifeCallbacks {
  std::mutex mutex;
  std::vector<Typed<aclInitCallbackFunc>> init;
  std::vector<Typed<aclFinalizeCallbackFunc>> finalize;
  bool is_initialized = false;
  std::string config;
};

LifeCallbacks &life() {
  static LifeCallbacks *const leaked = new LifeCallbacks();
  return *leaked;
}

template <class Fn>
aclError remove(std::vector<Typed<Fn>> &all, aclRegisterCallbackType type, Fn fn) {
  std::lock_guard<std::mutex> lock(life().mutex);
  const auto found = std::find_if(all.begin(), all.end(), [type, fn](const Typed<Fn> &entry) {
    return entry.type == type && entry.fn == fn;
  });
  if (found == all.end()) return fail(ACL_ERROR_INVALID_PARAM, "the callback is not registered");
  all.erase(found);
  return ACL_SUCCESS;
}

}  // namespace

void tell_stream_state(aclrtStream stream, aclrtStreamState state) {
  of_streams().call(stream, state);
}

void tell_device_state(int32_t user_id, aclrtDeviceState state) {
  of_devices().call(user_id, state);
}

aclError tell_initialized(const std::string &config) {
  std::vector<Typed<aclInitCallbackFunc>> targets;
  {
    std::lock_guard<std::mutex> lock(life().mutex);
    life().is_initialized = true;
    life().config = config;
    targets = life().init;
  }
  aclError first = ACL_SUCCESS;
  for (const auto &target : targets) {
    const aclError code = target.fn(config.c_str(), config.size(), target.user_data);
    if (first == ACL_SUCCESS) first = code;
  }
  return first;
}

aclError tell_finalized() {
  std::vector<Typed<aclFinalizeCallbackFunc>> targets;
  {
    std::lock_guard<std::mutex> lock(life().mutex);
    life().is_initialized = false;
    targets = life().finalize;
  }
  aclError first = ACL_SUCCESS;
  for (const auto &target : targets) {
    const aclError code = target.fn(target.user_data);
    if (first == ACL_SUCCESS) first = code;
  }
  return first;
}

}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclrtRegStreamStateCallback(const char *regName, aclrtStreamStateCallback callback,
                                     void *args) {
  ACL_ENTRY();
  return of_streams().set("aclrtRegStreamStateCallback", regName, callback, args);
}

aclError aclrtRegDeviceStateCallback(const char *regName, aclrtDeviceStateCallback callback,
                                     void *args) {
  ACL_ENTRY();
  return of_devices().set("aclrtRegDeviceStateCallback", regName, callback, args);
}

aclError aclInitCallbackRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc,
                                 void *userData) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(cbFunc);
  std::string config;
  {
    std::lock_guard<std::mutex> lock(life().mutex);
    life().init.push_back({type, cbFunc, userData});
    if (!life().is_initialized) return ACL_SUCCESS;
    config = life().config;
  }
  return cbFunc(config.c_str(), config.size(), userData);  // initialised already: at once
}

aclError aclInitCallbackUnRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(cbFunc);
  return remove(life().init, type, cbFunc);
}

aclError aclFinalizeCallbackRegister(aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc,
                                     void *userData) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(cbFunc);
  std::lock_guard<std::mutex> lock(life().mutex);
  life().finalize.push_back({type, cbFunc, userData});
  return ACL_SUCCESS;
}

aclError aclFinalizeCallbackUnRegister(aclRegisterCallbackType type,
                                       aclFinalizeCallbackFunc cbFunc) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(cbFunc);
  return remove(life().finalize, type, cbFunc);
}
