// api_stream_more.cpp: attributes and configuration of streams, overflow switches, allocators of the program.
#include <string.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "sim/capture.hpp"
#include "sim/entry.hpp"
#include "sim/lookup.hpp"
#include "sim/machine.hpp"
#include "sim/stream.hpp"

namespace aiocann::sim {
namespace {

constexpr uint32_t kLowestPriority = kPriorities - 1;
constexpr size_t kOverflowStatusBytes = 64;

/// 107027 for settings that a capturing stream does not take.
aclError refuse_captured(const Stream *stream) {
  if (stream->capture() == nullptr) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is capturing", stream->id());
}

/// Attributes are for named streams where there is no HBM.
aclError find_for_attribute(aclrtStream handle, Stream **stream) {
  if (const aclError code = find_stream(handle, stream)) return code;
  const SocProfile &soc = *machine().config().soc;
  if (handle != nullptr || !soc.ddr_only) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, "%s takes no NULL stream here", soc.name);
}

aclError check_switch(uint32_t flag) {
  if (flag <= 1) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, "the overflow switch is 0 or 1, not %u", flag);
}

/// What a program allocates from instead of us.
struct AllocatorDesc {
  aclrtAllocator object = nullptr;
  aclrtAllocatorAllocFunc allocate = nullptr;
  aclrtAllocatorFreeFunc free = nullptr;
  aclrtAllocatorAllocAdviseFunc allocate_advised = nullptr;
  aclrtAllocatorGetAddrFromBlockFunc address_of = nullptr;
};

/// By stream: its id is never used twice.
struct Allocators {
  std::mutex mutex;
  std::map<uint64_t, AllocatorDesc> by_stream;
};

Allocators &allocators() {
  static Allocators *const leaked = new Allocators();
  return *leaked;
}

template <class Member, class Value>
aclError set_member(aclrtAllocatorDesc desc, Member AllocatorDesc::*member, Value value) {
  if (desc == nullptr || value == nullptr)
    return fail(ACL_ERROR_INVALID_PARAM,
                "the allocator description, or what is set in it, is NULL");
  static_cast<AllocatorDesc *>(desc)->*member = value;
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                 aclrtStreamAttrValue *value) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(value);
  Stream *target = nullptr;
  if (const aclError code = find_for_attribute(stream, &target)) return code;
  switch (stmAttrType) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
      return aclrtSetStreamFailureMode(stream, value->failureMode);
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
      return aclrtSetStreamOverflowSwitch(stream, value->overflowSwitch);
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
      if (const aclError code = refuse_captured(target)) return code;
      target->user_tag.store(value->userCustomTag);
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
      target->caches_op_info.store(value->cacheOpInfoSwitch != 0);
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_PRIORITY:
      if (value->streamPriority > kLowestPriority)
        return fail(ACL_ERROR_RT_PARAM_INVALID, "priority %u is not from 0 to %u",
                    value->streamPriority, kLowestPriority);
      target->set_priority(value->streamPriority);
      return ACL_SUCCESS;
    default:
      return fail(ACL_ERROR_INVALID_PARAM, "stream attribute %d is not known",
                  static_cast<int>(stmAttrType));
  }
}

aclError aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                 aclrtStreamAttrValue *value) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(value);
  Stream *target = nullptr;
  if (const aclError code = find_for_attribute(stream, &target)) return code;
  *value = aclrtStreamAttrValue{};
  switch (stmAttrType) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
      value->failureMode = target->context()->stop_on_failure.load() ? 1 : 0;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
      value->overflowSwitch = target->checks_overflow.load() ? 1 : 0;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
      value->userCustomTag = target->user_tag.load();
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
      value->cacheOpInfoSwitch = target->caches_op_info.load() ? 1 : 0;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_PRIORITY:
      value->streamPriority = target->priority();
      return ACL_SUCCESS;
    default:
      return fail(ACL_ERROR_INVALID_PARAM, "stream attribute %d is not known",
                  static_cast<int>(stmAttrType));
  }
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
  ACL_ENTRY();
  if (const aclError code = check_switch(flag)) return code;
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  if (const aclError code = refuse_captured(target)) return code;
  target->checks_overflow.store(flag == 1);
  return ACL_SUCCESS;
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(flag);
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  *flag = target->checks_overflow.load() ? 1 : 0;
  return ACL_SUCCESS;
}

/// Kernels saturate and note nothing: there never was an overflow.
aclError aclrtGetOverflowStatus(void *outputAddr, size_t outputSize, aclrtStream stream) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(outputAddr);
  if (outputSize < kOverflowStatusBytes)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the overflow status has %zu bytes, not %zu",
                kOverflowStatusBytes, outputSize);
  return aclrtMemsetAsync(outputAddr, outputSize, 0, kOverflowStatusBytes, stream);
}

aclError aclrtResetOverflowStatus(aclrtStream stream) {
  ACL_ENTRY();
  Stream *target = nullptr;
  return find_stream(stream, &target);
}

aclrtStreamConfigHandle *aclrtCreateStreamConfigHandle() {
  ACL_ENTRY_POINTER();
  return new aclrtStreamConfigHandle();
}

aclError aclrtDestroyStreamConfigHandle(aclrtStreamConfigHandle *handle) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(handle);
  delete handle;
  return ACL_SUCCESS;
}

aclError aclrtSetStreamConfigOpt(aclrtStreamConfigHandle *handle, aclrtStreamConfigAttr attr,
                                 const void *attrValue, size_t valueSize) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(handle);
  REQUIRE_NOT_NULL(attrValue);
  void *member = nullptr;
  size_t size = 0;
  switch (attr) {
    case ACL_RT_STREAM_WORK_ADDR_PTR:
      member = &handle->workptr, size = sizeof handle->workptr;
      break;
    case ACL_RT_STREAM_WORK_SIZE:
      member = &handle->workSize, size = sizeof handle->workSize;
      break;
    case ACL_RT_STREAM_FLAG:
      member = &handle->flag, size = sizeof handle->flag;
      break;
    case ACL_RT_STREAM_PRIORITY:
      member = &handle->priority, size = sizeof handle->priority;
      break;
    default:
      return fail(ACL_ERROR_INVALID_PARAM, "stream option %d is not known", static_cast<int>(attr));
  }
  if (valueSize != size)
    return fail(ACL_ERROR_INVALID_PARAM, "stream option %d has %zu bytes, not %zu",
                static_cast<int>(attr), size, valueSize);
  memcpy(member, attrValue, size);
  return ACL_SUCCESS;
}

aclError aclrtCreateStreamV2(aclrtStream *stream, const aclrtStreamConfigHandle *handle) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(stream);
  REQUIRE_NOT_NULL(handle);
  return aclrtCreateStreamWithConfig(stream, handle->priority, static_cast<uint32_t>(handle->flag));
}

aclrtAllocatorDesc aclrtAllocatorCreateDesc() {
  ACL_ENTRY_POINTER();
  return new AllocatorDesc();
}

aclError aclrtAllocatorDestroyDesc(aclrtAllocatorDesc allocatorDesc) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(allocatorDesc);
  delete static_cast<AllocatorDesc *>(allocatorDesc);
  return ACL_SUCCESS;
}

aclError aclrtAllocatorSetObjToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocator allocator) {
  ACL_ENTRY();
  return set_member(allocatorDesc, &AllocatorDesc::object, allocator);
}

aclError aclrtAllocatorSetAllocFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                          aclrtAllocatorAllocFunc func) {
  ACL_ENTRY();
  return set_member(allocatorDesc, &AllocatorDesc::allocate, func);
}

aclError aclrtAllocatorSetFreeFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                         aclrtAllocatorFreeFunc func) {
  ACL_ENTRY();
  return set_member(allocatorDesc, &AllocatorDesc::free, func);
}

aclError aclrtAllocatorSetAllocAdviseFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                                aclrtAllocatorAllocAdviseFunc func) {
  ACL_ENTRY();
  return set_member(allocatorDesc, &AllocatorDesc::allocate_advised, func);
}

aclError aclrtAllocatorSetGetAddrFromBlockFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                                     aclrtAllocatorGetAddrFromBlockFunc func) {
  ACL_ENTRY();
  return set_member(allocatorDesc, &AllocatorDesc::address_of, func);
}

aclError aclrtAllocatorRegister(aclrtStream stream, aclrtAllocatorDesc allocatorDesc) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(stream);
  REQUIRE_NOT_NULL(allocatorDesc);
  const auto &desc = *static_cast<const AllocatorDesc *>(allocatorDesc);
  if (desc.object == nullptr || desc.allocate == nullptr || desc.free == nullptr ||
      desc.address_of == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, "the allocator description is not complete");
  }
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  std::lock_guard<std::mutex> lock(allocators().mutex);
  allocators().by_stream[target->uid()] = desc;  // the description may go
  return ACL_SUCCESS;
}

aclError aclrtAllocatorUnregister(aclrtStream stream) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(stream);
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  std::lock_guard<std::mutex> lock(allocators().mutex);
  allocators().by_stream.erase(target->uid());
  return ACL_SUCCESS;
}

aclError aclrtAllocatorGetByStream(aclrtStream stream, aclrtAllocatorDesc *allocatorDesc,
                                   aclrtAllocator *allocator, aclrtAllocatorAllocFunc *allocFunc,
                                   aclrtAllocatorFreeFunc *freeFunc,
                                   aclrtAllocatorAllocAdviseFunc *allocAdviseFunc,
                                   aclrtAllocatorGetAddrFromBlockFunc *getAddrFromBlockFunc) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(stream);
  REQUIRE_NOT_NULL(allocatorDesc);
  REQUIRE_NOT_NULL(allocator);
  REQUIRE_NOT_NULL(allocFunc);
  REQUIRE_NOT_NULL(freeFunc);
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  std::lock_guard<std::mutex> lock(allocators().mutex);
  const auto found = allocators().by_stream.find(target->uid());
  if (found == allocators().by_stream.end())
    return fail(ACL_ERROR_INVALID_PARAM, "stream %d has no allocator of the program", target->id());
  *allocatorDesc = &found->second;
  *allocator = found->second.object;
  *allocFunc = found->second.allocate;
  *freeFunc = found->second.free;
  if (allocAdviseFunc != nullptr) *allocAdviseFunc = found->second.allocate_advised;
  if (getAddrFromBlockFunc != nullptr) *getAddrFromBlockFunc = found->second.address_of;
  return ACL_SUCCESS;
}
