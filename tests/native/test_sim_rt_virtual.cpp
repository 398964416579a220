// Reserved addresses, physical memory, mappings; managed and registered memory; what pointers tell.
#include <sys/mman.h>

#include "sim_rt.hpp"

namespace {

aclrtPhysicalMemProp prop_of(uint32_t device, aclrtMemAttr attr = ACL_HBM_MEM_HUGE) {
  aclrtPhysicalMemProp prop = {};
  prop.memAttr = attr;
  prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  return prop;
}

size_t free_bytes() {
  size_t free = 0, total = 0;
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  return free;
}

void granularity() {
  size_t bytes = 0;
  aclrtPhysicalMemProp prop = prop_of(0);
  CHECK_OK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &bytes));
  CHECK_EQ(bytes, 2 * kMiB);
  prop.memAttr = ACL_HBM_MEM_NORMAL;  // served by huge pages, too
  CHECK_OK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &bytes));
  CHECK_EQ(bytes, 2 * kMiB);
  prop.memAttr = ACL_HBM_MEM_HUGE1G;
  CHECK_OK(
      aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED, &bytes));
  CHECK_EQ(bytes, kGiB);
  CHECK_CODE(
      aclrtMemGetAllocationGranularity(nullptr, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &bytes),
      ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(
      aclrtMemGetAllocationGranularity(&prop, static_cast<aclrtMemGranularityOptions>(2), &bytes),
      ACL_ERROR_INVALID_PARAM);
}

void memory_is_mapped_to_reserved_addresses() {
  const size_t before = free_bytes();
  const aclrtPhysicalMemProp prop = prop_of(0);
  void *base = nullptr;
  CHECK_OK(aclrtReserveMemAddress(&base, 64 * kMiB, 0, nullptr, 1));
  aclrtDrvMemHandle first = nullptr, second = nullptr;
  CHECK_OK(aclrtMallocPhysical(&first, 4 * kMiB, &prop, 0));
  CHECK_OK(aclrtMallocPhysical(&second, 2 * kMiB, &prop, 0));
  CHECK_EQ(free_bytes(), before - 6 * kMiB);
  char *at = static_cast<char *>(base);
  CHECK_CODE(aclrtMemset(at, 8, 1, 8), ACL_ERROR_RT_PARAM_INVALID);  // nothing is there yet
  CHECK_OK(aclrtMapMem(at, 4 * kMiB, 0, first, 0));
  CHECK_OK(aclrtMapMem(at + 4 * kMiB, 2 * kMiB, 0, second, 0));
  // Copies go across the seam, and not beyond the end.
  char *host = static_cast<char *>(pinned_memory(6 * kMiB));
  memset(host, 7, 6 * kMiB);
  aclrtStream stream = new_stream();
  CHECK_OK(aclrtMemcpyAsync(at, 6 * kMiB, host, 6 * kMiB, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  sync(stream);
  CHECK_EQ(at[4 * kMiB - 1] + at[4 * kMiB] + at[6 * kMiB - 1], 21);
  CHECK_CODE(aclrtMemset(at, 6 * kMiB + 1, 1, 6 * kMiB + 1), ACL_ERROR_RT_PARAM_INVALID);

  aclrtPtrAttributes attributes = {};
  CHECK_OK(aclrtPointerGetAttributes(at + 5, &attributes));
  CHECK_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
  CHECK_EQ(attributes.location.id, 0);
  CHECK_EQ(attributes.pageSize, 2 * kMiB);
  void *found = nullptr;
  size_t bytes = 0;
  CHECK_OK(aclrtMemGetAddressRange(at + 4 * kMiB + 9, &found, &bytes));
  CHECK_EQ(found, static_cast<void *>(at + 4 * kMiB));
  CHECK_EQ(bytes, 2 * kMiB);
  CHECK_CODE(aclrtFree(at), ACL_ERROR_RT_PARAM_INVALID);

  // What is mapped lives on when its handle is freed; unmapped it can be mapped elsewhere.
  CHECK_OK(aclrtFreePhysical(second));
  CHECK_CODE(aclrtFreePhysical(second), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_EQ(free_bytes(), before - 6 * kMiB);
  CHECK_CODE(aclrtReleaseMemAddress(base), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtUnmapMem(at + 4 * kMiB));
  CHECK_EQ(free_bytes(), before - 4 * kMiB);
  CHECK_CODE(aclrtMemset(at + 4 * kMiB, 8, 1, 8), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtUnmapMem(at));
  CHECK_OK(aclrtMapMem(at + 32 * kMiB, 4 * kMiB, 0, first, 0));
  CHECK_EQ(at[32 * kMiB + 5], 7);
  CHECK_OK(aclrtUnmapMem(at + 32 * kMiB));
  CHECK_OK(aclrtFreePhysical(first));
  CHECK_OK(aclrtReleaseMemAddress(base));
  CHECK_EQ(free_bytes(), before);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFreeHost(host));
}

void mistakes() {
  const aclrtPhysicalMemProp prop = prop_of(0);
  void *base = nullptr;
  aclrtDrvMemHandle handle = nullptr;
  CHECK_CODE(aclrtReserveMemAddress(&base, 0, 0, nullptr, 0), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtReserveMemAddress(&base, kMiB, 4096, nullptr, 0), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtReserveMemAddress(&base, kMiB, 0, nullptr, 2), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtReserveMemAddress(nullptr, kMiB, 0, nullptr, 0), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtReleaseMemAddress(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtMallocPhysical(&handle, 0, &prop, 0), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtMallocPhysical(&handle, 2 * kMiB, &prop, 1), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtMallocPhysical(&handle, 2 * kMiB + 1, &prop, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtMallocPhysical(&handle, 2 * kGiB, &prop, 0), ACL_ERROR_RT_MEMORY_ALLOCATION);
  const aclrtPhysicalMemProp missing = prop_of(7), ddr = prop_of(0, ACL_DDR_MEM_HUGE);
  CHECK_CODE(aclrtMallocPhysical(&handle, 2 * kMiB, &missing, 0), ACL_ERROR_RT_INVALID_DEVICEID);
  CHECK_CODE(aclrtMallocPhysical(&handle, 2 * kMiB, &ddr, 0), ACL_ERROR_INVALID_PARAM);
  aclrtPhysicalMemProp unregistered = prop;
  unregistered.location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
  CHECK_CODE(aclrtMallocPhysical(&handle, 2 * kMiB, &unregistered, 0), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtFreePhysical(nullptr), ACL_ERROR_INVALID_PARAM);
  int something = 0;
  CHECK_CODE(aclrtFreePhysical(&something), ACL_ERROR_RT_PARAM_INVALID);

  CHECK_OK(aclrtReserveMemAddress(&base, 8 * kMiB, 0, nullptr, 0));
  CHECK_OK(aclrtMallocPhysical(&handle, 4 * kMiB, &prop, 0));
  char *at = static_cast<char *>(base);
  CHECK_CODE(aclrtMapMem(at, 4 * kMiB, 4096, handle, 0), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtMapMem(at, 4 * kMiB, 0, handle, 1), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtMapMem(at, 2 * kMiB, 0, handle, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtMapMem(at + 6 * kMiB, 4 * kMiB, 0, handle, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtMapMem(&something, 4 * kMiB, 0, handle, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtMapMem(at + 2 * kMiB, 4 * kMiB, 0, handle, 0));
  CHECK_CODE(aclrtMapMem(at + 2 * kMiB, 4 * kMiB, 0, handle, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtMapMem(at, 4 * kMiB, 0, handle, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtUnmapMem(at), ACL_ERROR_RT_PARAM_INVALID);
  // One reservation, one device.
  const aclrtPhysicalMemProp other = prop_of(1);
  aclrtDrvMemHandle foreign = nullptr;
  CHECK_OK(aclrtMallocPhysical(&foreign, 2 * kMiB, &other, 0));
  CHECK_CODE(aclrtMapMem(at, 2 * kMiB, 0, foreign, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtFreePhysical(foreign));
  CHECK_OK(aclrtUnmapMem(at + 2 * kMiB));
  CHECK_OK(aclrtFreePhysical(handle));
  CHECK_OK(aclrtReleaseMemAddress(base));
}

void access_is_given() {
  const aclrtPhysicalMemProp prop = prop_of(0);
  void *base = nullptr;
  aclrtDrvMemHandle handle = nullptr, again = nullptr;
  CHECK_OK(aclrtReserveMemAddress(&base, 2 * kMiB, 0, nullptr, 0));
  CHECK_OK(aclrtMallocPhysical(&handle, 2 * kMiB, &prop, 0));
  CHECK_OK(aclrtMemMapNoAccess(base, 2 * kMiB, 0, handle, 0));
  CHECK_CODE(aclrtMemset(base, 8, 1, 8), ACL_ERROR_RT_PARAM_INVALID);
  aclrtMemAccessDesc desc = {};
  desc.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE;
  desc.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
  CHECK_OK(aclrtMemSetAccess(base, 2 * kMiB, &desc, 1));
  CHECK_OK(aclrtMemset(base, 8, 1, 8));
  uint64_t flags = 9;
  CHECK_OK(aclrtMemGetAccess(base, &desc.location, &flags));
  CHECK_EQ(flags, ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
  // Another device.
  CHECK_OK(aclrtSetDevice(1));
  CHECK_CODE(aclrtMemset(base, 8, 2, 8), ACL_ERROR_RT_PARAM_INVALID);
  desc.location.id = 1;
  CHECK_OK(aclrtMemSetAccess(base, 2 * kMiB, &desc, 1));
  aclrtStream stream = new_stream();
  CHECK_OK(aclrtMemsetAsync(base, 8, 2, 8, stream));
  sync(stream);
  CHECK_EQ(*static_cast<char *>(base), 2);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtResetDevice(1));
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtMemRetainAllocationHandle(base, &again));
  CHECK_EQ(again, handle);
  aclrtPhysicalMemProp told = {};
  CHECK_OK(aclrtMemGetAllocationPropertiesFromHandle(again, &told));
  CHECK_EQ(told.memAttr, ACL_HBM_MEM_HUGE);
  CHECK_OK(aclrtFreePhysical(again));
  CHECK_OK(aclrtFreePhysical(handle));
  CHECK_OK(aclrtUnmapMem(base));
  CHECK_CODE(aclrtFreePhysical(handle), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtReleaseMemAddress(base));
}

void a_reset_takes_it_away() {
  CHECK_OK(aclrtSetDevice(1));
  const aclrtPhysicalMemProp prop = prop_of(1);
  void *base = nullptr;
  aclrtDrvMemHandle handle = nullptr, loose = nullptr;
  CHECK_OK(aclrtReserveMemAddress(&base, 2 * kMiB, 0, nullptr, 0));
  CHECK_OK(aclrtMallocPhysical(&handle, 2 * kMiB, &prop, 0));
  CHECK_OK(aclrtMallocPhysical(&loose, 2 * kMiB, &prop, 0));
  CHECK_OK(aclrtMapMem(base, 2 * kMiB, 0, handle, 0));
  CHECK_OK(aclrtResetDevice(1));
  CHECK_OK(aclrtSetDevice(1));
  CHECK_CODE(aclrtUnmapMem(base), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtFreePhysical(loose), ACL_ERROR_RT_PARAM_INVALID);
  size_t free = 0, total = 0;
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  CHECK_EQ(free, total);
  CHECK_OK(aclrtResetDevice(1));
  CHECK_OK(aclrtSetDevice(0));
}

void registered_memory_is_pinned() {
  char *host = static_cast<char *>(
      mmap(nullptr, 8 * kKiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(host != MAP_FAILED);
  void *device_pointer = nullptr;
  CHECK_CODE(aclrtHostUnregister(host), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED);
  CHECK_CODE(aclrtHostRegister(host + 8, 64, ACL_HOST_REGISTER_MAPPED, &device_pointer),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtHostRegister(host, 64, static_cast<aclrtHostRegisterType>(3), &device_pointer),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtHostRegister(host, 8 * kKiB, ACL_HOST_REGISTER_MAPPED, &device_pointer));
  CHECK(device_pointer != nullptr);
  CHECK_CODE(aclrtHostRegister(host, 4 * kKiB, ACL_HOST_REGISTER_MAPPED, &device_pointer),
             ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK_CODE(aclrtHostRegisterV2(host + 4 * kKiB, 4 * kKiB, ACL_HOST_REG_MAPPED),
             ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  aclrtPtrAttributes attributes = {};
  CHECK_OK(aclrtPointerGetAttributes(host, &attributes));
  CHECK_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_HOST);
  void *found = nullptr;
  CHECK_OK(aclrtHostGetDevicePointer(host, &found, 0));
  CHECK_EQ(found, device_pointer);
  // Truly asynchronous: the call returns although the stream is held.
  void *memory = device_memory(kKiB);
  aclrtStream stream = new_stream();
  memset(host, 5, kKiB);
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtMemcpyAsync(memory, kKiB, host, kKiB, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  CHECK_EQ(query(stream), ACL_STREAM_STATUS_NOT_READY);
  CHECK_OK(aiocann_sim_release(0, -1));
  sync(stream);
  CHECK_EQ(*static_cast<char *>(memory), 5);
  CHECK_OK(aclrtHostUnregister(host));
  CHECK_OK(aclrtPointerGetAttributes(host, &attributes));
  CHECK_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
  CHECK_CODE(aclrtHostGetDevicePointer(host, &found, 0), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED);
  CHECK_CODE(aclrtHostRegisterV2(host, 4 * kKiB, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtHostRegisterV2(host, 4 * kKiB, ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED));
  CHECK_OK(aclrtHostUnregister(host));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(memory));
  CHECK_EQ(munmap(host, 8 * kKiB), 0);
}

void managed_memory() {
  void *memory = nullptr;
  CHECK_CODE(aclrtMemAllocManaged(&memory, 64, 2), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtMemAllocManaged(&memory, 64, ACL_RT_MEM_ATTACH_GLOBAL));
  memset(memory, 3, 64);  // by the host
  aclrtStream stream = new_stream();
  CHECK_OK(aclrtMemsetAsync(memory, 64, 4, 32, stream));
  sync(stream);
  CHECK_EQ(static_cast<char *>(memory)[31] + static_cast<char *>(memory)[32], 7);
  aclrtPtrAttributes attributes = {};
  CHECK_OK(aclrtPointerGetAttributes(memory, &attributes));
  CHECK_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_MANAGED);
  CHECK_OK(aclrtFreeWithDevSync(memory));
  CHECK_OK(aclrtDestroyStream(stream));
}

void allocations_with_a_configuration() {
  void *memory = nullptr;
  aclrtMallocAttribute attribute = {};
  attribute.attr = ACL_RT_MEM_ATTR_MODULE_ID;
  aclrtMallocConfig config = {&attribute, 1};
  const auto policy = static_cast<aclrtMemMallocPolicy>(ACL_MEM_MALLOC_HUGE_FIRST | 0x1000);
  CHECK_OK(aclrtMallocWithCfg(&memory, 64, policy, &config));
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtMallocHostWithCfg(&memory, 64, &config));
  CHECK_OK(aclrtFreeHostWithDevSync(memory));
  attribute.attr = static_cast<aclrtMallocAttrType>(9);
  CHECK_CODE(aclrtMallocWithCfg(&memory, 64, policy, &config), ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtMallocCached(&memory, 64, ACL_MEM_MALLOC_NORMAL_ONLY));
  CHECK_OK(aclrtFree(memory));
}

}  // namespace

int main() {
  start(2, "64M");
  granularity();
  memory_is_mapped_to_reserved_addresses();
  mistakes();
  access_is_given();
  a_reset_takes_it_away();
  registered_memory_is_pinned();
  managed_memory();
  allocations_with_a_configuration();
  return 0;
}
