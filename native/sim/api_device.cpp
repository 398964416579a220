// api_device.cpp: initialisation, devices, contexts.
#include <mutex>
#include <string>

#include "sim/acl_config.hpp"
#include "sim/entry.hpp"
#include "sim/lifecycle.hpp"
#include "sim/lookup.hpp"
#include "sim/machine.hpp"
#include "sim/state_callbacks.hpp"
#include "sim/stream.hpp"
#include "sim/strict.hpp"
#include "sim/thread_state.hpp"

namespace aiocann::sim {
namespace {

/// Of aclInit and aclFinalize.
struct InitState {
  std::mutex mutex;
  uint64_t references = 0;
  bool is_finalized = false;
  bool has_config =
      false;  ///< the first successful aclInit fixed the configuration for the process
  std::string config;
};

InitState &init_state() {
  static InitState *const leaked = new InitState();
  return *leaked;
}

constexpr int32_t kMinorVersion81 = 13;  ///< of the ACL of CANN 8.1

aclError finalize(InitState &state) {
  if (state.is_finalized && state.references == 0) {
    return fail(ACL_ERROR_REPEAT_FINALIZE, "ACL is finalized already");
  }
  if (strict::is_on()) strict::leaving("aclFinalize", nullptr);
  set_default_device(nullptr);
  state.references = 0;
  state.is_finalized = true;
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclInit(const char *configPath) {
  ACL_ENTRY();
  InitState &state = init_state();
  std::unique_lock<std::mutex> lock(state.mutex);
  if (state.references > 0) {
    ++state.references;
    return fail(ACL_ERROR_REPEAT_INITIALIZE, "ACL is initialized already");
  }
  if (const aclError code = machine().prepare()) return code;
  std::string text;
  AclConfig config;
  if (const aclError code = read_acl_config(configPath, &text)) return code;
  if (state.has_config && text != state.config) {
    return fail(ACL_ERROR_INVALID_PARAM,
                "aclInit: the configuration differs from the one of this process's first aclInit");
  }
  if (const aclError code = parse_acl_config(text, &config)) return code;
  Device *default_device = nullptr;
  if (config.default_device >= 0) {
    if (const aclError code = find_device(config.default_device, &default_device)) return code;
  }
  set_default_device(default_device);
  share_errors(config.errors_per_process);
  state.has_config = true;
  state.config = text;
  state.references = 1;
  state.is_finalized = false;
  lock.unlock();
  return tell_initialized(text);
}

aclError aclFinalize() {
  ACL_ENTRY();
  InitState &state = init_state();
  std::unique_lock<std::mutex> lock(state.mutex);
  if (const aclError code = finalize(state)) return code;
  lock.unlock();
  return tell_finalized();
}

aclError aclFinalizeReference(uint64_t *refCount) {
  ACL_ENTRY();
  InitState &state = init_state();
  std::unique_lock<std::mutex> lock(state.mutex);
  if (state.references == 0) {
    if (refCount != nullptr) *refCount = 0;
    return fail(ACL_ERROR_REPEAT_FINALIZE, "ACL is not initialized, or finalized already");
  }
  if (state.references > 1) {
    --state.references;
    if (refCount != nullptr) *refCount = state.references;
    return ACL_SUCCESS;
  }
  if (refCount != nullptr) *refCount = 0;
  if (const aclError code = finalize(state)) return code;
  lock.unlock();
  return tell_finalized();
}

aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(majorVersion);
  REQUIRE_NOT_NULL(minorVersion);
  REQUIRE_NOT_NULL(patchVersion);
  if (const aclError code = machine().prepare()) return code;
  *majorVersion = ACL_MAJOR_VERSION;
  *minorVersion = machine().config().is_cann_81 ? kMinorVersion81 : ACL_MINOR_VERSION;
  *patchVersion = ACL_PATCH_VERSION;
  return ACL_SUCCESS;
}

const char *aclrtGetSocName() {
  ACL_ENTRY_POINTER();
  return machine().prepare() == ACL_SUCCESS ? machine().config().soc->name : nullptr;
}

aclError aclrtGetRunMode(aclrtRunMode *runMode) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(runMode);
  *runMode = ACL_HOST;
  return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t *count) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(count);
  if (const aclError code = machine().prepare()) return code;
  if (machine().visible_count() == 0) {
    return fail(ACL_ERROR_RT_NO_DEVICE, "no device is visible: ASCEND_RT_VISIBLE_DEVICES %s",
                machine().visible_complaint().c_str());
  }
  *count = static_cast<uint32_t>(machine().visible_count());
  return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t deviceId) {
  ACL_ENTRY();
  Device *device = nullptr;
  if (const aclError code = find_device(deviceId, &device)) return code;
  return set_device(device);
}

static aclError reset_device(int32_t deviceId, bool force) {
  Device *device = nullptr;
  if (const aclError code = find_device(deviceId, &device)) return code;
  const bool was_lost = device->lost.load() != 0;
  if (was_lost && force) {
    // The device starts anew, whoever had it open.
    close_all_contexts(device, true);
    if (!device->lost_for_ever.load()) restore(device);
    return refuse_lost(device);
  }
  std::lock_guard<std::mutex> lock(device->mutex);
  if (device->primary_refs == 0) {
    return fail(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, "device %d is not set, or reset already",
                deviceId);
  }
  device->primary_refs = force ? 0 : device->primary_refs - 1;
  if (device->primary_refs > 0) return ACL_SUCCESS;
  Context *context = device->primary.load();
  if (strict::is_on() && !force && device->n_contexts.load() == 1)
    strict::leaving("aclrtResetDevice", device);
  // Nothing new may enter while the context drains.
  if (force) device->primary.store(nullptr, std::memory_order_release);
  close_context(context, force);
  device->primary.store(nullptr, std::memory_order_release);
  // Other threads go on referring to the device: should its primary context be made anew, they have that.
  if (thread_state().primary_device == device->index) thread_state().primary_device = -1;
  return was_lost ? refuse_lost(device) : ACL_SUCCESS;
}

static aclError reset_and_tell(int32_t deviceId, bool force) {
  tell_device_state(deviceId, ACL_RT_DEVICE_STATE_RESET_PRE);
  const aclError code = reset_device(deviceId, force);
  tell_device_state(deviceId, ACL_RT_DEVICE_STATE_RESET_POST);
  return code;
}

aclError aclrtResetDevice(int32_t deviceId) {
  ACL_ENTRY();
  return reset_and_tell(deviceId, false);
}

aclError aclrtResetDeviceForce(int32_t deviceId) {
  ACL_ENTRY();
  return reset_and_tell(deviceId, true);
}

aclError aclrtGetDevice(int32_t *deviceId) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(deviceId);
  // A device that is current by default is not opened for the question.
  const Device *device = current_context() == nullptr ? default_device() : nullptr;
  if (device == nullptr) {
    Context *context = nullptr;
    if (const aclError code = require_context(&context)) return code;
    device = context->device;
  }
  *deviceId = machine().user_id(device);
  return ACL_SUCCESS;
}

aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(context);
  Device *device = nullptr;
  if (const aclError code = find_device(deviceId, &device)) return code;
  Context *made = nullptr;
  {
    std::lock_guard<std::mutex> lock(device->mutex);
    if (const aclError code = open_context(device, false, &made)) return code;
  }
  thread_state().explicit_context = made;
  *context = made;
  return ACL_SUCCESS;
}

/// The living context at `handle`, or nullptr.
static Context *find_context(aclrtContext handle) {
  Context *context = machine().contexts().find(handle);
  return context != nullptr && context->alive.load(std::memory_order_acquire) ? context : nullptr;
}

aclError aclrtDestroyContext(aclrtContext context) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(context);
  Context *target = find_context(context);
  if (target == nullptr)
    return fail(ACL_ERROR_RT_CONTEXT_NULL, "the context was destroyed already");
  if (target->is_primary) {
    return fail(ACL_ERROR_RT_CONTEXT_NULL,
                "a primary context cannot be destroyed: reset the device");
  }
  ThreadState &thread = thread_state();
  if (thread.explicit_context == target) thread.explicit_context = nullptr;
  std::lock_guard<std::mutex> lock(target->device->mutex);
  if (!target->alive.load())
    return fail(ACL_ERROR_RT_CONTEXT_NULL, "the context was destroyed already");
  close_context(target, false);
  return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(context);
  Context *target = find_context(context);
  if (target == nullptr) return fail(ACL_ERROR_RT_CONTEXT_NULL, "the context was destroyed");
  ThreadState &thread = thread_state();
  thread.explicit_context = target;
  thread.primary_device = -1;
  return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext *context) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(context);
  Context *current = nullptr;
  if (const aclError code = require_context(&current)) return code;
  *context = current;
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  ACL_ENTRY();
  if (timeout < -1 || timeout == 0) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "timeout %d: expected -1 or more than 0 milliseconds",
                timeout);
  }
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  std::vector<Stream *> streams;
  {
    std::lock_guard<std::mutex> lock(context->mutex);
    streams = context->streams;
  }
  for (const Stream *stream : streams) {
    if (stream->capture() == nullptr) continue;
    return fail(ACL_ERROR_RT_STREAM_CAPTURED, "stream %d of this context is capturing",
                stream->id());
  }
  const Deadline deadline = Deadline::after_ms(timeout);
  aclError first = ACL_SUCCESS;
  for (Stream *stream : streams) {
    if (const aclError code = stream->wait_for_all(deadline)) {
      return fail(code, "stream %d did not finish within %d ms", stream->id(), timeout);
    }
    const aclError code = stream->take_error();
    if (first == ACL_SUCCESS) first = code;
  }
  return first == ACL_SUCCESS ? first : fail(first, "a task of this context failed on the device");
}

aclError aclrtSynchronizeDevice() {
  ACL_ENTRY();
  return aclrtSynchronizeDeviceWithTimeout(-1);
}
