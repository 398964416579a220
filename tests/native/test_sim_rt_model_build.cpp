// Graphs that are built from streams: binding, labels, switching and activating streams, their end.
#include <algorithm>

#include "sim_rt.hpp"
#include "sim_subscriber.hpp"

namespace {

char *g_host = nullptr;  // pinned
uint64_t g_misuse = 0;

/// Looks while the device may write: that is what it is for.
__attribute__((no_sanitize_thread, noinline)) int peek(size_t at) {
  return const_cast<volatile char *>(g_host)[at];
}

void fill(aclrtStream stream, char value, size_t at) {
  CHECK_OK(aclrtMemsetAsync(g_host + at, 1, value, 1, stream));
}

aclrtStream persistent_stream() {
  aclrtStream stream = nullptr;
  CHECK_OK(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_PERSISTENT));
  return stream;
}

template <class T>
T *device_value(T value) {
  auto *pointer = static_cast<T *>(device_memory(sizeof(T)));
  CHECK_OK(aclrtMemcpy(pointer, sizeof value, &value, sizeof value, ACL_MEMCPY_HOST_TO_DEVICE));
  return pointer;
}

template <class T>
void set(T *pointer, T value) {
  CHECK_OK(aclrtMemcpy(pointer, sizeof value, &value, sizeof value, ACL_MEMCPY_HOST_TO_DEVICE));
}

/// A model of streams bound to it; the first one begins.
struct Built {
  explicit Built(int streams) {
    CHECK_OK(aclmdlRIBuildBegin(&model, 0));
    for (int i = 0; i < streams; ++i) {
      of.push_back(persistent_stream());
      CHECK_OK(aclmdlRIBindStream(
          model, of[i], i == 0 ? ACL_MODEL_STREAM_FLAG_HEAD : ACL_MODEL_STREAM_FLAG_DEFAULT));
    }
  }
  ~Built() {
    for (aclrtStream stream : of) CHECK_OK(aclmdlRIUnbindStream(model, stream));
    CHECK_OK(aclmdlRIDestroy(model));
    for (aclrtStream stream : of) CHECK_OK(aclrtDestroyStream(stream));
  }
  void end(int on) {
    CHECK_OK(aclmdlRIEndTask(model, of[on]));
    CHECK_OK(aclmdlRIBuildEnd(model, nullptr));
  }
  void run(aclrtStream stream) {
    memset(g_host, 0, 64);
    CHECK_OK(aclmdlRIExecuteAsync(model, stream));
    sync(stream);
  }
  aclmdlRI model = nullptr;
  std::vector<aclrtStream> of;
};

void binding_rules() {
  CHECK_CODE(aclmdlRIBuildBegin(nullptr, 0), ACL_ERROR_INVALID_PARAM);
  aclmdlRI model = nullptr, other = nullptr;
  CHECK_OK(aclmdlRIBuildBegin(&model, 0));
  CHECK_OK(aclmdlRIBuildBegin(&other, 0));
  aclrtStream plain = new_stream(), stream = persistent_stream();
  aclrtStream fast = nullptr, device_only = nullptr;
  CHECK_OK(aclrtCreateStreamWithConfig(&fast, 0, ACL_STREAM_PERSISTENT | ACL_STREAM_FAST_LAUNCH));
  CHECK_OK(aclrtCreateStreamWithConfig(&device_only, 0, ACL_STREAM_DEVICE_USE_ONLY));
  CHECK_CODE(aclmdlRIBindStream(nullptr, stream, 0), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRIBindStream(&model, stream, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclmdlRIBindStream(model, nullptr, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclmdlRIBindStream(model, plain, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclmdlRIBindStream(model, fast, 0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclmdlRIBindStream(model, device_only, 0), ACL_ERROR_RT_INTERNAL_ERROR);
  CHECK_OK(aclmdlRIBindStream(model, stream, 0));
  CHECK_CODE(aclmdlRIBindStream(model, stream, 0), ACL_ERROR_RT_STREAM_MODEL);
  CHECK_CODE(aclmdlRIBindStream(other, stream, 0), ACL_ERROR_RT_STREAM_MODEL);
  CHECK_CODE(aclmdlRIUnbindStream(other, stream), ACL_ERROR_RT_STREAM_MODEL);
  // What a bound stream does not take.
  CHECK_CODE(aclrtStreamAbort(stream), ACL_ERROR_RT_INTERNAL_ERROR);
  CHECK_CODE(aclrtStreamStop(stream), ACL_ERROR_RT_INTERNAL_ERROR);
  CHECK_CODE(aclrtSetStreamFailureMode(stream, 1), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  aclrtEvent ex = new_event(), plain_event = nullptr;
  CHECK_OK(aclrtCreateEvent(&plain_event));
  for (aclrtEvent event : {ex, plain_event}) {
    CHECK_CODE(aclrtRecordEvent(event, stream), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_CODE(aclrtStreamWaitEvent(stream, event), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_OK(aclrtDestroyEvent(event));
  }
  // The end.
  CHECK_CODE(aclmdlRIEndTask(nullptr, stream), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRIEndTask(model, plain), ACL_ERROR_RT_INTERNAL_ERROR);
  CHECK_CODE(aclmdlRIEndTask(other, stream), ACL_ERROR_RT_INTERNAL_ERROR);
  CHECK_CODE(aclmdlRIExecuteAsync(model, plain), ACL_ERROR_RT_MODEL_EXECUTE);  // still built
  CHECK_OK(aclmdlRIEndTask(model, stream));
  CHECK_CODE(aclmdlRIEndTask(model, stream), ACL_ERROR_RT_INTERNAL_ERROR);  // one alone
  CHECK_CODE(aclmdlRIBuildEnd(nullptr, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRIBuildEnd(model, &model), ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclmdlRIBuildEnd(model, nullptr));
  CHECK_CODE(aclrtMemsetAsync(g_host, 1, 1, 1, stream), ACL_ERROR_RT_STREAM_MODEL);
  CHECK_OK(aclmdlRIBuildEnd(other, nullptr));
  CHECK_CODE(aclmdlRIExecuteAsync(other, plain), ACL_ERROR_RT_MODEL_EXECUTE);  // has no end
  CHECK_CODE(aclmdlRIExecuteAsync(model, stream), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclmdlRIExecuteAsync(model, plain));
  sync(plain);
  CHECK_OK(aclmdlRIExecute(model, kLongMs));
  CHECK_OK(aclmdlRIUnbindStream(model, stream));
  CHECK_CODE(aclmdlRIExecuteAsync(model, plain), ACL_ERROR_RT_STREAM_MODEL);
  // A stream can be part of another graph then; destroying that lets go of it.
  aclmdlRI third = nullptr;
  CHECK_OK(aclmdlRIBuildBegin(&third, 0));
  CHECK_OK(aclmdlRIBindStream(third, stream, 0));
  for (aclmdlRI m : {model, other, third}) CHECK_OK(aclmdlRIDestroy(m));
  CHECK_OK(aclrtMemsetAsync(g_host, 1, 77, 1, stream));
  wait_until([] { return peek(0) == 77; });
  for (aclrtStream s : {plain, stream, fast, device_only}) CHECK_OK(aclrtDestroyStream(s));
  // A captured graph is no built one.
  aclrtStream captured = new_stream();
  CHECK_OK(aclmdlRICaptureBegin(captured, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  CHECK_OK(aclmdlRICaptureEnd(captured, &model));
  CHECK_CODE(aclmdlRIBindStream(model, captured, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclmdlRIEndTask(model, captured), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclmdlRIBuildEnd(model, nullptr), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclmdlRIUnbindStream(model, captured), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtDestroyStream(captured));
}

/// Nothing runs before the model does; then all of it, as often as wanted, with what memory holds then.
void replays_are_exact() {
  Built built(1);
  char *device = static_cast<char *>(device_memory(64));
  char pageable = 5;
  // Ordinary memory is copied when the call is made: the stream has nothing to wait for.
  CHECK_OK(aclrtMemcpyAsync(device + 32, 1, &pageable, 1, ACL_MEMCPY_HOST_TO_DEVICE, built.of[0]));
  CHECK_OK(aclrtMemcpy(g_host, 1, device + 32, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  CHECK_EQ(g_host[0], 5);
  CHECK_OK(aclrtMemcpyAsync(device, 1, g_host, 1, ACL_MEMCPY_HOST_TO_DEVICE, built.of[0]));
  CHECK_OK(aclrtMemcpyAsync(g_host + 1, 1, device, 1, ACL_MEMCPY_DEVICE_TO_HOST, built.of[0]));
  g_host[1] = 0;
  CHECK_EQ(query(built.of[0]), ACL_STREAM_STATUS_COMPLETE);
  CHECK_OK(aclrtSynchronizeDevice());
  built.end(0);
  CHECK_EQ(g_host[1], 0);
  aclrtStream stream = new_stream();
  for (int i = 1; i < 10; ++i) {
    g_host[0] = static_cast<char>(i);
    CHECK_OK(aclmdlRIExecuteAsync(built.model, i % 2 == 0 ? stream : nullptr));
    sync(i % 2 == 0 ? stream : nullptr);
    CHECK_EQ(g_host[1], i);
  }
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(device));
}

void labels_are_gone_to() {
  Built built(2);
  aclrtStream stream = new_stream();
  auto *index = device_value<uint32_t>(0);
  aclrtLabel labels[3] = {}, spare = nullptr;
  aclrtLabelList list = nullptr, second = nullptr;
  CHECK_CODE(aclrtCreateLabel(nullptr), ACL_ERROR_INVALID_PARAM);
  for (aclrtLabel &label : labels) CHECK_OK(aclrtCreateLabel(&label));
  CHECK_OK(aclrtCreateLabel(&spare));
  CHECK_CODE(aclrtCreateLabelList(nullptr, 3, &list), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtCreateLabelList(labels, 0, &list), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtSetLabel(labels[0], built.of[0]), ACL_ERROR_RT_INTERNAL_ERROR);  // in no list
  CHECK_OK(aclrtCreateLabelList(labels, 3, &list));
  CHECK_CODE(aclrtCreateLabelList(labels, 1, &second), ACL_ERROR_RT_INTERNAL_ERROR);
  CHECK_CODE(aclrtSetLabel(labels[0], stream), ACL_ERROR_RT_STREAM_MODEL);
  CHECK_CODE(aclrtSetLabel(nullptr, stream), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtSetLabel(labels[0], nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtSwitchLabelByIndex(index, 3, list, stream), ACL_ERROR_RT_STREAM_MODEL);
  CHECK_CODE(aclrtSwitchLabelByIndex(nullptr, 3, list, built.of[0]), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtSwitchLabelByIndex(index, 4, list, built.of[0]), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtSwitchLabelByIndex(index, 3, labels, built.of[0]), ACL_ERROR_RT_PARAM_INVALID);

  // 0: all of the first stream; 1: from its second fill on; 2 and above: the second stream, which leads back.
  auto *end = device_value<uint32_t>(1);
  CHECK_OK(aclrtSwitchLabelByIndex(index, 3, list, built.of[0]));
  fill(built.of[0], 9, 9);  // never runs
  CHECK_OK(aclrtSetLabel(labels[0], built.of[0]));
  CHECK_CODE(aclrtSetLabel(labels[0], built.of[0]), ACL_ERROR_RT_INTERNAL_ERROR);
  fill(built.of[0], 1, 0);
  CHECK_OK(aclrtSetLabel(labels[1], built.of[0]));
  fill(built.of[0], 2, 1);
  fill(built.of[1], 9, 8);  // never runs: the label is behind it
  CHECK_OK(aclrtSetLabel(labels[2], built.of[1]));
  fill(built.of[1], 3, 2);
  CHECK_OK(aclrtSwitchLabelByIndex(end, 3, list, built.of[1]));
  built.end(0);
  const char expected[4][3] = {{1, 2, 0}, {0, 2, 0}, {0, 2, 3}, {0, 2, 3}};
  for (uint32_t i : {0u, 1u, 2u, 100u, 0u}) {
    set(index, i);
    built.run(stream);
    CHECK_EQ(memcmp(g_host, expected[std::min(i, 3u)], 3), 0);
    CHECK_EQ(g_host[8] + g_host[9], 0);
  }
  CHECK_OK(aclrtDestroyLabelList(list));
  CHECK_CODE(aclrtDestroyLabelList(list), ACL_ERROR_RT_PARAM_INVALID);
  for (aclrtLabel label : {labels[0], labels[1], labels[2], spare}) {
    CHECK_OK(aclrtDestroyLabel(label));
    CHECK_CODE(aclrtDestroyLabel(label), ACL_ERROR_RT_PARAM_INVALID);
  }
  set(index, 2u);
  built.run(stream);  // the graph keeps what it goes by
  CHECK_EQ(g_host[2], 3);
  aclrtContext context = nullptr;
  CHECK_OK(aclrtCreateLabel(&spare));
  CHECK_OK(aclrtCreateContext(&context, 0));
  CHECK_CODE(aclrtDestroyLabel(spare), ACL_ERROR_RT_LABEL_CONTEXT);
  CHECK_OK(aclrtDestroyContext(context));
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtDestroyLabel(spare));
  CHECK_OK(aclrtFree(index));
  CHECK_OK(aclrtFree(end));
  CHECK_OK(aclrtDestroyStream(stream));
}

/// A loop: the label is before the switch.
void labels_make_loops() {
  Built built(1);
  aclrtStream stream = new_stream();
  auto *table = static_cast<uint32_t *>(device_memory(64 * sizeof(uint32_t)));
  aclrtLabel labels[2] = {};
  aclrtLabelList list = nullptr;
  for (aclrtLabel &label : labels) CHECK_OK(aclrtCreateLabel(&label));
  CHECK_OK(aclrtCreateLabelList(labels, 2, &list));
  // Each turn moves the table on by one; the first entry says whether there is another.
  const uint32_t turns[8] = {0, 0, 0, 0, 1, 1, 1, 1};
  static std::atomic<int> bodies;
  CHECK_OK(aclrtSetLabel(labels[0], built.of[0]));
  CHECK_OK(aclrtLaunchHostFunc(built.of[0], [](void *) { bodies.fetch_add(1); }, nullptr));
  for (int i = 0; i < 7; ++i)
    CHECK_OK(
        aclrtMemcpyAsync(table + i, 4, table + i + 1, 4, ACL_MEMCPY_DEVICE_TO_DEVICE, built.of[0]));
  CHECK_OK(aclrtSwitchLabelByIndex(table, 2, list, built.of[0]));
  CHECK_OK(aclrtSetLabel(labels[1], built.of[0]));
  fill(built.of[0], 4, 4);
  built.end(0);
  for (int i = 0; i < 3; ++i) {
    bodies = 0;
    CHECK_OK(aclrtMemcpy(table, sizeof turns, turns, sizeof turns, ACL_MEMCPY_HOST_TO_DEVICE));
    built.run(stream);
    CHECK_EQ(bodies.load(), 4);
    CHECK_EQ(g_host[4], 4);
  }
  CHECK_OK(aclrtDestroyLabelList(list));
  for (aclrtLabel label : labels) CHECK_OK(aclrtDestroyLabel(label));
  CHECK_OK(aclrtFree(table));
  CHECK_OK(aclrtDestroyStream(stream));
}

void streams_are_switched_and_activated() {
  Built built(5);  // begin, one, two, both, end
  aclrtStream stream = new_stream(), unbound = persistent_stream();
  auto *value = device_value<int32_t>(1);
  auto *one = device_value<int32_t>(1), *two = device_value<int32_t>(2);
  const auto &of = built.of;
  CHECK_CODE(aclrtActiveStream(nullptr, of[0]), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtActiveStream(unbound, of[0]), ACL_ERROR_RT_STREAM_MODEL);
  CHECK_CODE(aclrtActiveStream(of[0], unbound), ACL_ERROR_RT_STREAM_MODEL);
  const auto go = [&](int32_t *right, aclrtStream to, aclrtStream from) {
    return aclrtSwitchStream(value, ACL_RT_EQUAL, right, ACL_RT_SWITCH_INT32, to, nullptr, from);
  };
  CHECK_CODE(go(nullptr, of[1], of[0]), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(go(one, unbound, of[0]), ACL_ERROR_RT_STREAM_MODEL);
  CHECK_CODE(go(one, of[1], unbound), ACL_ERROR_RT_STREAM_MODEL);
  CHECK_CODE(aclrtSwitchStream(value, ACL_RT_EQUAL, one, ACL_RT_SWITCH_INT32, of[1], of[2], of[0]),
             ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtSwitchStream(value, static_cast<aclrtCondition>(6), one, ACL_RT_SWITCH_INT32,
                               of[1], nullptr, of[0]),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtSwitchStream(value, ACL_RT_EQUAL, one, static_cast<aclrtCompareDataType>(2),
                               of[1], nullptr, of[0]),
             ACL_ERROR_RT_PARAM_INVALID);
  fill(of[0], 1, 0);
  CHECK_OK(go(one, of[1], of[0]));
  CHECK_OK(go(two, of[3], of[0]));
  fill(of[0], 5, 5);  // when neither is true
  CHECK_OK(aclrtActiveStream(of[4], of[0]));
  fill(of[1], 2, 1);
  CHECK_OK(aclrtActiveStream(of[4], of[1]));
  fill(of[3], 4, 3);
  CHECK_OK(aclrtActiveStream(of[2], of[3]));
  fill(of[2], 3, 2);
  CHECK_OK(aclrtActiveStream(of[4], of[2]));
  fill(of[4], 6, 6);
  built.end(4);
  const char expected[4][7] = {
      {1, 0, 0, 0, 0, 5, 6}, {1, 2, 0, 0, 0, 0, 6}, {1, 0, 3, 4, 0, 0, 6}, {1, 0, 0, 0, 0, 5, 6}};
  for (int32_t i : {1, 2, 0, 3, 1}) {
    set(value, i);
    built.run(stream);
    CHECK_EQ(memcmp(g_host, expected[i], 7), 0);
  }
  for (int32_t *pointer : {value, one, two}) CHECK_OK(aclrtFree(pointer));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyStream(unbound));
}

void every_condition_is_known() {
  aclrtStream stream = new_stream();
  auto *left = device_value<int64_t>(0), *right = device_value<int64_t>(0);
  const bool expected[6][3] = {// left is less, equal, greater
                               {false, true, false}, {true, false, true},  {false, false, true},
                               {false, true, true},  {true, false, false}, {true, true, false}};
  for (int condition = ACL_RT_EQUAL; condition <= ACL_RT_LESS_OR_EQUAL; ++condition) {
    Built built(2);
    CHECK_OK(aclrtSwitchStream(left, static_cast<aclrtCondition>(condition), right,
                               ACL_RT_SWITCH_INT64, built.of[1], nullptr, built.of[0]));
    CHECK_OK(aclrtActiveStream(built.of[1], built.of[0]));
    fill(built.of[0], 1, 0);
    fill(built.of[1], 2, 1);
    built.end(1);
    for (int i = 0; i < 3; ++i) {
      // In their high halves alone they differ.
      set(left, (int64_t{i} - 1) * (int64_t{1} << 32));
      built.run(stream);
      CHECK_EQ(g_host[0], expected[condition][i] ? 0 : 1);
      CHECK_EQ(g_host[1], 2);
    }
  }
  CHECK_OK(aclrtFree(left));
  CHECK_OK(aclrtFree(right));
  CHECK_OK(aclrtDestroyStream(stream));
}

/// Streams of one graph wait for one another by flags and notifies; what waits holds its stream alone.
void streams_of_a_graph_wait_for_one_another() {
  aclmdlRI model = nullptr;
  CHECK_OK(aclmdlRIBuildBegin(&model, 0));
  aclrtStream first = persistent_stream(), second = persistent_stream(), stream = new_stream();
  CHECK_OK(aclmdlRIBindStream(model, first, ACL_MODEL_STREAM_FLAG_HEAD));
  CHECK_OK(aclmdlRIBindStream(model, second, ACL_MODEL_STREAM_FLAG_HEAD));
  aclrtEvent flag = nullptr;
  aclrtNotify notify = nullptr;
  CHECK_OK(aclrtCreateEventWithFlag(&flag, ACL_EVENT_SYNC));
  CHECK_OK(aclrtCreateNotify(&notify, 0));
  CHECK_OK(aclrtStreamWaitEvent(first, flag));
  CHECK_OK(aclrtResetEvent(flag, first));
  fill(first, 1, 1);
  CHECK_OK(aclrtRecordNotify(notify, first));
  fill(second, 2, 2);
  CHECK_OK(aclrtWaitAndResetNotify(notify, second, 0));
  fill(second, 3, 3);
  CHECK_OK(aclmdlRIEndTask(model, second));
  CHECK_OK(aclmdlRIBuildEnd(model, nullptr));
  aclrtStream outside = new_stream();
  for (int i = 0; i < 3; ++i) {
    memset(g_host, 0, 64);
    CHECK_OK(aclmdlRIExecuteAsync(model, stream));
    wait_until([] { return peek(2) == 2; });
    CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK_EQ(peek(1) + peek(3), 0);
    CHECK_OK(aclrtRecordEvent(flag, outside));
    sync(stream);
    CHECK_EQ(g_host[1], 1);
    CHECK_EQ(g_host[3], 3);
  }
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtDestroyEvent(flag));
  CHECK_OK(aclrtDestroyNotify(notify));
  for (aclrtStream s : {first, second, stream, outside}) CHECK_OK(aclrtDestroyStream(s));
}

/// An end that is never reached is waited for, as on hardware; the simulator says so, and aborting ends it.
void an_end_that_is_not_reached() {
  Built built(2);
  aclrtStream stream = new_stream();
  fill(built.of[0], 1, 0);
  built.end(1);
  CHECK_EQ(counter("misuse"), g_misuse);
  memset(g_host, 0, 64);
  CHECK_OK(aclmdlRIExecuteAsync(built.model, stream));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_EQ(peek(0), 1);
  CHECK_CONTAINS(std::string(aiocann_sim_last_misuse()), "waits for its end for ever");
  CHECK_EQ(counter("misuse"), g_misuse + 1);
  CHECK_OK(aclrtStreamAbort(stream));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_ABORT);
  CHECK_OK(aclrtDestroyStream(stream));
}

void other_machines() {
  CHECK_OK(aclrtResetDeviceForce(0));
  configure("soc", "Ascend910_9391");
  CHECK_OK(aclrtSetDevice(0));
  Built built(2);
  auto *value = device_value<int32_t>(1);
  CHECK_CODE(aclrtActiveStream(built.of[1], built.of[0]), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtSwitchStream(value, ACL_RT_EQUAL, value, ACL_RT_SWITCH_INT32, built.of[1],
                               nullptr, built.of[0]),
             ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_OK(aclrtFree(value));
}

}  // namespace

int main() {
  start(1);
  g_host = static_cast<char *>(pinned_memory(64));
  g_misuse = counter("misuse");
  binding_rules();
  replays_are_exact();
  labels_are_gone_to();
  labels_make_loops();
  streams_are_switched_and_activated();
  every_condition_is_known();
  streams_of_a_graph_wait_for_one_another();
  an_end_that_is_not_reached();
  CHECK_OK(aclrtFreeHost(g_host));
  other_machines();
  return 0;
}
