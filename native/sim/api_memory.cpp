// api_memory.cpp: allocating memory and asking about it.
#include <string.h>

#include "sim/entry.hpp"
#include "sim/faults.hpp"
#include "sim/lookup.hpp"
#include "sim/machine.hpp"
#include "sim/strict.hpp"

namespace aiocann::sim {
namespace {

constexpr uint64_t kSmallBlock = 1ull << 20;  ///< HUGE_FIRST takes small pages up to here
constexpr uint64_t kDriverPadding = 32;

uint64_t round_up_32(uint64_t size) { return (size + 31) / 32 * 32; }

uint64_t page_of(aclrtMemMallocPolicy policy, uint64_t size) {
  switch (policy) {
    case ACL_MEM_MALLOC_HUGE_ONLY:
    case ACL_MEM_MALLOC_HUGE_ONLY_P2P:
      return kHugePage;
    case ACL_MEM_MALLOC_NORMAL_ONLY:
    case ACL_MEM_MALLOC_NORMAL_ONLY_P2P:
      return kSmallPage;
    case ACL_MEM_MALLOC_HUGE1G_ONLY:
    case ACL_MEM_MALLOC_HUGE1G_ONLY_P2P:
      return kGiantPage;
    case ACL_MEM_MALLOC_HUGE_FIRST:
    case ACL_MEM_MALLOC_HUGE_FIRST_P2P:
      return size <= kSmallBlock ? kSmallPage : kHugePage;
    default:
      return size >= kHugePage ? kHugePage : kSmallPage;
  }
}

bool is_for_peers(aclrtMemMallocPolicy policy) {
  switch (policy) {
    case ACL_MEM_MALLOC_HUGE_FIRST_P2P:
    case ACL_MEM_MALLOC_HUGE_ONLY_P2P:
    case ACL_MEM_MALLOC_NORMAL_ONLY_P2P:
    case ACL_MEM_MALLOC_HUGE1G_ONLY_P2P:
      return true;
    default:
      return false;
  }
}

aclError allocate(const char *function, void **pointer, size_t size, aclrtMemMallocPolicy policy,
                  uint64_t padding) {
  if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "%s: size is 0", function);
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  const uint64_t page = page_of(policy, size);
  if (page == kGiantPage) padding = 0;
  const uint64_t padded = round_up_32(size) + padding;
  Arena &memory = context->device->memory;
  void *made = padded < size ? nullptr : memory.allocate(size, padded, page, is_for_peers(policy));
  if (made == nullptr) {
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                "%s: device %d has no room for %llu bytes: %llu of %llu are free", function,
                machine().user_id(context->device), static_cast<unsigned long long>(size),
                static_cast<unsigned long long>(memory.capacity() - memory.used_bytes()),
                static_cast<unsigned long long>(memory.capacity()));
  }
  *pointer = made;
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(devPtr);
  return allocate("aclrtMalloc", devPtr, size, policy, kDriverPadding);
}

aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(devPtr);
  return allocate("aclrtMallocAlign32", devPtr, size, policy, 0);
}

aclError aclrtFree(void *devPtr) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(devPtr);
  const Location where = machine().locate(devPtr);
  if (where.device == nullptr || where.arena == &machine().virtual_memory()) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtFree: %p is not device memory", devPtr);
  }
  if (const aclError code = refuse_lost(where.device)) return code;
  if (strict::is_on()) strict::freeing("aclrtFree", devPtr);
  if (where.device->memory.free(devPtr)) return ACL_SUCCESS;
  misuse("aclrtFree: %p is not the start of an allocated block: freed twice?", devPtr);
  return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtFree: %p is not the start of an allocated block",
              devPtr);
}

aclError aclrtMallocHost(void **hostPtr, size_t size) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(hostPtr);
  if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtMallocHost: size is 0");
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  const uint64_t padded = round_up_32(size);
  const uint64_t page = size <= kSmallBlock ? kSmallPage : kHugePage;
  void *made = padded < size ? nullptr : machine().pinned().allocate(size, padded, page);
  if (made == nullptr) {
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                "aclrtMallocHost: no room for %llu bytes of pinned memory",
                static_cast<unsigned long long>(size));
  }
  *hostPtr = made;
  return ACL_SUCCESS;
}

aclError aclrtFreeHost(void *hostPtr) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(hostPtr);
  if (strict::is_on()) strict::freeing("aclrtFreeHost", hostPtr);
  if (machine().pinned().contains(hostPtr) && machine().pinned().free(hostPtr)) return ACL_SUCCESS;
  if (machine().pinned().contains(hostPtr)) misuse("aclrtFreeHost: %p: freed twice?", hostPtr);
  return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtFreeHost: %p is not the start of a pinned block",
              hostPtr);
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(free);
  REQUIRE_NOT_NULL(total);
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  const int number = static_cast<int>(attr);
  if (number < 0 || number > ACL_MEM_P2P_HUGE1G) {
    return fail(ACL_ERROR_RT_INVALID_MEMORY_TYPE, "memory attribute %d does not exist", number);
  }
  // 0 to 11 name a kind of memory: DDR is 0, 2, 3, 6, 7; HBM the others. From 12 on whatever there is.
  const bool asks_ddr = number <= 7 && (0xcd >> number & 1) != 0;
  if (asks_ddr && !machine().config().soc->ddr_only) {
    *free = *total = 0;  // this SoC has HBM alone
    return ACL_SUCCESS;
  }
  const Arena &memory = context->device->memory;
  *total = memory.capacity();
  *free = memory.capacity() - memory.used_bytes();
  return ACL_SUCCESS;
}

aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(ptr);
  REQUIRE_NOT_NULL(attributes);
  *attributes = aclrtPtrAttributes{};
  attributes->location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
  const Location where = machine().locate(ptr);
  if (where.kind == Location::kPinned && where.arena == nullptr) {  // registered host memory
    attributes->location.type = ACL_MEM_LOCATION_TYPE_HOST;
    attributes->pageSize = static_cast<uint32_t>(kSmallPage);
    return ACL_SUCCESS;
  }
  Arena::BlockInfo block = {};
  if (where.arena == nullptr || !where.arena->find_block(ptr, &block)) return ACL_SUCCESS;
  attributes->location.type =
      where.device != nullptr ? ACL_MEM_LOCATION_TYPE_DEVICE : ACL_MEM_LOCATION_TYPE_HOST;
  if (block.is_managed) attributes->location.type = ACL_MEM_LOCATION_TYPE_MANAGED;
  attributes->location.id =
      where.device != nullptr ? static_cast<uint32_t>(machine().user_id(where.device)) : 0;
  attributes->pageSize = static_cast<uint32_t>(block.page);
  return ACL_SUCCESS;
}

aclError aclrtMemGetAddressRange(void *ptr, void **pbase, size_t *psize) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(ptr);
  const Location where = machine().locate(ptr);
  Arena::BlockInfo block = {};
  if (where.arena == nullptr || !where.arena->find_block(ptr, &block)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemGetAddressRange: %p is not allocated memory",
                ptr);
  }
  if (pbase != nullptr) *pbase = reinterpret_cast<void *>(block.begin);
  if (psize != nullptr) *psize = block.size;
  return ACL_SUCCESS;
}

aclError aclrtMemAllocManaged(void **ptr, uint64_t size, uint32_t flag) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(ptr);
  if (const aclError code = require_hbm_soc("aclrtMemAllocManaged")) return code;
  if (flag != ACL_RT_MEM_ATTACH_GLOBAL) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemAllocManaged: flag %u is not 1", flag);
  }
  // Host and device share every address here; only the description differs.
  if (const aclError code =
          allocate("aclrtMemAllocManaged", ptr, size, ACL_MEM_MALLOC_HUGE_FIRST, 0))
    return code;
  machine().locate(*ptr).device->memory.mark_managed(*ptr);
  return ACL_SUCCESS;
}

/// Waits for the device, then frees.
aclError aclrtFreeWithDevSync(void *devPtr) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(devPtr);
  if (const aclError code = aclrtSynchronizeDevice()) return code;
  return aclrtFree(devPtr);
}

aclError aclrtFreeHostWithDevSync(void *hostPtr) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(hostPtr);
  if (const aclError code = aclrtSynchronizeDevice()) return code;
  return aclrtFreeHost(hostPtr);
}

static aclError check_config(const aclrtMallocConfig *config) {
  if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr))
    return fail(ACL_ERROR_INVALID_PARAM, "the configuration of an allocation is NULL");
  for (size_t i = 0; i < config->numAttrs; ++i) {
    int attr = 0;  // whatever the program wrote, of the enumeration or not
    memcpy(&attr, &config->attrs[i].attr, sizeof attr);
    if (attr < ACL_RT_MEM_ATTR_RSV || attr > ACL_RT_MEM_ATTR_VA_FLAG)
      return fail(ACL_ERROR_INVALID_PARAM, "attribute %d of an allocation is not known", attr);
  }
  return ACL_SUCCESS;
}

aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
                            aclrtMallocConfig *cfg) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(devPtr);
  if (cfg != nullptr) {
    if (const aclError code = check_config(cfg)) return code;
  }
  // Policies may be combined with bits that say what for (bandwidth, read-only); those change nothing here.
  const auto plain = static_cast<aclrtMemMallocPolicy>(static_cast<int>(policy) & 0xff);
  return allocate("aclrtMallocWithCfg", devPtr, size, plain, 0);
}

aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(devPtr);
  return allocate("aclrtMallocCached", devPtr, size, policy, kDriverPadding);
}

aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg) {
  ACL_ENTRY();
  if (const aclError code = check_config(cfg)) return code;
  return aclrtMallocHost(ptr, size);
}
