// api_virtual.cpp: physical memory, addresses, and mappings of the one to the other, also of other processes.
#include <string.h>
#include <unistd.h>

#include <mutex>

#include "sim/entry.hpp"
#include "sim/lookup.hpp"
#include "sim/machine.hpp"

namespace aiocann::sim {
namespace {

bool is_host(const aclrtPhysicalMemProp &prop) {
  return prop.location.type == ACL_MEM_LOCATION_TYPE_HOST ||
         prop.location.type == ACL_MEM_LOCATION_TYPE_HOST_NUMA;
}

aclError check_prop(const aclrtPhysicalMemProp *prop, uint64_t *granularity) {
  if (prop->handleType != ACL_MEM_HANDLE_TYPE_NONE)
    return fail(ACL_ERROR_INVALID_PARAM, "handleType %d is not 0",
                static_cast<int>(prop->handleType));
  if (prop->allocationType != ACL_MEM_ALLOCATION_TYPE_PINNED)
    return fail(ACL_ERROR_INVALID_PARAM, "allocationType %d is not 0",
                static_cast<int>(prop->allocationType));
  if (!is_host(*prop) && prop->location.type != ACL_MEM_LOCATION_TYPE_DEVICE)
    return fail(ACL_ERROR_INVALID_PARAM, "location type %d is neither the host nor a device",
                static_cast<int>(prop->location.type));
  const int attr = static_cast<int>(prop->memAttr);
  // DDR is 0, 2, 3, 6, 7; HBM the others up to 11; from 12 on whatever there is.
  const bool is_ddr = attr >= 0 && attr <= 7 && (0xcd >> attr & 1) != 0;
  const bool is_giant = attr == ACL_HBM_MEM_HUGE1G || attr == ACL_HBM_MEM_P2P_HUGE1G ||
                        attr == ACL_MEM_HUGE1G || attr == ACL_MEM_P2P_HUGE1G;
  const bool is_elsewhere = is_host(*prop) ? is_giant : is_ddr;
  if (attr < 0 || attr > ACL_MEM_P2P_HUGE1G || is_elsewhere)
    return fail(ACL_ERROR_INVALID_PARAM, "memory attribute %d is not one of the %s's", attr,
                is_host(*prop) ? "host" : "device");
  // A device's normal memory is served as huge pages, too.
  const bool is_small = attr == ACL_DDR_MEM_NORMAL || attr == ACL_DDR_MEM_P2P_NORMAL ||
                        attr == ACL_MEM_NORMAL || attr == ACL_MEM_P2P_NORMAL;
  *granularity = is_giant ? kGiantPage : is_host(*prop) && is_small ? kSmallPage : kHugePage;
  return ACL_SUCCESS;
}

Physical *find_physical(aclrtDrvMemHandle handle) {
  Physical *physical = machine().physicals().find(handle);
  return physical != nullptr && physical->alive.load() ? physical : nullptr;
}

aclError require_physical(aclrtDrvMemHandle handle, Physical **physical) {
  if (handle == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "the memory handle is NULL");
  *physical = find_physical(handle);
  if (*physical != nullptr) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, "the memory handle does not exist (any more)");
}

/// Takes over `fd`.
aclError make_physical(Device *device, uint64_t bytes, uint64_t page, int fd, bool is_import,
                       const aclrtPhysicalMemProp &prop, aclrtDrvMemHandle *handle) {
  Physical *made = machine().physicals().acquire(UINT32_MAX);
  if (made == nullptr) {
    close(fd);
    return fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "no more memory handles");
  }
  made->device = device;
  made->bytes = bytes;
  made->page = page;
  made->fd = fd;
  made->is_import = is_import;
  made->is_host = is_host(prop);
  made->prop = prop;
  made->refs = made->handles = 1;
  made->exported.reset();
  made->alive.store(true, std::memory_order_release);
  *handle = made;
  return ACL_SUCCESS;
}

/// A start that the program asks for: aligned to the power of two that the size has room in, 1 GiB at most.
aclError check_expected(const char *function, const void *expected, size_t size) {
  uint64_t alignment = kHugePage;
  while (alignment < size && alignment < kGiantPage) alignment *= 2;
  if (reinterpret_cast<uintptr_t>(expected) % alignment == 0) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is not aligned to %llu bytes", function, expected,
              static_cast<unsigned long long>(alignment));
}

aclError reserve(const char *function, void **pointer, size_t size, size_t alignment,
                 void *expected, uint64_t flags) {
  if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "%s: size is 0", function);
  if (alignment != 0) return fail(ACL_ERROR_INVALID_PARAM, "%s: alignment must be 0", function);
  if (flags > 1) return fail(ACL_ERROR_INVALID_PARAM, "%s: flags must be 0 or 1", function);
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  if (const aclError code = check_expected(function, expected, size)) return code;
  *pointer = machine().virtual_memory().reserve_range(size, context->device, expected);
  if (*pointer != nullptr) return ACL_SUCCESS;
  if (expected != nullptr)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %zu bytes at %p are taken, or not to be had",
                function, size, expected);
  return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no addresses left for %zu bytes", function,
              size);
}

aclError map(const char *function, void *pointer, size_t size, size_t offset,
             aclrtDrvMemHandle handle, uint64_t flags, bool readable) {
  if (pointer == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "%s: the address is NULL", function);
  if (offset != 0) return fail(ACL_ERROR_INVALID_PARAM, "%s: offset must be 0", function);
  if (flags != 0) return fail(ACL_ERROR_INVALID_PARAM, "%s: flags must be 0", function);
  Physical *physical = nullptr;
  if (const aclError code = require_physical(handle, &physical)) return code;
  if (size != physical->bytes) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: size %zu is not that of the memory, %llu",
                function, size, static_cast<unsigned long long>(physical->bytes));
  }
  return machine().virtual_memory().map(pointer, size, physical, readable);
}

/// Over what is exported; a leaf.
std::mutex &sharing() {
  static std::mutex *const leaked = new std::mutex();
  return *leaked;
}

aclError export_physical(Physical *physical, uint64_t flags) {
  if (flags > ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION)
    return fail(ACL_ERROR_INVALID_PARAM, "export flags must be 0 or 1");
  if (physical->is_host)
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "memory of the host is not exported");
  if (physical->is_import)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "imported memory cannot be exported again");
  if (physical->exported != nullptr)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the memory is exported already");
  auto block = SharedBlock::make(SharedBlock::Kind::kPhysical, physical->device->index);
  if (block == nullptr)
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory or descriptors to share memory");
  SharedBlock::Header &header = block->header();
  header.memory_fd = physical->fd;
  header.memory_offset = 0;
  header.memory_bytes = physical->bytes;
  header.page = physical->page;
  header.checks_pids.store(flags == 0 ? 1 : 0);
  physical->exported = std::move(block);
  return ACL_SUCCESS;
}

aclError import_physical(std::shared_ptr<SharedBlock> block, Device *device,
                         aclrtDrvMemHandle *handle) {
  const int fd = block->open_memory();
  if (fd < 0)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the memory that was exported does not exist any more");
  const SharedBlock::Header &header = block->header();
  aclrtPhysicalMemProp prop = {};
  prop.memAttr = ACL_HBM_MEM_HUGE;
  prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = static_cast<uint32_t>(machine().user_id(device));
  return make_physical(device, header.memory_bytes, header.page, fd, true, prop, handle);
}

std::shared_ptr<SharedBlock> exported_as(const std::string &key) {
  SlotTable<Physical> &all = machine().physicals();
  for (uint32_t i = 0; i < all.used(); ++i) {
    Physical *physical = all.at(i);
    if (physical->alive.load() && physical->exported != nullptr && physical->exported->key() == key)
      return physical->exported;
  }
  return nullptr;
}

aclError allow(const std::string &key, const int32_t *pids, size_t n) {
  if (pids == nullptr || n == 0)
    return fail(ACL_ERROR_INVALID_PARAM, "there are no processes to allow");
  std::lock_guard<std::mutex> lock(sharing());
  const std::shared_ptr<SharedBlock> block = exported_as(key);
  if (block == nullptr)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the handle is of nothing that this process exported");
  if (block->allow(pids, n)) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, "too many processes may import the memory already");
}

/// Shareable handles: a number, or the text in 128 bytes.
std::string text_of(const void *shareable, aclrtMemSharedHandleType type) {
  if (type == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC) {
    const char *text = static_cast<const char *>(shareable);
    return std::string(text, strnlen(text, sizeof(aclrtMemFabricHandle)));
  }
  uint64_t number = 0;
  memcpy(&number, shareable, sizeof number);
  return SharedBlock::key_of(number);
}

aclError check_type(aclrtMemSharedHandleType type) {
  if (type == ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT || type == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC)
    return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_PARAM, "share type %d is not 1 or 2", static_cast<int>(type));
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop,
                                          aclrtMemGranularityOptions option, size_t *granularity) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(prop);
  REQUIRE_NOT_NULL(granularity);
  if (option != ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM &&
      option != ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
    return fail(ACL_ERROR_INVALID_PARAM, "option %d is not 0 or 1", static_cast<int>(option));
  }
  uint64_t found = 0;
  if (const aclError code = check_prop(prop, &found)) return code;
  *granularity = found;
  return ACL_SUCCESS;
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size,
                             const aclrtPhysicalMemProp *prop, uint64_t flags) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(handle);
  REQUIRE_NOT_NULL(prop);
  if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtMallocPhysical: size is 0");
  if (flags != 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtMallocPhysical: flags must be 0");
  uint64_t page = 0;
  if (const aclError code = check_prop(prop, &page)) return code;
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  Device *device = context->device;
  if (!is_host(*prop)) {
    if (const aclError code = find_device(static_cast<int32_t>(prop->location.id), &device))
      return code;
  }
  if (const aclError code = refuse_lost(device)) return code;
  if (size % page != 0) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMallocPhysical: size %zu is no multiple of %llu",
                size, static_cast<unsigned long long>(page));
  }
  Arena &memory = is_host(*prop) ? machine().pinned() : device->memory;
  if (!memory.account(size)) {
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "there is no room for %zu bytes: %llu are free",
                size, static_cast<unsigned long long>(memory.capacity() - memory.used_bytes()));
  }
  const int fd = make_shared_file(size);
  const aclError code =
      fd < 0 ? fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "the process has no descriptors left")
             : make_physical(device, size, page, fd, false, *prop, handle);
  if (code != ACL_SUCCESS) memory.unaccount(size);
  return code;
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  ACL_ENTRY();
  Physical *physical = nullptr;
  if (const aclError code = require_physical(handle, &physical)) return code;
  return machine().virtual_memory().release_handle(physical);  // what is mapped stays
}

aclError aclrtReserveMemAddress(void **virPtr, size_t size, size_t alignment, void *expectPtr,
                                uint64_t flags) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(virPtr);
  return reserve("aclrtReserveMemAddress", virPtr, size, alignment, expectPtr, flags);
}

aclError aclrtReserveMemAddressNoUCMemory(void **virPtr, size_t size, size_t alignment,
                                          void *expectPtr, uint64_t flags) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(virPtr);
  return reserve("aclrtReserveMemAddressNoUCMemory", virPtr, size, alignment, expectPtr, flags);
}

aclError aclrtReleaseMemAddress(void *virPtr) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(virPtr);
  return machine().virtual_memory().release_range(virPtr);
}

aclError aclrtMapMem(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                     uint64_t flags) {
  ACL_ENTRY();
  return map("aclrtMapMem", virPtr, size, offset, handle, flags, true);
}

aclError aclrtMemMapNoAccess(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                             uint64_t flags) {
  ACL_ENTRY();
  return map("aclrtMemMapNoAccess", virPtr, size, offset, handle, flags, false);
}

aclError aclrtUnmapMem(void *virPtr) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(virPtr);
  return machine().virtual_memory().unmap(virPtr);
}

aclError aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc, size_t count) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(virPtr);
  REQUIRE_NOT_NULL(desc);
  if (count == 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtMemSetAccess: count is 0");
  for (size_t i = 0; i < count; ++i) {
    if (desc[i].location.type != ACL_MEM_LOCATION_TYPE_DEVICE)
      return fail(ACL_ERROR_INVALID_PARAM, "access is given to devices");
    Device *device = nullptr;
    if (const aclError code = find_device(static_cast<int32_t>(desc[i].location.id), &device))
      return code;
    if (const aclError code = machine().virtual_memory().grant(virPtr, size, device, desc[i].flags))
      return code;
  }
  return ACL_SUCCESS;
}

aclError aclrtMemGetAccess(void *virPtr, aclrtMemLocation *location, uint64_t *flag) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(virPtr);
  REQUIRE_NOT_NULL(location);
  REQUIRE_NOT_NULL(flag);
  Device *device = nullptr;
  if (const aclError code = find_device(static_cast<int32_t>(location->id), &device)) return code;
  return machine().virtual_memory().access_of(virPtr, device, flag);
}

aclError aclrtMemRetainAllocationHandle(void *virPtr, aclrtDrvMemHandle *handle) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(virPtr);
  REQUIRE_NOT_NULL(handle);
  Physical *physical = machine().virtual_memory().retain_at(virPtr);
  if (physical == nullptr)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped at %p", virPtr);
  *handle = physical;
  return ACL_SUCCESS;
}

aclError aclrtMemGetAllocationPropertiesFromHandle(aclrtDrvMemHandle handle,
                                                   aclrtPhysicalMemProp *prop) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(prop);
  Physical *physical = nullptr;
  if (const aclError code = require_physical(handle, &physical)) return code;
  *prop = physical->prop;
  return ACL_SUCCESS;
}

aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType handleType,
                                         uint64_t flags, uint64_t *shareableHandle) {
  ACL_ENTRY();
  if (handleType != ACL_MEM_HANDLE_TYPE_NONE)
    return fail(ACL_ERROR_INVALID_PARAM, "handleType must be 0");
  return aclrtMemExportToShareableHandleV2(handle, flags, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT,
                                           shareableHandle);
}

aclError aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags,
                                           aclrtMemSharedHandleType shareType,
                                           void *shareableHandle) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(shareableHandle);
  if (const aclError code = check_type(shareType)) return code;
  Physical *physical = nullptr;
  if (const aclError code = require_physical(handle, &physical)) return code;
  std::lock_guard<std::mutex> lock(sharing());
  if (const aclError code = export_physical(physical, flags)) return code;
  if (shareType == ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT) {
    const uint64_t number = physical->exported->number();
    memcpy(shareableHandle, &number, sizeof number);
  } else {
    const std::string key = physical->exported->key();
    memset(shareableHandle, 0, sizeof(aclrtMemFabricHandle));
    memcpy(shareableHandle, key.c_str(), key.size());
  }
  return ACL_SUCCESS;
}

aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid, size_t pidNum) {
  ACL_ENTRY();
  return allow(SharedBlock::key_of(shareableHandle), pid, pidNum);
}

aclError aclrtMemSetPidToShareableHandleV2(void *shareableHandle,
                                           aclrtMemSharedHandleType shareType, int32_t *pid,
                                           size_t pidNum) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(shareableHandle);
  if (const aclError code = check_type(shareType)) return code;
  return allow(text_of(shareableHandle, shareType), pid, pidNum);
}

aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
                                           aclrtDrvMemHandle *handle) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(handle);
  Device *device = nullptr;
  if (const aclError code = find_device(deviceId, &device)) return code;
  aclError code = ACL_SUCCESS;
  auto block =
      SharedBlock::open(SharedBlock::key_of(shareableHandle), SharedBlock::Kind::kPhysical, &code);
  return block == nullptr ? code : import_physical(std::move(block), device, handle);
}

aclError aclrtMemImportFromShareableHandleV2(void *shareableHandle,
                                             aclrtMemSharedHandleType shareType, uint64_t flags,
                                             aclrtDrvMemHandle *handle) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(shareableHandle);
  REQUIRE_NOT_NULL(handle);
  if (flags != 0) return fail(ACL_ERROR_INVALID_PARAM, "import flags must be 0");
  if (const aclError code = check_type(shareType)) return code;
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  aclError code = ACL_SUCCESS;
  auto block =
      SharedBlock::open(text_of(shareableHandle, shareType), SharedBlock::Kind::kPhysical, &code);
  return block == nullptr ? code : import_physical(std::move(block), context->device, handle);
}
