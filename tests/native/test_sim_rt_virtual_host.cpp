// Physical memory of the host, and reservations at an address that the program asks for.
#include "sim_rt.hpp"

namespace {

aclrtPhysicalMemProp host_prop(aclrtMemAttr attr) {
  aclrtPhysicalMemProp prop = {};
  prop.handleType = ACL_MEM_HANDLE_TYPE_NONE;
  prop.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
  prop.memAttr = attr;
  prop.location.type = ACL_MEM_LOCATION_TYPE_HOST;
  return prop;
}

size_t granularity(aclrtPhysicalMemProp prop) {
  size_t found = 0;
  CHECK_OK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &found));
  return found;
}

void which_attributes() {
  CHECK_EQ(granularity(host_prop(ACL_DDR_MEM_HUGE)), 2 * kMiB);
  CHECK_EQ(granularity(host_prop(ACL_DDR_MEM_NORMAL)), 4 * kKiB);
  aclrtDrvMemHandle handle = nullptr;
  for (aclrtMemAttr attr : {ACL_HBM_MEM_HUGE1G, ACL_MEM_HUGE1G}) {
    const aclrtPhysicalMemProp prop = host_prop(attr);
    CHECK_CODE(aclrtMallocPhysical(&handle, kGiB, &prop, 0), ACL_ERROR_INVALID_PARAM);
  }
  aclrtPhysicalMemProp prop = host_prop(ACL_DDR_MEM_HUGE);
  prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
  CHECK_CODE(aclrtMallocPhysical(&handle, 2 * kMiB, &prop, 0), ACL_ERROR_INVALID_PARAM);
  prop.location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
  CHECK_CODE(aclrtMallocPhysical(&handle, 2 * kMiB, &prop, 0), ACL_ERROR_INVALID_PARAM);
  prop = host_prop(ACL_DDR_MEM_HUGE);
  CHECK_CODE(aclrtMallocPhysical(&handle, 2 * kMiB + 1, &prop, 0), ACL_ERROR_RT_PARAM_INVALID);
}

/// It is pinned memory: the engine copies from and to it, and the program uses it by itself.
void it_is_pinned_memory() {
  constexpr size_t kBytes = 2 * kMiB;
  size_t free_before = 0, free_after = 0, total = 0;
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_before, &total));
  const aclrtPhysicalMemProp prop = host_prop(ACL_DDR_MEM_HUGE);
  aclrtDrvMemHandle handle = nullptr, on_device = nullptr;
  void *base = nullptr;
  CHECK_OK(aclrtMallocPhysical(&handle, kBytes, &prop, 0));
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_after, &total));
  CHECK_EQ(free_after, free_before);  // not the device's
  CHECK_OK(aclrtReserveMemAddress(&base, 2 * kBytes, 0, nullptr, 0));
  CHECK_OK(aclrtMapMem(base, kBytes, 0, handle, 0));
  aclrtPtrAttributes attributes = {};
  CHECK_OK(aclrtPointerGetAttributes(base, &attributes));
  CHECK_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_HOST);
  aclrtPhysicalMemProp found = {};
  CHECK_OK(aclrtMemGetAllocationPropertiesFromHandle(handle, &found));
  CHECK_EQ(found.location.type, ACL_MEM_LOCATION_TYPE_HOST);

  char *host = static_cast<char *>(base), *device = static_cast<char *>(device_memory(kBytes));
  aclrtStream stream = new_stream();
  memset(host, 3, 64);
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtMemcpyAsync(device, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  CHECK_OK(aclrtMemcpyAsync(host + 64, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  host[0] = 4;  // truly asynchronous: it is read when the stream gets there
  CHECK_OK(aiocann_sim_release(0, -1));
  sync(stream);
  CHECK_EQ(host[64], 4);
  CHECK_EQ(host[65], 3);
  CHECK_CODE(aclrtMemcpyAsync(host, 64, host + 64, 64, ACL_MEMCPY_HOST_TO_HOST, stream),
             ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  // A reservation is of one kind.
  aclrtPhysicalMemProp device_prop = prop;
  device_prop.memAttr = ACL_HBM_MEM_HUGE;
  device_prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
  CHECK_OK(aclrtMallocPhysical(&on_device, kBytes, &device_prop, 0));
  CHECK_CODE(aclrtMapMem(host + kBytes, kBytes, 0, on_device, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtFreePhysical(on_device));
  uint64_t shareable = 0;
  CHECK_CODE(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &shareable),
             ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_OK(aclrtUnmapMem(base));
  CHECK_OK(aclrtFreePhysical(handle));
  CHECK_CODE(aclrtMemcpyAsync(device, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream),
             ACL_ERROR_RT_PARAM_INVALID);  // nothing is there
  CHECK_OK(aclrtReleaseMemAddress(base));
  CHECK_OK(aclrtFree(device));
  CHECK_OK(aclrtDestroyStream(stream));
}

/// What is left goes with the device in whose context it was made.
void a_reset_takes_it_along() {
  const aclrtPhysicalMemProp prop = host_prop(ACL_DDR_MEM_NORMAL);
  aclrtDrvMemHandle handle = nullptr;
  void *base = nullptr;
  CHECK_OK(aclrtMallocPhysical(&handle, 4 * kKiB, &prop, 0));
  CHECK_OK(aclrtReserveMemAddress(&base, 4 * kKiB, 0, nullptr, 0));
  CHECK_OK(aclrtMapMem(base, 4 * kKiB, 0, handle, 0));
  CHECK_OK(aclrtResetDeviceForce(0));
  CHECK_OK(aclrtSetDevice(0));
  CHECK_CODE(aclrtFreePhysical(handle), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtReleaseMemAddress(base), ACL_ERROR_RT_PARAM_INVALID);
}

void addresses_that_are_asked_for() {
  void *base = nullptr, *again = nullptr, *other = nullptr;
  CHECK_OK(aclrtReserveMemAddress(&base, 64 * kMiB, 0, nullptr, 0));
  CHECK_OK(aclrtReleaseMemAddress(base));
  // Another place of the range, aligned as it must be.
  const auto wanted = [&](size_t n) {
    const auto at = reinterpret_cast<uintptr_t>(base) / (64 * kMiB) * (64 * kMiB);
    return reinterpret_cast<void *>(at + n * 64 * kMiB);
  };
  CHECK_OK(aclrtReserveMemAddress(&again, 64 * kMiB, 0, wanted(10), 0));
  CHECK_EQ(again, wanted(10));
  memset(&other, 0, sizeof other);
  CHECK_CODE(aclrtReserveMemAddress(&other, 64 * kMiB, 0, wanted(10), 0),
             ACL_ERROR_RT_PARAM_INVALID);  // taken
  CHECK_CODE(
      aclrtReserveMemAddress(&other, 4 * kMiB, 0, static_cast<char *>(wanted(10)) + 32 * kMiB, 0),
      ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(
      aclrtReserveMemAddress(&other, 64 * kMiB, 0, static_cast<char *>(wanted(20)) + 2 * kMiB, 0),
      ACL_ERROR_RT_PARAM_INVALID);  // not aligned to its size
  CHECK_CODE(aclrtReserveMemAddress(&other, 2 * kMiB, 0, reinterpret_cast<void *>(2 * kMiB), 0),
             ACL_ERROR_RT_PARAM_INVALID);  // not to be had
  CHECK_OK(aclrtReserveMemAddress(&other, 64 * kMiB, 0, wanted(9), 0));
  CHECK_EQ(other, wanted(9));
  CHECK_OK(aclrtReleaseMemAddress(again));
  CHECK_OK(aclrtReserveMemAddress(&again, 64 * kMiB, 0, wanted(10), 0));
  // It can be used.
  aclrtPhysicalMemProp prop = host_prop(ACL_HBM_MEM_HUGE);
  prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
  aclrtDrvMemHandle handle = nullptr;
  CHECK_OK(aclrtMallocPhysical(&handle, 2 * kMiB, &prop, 0));
  CHECK_OK(aclrtMapMem(again, 2 * kMiB, 0, handle, 0));
  CHECK_OK(aclrtMemset(again, 64, 5, 64));
  CHECK_OK(aclrtUnmapMem(again));
  CHECK_OK(aclrtFreePhysical(handle));
  for (void *range : {again, other}) CHECK_OK(aclrtReleaseMemAddress(range));
}

}  // namespace

int main() {
  start(1);
  which_attributes();
  it_is_pinned_memory();
  a_reset_takes_it_along();
  addresses_that_are_asked_for();
  return 0;
}
