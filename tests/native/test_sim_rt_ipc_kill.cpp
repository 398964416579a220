// What processes share outlives either of them: one is killed in the middle of copies, the other goes on.
#include "sim_processes.hpp"

namespace {

constexpr size_t kBytes = 4 * kMiB;

/// Copies over the shared memory until the process is killed.
[[noreturn]] void copy_for_ever(char *memory) {
  char *source = static_cast<char *>(pinned_memory(kBytes));
  memset(source, 1, kBytes);
  aclrtStream stream = new_stream();
  while (true) {
    for (int i = 0; i < 16; ++i)
      CHECK_OK(aclrtMemcpyAsync(memory, kBytes, source, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    sync(stream);
  }
}

/// Kills the other process when its copies have begun to arrive.
void kill_in_the_middle(const char *memory, pid_t other) {
  while (__atomic_load_n(memory, __ATOMIC_RELAXED) != 1) std::this_thread::yield();
  CHECK_EQ(kill(other, SIGKILL), 0);
}

/// Every byte can still be written and read, on a stream and at once.
void use(char *memory) {
  aclrtStream stream = new_stream();
  std::vector<char> back(kBytes);
  for (const char value : {7, 8}) {
    CHECK_OK(aclrtMemsetAsync(memory, kBytes, value, kBytes, stream));
    sync(stream);
    CHECK_OK(aclrtMemcpy(back.data(), kBytes, memory, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
    for (const char byte : back) CHECK_EQ(byte, value);
  }
  CHECK_OK(aclrtDestroyStream(stream));
}

// ---- by key, open to every process ----

char *export_by_key(const Line &line, Key *key) {
  char *memory = static_cast<char *>(device_memory(kBytes));
  CHECK_OK(aclrtMemset(memory, kBytes, 0, kBytes));
  CHECK_OK(aclrtIpcMemGetExportKey(memory, kBytes, key->text, sizeof key->text,
                                   ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
  line.send(*key);
  line.wait();  // imported
  return memory;
}

char *import_by_key(const Line &line, Key *key) {
  *key = line.receive<Key>();
  void *memory = nullptr;
  CHECK_OK(aclrtIpcMemImportByKey(&memory, key->text, 0));
  line.go();
  return static_cast<char *>(memory);
}

void owner_by_key_survives(const Line &line, pid_t other) {
  start(1, "64M");
  Key key{};
  char *memory = export_by_key(line, &key);
  kill_in_the_middle(memory, other);
  use(memory);
  CHECK_OK(aclrtIpcMemClose(key.text));
  CHECK_OK(aclrtFree(memory));
}

void user_by_key_dies(const Line &line) {
  start(1, "64M");
  Key key{};
  copy_for_ever(import_by_key(line, &key));
}

void user_by_key_survives(const Line &line, pid_t other) {
  start(1, "64M");
  Key key{};
  char *memory = import_by_key(line, &key);
  kill_in_the_middle(memory, other);
  use(memory);
  CHECK_OK(aclrtIpcMemClose(key.text));
  CHECK_CODE(aclrtMemset(memory, 1, 0, 1), ACL_ERROR_RT_PARAM_INVALID);
}

void owner_by_key_dies(const Line &line) {
  start(1, "64M");
  Key key{};
  copy_for_ever(export_by_key(line, &key));
}

// ---- by exported handle ----

char *map_handle(aclrtDrvMemHandle handle) {
  void *memory = nullptr;
  CHECK_OK(aclrtReserveMemAddress(&memory, kBytes, 0, nullptr, 0));
  CHECK_OK(aclrtMapMem(memory, kBytes, 0, handle, 0));
  return static_cast<char *>(memory);
}

void unmap_handle(char *memory, aclrtDrvMemHandle handle) {
  CHECK_OK(aclrtUnmapMem(memory));
  CHECK_OK(aclrtFreePhysical(handle));
  CHECK_OK(aclrtReleaseMemAddress(memory));
}

char *export_handle(const Line &line, aclrtDrvMemHandle *handle) {
  aclrtPhysicalMemProp prop = {};
  prop.memAttr = ACL_HBM_MEM_HUGE;
  prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
  CHECK_OK(aclrtMallocPhysical(handle, kBytes, &prop, 0));
  char *memory = map_handle(*handle);
  CHECK_OK(aclrtMemset(memory, kBytes, 0, kBytes));
  uint64_t shareable = 0;
  CHECK_OK(aclrtMemExportToShareableHandle(*handle, ACL_MEM_HANDLE_TYPE_NONE, 1, &shareable));
  line.send(shareable);
  line.wait();
  return memory;
}

char *import_handle(const Line &line, aclrtDrvMemHandle *handle) {
  CHECK_OK(aclrtMemImportFromShareableHandle(line.receive<uint64_t>(), 0, handle));
  char *memory = map_handle(*handle);
  line.go();
  return memory;
}

void owner_by_handle_survives(const Line &line, pid_t other) {
  start(1, "64M");
  aclrtDrvMemHandle handle = nullptr;
  char *memory = export_handle(line, &handle);
  kill_in_the_middle(memory, other);
  use(memory);
  unmap_handle(memory, handle);
}

void user_by_handle_dies(const Line &line) {
  start(1, "64M");
  aclrtDrvMemHandle handle = nullptr;
  copy_for_ever(import_handle(line, &handle));
}

void user_by_handle_survives(const Line &line, pid_t other) {
  start(1, "64M");
  aclrtDrvMemHandle handle = nullptr;
  char *memory = import_handle(line, &handle);
  kill_in_the_middle(memory, other);
  use(memory);
  unmap_handle(memory, handle);
}

void owner_by_handle_dies(const Line &line) {
  start(1, "64M");
  aclrtDrvMemHandle handle = nullptr;
  copy_for_ever(export_handle(line, &handle));
}

// ---- events ----

/// Whoever waits for a recording that never comes waits on; it can be aborted, and its process goes on.
void event_user_survives(const Line &line, pid_t other) {
  start(1, "64M");
  aclrtEvent event = nullptr;
  CHECK_OK(aclrtIpcOpenEventHandle(line.receive<aclrtIpcEventHandle>(), &event));
  aclrtStream stream = new_stream(), free = new_stream();
  CHECK_OK(aclrtStreamWaitEvent(stream, event));
  CHECK_EQ(kill(other, SIGKILL), 0);
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_CODE(aclrtSynchronizeEventWithTimeout(event, 20), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
  char *pinned = static_cast<char *>(pinned_memory(64));
  CHECK_OK(aclrtMemsetAsync(pinned, 64, 3, 64, free));
  sync(free);
  CHECK_EQ(pinned[63], 3);
  CHECK_OK(aclrtStreamAbort(stream));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_ABORT);
  // This side can record it.
  CHECK_OK(aclrtRecordEvent(event, free));
  CHECK_OK(aclrtStreamWaitEvent(stream, event));
  sync(stream);
  CHECK_OK(aclrtDestroyEvent(event));
  for (aclrtStream made : {stream, free}) CHECK_OK(aclrtDestroyStream(made));
  CHECK_OK(aclrtFreeHost(pinned));
}

void event_owner_dies(const Line &line) {
  start(1, "64M");
  aclrtEvent event = nullptr;
  aclrtIpcEventHandle handle;
  CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
  CHECK_OK(aclrtIpcGetEventHandle(event, &handle));
  aclrtStream stream = new_stream();
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtRecordEvent(event, stream));  // it is never reached
  line.send(handle);
  pause();
}

void event_owner_survives(const Line &line, pid_t other) {
  start(1, "64M");
  aclrtEvent event = nullptr;
  aclrtIpcEventHandle handle;
  CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
  CHECK_OK(aclrtIpcGetEventHandle(event, &handle));
  aclrtStream stream = new_stream();
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtRecordEvent(event, stream));
  line.send(handle);
  line.wait();  // the other one's stream waits
  CHECK_EQ(kill(other, SIGKILL), 0);
  CHECK_OK(aiocann_sim_release(0, -1));
  sync(stream);
  CHECK_OK(aclrtRecordEvent(event, stream));
  CHECK_OK(aclrtSynchronizeEventWithTimeout(event, kLongMs));
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyStream(stream));
}

void event_user_dies(const Line &line) {
  start(1, "64M");
  aclrtEvent event = nullptr;
  CHECK_OK(aclrtIpcOpenEventHandle(line.receive<aclrtIpcEventHandle>(), &event));
  aclrtStream stream = new_stream();
  CHECK_OK(aclrtStreamWaitEvent(stream, event));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  line.go();
  pause();
}

}  // namespace

int main() {
  isolated([] { in_two_processes(owner_by_key_survives, user_by_key_dies, true); });
  isolated([] { in_two_processes(user_by_key_survives, owner_by_key_dies, true); });
  isolated([] { in_two_processes(owner_by_handle_survives, user_by_handle_dies, true); });
  isolated([] { in_two_processes(user_by_handle_survives, owner_by_handle_dies, true); });
  isolated([] { in_two_processes(event_user_survives, event_owner_dies, true); });
  isolated([] { in_two_processes(event_owner_survives, event_user_dies, true); });
  return 0;
}
