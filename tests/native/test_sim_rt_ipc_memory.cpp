// Device memory that two processes share, by key and by exported handle.
#include "sim_processes.hpp"

namespace {

constexpr size_t kBytes = 4 * kMiB;

aclrtPhysicalMemProp prop_of(uint32_t device) {
  aclrtPhysicalMemProp prop = {};
  prop.memAttr = ACL_MEM_HUGE;
  prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  return prop;
}

void set(void *memory, char value) {
  aclrtStream stream = new_stream();
  CHECK_OK(aclrtMemsetAsync(memory, kKiB, value, kKiB, stream));
  sync(stream);
  CHECK_OK(aclrtDestroyStream(stream));
}

char get(const void *memory) {
  char value = 0;
  CHECK_OK(aclrtMemcpy(&value, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  return value;
}

void owner_by_key(const Line &line, pid_t child) {
  start(1, "64M");
  char *memory = static_cast<char *>(device_memory(kBytes));
  set(memory + 2 * kMiB, 5);
  Key key{};
  CHECK_CODE(aclrtIpcMemGetExportKey(memory, kBytes, key.text, 64, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtIpcMemGetExportKey(memory, 0, key.text, 65, 0), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtIpcMemGetExportKey(memory + 64, kKiB, key.text, 65, 0),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtIpcMemGetExportKey(memory, 2 * kBytes, key.text, 65, 0),
             ACL_ERROR_RT_PARAM_INVALID);
  // The second half: the same address before and after.
  CHECK_OK(aclrtIpcMemGetExportKey(memory + 2 * kMiB, 2 * kMiB, key.text, 65, 0));
  CHECK_EQ(get(memory + 2 * kMiB), 5);
  line.send(key);
  line.wait();
  int32_t pid = child;
  CHECK_CODE(aclrtIpcMemSetImportPid("no key", &pid, 1), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtIpcMemSetImportPid(key.text, &pid, 1));
  line.go();
  line.wait();  // it has written
  CHECK_EQ(get(memory + 2 * kMiB), 6);
  set(memory + 2 * kMiB, 7);
  line.go();
  line.wait();  // it has closed
  CHECK_OK(aclrtIpcMemClose(key.text));
  CHECK_CODE(aclrtIpcMemClose(key.text), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtFree(memory));
  // The pages are private again.
  void *next = device_memory(kBytes);
  set(next, 1);
  CHECK_EQ(get(next), 1);
}

void user_by_key(const Line &line) {
  start(1, "64M");
  const auto key = line.receive<Key>();
  void *memory = nullptr;
  CHECK_CODE(aclrtIpcMemImportByKey(&memory, "no key", 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtIpcMemImportByKey(&memory, key.text, 2), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtIpcMemImportByKey(&memory, key.text, 0), ACL_ERROR_RT_NO_PERMISSION);
  line.go();
  line.wait();
  CHECK_OK(aclrtIpcMemImportByKey(&memory, key.text, 0));
  CHECK_EQ(get(memory), 5);
  CHECK_CODE(aclrtMemset(memory, 2 * kMiB + 1, 0, 2 * kMiB + 1), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtFree(memory), ACL_ERROR_RT_PARAM_INVALID);
  set(memory, 6);
  line.go();
  line.wait();
  CHECK_EQ(get(memory), 7);
  CHECK_OK(aclrtIpcMemClose(key.text));
  CHECK_CODE(aclrtMemset(memory, 1, 0, 1), ACL_ERROR_RT_PARAM_INVALID);
  line.go();
}

void owner_by_handle(const Line &line, pid_t child) {
  start(2, "64M");
  const aclrtPhysicalMemProp prop = prop_of(0);
  aclrtDrvMemHandle handle = nullptr, fabric = nullptr;
  void *memory = nullptr;
  CHECK_OK(aclrtReserveMemAddress(&memory, kBytes, 0, nullptr, 0));
  CHECK_OK(aclrtMallocPhysical(&handle, kBytes, &prop, 0));
  CHECK_OK(aclrtMallocPhysical(&fabric, 2 * kMiB, &prop, 0));
  CHECK_OK(aclrtMapMem(memory, kBytes, 0, handle, 0));
  set(memory, 3);
  uint64_t shareable = 0;
  CHECK_CODE(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 2, &shareable),
             ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &shareable));
  CHECK_CODE(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &shareable),
             ACL_ERROR_RT_PARAM_INVALID);
  int32_t pid = child, own = 0;
  CHECK_OK(aclrtDeviceGetBareTgid(&own));
  CHECK_EQ(own, getpid());
  CHECK_OK(aclrtMemSetPidToShareableHandle(shareable, &pid, 1));
  aclrtMemFabricHandle text = {};
  CHECK_OK(aclrtMemExportToShareableHandleV2(fabric, 1, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &text));
  line.send(shareable);
  line.send(text);
  line.wait();  // it has written, and is killed in the middle of it all
  CHECK_EQ(kill(child, SIGKILL), 0);
  CHECK_EQ(get(memory), 4);
  set(memory, 9);
  CHECK_EQ(get(memory), 9);
  CHECK_OK(aclrtUnmapMem(memory));
  CHECK_OK(aclrtFreePhysical(handle));
  CHECK_OK(aclrtFreePhysical(fabric));
  CHECK_OK(aclrtReleaseMemAddress(memory));
}

void user_by_handle(const Line &line) {
  start(2, "64M");
  const auto shareable = line.receive<uint64_t>();
  auto text = line.receive<aclrtMemFabricHandle>();
  aclrtDrvMemHandle handle = nullptr, fabric = nullptr, own = nullptr;
  CHECK_CODE(aclrtMemImportFromShareableHandle(shareable + 1, 0, &handle),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtMemImportFromShareableHandle(shareable, 0, &handle));
  CHECK_OK(
      aclrtMemImportFromShareableHandleV2(&text, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0, &fabric));
  const aclrtPhysicalMemProp prop = prop_of(0);
  CHECK_OK(aclrtMallocPhysical(&own, 2 * kMiB, &prop, 0));
  void *memory = nullptr;
  CHECK_OK(aclrtReserveMemAddress(&memory, 2 * kBytes, 0, nullptr, 0));
  CHECK_OK(aclrtMapMem(memory, kBytes, 0, handle, 0));
  CHECK_CODE(aclrtMapMem(static_cast<char *>(memory) + kBytes, 2 * kMiB, 0, own, 0),
             ACL_ERROR_RT_PARAM_INVALID);  // imported and own memory do not mix
  CHECK_EQ(get(memory), 3);
  set(memory, 4);
  line.go();
  pause();
}

}  // namespace

int main() {
  isolated([] { in_two_processes(owner_by_key, user_by_key); });
  isolated([] { in_two_processes(owner_by_handle, user_by_handle, true); });
  return 0;
}
