// Replaying captured graphs: exact, repeatable, side by side, with events of the outside, updates and faults.
#include <stdio.h>
#include <unistd.h>

#include "sim_rt.hpp"
#include "temporary_file.hpp"

namespace {

char *g_host = nullptr;  // pinned

void fill(aclrtStream stream, char value, size_t at = 0) {
  CHECK_OK(aclrtMemsetAsync(g_host + at, 1, value, 1, stream));
}

void copy(aclrtStream stream, size_t to, size_t from, char *device) {
  CHECK_OK(aclrtMemcpyAsync(device, 1, g_host + from, 1, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  CHECK_OK(aclrtMemcpyAsync(g_host + to, 1, device, 1, ACL_MEMCPY_DEVICE_TO_HOST, stream));
}

void begin(aclrtStream stream) {
  CHECK_OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
}

aclmdlRI end(aclrtStream stream) {
  aclmdlRI model = nullptr;
  CHECK_OK(aclmdlRICaptureEnd(stream, &model));
  return model;
}

void still_blocked(aclrtStream stream) {
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
}

std::atomic<int> g_calls{0};
void count_call(void *) { g_calls.fetch_add(1); }

void replays_are_repeatable() {
  aclrtStream stream = new_stream(), other = new_stream();
  char *device = static_cast<char *>(device_memory(64));
  begin(stream);
  copy(stream, 1, 0, device);
  CHECK_OK(aclrtLaunchHostFunc(stream, count_call, nullptr));
  fill(stream, 9, 2);
  aclmdlRI model = end(stream);
  CHECK_EQ(g_calls.load(), 0);
  for (int i = 1; i <= 20; ++i) {
    g_host[0] = static_cast<char>(i);
    g_host[1] = g_host[2] = 0;
    aclrtStream target = i % 3 == 0 ? other : i % 3 == 1 ? stream : nullptr;
    CHECK_OK(aclmdlRIExecuteAsync(model, target));
    sync(target);
    CHECK_EQ(g_host[1], i);
    CHECK_EQ(g_host[2], 9);
    CHECK_EQ(g_calls.load(), i);
  }
  // One task of its stream: in order with what is around it.
  g_host[0] = 50;
  CHECK_OK(aiocann_sim_hold(0, -1));
  fill(stream, 51, 0);
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  fill(stream, 52, 1);
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  CHECK_OK(aiocann_sim_release(0, -1));
  sync(stream);
  CHECK_EQ(g_host[1], 51);
  g_host[0] = 60;
  CHECK_OK(aclmdlRIExecute(model, kLongMs));
  CHECK_EQ(g_host[1], 60);
  CHECK_CODE(aclmdlRIExecute(model, 0), ACL_ERROR_RT_PARAM_INVALID);

  CHECK_CODE(aclmdlRIExecuteAsync(nullptr, stream), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRIExecuteAsync(&g_calls, stream), ACL_ERROR_RT_PARAM_INVALID);
  begin(other);
  CHECK_CODE(aclmdlRIExecuteAsync(model, other), ACL_ERROR_RT_STREAM_CAPTURED);
  aclmdlRI empty = end(other);
  CHECK_OK(aclmdlRIExecuteAsync(empty, other));
  sync(other);
  CHECK_OK(aclmdlRIDestroy(empty));
  aclrtContext context = nullptr;
  CHECK_OK(aclrtCreateContext(&context, 0));
  CHECK_CODE(aclmdlRIExecuteAsync(model, nullptr), ACL_ERROR_RT_MODEL_CONTEXT);
  CHECK_OK(aclrtDestroyContext(context));
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_CODE(aclmdlRIExecuteAsync(model, stream), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtFree(device));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyStream(other));
}

void branches_run_in_their_order() {
  aclrtStream origin = new_stream(), left = new_stream(), right = new_stream();
  aclrtEvent fork = new_event(), join = new_event(), second = new_event();
  char *device = static_cast<char *>(device_memory(64));
  begin(origin);
  fill(origin, 3, 0);
  CHECK_OK(aclrtRecordEvent(fork, origin));
  CHECK_OK(aclrtStreamWaitEvent(left, fork));
  CHECK_OK(aclrtStreamWaitEvent(right, fork));
  copy(left, 1, 0, device);
  copy(right, 2, 0, device + 1);
  CHECK_OK(aclrtRecordEvent(join, left));
  CHECK_OK(aclrtRecordEvent(second, right));
  CHECK_OK(aclrtStreamWaitEvent(origin, join));
  CHECK_OK(aclrtStreamWaitEvent(origin, second));
  copy(origin, 3, 1, device + 2);
  copy(origin, 4, 2, device + 3);
  aclmdlRI model = end(origin);
  // The side streams are ordinary again, and the events too.
  fill(left, 1, 9);
  sync(left);
  CHECK_OK(aclrtRecordEvent(fork, right));
  CHECK_OK(aclrtSynchronizeEvent(fork));
  CHECK_OK(aclrtDestroyEvent(fork));
  CHECK_OK(aclrtDestroyEvent(join));
  CHECK_OK(aclrtDestroyEvent(second));
  CHECK_OK(aclrtDestroyStream(left));
  for (int i = 0; i < 5; ++i) {
    memset(g_host, 0, 8);
    CHECK_OK(aclmdlRIExecuteAsync(model, right));
    sync(right);
    CHECK_EQ(g_host[3] + g_host[4], 6);
  }
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtFree(device));
  CHECK_OK(aclrtDestroyStream(origin));
  CHECK_OK(aclrtDestroyStream(right));
}

void an_external_event_holds_its_branch() {
  aclrtStream stream = new_stream(), outside = new_stream(), side = new_stream();
  aclrtEvent external = nullptr, fork = new_event(), join = new_event();
  CHECK_OK(aclrtCreateEventWithFlag(&external, ACL_EVENT_EXTERNAL));
  begin(stream);
  CHECK_OK(aclrtRecordEvent(fork, stream));
  CHECK_OK(aclrtStreamWaitEvent(side, fork));
  CHECK_OK(aclrtStreamWaitEvent(stream, external));
  CHECK_OK(aclrtResetEvent(external, stream));
  fill(stream, 7, 0);
  fill(side, 8, 1);
  CHECK_OK(aclrtLaunchHostFunc(side, count_call, nullptr));
  CHECK_OK(aclrtRecordEvent(join, side));
  CHECK_OK(aclrtStreamWaitEvent(stream, join));
  aclmdlRI model = end(stream);
  for (int i = 0; i < 3; ++i) {
    g_host[0] = g_host[1] = 0;
    g_calls = 0;
    CHECK_OK(aclmdlRIExecuteAsync(model, stream));
    while (g_calls.load() == 0) std::this_thread::yield();  // the other branch goes on
    CHECK_EQ(g_host[1], 8);
    still_blocked(stream);
    CHECK_EQ(g_host[0], 0);
    CHECK_OK(aclrtRecordEvent(external, outside));
    sync(stream);
    CHECK_EQ(g_host[0], 7);
  }
  // One that waits can be aborted, and then the model destroyed.
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  still_blocked(stream);
  CHECK_OK(aclrtStreamAbort(stream));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_ABORT);
  CHECK_OK(aclmdlRIDestroy(model));
  for (aclrtEvent event : {external, fork, join}) CHECK_OK(aclrtDestroyEvent(event));
  for (aclrtStream s : {stream, outside, side}) CHECK_OK(aclrtDestroyStream(s));
}

void events_with_the_external_flag() {
  aclrtStream stream = new_stream(), outside = new_stream();
  aclrtEvent in = new_event(), out = new_event(), timed = new_event(ACL_EVENT_TIME_LINE);
  begin(stream);
  CHECK_CODE(aclrtStreamWaitEventWithFlag(stream, timed, 0, ACL_EVENT_WAIT_EXTERNAL),
             ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_OK(aclrtStreamWaitEventWithFlag(stream, in, 0, ACL_EVENT_WAIT_EXTERNAL));
  CHECK_CODE(aclrtStreamWaitEventWithFlag(stream, in, 0, ACL_EVENT_WAIT_EXTERNAL),
             ACL_ERROR_RT_PARAM_INVALID);  // once per graph
  fill(stream, 4, 0);
  CHECK_OK(aclrtRecordEventWithFlag(out, stream, ACL_EVENT_RECORD_EXTERNAL));
  aclmdlRI model = end(stream);
  CHECK_CODE(aclrtStreamWaitEventWithFlag(outside, in, 0, ACL_EVENT_WAIT_DEFAULT),
             ACL_ERROR_RT_PARAM_INVALID);  // for good
  CHECK_CODE(aclrtRecordEventWithFlag(out, outside, ACL_EVENT_RECORD_DEFAULT),
             ACL_ERROR_RT_PARAM_INVALID);
  int32_t id = -1;
  CHECK_OK(aclrtStreamGetId(outside, &id));
  CHECK_OK(aiocann_sim_hold(0, id));
  CHECK_OK(aclrtRecordEvent(in, outside));
  g_host[0] = 0;
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  still_blocked(stream);
  CHECK_EQ(g_host[0], 0);
  CHECK_OK(aiocann_sim_release(0, id));
  sync(stream);
  CHECK_EQ(g_host[0], 4);
  CHECK_OK(aclrtSynchronizeEvent(out));
  CHECK_OK(aclmdlRIDestroy(model));
  for (aclrtEvent event : {in, out, timed}) CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyStream(outside));
}

void task_groups_are_updated() {
  aclrtStream stream = new_stream(), updater = new_stream();
  uint32_t *words = static_cast<uint32_t *>(device_memory(64));
  const auto set = [&](aclrtStream on, size_t at, uint32_t value) {
    return aclrtMemsetD32Async(words + at, 64 - 4 * at, value, 1, on);
  };
  aclrtTaskGrp group = nullptr, none = nullptr;
  CHECK_CODE(aclmdlRICaptureTaskGrpBegin(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRICaptureTaskGrpBegin(stream), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  CHECK_CODE(aclmdlRICaptureTaskGrpEnd(stream, &none), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  begin(stream);
  CHECK_CODE(aclmdlRICaptureTaskGrpEnd(stream, &none), ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  CHECK_OK(aclmdlRICaptureTaskGrpBegin(stream));
  CHECK_CODE(aclmdlRICaptureTaskGrpBegin(stream), ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  CHECK_OK(set(stream, 0, 1));
  CHECK_OK(set(stream, 1, 1));
  CHECK_OK(aclmdlRICaptureTaskGrpEnd(stream, &group));
  CHECK_OK(set(stream, 2, 1));
  aclmdlRI model = end(stream);
  const auto run = [&](uint32_t expected) {
    CHECK_OK(aclrtMemset(words, 64, 0, 64));
    CHECK_OK(aclmdlRIExecuteAsync(model, stream));
    sync(stream);
    CHECK_EQ(words[0] + words[1] + words[2], expected);
  };
  run(3);
  CHECK_CODE(aclmdlRICaptureTaskUpdateBegin(updater, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRICaptureTaskUpdateEnd(updater), ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  CHECK_OK(aclmdlRICaptureTaskUpdateBegin(updater, group));
  CHECK_CODE(aclmdlRICaptureTaskUpdateBegin(stream, group), ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  CHECK_CODE(aclrtMemsetAsync(words, 4, 0, 4, updater), ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT);
  CHECK_CODE(aclmdlRIDestroy(model), ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  CHECK_OK(set(updater, 0, 10));
  CHECK_OK(set(updater, 1, 20));
  CHECK_CODE(set(updater, 1, 20), ACL_ERROR_RT_MODEL_UPDATE_FAILED);  // there were two
  CHECK_OK(aclmdlRICaptureTaskUpdateEnd(updater));
  sync(updater);
  run(31);
  run(31);
  // Too few.
  CHECK_OK(aclmdlRICaptureTaskUpdateBegin(updater, group));
  CHECK_OK(set(updater, 0, 5));
  CHECK_CODE(aclmdlRICaptureTaskUpdateEnd(updater), ACL_ERROR_RT_INTERNAL_ERROR);
  sync(updater);
  run(26);
  CHECK_OK(aclrtMemsetAsync(words, 4, 0, 4, updater));  // an ordinary stream again
  sync(updater);
  begin(updater);
  CHECK_CODE(aclmdlRICaptureTaskUpdateBegin(updater, group), ACL_ERROR_RT_STREAM_CAPTURED);
  CHECK_OK(aclmdlRIDestroy(end(updater)));
  CHECK_OK(aclmdlRIDestroy(model));

  // A group takes kernels alone, and must be ended.
  begin(stream);
  CHECK_OK(aclmdlRICaptureTaskGrpBegin(stream));
  CHECK_CODE(aclmdlRICaptureTaskUpdateBegin(updater, group), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(set(stream, 0, 1));
  CHECK_CODE(aclmdlRICaptureEnd(stream, &model), ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  CHECK(model == nullptr);
  begin(stream);
  CHECK_OK(aclmdlRICaptureTaskGrpBegin(stream));
  CHECK_CODE(aclrtMemsetAsync(words, 4, 0, 4, stream), ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT);
  CHECK_CODE(aclmdlRICaptureEnd(stream, &model), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  CHECK_OK(aclrtFree(words));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyStream(updater));
}

/// The pattern of the manual: the graph waits for an event of the outside before the group, so that each run can
/// have its group updated first.
void an_update_before_each_run() {
  aclrtStream stream = new_stream(), updater = new_stream();
  aclrtEvent external = nullptr;
  CHECK_OK(aclrtCreateEventWithFlag(&external, ACL_EVENT_EXTERNAL));
  uint32_t *word = static_cast<uint32_t *>(device_memory(64));
  aclrtTaskGrp group = nullptr;
  begin(stream);
  CHECK_OK(aclrtStreamWaitEvent(stream, external));
  CHECK_OK(aclrtResetEvent(external, stream));
  CHECK_OK(aclmdlRICaptureTaskGrpBegin(stream));
  CHECK_OK(aclrtMemsetD32Async(word, 64, 0, 1, stream));
  CHECK_OK(aclmdlRICaptureTaskGrpEnd(stream, &group));
  CHECK_OK(aclrtMemcpyAsync(g_host, 4, word, 4, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  aclmdlRI model = end(stream);
  int32_t id = -1;
  CHECK_OK(aclrtStreamGetId(updater, &id));
  for (uint32_t run = 1; run <= 5; ++run) {
    CHECK_OK(aiocann_sim_hold(0, id));
    CHECK_OK(aclmdlRIExecuteAsync(model, stream));
    CHECK_OK(aclmdlRICaptureTaskUpdateBegin(updater, group));
    CHECK_OK(aclrtMemsetD32Async(word, 64, 100 + run, 1, updater));
    CHECK_OK(aclmdlRICaptureTaskUpdateEnd(updater));
    CHECK_OK(aclrtRecordEvent(external, updater));
    still_blocked(stream);  // the update is a task of its stream, and has not run
    CHECK_OK(aiocann_sim_release(0, id));
    sync(stream);
    uint32_t found = 0;
    memcpy(&found, g_host, 4);
    CHECK_EQ(found, 100 + run);
  }
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtDestroyEvent(external));
  CHECK_OK(aclrtFree(word));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyStream(updater));
}

void a_fault_ends_the_replay() {
  aclrtStream stream = new_stream();
  begin(stream);
  for (char i = 0; i < 3; ++i) fill(stream, 1, static_cast<size_t>(i));
  aclmdlRI model = end(stream);
  memset(g_host, 0, 8);
  CHECK_OK(aiocann_sim_inject("copy", "memset", 2, 0));
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_DEVICE_MEM_ERROR);
  CHECK_EQ(g_host[0] + g_host[1] + g_host[2], 1);
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  sync(stream);
  CHECK_EQ(g_host[0] + g_host[1] + g_host[2], 3);
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtDestroyStream(stream));
}

void values_and_notifies_in_a_graph() {
  aclrtStream stream = new_stream(), outside = new_stream();
  aclrtNotify notify = nullptr;
  CHECK_OK(aclrtCreateNotify(&notify, 0));
  uint64_t *memory = static_cast<uint64_t *>(device_memory(64));
  CHECK_OK(aclrtMemset(memory, 64, 0, 64));
  begin(stream);
  CHECK_OK(aclrtValueWait(memory, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
  CHECK_OK(aclrtValueWrite(memory, 2, 0, stream));
  CHECK_OK(aclrtWaitAndResetNotify(notify, stream, 0));
  CHECK_OK(aclrtValueWrite(memory, 3, 0, stream));
  aclmdlRI model = end(stream);
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  still_blocked(stream);
  CHECK_OK(aclrtValueWrite(memory, 1, 0, outside));
  still_blocked(stream);
  CHECK_EQ(__atomic_load_n(memory, __ATOMIC_ACQUIRE), 2);
  CHECK_OK(aclrtRecordNotify(notify, outside));
  sync(stream);
  CHECK_EQ(*memory, 3);
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtDestroyNotify(notify));
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyStream(outside));
}

void a_running_model_is_not_destroyed() {
  aclrtStream stream = new_stream();
  begin(stream);
  fill(stream, 1);
  aclmdlRI model = end(stream);
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  std::thread releaser([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK_OK(aiocann_sim_release(0, -1));
  });
  CHECK_OK(aclmdlRIDestroy(model));  // waits a while
  releaser.join();
  sync(stream);
  CHECK_OK(aclrtDestroyStream(stream));
}

/// Destroying a model that goes on running is given up after ten seconds. Takes those: on a thread beside the rest.
class PatientDestruction {
 public:
  PatientDestruction() {
    CHECK_OK(aclrtCreateEventWithFlag(&external_, ACL_EVENT_EXTERNAL));
    begin(stream_);
    CHECK_OK(aclrtStreamWaitEvent(stream_, external_));
    model_ = end(stream_);
    CHECK_OK(aclmdlRIExecuteAsync(model_, stream_));
    thread_ = std::thread([this] {
      CHECK_OK(aclrtSetDevice(0));
      const auto start = std::chrono::steady_clock::now();
      CHECK_CODE(aclmdlRIDestroy(model_), ACL_ERROR_RT_MODEL_RUNNING);
      CHECK(std::chrono::steady_clock::now() - start >= std::chrono::seconds(10));
      CHECK_OK(aclrtResetDevice(0));
    });
  }
  void wait() {
    thread_.join();
    CHECK_OK(aclrtRecordEvent(external_, nullptr));
    sync(stream_);
    CHECK_OK(aclmdlRIDestroy(model_));
    CHECK_OK(aclrtDestroyEvent(external_));
    CHECK_OK(aclrtDestroyStream(stream_));
  }

 private:
  aclrtStream stream_ = new_stream();
  aclrtEvent external_ = nullptr;
  aclmdlRI model_ = nullptr;
  std::thread thread_;
};

void destroying_is_given_up(PatientDestruction &patient) { patient.wait(); }

void names_and_prints() {
  aclrtStream stream = new_stream();
  begin(stream);
  fill(stream, 1);
  aclmdlRI model = end(stream);
  uint32_t id = 0;
  char name[16] = "x";
  CHECK_OK(aclmdlRIGetId(model, &id));
  CHECK(id > 0);
  CHECK_OK(aclmdlRIGetName(model, sizeof name, name));
  CHECK_EQ(std::string(name), "");
  CHECK_OK(aclmdlRISetName(model, "graph"));
  CHECK_CODE(aclmdlRIGetName(model, 5, name), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclmdlRIGetName(model, 6, name));
  CHECK_EQ(std::string(name), "graph");
  CHECK_OK(aclmdlRIDebugPrint(model));
  const std::string path = temporary_file();
  CHECK_OK(aclmdlRIDebugJsonPrint(model, path.c_str(), ACL_MDLRI_DEBUG_JSON_PRINT_SUMMARY));
  FILE *file = fopen(path.c_str(), "r");
  char text[512] = "";
  CHECK(fread(text, 1, sizeof text - 1, file) > 0);
  fclose(file);
  remove(path.c_str());
  CHECK_CONTAINS(std::string(text), "\"name\": \"memset\"");
  CHECK_CODE(aclmdlRIDebugJsonPrint(model, "/nowhere/x", 0), ACL_ERROR_INVALID_FILE);
  CHECK_CODE(aclmdlRIDebugJsonPrint(model, path.c_str(), 2), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtDestroyStream(stream));
}

}  // namespace

int main() {
  start(1);
  g_host = static_cast<char *>(pinned_memory(64));
  PatientDestruction patient;
  replays_are_repeatable();
  branches_run_in_their_order();
  an_external_event_holds_its_branch();
  events_with_the_external_flag();
  task_groups_are_updated();
  an_update_before_each_run();
  a_fault_ends_the_replay();
  values_and_notifies_in_a_graph();
  a_running_model_is_not_destroyed();
  names_and_prints();
  destroying_is_given_up(patient);
  return 0;
}
