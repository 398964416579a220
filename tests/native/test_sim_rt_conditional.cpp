// Conditional tasks of captured graphs: if, while and switch, their bodies, and what bodies are not.
#include "sim_rt.hpp"

namespace {

constexpr auto kMode = ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
char *g_host = nullptr;  // pinned

void fill(aclrtStream stream, char value, size_t at) {
  CHECK_OK(aclrtMemsetAsync(g_host + at, 1, value, 1, stream));
}

aclmdlRI model_of(aclrtStream stream) {
  aclmdlRI model = nullptr;
  CHECK_OK(aclmdlRICaptureGetInfo(stream, nullptr, &model));
  return model;
}

uint64_t *value_of(aclmdlRICondHandle handle) {
  uint64_t *pointer = nullptr;
  CHECK_OK(aclmdlRICondHandleGetCondPtr(handle, &pointer));
  return pointer;
}

void set(uint64_t *pointer, uint64_t value) {
  CHECK_OK(aclrtMemcpy(pointer, 8, &value, 8, ACL_MEMCPY_HOST_TO_DEVICE));
}

/// A condition with a default, or without one (-1).
aclmdlRICondHandle new_condition(aclrtStream stream, int initial = -1) {
  aclmdlRICondHandle handle = nullptr;
  const auto flag = initial < 0 ? static_cast<aclmdlRICondHandleFlag>(0)
                                : ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT;
  CHECK_OK(
      aclmdlRICondHandleCreate(model_of(stream), static_cast<uint32_t>(initial), flag, &handle));
  return handle;
}

std::vector<aclmdlRI> add(aclmdlRICondHandle handle, aclmdlRICondTaskType type, uint32_t size,
                          aclrtStream stream) {
  std::vector<aclmdlRI> bodies(size);
  aclmdlRICondTaskParams params{};
  params.handle = handle;
  params.type = type;
  params.size = size;
  params.modelRIArray = bodies.data();
  CHECK_OK(aclmdlRIAddCondTask(params, stream, 0));
  return bodies;
}

template <class Fn>
void capture_body(aclmdlRI body, aclrtStream stream, Fn &&fn) {
  CHECK_OK(aclmdlRICaptureToModelRIBegin(stream, body, kMode));
  CHECK_EQ(model_of(stream), body);
  fn();
  CHECK_OK(aclmdlRICaptureEnd(stream, nullptr));
}

aclmdlRI end(aclrtStream stream) {
  aclmdlRI model = nullptr;
  CHECK_OK(aclmdlRICaptureEnd(stream, &model));
  return model;
}

void run(aclmdlRI model, aclrtStream stream) {
  memset(g_host, 0, 64);
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  sync(stream);
}

void if_and_switch() {
  aclrtStream stream = new_stream(), side = new_stream();
  CHECK_OK(aclmdlRICaptureBegin(stream, kMode));
  const aclmdlRICondHandle choice = new_condition(stream), only = new_condition(stream),
                           number = new_condition(stream), fixed = new_condition(stream, 1);
  fill(stream, 1, 0);
  auto bodies = add(choice, ACL_MODEL_RI_COND_TYPE_IF, 2, stream);
  capture_body(bodies[0], side, [&] { fill(side, 2, 1); });
  capture_body(bodies[1], side, [&] { fill(side, 3, 2); });
  bodies = add(only, ACL_MODEL_RI_COND_TYPE_IF, 1, stream);
  capture_body(bodies[0], side, [&] { fill(side, 4, 3); });
  bodies = add(number, ACL_MODEL_RI_COND_TYPE_SWITCH, 3, stream);
  for (int i = 0; i < 3; ++i)
    capture_body(bodies[i], side, [&] { fill(side, static_cast<char>(10 + i), 4); });
  bodies = add(fixed, ACL_MODEL_RI_COND_TYPE_SWITCH, 2, stream);  // 0 stays empty
  capture_body(bodies[1], side, [&] { fill(side, 20, 5); });
  fill(stream, 6, 6);
  const aclmdlRI model = end(stream);
  uint64_t *const choice_value = value_of(choice), *const only_value = value_of(only),
                  *const number_value = value_of(number), *const fixed_value = value_of(fixed);
  for (const uint64_t i : {0, 1, 2, 7, 0}) {
    set(choice_value, i);
    set(only_value, i);
    set(number_value, i);
    set(fixed_value, 0);  // its default comes back with every run
    run(model, stream);
    CHECK_EQ(g_host[0], 1);
    CHECK_EQ(g_host[1], i != 0 ? 2 : 0);
    CHECK_EQ(g_host[2], i != 0 ? 0 : 3);
    CHECK_EQ(g_host[3], i != 0 ? 4 : 0);
    CHECK_EQ(g_host[4], i < 3 ? 10 + static_cast<int>(i) : 0);
    CHECK_EQ(g_host[5], 20);
    CHECK_EQ(g_host[6], 6);
  }
  CHECK_OK(aclmdlRIDestroy(model));
  uint64_t *gone = nullptr;
  CHECK_CODE(aclmdlRICondHandleGetCondPtr(choice, &gone), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyStream(side));
}

/// A loop runs as long as its body leaves the value alone: here a table says how often. One within another.
void while_within_while() {
  aclrtStream stream = new_stream(), side = new_stream(), deep = new_stream();
  auto *zero = static_cast<uint64_t *>(device_memory(64));
  auto *table = static_cast<uint64_t *>(device_memory(64));
  set(zero, 0);
  static std::atomic<int> outer_turns, inner_turns;
  CHECK_OK(aclmdlRICaptureBegin(stream, kMode));
  const aclmdlRICondHandle outer = new_condition(stream, 1);
  const auto body = add(outer, ACL_MODEL_RI_COND_TYPE_WHILE, 1, stream);
  capture_body(body[0], side, [&] {
    CHECK_OK(aclrtLaunchHostFunc(side, [](void *) { outer_turns.fetch_add(1); }, nullptr));
    CHECK_OK(aclrtMemcpyAsync(value_of(outer), 8, table, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, side));
    CHECK_OK(aclrtMemcpyAsync(table, 8, table + 1, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, side));
    CHECK_OK(aclrtMemcpyAsync(table + 1, 8, table + 2, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, side));
    const aclmdlRICondHandle inner = new_condition(side, 1);
    const auto nested = add(inner, ACL_MODEL_RI_COND_TYPE_WHILE, 1, side);
    capture_body(nested[0], deep, [&] {
      CHECK_OK(aclrtLaunchHostFunc(deep, [](void *) { inner_turns.fetch_add(1); }, nullptr));
      CHECK_OK(aclrtMemcpyAsync(value_of(inner), 8, zero, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, deep));
    });
  });
  const aclmdlRI model = end(stream);
  for (int i = 0; i < 3; ++i) {
    outer_turns = inner_turns = 0;
    const uint64_t turns[3] = {1, 1, 0};
    CHECK_OK(aclrtMemcpy(table, 24, turns, 24, ACL_MEMCPY_HOST_TO_DEVICE));
    run(model, stream);
    CHECK_EQ(outer_turns.load(), 3);
    CHECK_EQ(inner_turns.load(), 1);  // its default is assigned when the whole begins
  }
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtFree(zero));
  CHECK_OK(aclrtFree(table));
  for (aclrtStream s : {stream, side, deep}) CHECK_OK(aclrtDestroyStream(s));
}

/// A body that waits holds its branch alone; a fault in it is one of the whole.
void bodies_wait_and_fail() {
  aclrtStream stream = new_stream(), side = new_stream(), other = new_stream();
  aclrtNotify notify = nullptr;
  CHECK_OK(aclrtCreateNotify(&notify, 0));
  aclrtEvent fork = new_event(), join = new_event();
  CHECK_OK(aclmdlRICaptureBegin(stream, kMode));
  const auto body = add(new_condition(stream, 1), ACL_MODEL_RI_COND_TYPE_IF, 1, stream);
  capture_body(body[0], side, [&] {
    CHECK_OK(aclrtWaitAndResetNotify(notify, side, 0));
    fill(side, 1, 0);
  });
  fill(stream, 2, 1);
  CHECK_OK(aclrtRecordEvent(fork, stream));
  CHECK_OK(aclrtStreamWaitEvent(other, fork));
  CHECK_OK(aclrtRecordEvent(join, other));
  CHECK_OK(aclrtStreamWaitEvent(stream, join));
  const aclmdlRI model = end(stream);
  memset(g_host, 0, 64);
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_EQ(g_host[1], 0);
  CHECK_OK(aclrtRecordNotify(notify, other));
  sync(stream);
  CHECK_EQ(g_host[0] + g_host[1], 3);

  CHECK_OK(aclrtRecordNotify(notify, other));
  CHECK_OK(aiocann_sim_inject("copy", "memset", 1, 0));
  memset(g_host, 0, 64);
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_DEVICE_MEM_ERROR);
  CHECK_EQ(g_host[1], 0);
  // One that is aborted in its body.
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_OK(aclrtStreamAbort(stream));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_ABORT);
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtDestroyNotify(notify));
  for (aclrtEvent event : {fork, join}) CHECK_OK(aclrtDestroyEvent(event));
  for (aclrtStream s : {stream, side, other}) CHECK_OK(aclrtDestroyStream(s));
}

void rules() {
  aclrtStream stream = new_stream(), side = new_stream();
  aclmdlRICondHandle handle = nullptr;
  uint64_t *value = nullptr;
  CHECK_OK(aclmdlRICaptureBegin(stream, kMode));
  const aclmdlRI model = model_of(stream);
  const auto kDefault = ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT;
  CHECK_CODE(aclmdlRICondHandleCreate(nullptr, 0, kDefault, &handle), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRICondHandleCreate(model, 0, kDefault, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRICondHandleCreate(model, 0, static_cast<aclmdlRICondHandleFlag>(2), &handle),
             ACL_ERROR_RT_PARAM_INVALID);
  aclmdlRI built = nullptr;
  CHECK_OK(aclmdlRIBuildBegin(&built, 0));
  CHECK_CODE(aclmdlRICondHandleCreate(built, 0, kDefault, &handle),
             ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclmdlRICaptureToModelRIBegin(side, built, kMode), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclmdlRIDestroy(built));
  CHECK_OK(aclmdlRICondHandleCreate(model, 0, kDefault, &handle));
  CHECK_CODE(aclmdlRICondHandleGetCondPtr(nullptr, &value), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRICondHandleGetCondPtr(handle, nullptr), ACL_ERROR_INVALID_PARAM);

  aclmdlRI bodies[3] = {};
  aclmdlRICondTaskParams params{};
  params.handle = handle;
  params.type = ACL_MODEL_RI_COND_TYPE_IF;
  params.size = 1;
  params.modelRIArray = bodies;
  const auto add_code = [&](auto change, aclrtStream on, uint32_t flags = 0) {
    aclmdlRICondTaskParams changed = params;
    change(changed);
    return aclmdlRIAddCondTask(changed, on, flags);
  };
  using Params = aclmdlRICondTaskParams;
  const auto as_it_is = [](Params &) {};
  CHECK_CODE(add_code(as_it_is, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(add_code(as_it_is, stream, 1), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(add_code(as_it_is, side), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  CHECK_CODE(add_code([](Params &p) { p.handle = nullptr; }, stream), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(add_code([](Params &p) { p.modelRIArray = nullptr; }, stream),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(add_code([](Params &p) { p.size = 3; }, stream), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(add_code([](Params &p) { p.size = 0; }, stream), ACL_ERROR_RT_PARAM_INVALID);
  for (const auto type : {ACL_MODEL_RI_COND_TYPE_WHILE, ACL_MODEL_RI_COND_TYPE_SWITCH}) {
    const uint32_t bad = type == ACL_MODEL_RI_COND_TYPE_WHILE ? 2 : 0;
    CHECK_CODE(add_code([&](Params &p) { p.type = type, p.size = bad; }, stream),
               ACL_ERROR_RT_PARAM_INVALID);
  }
  CHECK_CODE(add_code([](Params &p) { p.type = static_cast<aclmdlRICondTaskType>(3); }, stream),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclmdlRICaptureBegin(side, kMode));
  CHECK_CODE(add_code(as_it_is, side), ACL_ERROR_RT_PARAM_INVALID);  // another graph
  CHECK_OK(aclmdlRIDestroy(end(side)));
  CHECK_OK(add_code(as_it_is, stream));
  CHECK_CODE(add_code(as_it_is, stream), ACL_ERROR_RT_PARAM_INVALID);  // a handle is for one task

  // Bodies come and go with their graph.
  const aclmdlRI body = bodies[0];
  CHECK_CODE(aclmdlRIDestroy(body), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclmdlRIExecuteAsync(body, side), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclmdlRICaptureToModelRIBegin(nullptr, body, kMode), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRICaptureToModelRIBegin(side, nullptr, kMode), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRICaptureToModelRIBegin(side, model, kMode), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclmdlRICaptureToModelRIBegin(stream, body, kMode), ACL_ERROR_RT_STREAM_CAPTURED);
  capture_body(body, side, [&] { fill(side, 1, 0); });
  CHECK_CODE(aclmdlRICaptureToModelRIBegin(side, body, kMode), ACL_ERROR_RT_MODEL_CAPTURED);
  const aclmdlRI whole = end(stream);
  CHECK_EQ(whole, model);
  CHECK_CODE(aclmdlRICondHandleCreate(whole, 0, kDefault, &handle), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclmdlRIDestroy(whole));
  CHECK_CODE(aclmdlRIExecuteAsync(body, side), ACL_ERROR_RT_PARAM_INVALID);

  // A body that is still being captured: the graph fails, and the body's capture with it.
  CHECK_OK(aclmdlRICaptureBegin(stream, kMode));
  auto more = add(new_condition(stream), ACL_MODEL_RI_COND_TYPE_IF, 1, stream);
  CHECK_OK(aclmdlRICaptureToModelRIBegin(side, more[0], kMode));
  aclmdlRI none = model;
  CHECK_CODE(aclmdlRICaptureEnd(stream, &none), ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING);
  CHECK(none == nullptr);
  CHECK_CODE(aclmdlRICaptureEnd(side, &none), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  fill(side, 7, 0);
  sync(side);
  CHECK_EQ(g_host[0], 7);

  // A body whose capture failed spoils its graph.
  CHECK_OK(aclmdlRICaptureBegin(stream, kMode));
  more = add(new_condition(stream), ACL_MODEL_RI_COND_TYPE_IF, 1, stream);
  CHECK_OK(aclmdlRICaptureToModelRIBegin(side, more[0], kMode));
  CHECK_OK(aclmdlRICaptureTaskGrpBegin(side));
  aclmdlRI kept = more[0];
  CHECK_CODE(aclmdlRICaptureEnd(side, &kept), ACL_ERROR_STREAM_TASK_GROUP_STATUS);
  CHECK_EQ(kept, more[0]);
  CHECK_CODE(aclmdlRICaptureEnd(stream, &none), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyStream(side));

  CHECK_OK(aclrtFreeHost(g_host));
  CHECK_OK(aclrtResetDevice(0));
  configure("soc", "Ascend310P3");
  CHECK_OK(aclrtSetDevice(0));
  stream = new_stream();
  CHECK_OK(aclmdlRICaptureBegin(stream, kMode));
  CHECK_CODE(aclmdlRICondHandleCreate(model_of(stream), 0, kDefault, &handle),
             ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_OK(aclmdlRIDestroy(end(stream)));
  CHECK_OK(aclrtDestroyStream(stream));
}

}  // namespace

int main() {
  start(1);
  g_host = static_cast<char *>(pinned_memory(64));
  if_and_switch();
  while_within_while();
  bodies_wait_and_fail();
  CHECK_EQ(counter("misuse"), 0);
  rules();
  return 0;
}
