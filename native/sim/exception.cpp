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

/// 0xFFFFFFFF for NULL, 100000 where the task that failed was no kernel.
aclError check_kernel_info(const char *function, const aclrtExceptionInfo *info) {
  if (info == nullptr) return fail(static_cast<aclError>(UINT32_MAX), "%s: info is NULL", function);
  if (info->is_kernel) return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_PARAM, "%s: the task that failed was no kernel", function);
}

}  // namespace

void report_exception(uint32_t task_id, int32_t stream_id, uint32_t thread_id, int device_id,
                      aclError code, const KernelTask *kernel) {
  std::vector<aclrtExceptionInfoCallback> targets;
  {
    // Not held while they run: a callback may register and unregister.
    std::lock_guard<std::mutex> lock(callbacks().mutex);
    targets = callbacks().registered;
    if (callbacks().single != nullptr) targets.push_back(callbacks().single);
  }
  if (targets.empty()) return;
  // What a kernel of ours was launched with: where its operands are.
  std::vector<const void *> arguments;
  if (kernel != nullptr) {
    for (const Operand &operand : kernel->operands) arguments.push_back(operand.begin);
  }
  for (const aclrtExceptionInfoCallback target : targets) {
    aclrtExceptionInfo info{task_id,
                            static_cast<uint32_t>(stream_id),
                            thread_id,
                            static_cast<uint32_t>(device_id),
                            static_cast<uint32_t>(code),
                            kernel != nullptr,
                            &arguments,
                            kernel != nullptr ? reinterpret_cast<void *>(kernel->fn) : nullptr};
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

/// The addresses of the kernel's operands: memory of the host, valid during the callback.
aclError aclrtGetArgsFromExceptionInfo(const aclrtExceptionInfo *info, void **devArgsPtr,
                                       uint32_t *devArgsLen) {
  ACL_ENTRY();
  if (info != nullptr) {
    REQUIRE_NOT_NULL(devArgsPtr);
    REQUIRE_NOT_NULL(devArgsLen);
  }
  if (const aclError code = check_kernel_info(__func__, info)) return code;
  *devArgsPtr = const_cast<const void **>(info->arguments->data());
  *devArgsLen = static_cast<uint32_t>(info->arguments->size() * sizeof(void *));
  return ACL_SUCCESS;
}

aclError aclrtGetFuncHandleFromExceptionInfo(const aclrtExceptionInfo *info,
                                             aclrtFuncHandle *func) {
  ACL_ENTRY();
  if (info != nullptr) REQUIRE_NOT_NULL(func);
  if (const aclError code = check_kernel_info(__func__, info)) return code;
  *func = info->function;
  return ACL_SUCCESS;
}
