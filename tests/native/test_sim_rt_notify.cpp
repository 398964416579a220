// Notifies, values in memory, and waits that end by themselves.
#include "sim_rt.hpp"

namespace {

char *g_host = nullptr;  // pinned

void fill(aclrtStream stream, char value, size_t at = 0) {
  CHECK_OK(aclrtMemsetAsync(g_host + at, 1, value, 1, stream));
}

void still_blocked(aclrtStream stream) {
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_EQ(query(stream), ACL_STREAM_STATUS_NOT_READY);
}

aclrtNotify new_notify() {
  aclrtNotify notify = nullptr;
  CHECK_OK(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
  return notify;
}

void one_record_lets_one_wait_pass() {
  aclrtNotify notify = new_notify();
  aclrtStream setter = new_stream(), a = new_stream(), b = new_stream();
  g_host[0] = g_host[1] = 0;
  CHECK_OK(aclrtWaitAndResetNotify(notify, a, 0));
  fill(a, 1, 0);
  CHECK_OK(aclrtWaitAndResetNotify(notify, b, 0));
  fill(b, 1, 1);
  still_blocked(a);
  still_blocked(b);
  CHECK_OK(aclrtRecordNotify(notify, setter));
  sync(setter);
  while (query(a) == ACL_STREAM_STATUS_NOT_READY && query(b) == ACL_STREAM_STATUS_NOT_READY)
    std::this_thread::yield();
  still_blocked(query(a) == ACL_STREAM_STATUS_NOT_READY ? a : b);
  CHECK_EQ(g_host[0] + g_host[1], 1);
  CHECK_OK(aclrtRecordNotify(notify, setter));
  sync(a);
  sync(b);
  // A record that nobody waits for is kept, and two are one.
  CHECK_OK(aclrtRecordNotify(notify, setter));
  CHECK_OK(aclrtRecordNotify(notify, setter));
  sync(setter);
  CHECK_OK(aclrtWaitAndResetNotify(notify, a, 0));
  sync(a);
  CHECK_OK(aclrtWaitAndResetNotify(notify, a, 0));
  still_blocked(a);
  CHECK_OK(aclrtStreamAbort(a));
  CHECK_CODE(aclrtSynchronizeStream(a), ACL_ERROR_RT_STREAM_ABORT);
  CHECK_OK(aclrtRecordNotify(notify, setter));
  sync(setter);
  CHECK_OK(aclrtNotifyBatchReset(&notify, 1));
  CHECK_OK(aclrtWaitAndResetNotify(notify, a, 0));
  still_blocked(a);
  // Destroyed while it is waited for: the wait keeps it.
  CHECK_OK(aclrtDestroyNotify(notify));
  CHECK_CODE(aclrtRecordNotify(notify, setter), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtDestroyStreamForce(a));
  CHECK_OK(aclrtDestroyStream(b));
  CHECK_OK(aclrtDestroyStream(setter));
}

void notify_arguments() {
  aclrtNotify notify = nullptr;
  CHECK_CODE(aclrtCreateNotify(nullptr, 0), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtCreateNotify(&notify, 2), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtDestroyNotify(nullptr), ACL_ERROR_INVALID_PARAM);
  notify = new_notify();
  aclrtNotify other = new_notify();
  uint32_t id = 99, other_id = 99;
  CHECK_OK(aclrtGetNotifyId(notify, &id));
  CHECK_OK(aclrtGetNotifyId(other, &other_id));
  CHECK(id != other_id);
  CHECK_CODE(aclrtGetNotifyId(notify, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtNotifyBatchReset(nullptr, 1), ACL_ERROR_INVALID_PARAM);
  char key[65];
  CHECK_CODE(aclrtNotifyGetExportKey(notify, key, 64, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtNotifyGetExportKey(notify, key, 65, 1), ACL_ERROR_RT_PARAM_INVALID);
  int32_t pid = 1;
  CHECK_CODE(aclrtNotifySetImportPid(notify, &pid, 1), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtNotifyImportByKey(&other, "no key", 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtDestroyNotify(notify));
  CHECK_OK(aclrtDestroyNotify(other));
}

void values() {
  uint64_t *memory = static_cast<uint64_t *>(device_memory(kKiB));
  CHECK_OK(aclrtMemset(memory, kKiB, 0, kKiB));
  aclrtStream writer = new_stream(), waiter = new_stream();
  const struct {
    uint32_t condition;
    uint64_t wanted, blocking, passing;
  } cases[] = {
      {ACL_STREAM_WAIT_VALUE_GEQ, 5, 4, 6},
      {ACL_STREAM_WAIT_VALUE_GEQ, 5, static_cast<uint64_t>(-1), 5},
      {ACL_STREAM_WAIT_VALUE_EQ, 5, 6, 5},
      {ACL_STREAM_WAIT_VALUE_AND, 6, 9, 2},
      {ACL_STREAM_WAIT_VALUE_NOR, 0xff, ~uint64_t{0xff}, 1},
  };
  for (const auto &c : cases) {
    CHECK_OK(aclrtValueWrite(memory, c.blocking, 0, writer));
    sync(writer);
    CHECK_EQ(*memory, c.blocking);
    CHECK_OK(aclrtValueWait(memory, c.wanted, c.condition, waiter));
    still_blocked(waiter);
    CHECK_OK(aclrtValueWrite(memory, c.passing, 0, writer));
    sync(waiter);
  }
  CHECK_CODE(aclrtValueWrite(nullptr, 1, 0, writer), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtValueWrite(memory, 1, 1, writer), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtValueWait(memory, 1, 4, writer), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtValueWrite(reinterpret_cast<char *>(memory) + 4, 1, 0, writer),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtValueWrite(g_host, 1, 0, writer), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtDestroyStream(writer));
  CHECK_OK(aclrtDestroyStream(waiter));
  CHECK_OK(aclrtFree(memory));
}

void waits_can_time_out() {
  aclrtStream stream = new_stream(), held = new_stream();
  aclrtEvent flag = nullptr, ex = new_event();
  CHECK_OK(aclrtCreateEventWithFlag(&flag, ACL_EVENT_SYNC));
  aclrtNotify notify = new_notify();
  CHECK_CODE(aclrtStreamWaitEventWithTimeout(stream, flag, -1), ACL_ERROR_RT_PARAM_INVALID);
  int32_t id = -1;
  CHECK_OK(aclrtStreamGetId(held, &id));
  CHECK_OK(aiocann_sim_hold(0, id));
  CHECK_OK(aclrtRecordEvent(ex, held));
  aclrtStream streams[3] = {new_stream(), new_stream(), new_stream()};
  g_host[5] = 0;
  CHECK_OK(aclrtStreamWaitEventWithTimeout(streams[0], flag, 1));
  CHECK_OK(aclrtWaitAndResetNotify(notify, streams[1], 1));
  CHECK_OK(aclrtSetOpWaitTimeout(1));
  CHECK_OK(aclrtStreamWaitEvent(streams[2], ex));
  CHECK_OK(aclrtSetOpWaitTimeout(0));
  CHECK_OK(aclrtStreamWaitEvent(stream, ex));
  fill(streams[0], 3, 5);
  for (aclrtStream s : streams) CHECK_CODE(aclrtSynchronizeStream(s), ACL_ERROR_RT_WAIT_TIMEOUT);
  CHECK_EQ(g_host[5], 3);  // the stream goes on
  aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_NOT_READY;
  CHECK_OK(aclrtQueryEventWaitStatus(flag, &status));
  CHECK_EQ(status, ACL_EVENT_WAIT_STATUS_COMPLETE);
  still_blocked(stream);  // it waits for ever
  CHECK_OK(aiocann_sim_release(0, id));
  sync(stream);
  // In time.
  CHECK_OK(aclrtStreamWaitEventWithTimeout(stream, flag, 1));
  CHECK_OK(aclrtRecordEvent(flag, held));
  sync(stream);
  CHECK_OK(aclrtDestroyEvent(flag));
  CHECK_OK(aclrtDestroyEvent(ex));
  CHECK_OK(aclrtDestroyNotify(notify));
  for (aclrtStream s : streams) CHECK_OK(aclrtDestroyStream(s));
  CHECK_OK(aclrtDestroyStream(held));
  CHECK_OK(aclrtDestroyStream(stream));
}

void external_use_needs_a_capture() {
  aclrtEvent ex = new_event();
  CHECK_CODE(aclrtRecordEventWithFlag(ex, nullptr, ACL_EVENT_RECORD_EXTERNAL),
             ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  CHECK_CODE(aclrtStreamWaitEventWithFlag(nullptr, ex, 0, ACL_EVENT_WAIT_EXTERNAL),
             ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  CHECK_CODE(aclrtStreamWaitEventWithFlag(nullptr, ex, 1, ACL_EVENT_WAIT_EXTERNAL),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtRecordEventWithFlag(ex, nullptr, 2), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtStreamWaitEventWithFlag(nullptr, ex, 0, 2), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtRecordEventWithFlag(ex, nullptr, ACL_EVENT_RECORD_DEFAULT));
  CHECK_OK(aclrtStreamWaitEventWithFlag(nullptr, ex, 0, ACL_EVENT_WAIT_DEFAULT));
  sync(nullptr);
  CHECK_OK(aclrtDestroyEvent(ex));
}

void notifies_run_out() {
  std::vector<aclrtNotify> notifies(8192);
  for (aclrtNotify &notify : notifies) notify = new_notify();
  aclrtNotify more = nullptr;
  CHECK_CODE(aclrtCreateNotify(&more, 0), ACL_ERROR_RT_NO_NOTIFY_RESOURCE);
  CHECK_OK(aclrtDestroyNotify(notifies.back()));
  notifies.back() = new_notify();
  for (aclrtNotify notify : notifies) CHECK_OK(aclrtDestroyNotify(notify));
}

void a_soc_without_them() {
  CHECK_OK(aclrtResetDeviceForce(0));
  configure("soc", "Ascend310P3");
  CHECK_OK(aclrtSetDevice(0));
  uint64_t *memory = static_cast<uint64_t *>(device_memory(64));
  CHECK_CODE(aclrtValueWrite(memory, 1, 0, nullptr), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtValueWait(memory, 1, 0, nullptr), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtSetOpWaitTimeout(1), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  aclrtEvent event = new_event();
  CHECK_CODE(aclrtRecordEventWithFlag(event, nullptr, 0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  std::vector<aclrtNotify> notifies(1024);
  for (aclrtNotify &notify : notifies) CHECK_OK(aclrtCreateNotify(&notify, 0));
  aclrtNotify more = nullptr;
  CHECK_CODE(aclrtCreateNotify(&more, 0), ACL_ERROR_RT_NO_NOTIFY_RESOURCE);
  CHECK_OK(aclrtResetDevice(0));
}

}  // namespace

int main() {
  start(1);
  g_host = static_cast<char *>(pinned_memory(64));
  one_record_lets_one_wait_pass();
  notify_arguments();
  values();
  waits_can_time_out();
  external_use_needs_a_capture();
  notifies_run_out();
  CHECK_OK(aclrtFreeHost(g_host));
  a_soc_without_them();
  return 0;
}
