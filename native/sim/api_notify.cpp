// api_notify.cpp: notifies, and writing and waiting for values in memory.
#include <string.h>

#include <mutex>

#include "sim/entry.hpp"
#include "sim/lookup.hpp"
#include "sim/machine.hpp"
#include "sim/stream.hpp"

namespace aiocann::sim {
namespace {

/// Over the change of a notify from its own word to a shared one.
std::mutex &sharing() {
  static std::mutex *const leaked = new std::mutex();
  return *leaked;
}

aclError create(Notify **notify) {
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  Device *device = context->device;
  Notify *made = device->notifies.acquire(machine().config().soc->max_notifies);
  if (made == nullptr) {
    return fail(ACL_ERROR_RT_NO_NOTIFY_RESOURCE, "device %d has no more notifies: %u are in use",
                machine().user_id(device), device->notifies.live());
  }
  made->device = device;
  made->refs.store(1);
  *notify = made;
  return ACL_SUCCESS;
}

aclError check_value(const char *function, const void *address, Stream *stream) {
  if (const aclError code = require_hbm_soc(function)) return code;
  if (reinterpret_cast<uintptr_t>(address) % sizeof(uint64_t) != 0) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is not aligned to 8 bytes", function, address);
  }
  const Location where = machine().locate(address);
  if (where.device == stream->device()) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is not memory of the stream's device", function,
              address);
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclrtCreateNotify(aclrtNotify *notify, uint64_t flag) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(notify);
  if (flag != ACL_NOTIFY_DEFAULT && flag != ACL_NOTIFY_DEVICE_USE_ONLY) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "notify flag %llu is not 0 or 1",
                static_cast<unsigned long long>(flag));
  }
  Notify *made = nullptr;
  if (const aclError code = create(&made)) return code;
  made->alive.store(true, std::memory_order_release);
  *notify = made;
  return ACL_SUCCESS;
}

aclError aclrtDestroyNotify(aclrtNotify notify) {
  ACL_ENTRY();
  Notify *target = nullptr;
  if (const aclError code = find_notify(notify, &target)) return code;
  if (!target->alive.exchange(false))
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the notify was destroyed already");
  target->release();
  return ACL_SUCCESS;
}

aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream) {
  ACL_ENTRY();
  Notify *target = nullptr;
  if (const aclError code = find_notify(notify, &target)) return code;
  Stream *on = nullptr;
  if (const aclError code = find_stream(stream, &on)) return code;
  return on->submit(RecordNotifyTask{Ref<Notify>(target)});
}

aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout) {
  ACL_ENTRY();
  Notify *target = nullptr;
  if (const aclError code = find_notify(notify, &target)) return code;
  Stream *on = nullptr;
  if (const aclError code = find_stream(stream, &on)) return code;
  return on->submit(WaitNotifyTask{Ref<Notify>(target), timeout});
}

aclError aclrtNotifyBatchReset(aclrtNotify *notifies, size_t num) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(notifies);
  if (num == 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtNotifyBatchReset: num is 0");
  for (size_t i = 0; i < num; ++i) {
    Notify *target = nullptr;
    if (const aclError code = find_notify(notifies[i], &target)) return code;
    target->clear();
  }
  return ACL_SUCCESS;
}

aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t *notifyId) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(notifyId);
  Notify *target = nullptr;
  if (const aclError code = find_notify(notify, &target)) return code;
  *notifyId = target->slot_index;
  return ACL_SUCCESS;
}

aclError aclrtNotifyGetExportKey(aclrtNotify notify, char *key, size_t len, uint64_t flags) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(key);
  if (flags != ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT &&
      flags != ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "export flags %llu are not 0 or 2",
                static_cast<unsigned long long>(flags));
  }
  if (len <= SharedBlock::kKeyBytes) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "a key needs %zu bytes, not %zu",
                SharedBlock::kKeyBytes + 1, len);
  }
  Notify *target = nullptr;
  if (const aclError code = find_notify(notify, &target)) return code;
  std::lock_guard<std::mutex> lock(sharing());
  if (target->shared == nullptr) {
    auto block = SharedBlock::make(SharedBlock::Kind::kNotify, target->device->index);
    if (block == nullptr)
      return fail(ACL_ERROR_RT_NO_NOTIFY_RESOURCE, "no memory or descriptors to share a notify");
    target->share(std::move(block), false);
  }
  if (flags != 0) target->shared->header().checks_pids.store(0);
  strncpy(key, target->shared->key().c_str(), len);
  return ACL_SUCCESS;
}

aclError aclrtNotifySetImportPid(aclrtNotify notify, int32_t *pid, size_t num) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(pid);
  if (num == 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtNotifySetImportPid: num is 0");
  Notify *target = nullptr;
  if (const aclError code = find_notify(notify, &target)) return code;
  std::lock_guard<std::mutex> lock(sharing());
  if (target->shared == nullptr)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the notify was not exported");
  if (target->shared->allow(pid, num)) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, "too many processes may import the notify already");
}

aclError aclrtNotifyImportByKey(aclrtNotify *notify, const char *key, uint64_t flags) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(notify);
  REQUIRE_NOT_NULL(key);
  if (flags != ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT &&
      flags != ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "import flags %llu are not 0 or 2",
                static_cast<unsigned long long>(flags));
  }
  aclError code = ACL_SUCCESS;
  auto block = SharedBlock::open(key, SharedBlock::Kind::kNotify, &code);
  if (block == nullptr) return code;
  Notify *made = nullptr;
  if (const aclError failed = create(&made)) return failed;
  made->share(std::move(block), true);
  made->alive.store(true, std::memory_order_release);
  *notify = made;
  return ACL_SUCCESS;
}

aclError aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(devAddr);
  if (flag != 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtValueWrite: flag must be 0");
  Stream *on = nullptr;
  if (const aclError code = find_stream(stream, &on)) return code;
  if (const aclError code = check_value("aclrtValueWrite", devAddr, on)) return code;
  return on->submit(ValueWriteTask{static_cast<uint64_t *>(devAddr), value});
}

aclError aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(devAddr);
  if (flag > ACL_STREAM_WAIT_VALUE_NOR) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtValueWait: condition %u is not one of 0 to 3",
                flag);
  }
  Stream *on = nullptr;
  if (const aclError code = find_stream(stream, &on)) return code;
  if (const aclError code = check_value("aclrtValueWait", devAddr, on)) return code;
  return on->submit(ValueWaitTask{static_cast<const uint64_t *>(devAddr), value, flag});
}
