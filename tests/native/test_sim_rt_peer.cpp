// Peer access: who can, who may, and what a copy without it does. Device ids as a program may see them.
#include <stdlib.h>

#include "sim_rt.hpp"

namespace {

void *memory_of(int device) {
  CHECK_OK(aclrtSetDevice(device));
  void *pointer = device_memory(kKiB);
  CHECK_OK(aclrtMemset(pointer, kKiB, device + 1, kKiB));
  return pointer;
}

int first_byte(void *pointer) {
  char byte = 0;
  CHECK_OK(aclrtMemcpy(&byte, 1, pointer, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  return byte;
}

void checks() {
  int32_t can = -1;
  CHECK_OK(aclrtDeviceCanAccessPeer(&can, 0, 1));
  CHECK_EQ(can, 1);
  CHECK_OK(aclrtDeviceCanAccessPeer(&can, 1, 0));
  CHECK_EQ(can, 1);
  CHECK_OK(aclrtDeviceCanAccessPeer(&can, 0, 2));
  CHECK_EQ(can, 0);
  CHECK_CODE(aclrtDeviceCanAccessPeer(&can, 1, 1), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtDeviceCanAccessPeer(nullptr, 0, 1), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtDeviceCanAccessPeer(&can, 0, 7), ACL_ERROR_RT_INVALID_DEVICEID);
  CHECK_CODE(aclrtDeviceEnablePeerAccess(1, 1), ACL_ERROR_FEATURE_UNSUPPORTED);
  CHECK_CODE(aclrtDeviceEnablePeerAccess(0, 0), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtDeviceEnablePeerAccess(7, 0), ACL_ERROR_RT_INVALID_DEVICEID);
  CHECK_CODE(aclrtDeviceEnablePeerAccess(2, 0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtDeviceDisablePeerAccess(0), ACL_ERROR_INVALID_PARAM);
  on_thread([] { CHECK_CODE(aclrtDeviceEnablePeerAccess(1, 0), ACL_ERROR_RT_CONTEXT_NULL); });
}

void access_has_a_direction() {
  void *theirs = memory_of(1), *mine = memory_of(0);  // device 0 is current from here on
  aclrtStream stream = new_stream();
  const auto pull = [&] {
    return aclrtMemcpyAsync(mine, kKiB, theirs, kKiB, ACL_MEMCPY_DEVICE_TO_DEVICE, stream);
  };
  CHECK_CODE(pull(), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CONTAINS(recent(), "aclrtDeviceEnablePeerAccess(1, 0) with device 0 current");
  CHECK_CODE(aclrtMemcpy(theirs, kKiB, mine, kKiB, ACL_MEMCPY_DEVICE_TO_DEVICE),
             ACL_ERROR_RT_PARAM_INVALID);

  CHECK_OK(aclrtSetDevice(1));
  CHECK_OK(aclrtDeviceEnablePeerAccess(0, 0));  // device 1 may reach device 0: not the other way
  CHECK_OK(aclrtResetDevice(1));
  CHECK_OK(aclrtSetDevice(0));
  int32_t status = -1;
  CHECK_OK(aclrtDevicePeerAccessStatus(1, 0, &status));
  CHECK_EQ(status, 1);
  CHECK_OK(aclrtDevicePeerAccessStatus(0, 1, &status));
  CHECK_EQ(status, 0);
  CHECK_CODE(pull(), ACL_ERROR_RT_PARAM_INVALID);

  CHECK_OK(aclrtDeviceEnablePeerAccess(1, 0));
  CHECK_OK(aclrtDeviceEnablePeerAccess(1, 0));  // again: fine
  const uint64_t before = counter("bytes_peer");
  CHECK_OK(pull());
  sync(stream);
  CHECK_EQ(first_byte(mine), 2);
  CHECK_EQ(counter("bytes_peer"), before + kKiB);
  CHECK_OK(aclrtMemset(mine, kKiB, 9, kKiB));
  CHECK_OK(aclrtMemcpy(theirs, kKiB, mine, kKiB, ACL_MEMCPY_DEVICE_TO_DEVICE));
  CHECK_EQ(first_byte(theirs), 9);

  // Taken away while a copy is queued: the copy faults when it runs.
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(pull());
  CHECK_OK(aclrtDeviceDisablePeerAccess(1));
  CHECK_OK(aiocann_sim_release(0, -1));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_DEVICE_MEM_ERROR);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(mine));
  CHECK_OK(aclrtFree(theirs));
}

void devices_copy_side_by_side() {
  CHECK_OK(aclrtSetDevice(0));
  aclrtStream held = new_stream();
  void *mine = device_memory(kKiB);
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtMemsetAsync(mine, kKiB, 1, kKiB, held));
  on_thread([] {
    CHECK_OK(aclrtSetDevice(2));
    aclrtStream stream = new_stream();
    void *theirs = device_memory(kKiB);
    CHECK_OK(aclrtMemsetAsync(theirs, kKiB, 1, kKiB, stream));
    sync(stream);  // device 0 stands still meanwhile
    CHECK_OK(aclrtFree(theirs));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(2));
  });
  CHECK_EQ(query(held), ACL_STREAM_STATUS_NOT_READY);
  CHECK_OK(aiocann_sim_release(0, -1));
  sync(held);
  CHECK_OK(aclrtFree(mine));
  CHECK_OK(aclrtDestroyStream(held));
}

void close_all() {
  for (int device = 0; device < 3; ++device) {
    while (aclrtResetDevice(device) == ACL_SUCCESS) {
    }
  }
}

void visible_devices_are_numbered_anew() {
  CHECK_EQ(setenv("ASCEND_RT_VISIBLE_DEVICES", "1,2", 1), 0);
  uint32_t count = 0;
  int32_t id = -1;
  CHECK_OK(aclrtGetDeviceCount(&count));
  CHECK_EQ(count, 2);
  CHECK_OK(aclrtGetLogicDevIdByUserDevId(0, &id));
  CHECK_EQ(id, 1);
  CHECK_OK(aclrtGetPhyDevIdByUserDevId(1, &id));
  CHECK_EQ(id, 2);
  CHECK_OK(aclrtGetUserDevIdByLogicDevId(2, &id));
  CHECK_EQ(id, 1);
  CHECK_OK(aclrtGetUserDevIdByPhyDevId(1, &id));
  CHECK_EQ(id, 0);
  CHECK_CODE(aclrtGetUserDevIdByLogicDevId(0, &id), ACL_ERROR_RT_INVALID_DEVICEID);  // hidden
  CHECK_CODE(aclrtGetLogicDevIdByUserDevId(2, &id), ACL_ERROR_RT_INVALID_DEVICEID);
  CHECK_OK(aclrtGetPhyDevIdByLogicDevId(2, &id));
  CHECK_EQ(id, 2);
  CHECK_OK(aclrtGetLogicDevIdByPhyDevId(0, &id));
  CHECK_EQ(id, 0);
  CHECK_CODE(aclrtSetDevice(2), ACL_ERROR_RT_INVALID_DEVICEID);
  CHECK_OK(aclrtSetDevice(1));
  CHECK_OK(aclrtGetDevice(&id));
  CHECK_EQ(id, 1);
  CHECK_OK(aclrtResetDevice(1));
  CHECK_EQ(unsetenv("ASCEND_RT_VISIBLE_DEVICES"), 0);
  CHECK_OK(aclrtGetDeviceCount(&count));
  CHECK_EQ(count, 3);
}

}  // namespace

int main() {
  configure("devices", "3");
  configure("peers", "0-1,1-0,1-2");
  start(3, "64M");
  checks();
  access_has_a_direction();
  devices_copy_side_by_side();
  close_all();
  visible_devices_are_numbered_anew();
  return 0;
}
