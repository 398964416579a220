// Events and notifies that two processes share.
#include "sim_processes.hpp"

namespace {

void blocked(aclrtStream stream) {
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
}

// ---- events ----

void owner_of_events(const Line &line, pid_t) {
  start(1, "64M");
  aclrtEvent event = nullptr, plain = new_event();
  aclrtIpcEventHandle handle;
  CHECK_CODE(aclrtIpcGetEventHandle(plain, &handle), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC | ACL_EVENT_SYNC),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
  CHECK_OK(aclrtIpcGetEventHandle(event, &handle));
  CHECK_CODE(aclrtIpcGetEventHandle(event, nullptr), ACL_ERROR_INVALID_PARAM);
  aclrtStream stream = new_stream();
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtRecordEvent(event, stream));
  line.send(handle);
  line.wait();  // the other one waits for our recording
  CHECK_OK(aiocann_sim_release(0, -1));
  sync(stream);
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  line.wait();  // it has recorded, and holds its device
  CHECK_OK(aclrtQueryEventStatus(event, &status));
  CHECK_EQ(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
  CHECK_CODE(aclrtSynchronizeEventWithTimeout(event, 10), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
  CHECK_OK(aclrtStreamWaitEvent(stream, event));
  blocked(stream);
  line.go();
  sync(stream);
  CHECK_OK(aclrtSynchronizeEventWithTimeout(event, kLongMs));
  float ms = 0;
  uint64_t us = 0;
  CHECK_CODE(aclrtEventElapsedTime(&ms, event, event), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtEventGetTimestamp(event, &us), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtResetEvent(event, stream), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_OK(aclrtDestroyEvent(event));
  line.go();
}

void user_of_events(const Line &line) {
  start(1, "64M");
  const auto handle = line.receive<aclrtIpcEventHandle>();
  aclrtEvent event = nullptr;
  CHECK_OK(aclrtIpcOpenEventHandle(handle, &event));
  aclrtStream stream = new_stream();
  CHECK_OK(aclrtStreamWaitEvent(stream, event));
  blocked(stream);
  line.go();
  sync(stream);
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtRecordEvent(event, stream));
  line.go();
  line.wait();
  CHECK_OK(aiocann_sim_release(0, -1));
  line.wait();  // the owner has destroyed its handle; ours goes on
  CHECK_OK(aclrtRecordEvent(event, stream));
  CHECK_OK(aclrtSynchronizeEvent(event));
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_CODE(aclrtIpcOpenEventHandle(handle, &event), ACL_ERROR_RT_PARAM_INVALID);
}

// ---- notifies ----

void owner_of_notifies(const Line &line, pid_t child) {
  start(1, "64M");
  aclrtNotify notify = nullptr;
  CHECK_OK(aclrtCreateNotify(&notify, 0));
  aclrtStream stream = new_stream();
  CHECK_OK(aclrtWaitAndResetNotify(notify, stream, 0));
  blocked(stream);
  Key key{};
  CHECK_OK(aclrtNotifyGetExportKey(notify, key.text, sizeof key.text, 0));
  line.send(key);
  line.wait();  // it was refused: not on the list
  int32_t pid = child;
  CHECK_OK(aclrtNotifySetImportPid(notify, &pid, 1));
  line.go();
  sync(stream);  // a wait from before the export is served, too
  CHECK_OK(aclrtRecordNotify(notify, stream));
  sync(stream);
  line.go();
  line.wait();  // it is being killed while it waits
  CHECK_EQ(kill(child, SIGKILL), 0);
  CHECK_OK(aclrtRecordNotify(notify, stream));
  CHECK_OK(aclrtWaitAndResetNotify(notify, stream, 0));
  CHECK_OK(aclrtDestroyNotify(notify));
  CHECK_OK(aclrtStreamAbort(stream));
}

void user_of_notifies(const Line &line) {
  start(1, "64M");
  const auto key = line.receive<Key>();
  aclrtNotify notify = nullptr;
  CHECK_CODE(aclrtNotifyImportByKey(&notify, key.text, 0), ACL_ERROR_RT_NO_PERMISSION);
  line.go();
  line.wait();
  CHECK_OK(aclrtNotifyImportByKey(&notify, key.text, 0));
  aclrtStream stream = new_stream();
  CHECK_OK(aclrtRecordNotify(notify, stream));
  sync(stream);
  line.wait();
  CHECK_OK(aclrtWaitAndResetNotify(notify, stream, 0));
  sync(stream);
  CHECK_OK(aclrtWaitAndResetNotify(notify, stream, 0));
  blocked(stream);
  line.go();
  sync(stream);
  pause();
}

}  // namespace

int main() {
  isolated([] { in_two_processes(owner_of_events, user_of_events); });
  isolated([] { in_two_processes(owner_of_notifies, user_of_notifies, true); });
  return 0;
}
