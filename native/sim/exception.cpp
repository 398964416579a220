// exception.cpp: the program's callbacks for tasks that failed on the device.
#include <algorithm>
#include <mutex>
#include <vector>

#include "sim/callback.hpp"
#include "sim/entry.hpp"

namespace aiocann::sim {
namespace {

struct ExceptionCallbacks {
  std::mutex mutex;
  aclrtExceptionInfoCallback single =
      nullptr;  ///< aclrtSetExceptionInfoCallback: the last one wins
  std::vector<aclrtExceptionInfoCallback> registered;  ///< aclrtExceptionInfoCallbackRegister
};

ExceptionCallbacks &callbacks() {
  static ExceptionCallbacks *const leaked = new ExceptionCallbacks();
  return *leaked;
}

}  // namespace

void report_exception(uint32_t task_id, int32_t stream_id, uint32_t thread_id, int device_id,
                      aclError code) {
  std::vector<aclrtExceptionInfoCallback> targets;
  {
    // Not held while they run: a callback may register and unregister.
    std::lock_guard<std::mutex> lock(callbacks().mutex);
    targets = callbacks().registered;
    if (callbacks().single != nullptr) targets.push_back(callbacks().single);
  }
  for (const aclrtExceptionInfoCallback target : targets) {
    aclrtExceptionInfo info{task_id, static_cast<uint32_t>(stream_id), thread_id,
                            static_cast<uint32_t>(device_id), static_cast<uint32_t>(code)};
    count(g_counters.exceptions);
    target(&info);
  }
}

}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback) {
  ACL_ENTRY();
  std::lock_guard<std::mutex> lock(callbacks().mutex);
  callbacks().single = callback;
  return ACL_SUCCESS;
}

aclError aclrtExceptionInfoCallbackRegister(aclrtExceptionInfoCallback callback) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(callback);
  std::lock_guard<std::mutex> lock(callbacks().mutex);
  auto &registered = callbacks().registered;
  if (std::find(registered.begin(), registered.end(), callback) == registered.end()) {
    registered.push_back(callback);
  }
  return ACL_SUCCESS;
}

aclError aclrtExceptionInfoCallbackUnregister(aclrtExceptionInfoCallback callback) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(callback);
  std::lock_guard<std::mutex> lock(callbacks().mutex);
  auto &registered = callbacks().registered;
  const auto found = std::find(registered.begin(), registered.end(), callback);
  if (found == registered.end()) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the exception callback is not registered");
  }
  registered.erase(found);
  return ACL_SUCCESS;
}

uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo *info) {
  return info == nullptr ? UINT32_MAX : info->task_id;
}

uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo *info) {
  return info == nullptr ? UINT32_MAX : info->stream_id;
}

uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo *info) {
  return info == nullptr ? UINT32_MAX : info->thread_id;
}

uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo *info) {
  return info == nullptr ? UINT32_MAX : info->device_id;
}

uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo *info) {
  return info == nullptr ? UINT32_MAX : info->code;
}
