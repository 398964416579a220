// Every family of completions and every maker of events: what they promise alike, and what each must not do.
#include <time.h>

#include <chrono>

#include "core_driver.hpp"

using namespace core_test;

namespace {

constexpr int32_t kKernelFault = 507015;
const char *const kFamilies[] = {"callback", "callback-block", "host-func", "query"};
const char *const kMakers[] = {"ex", "flag", "plain"};

/// For the runtimes opened while it lives.
class With {
 public:
  With(const char *name, const char *value) : name_(name), before_(setting(name)) {
    setenv(name, value, 1);
  }
  ~With() {
    if (before_.empty()) {
      unsetenv(name_);
    } else {
      setenv(name_, before_.c_str(), 1);
    }
  }

 private:
  const char *name_;
  const std::string before_;
};

template <typename F>
F driver(const char *name) {
  void *library = dlopen(Simulator::path(), RTLD_NOW | RTLD_LOCAL);
  CHECK(library != nullptr);
  void *symbol = dlsym(library, name);
  if (symbol == nullptr) check::fail(__FILE__, __LINE__, name);
  return reinterpret_cast<F>(symbol);
}

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void unknown_settings_are_refused() {
  const aiocann_config config{"sim", Simulator::path(), nullptr, 1};
  aiocann_runtime *rt = nullptr;
  aiocann_op *op = nullptr;
  for (const char *name : {"AIOCANN_COMPLETION", "AIOCANN_EVENTS"}) {
    With setting(name, "telepathy");
    CHECK_EQ(aiocann_runtime_open(&config, nullptr, &rt, &op), AIOCANN_E_USAGE);
    CHECK_CONTAINS(aiocann_last_error()->detail, "telepathy");
    CHECK_CONTAINS(aiocann_last_error()->detail, name);
  }
}

/// Ops of all kinds over several streams, told and untold, all awaited in the end.
void traffic(Runtime &rt) {
  std::vector<aiocann_stream *> streams;
  std::vector<aiocann_mem *> mems;
  for (int i = 0; i < 6; ++i) {
    streams.push_back(rt.stream(i % 2));
    mems.push_back(rt.allocate(4096, i % 2));
  }
  auto bytes = pattern(4096, 3);
  std::vector<std::vector<unsigned char>> backs(streams.size(), std::vector<unsigned char>(4096));
  std::vector<aiocann_op *> ops;
  for (int round = 0; round < 40; ++round) {
    for (size_t i = 0; i < streams.size(); ++i) {
      accepted(aiocann_stream_memset(streams[i], mems[i], 0, round, 4096, nullptr, nullptr));
      ops.push_back(rt.copy(streams[i], of(mems[i]), of(bytes), 4096));
      aiocann_op *event = rt.mark(streams[i], AIOCANN_MARK_RECORD);
      ops.push_back(rt.wait(streams[(i + 1) % streams.size()], event));
      ops.push_back(event);
      ops.push_back(rt.copy(streams[i], of(backs[i]), of(mems[i]), 4096));
    }
  }
  for (aiocann_op *op : ops) finish(rt.loop, op);
  for (const auto &back : backs) CHECK(back == bytes);
  for (aiocann_mem *mem : mems) aiocann_mem_release(mem);
  for (aiocann_stream *stream : streams) rt.close(stream);
  CHECK_EQ(rt.statistics().live_events, 0);
}

void all_tell_alike() {
  for (const char *family : kFamilies) {
    With setting("AIOCANN_COMPLETION", family);
    for (const char *maker : kMakers) {
      With other("AIOCANN_EVENTS", maker);
      Runtime rt(2);
      traffic(rt);
    }
  }
}

// What a driver refuses is not used: the next one is.
void what_is_refused_is_not_used() {
  CHECK_OK(sim().inject("call", "aclrtSubscribeReport", 0, 207000));
  CHECK_OK(sim().inject("call", "aclrtCreateEventExWithFlag", 0, 207000));
  CHECK_OK(sim().inject("call", "aclrtLaunchCallback", 0, 507899));
  {
    Runtime rt(2);
    traffic(rt);
  }
  CHECK_OK(sim().inject("call", "aclrtCreateEventWithFlag", 0, 200001));
  {
    Runtime rt(2);
    traffic(rt);
  }
  sim().clear_faults();
  // Streams are subscribed, and then it takes no callbacks, of one kind or the other.
  for (int32_t code : {207000, 107015}) {
    CHECK_OK(sim().inject("call", "aclrtLaunchCallback", 0, code));
    {
      Runtime rt(2);
      traffic(rt);
    }
    CHECK_OK(sim().inject("call", "aclrtLaunchHostFunc", 0, code));
    {
      Runtime rt(2);
      traffic(rt);
    }
    sim().clear_faults();
  }
}

// A CANN that lacks what one family needs is served by the next.
void what_is_missing_is_not_used() {
  for (const char *missing :
       {"aclrtSubscribeReport", "aclrtUnSubscribeReport,aclrtProcessReport,aclrtLaunchCallback",
        "aclrtLaunchCallback,aclrtLaunchHostFunc,aclrtCreateEventExWithFlag",
        "aclrtStreamAbort,aclrtDestroyStreamForce"}) {
    CHECK_OK(sim().configure("hide", missing));
    Runtime rt(2);
    traffic(rt);
  }
  CHECK_OK(sim().configure("hide", nullptr));
}

// Taken when the device was opened, and refused later, for a while: what runs is asked for, and goes well.
void a_callback_is_refused_later() {
  for (const char *family : {"callback", "callback-block", "host-func"}) {
    With setting("AIOCANN_COMPLETION", family);
    Runtime rt(1);
    aiocann_stream *stream = rt.stream();
    aiocann_mem *mem = rt.allocate(64);
    CHECK_OK(sim().inject("call", "aclrtLaunchCallback", 0, 107015));
    CHECK_OK(sim().inject("call", "aclrtLaunchHostFunc", 0, 207000));
    CHECK_OK(sim().hold(0, -1));
    aiocann_op *first = rt.fill(stream, mem, 1), *second = rt.fill(stream, mem, 2);
    aiocann_op *event = rt.mark(stream, AIOCANN_MARK_RECORD);
    usleep(20000);
    CHECK_EQ(aiocann_op_state(first), 0);
    CHECK_OK(sim().release(0, -1));
    for (aiocann_op *op : {first, second, event}) finish(rt.loop, op);
    sim().clear_faults();
    finish(rt.loop, rt.fill(stream, mem, 3));
    aiocann_mem_release(mem);
    rt.close(stream);
  }
}

// A cross-stream wait holds what follows it, however often its event has served before.
void waits_hold() {
  for (const char *maker : kMakers) {
    With setting("AIOCANN_EVENTS", maker);
    Runtime rt(2);
    aiocann_stream *first = rt.stream(0), *second = rt.stream(1);
    aiocann_mem *a = rt.allocate(1 << 16, 0), *b = rt.allocate(1 << 16, 1);
    std::vector<unsigned char> back(1 << 16);
    for (int round = 0; round < 60; ++round) {
      const auto value = static_cast<unsigned char>(round);
      if (round % 3 == 0) CHECK_OK(sim().hold(0, -1));
      aiocann_op *set = rt.fill(first, a, value);
      aiocann_op *event = rt.mark(first, AIOCANN_MARK_RECORD);
      aiocann_op *wait = rt.wait(second, event);
      aiocann_op *copy = rt.copy(second, of(b), of(a), 1 << 16);
      aiocann_op *event2 = rt.mark(second, AIOCANN_MARK_RECORD);
      aiocann_op *wait2 = rt.wait(first, event2);
      aiocann_op *again = rt.fill(first, a, 255);
      aiocann_op *read = rt.copy(second, of(back), of(b), 1 << 16);
      if (round % 3 == 0) {
        // The wait is with the driver, and has not let anything by.
        usleep(1000);
        for (aiocann_op *op : {event, wait, copy}) CHECK_EQ(aiocann_op_state(op), 0);
        CHECK_OK(sim().release(0, -1));
      }
      for (aiocann_op *op : {set, event, wait, copy, event2, wait2, again, read})
        finish(rt.loop, op);
      CHECK(back == std::vector<unsigned char>(1 << 16, value));
    }
    aiocann_mem_release(a);
    aiocann_mem_release(b);
    rt.close(first);
    rt.close(second);
  }
}

// As few as there are: streams that lack one go on when some come back, and so do markers that nobody asked for.
void events_run_out_in_every_family() {
  CHECK_OK(sim().configure("max_events", "3"));
  for (const char *family : kFamilies) {
    With setting("AIOCANN_COMPLETION", family);
    for (const char *maker : kMakers) {
      With other("AIOCANN_EVENTS", maker);
      Runtime rt(1);
      aiocann_stream *streams[] = {rt.stream(), rt.stream(), rt.stream(), rt.stream()};
      aiocann_mem *mems[] = {rt.allocate(64), rt.allocate(64), rt.allocate(64), rt.allocate(64)};
      std::vector<aiocann_op *> ops;
      for (int i = 0; i < 40; ++i) {
        for (int j = 0; j < 4; ++j) {
          accepted(aiocann_stream_memset(streams[j], mems[j], 0, i, 64, nullptr, nullptr));
          if (i % 4 == 0) ops.push_back(rt.fill(streams[j], mems[j], i));
        }
      }
      for (aiocann_op *op : ops) finish(rt.loop, op);
      for (aiocann_mem *mem : mems) aiocann_mem_release(mem);
      for (aiocann_stream *stream : streams) rt.close(stream);
      CHECK_EQ(rt.statistics().live_events, 0);
    }
  }
  CHECK_OK(sim().configure("max_events", nullptr));
}

// Nothing in flight: no thread of ours runs. Something long in flight: hardly.
void idle_costs_nothing() {
  for (const char *family : kFamilies) {
    With setting("AIOCANN_COMPLETION", family);
    Runtime rt(1);
    aiocann_stream *stream = rt.stream();
    aiocann_mem *mem = rt.allocate(64);
    finish(rt.loop, rt.fill(stream, mem, 1));
    CHECK_OK(sim().hold(0, -1));
    aiocann_op *held = rt.fill(stream, mem, 2);
    usleep(200000);  // whoever spins at first has stopped
    const double before = cpu_seconds();
    usleep(300000);
    const double in_flight = cpu_seconds() - before;
    CHECK_OK(sim().release(0, -1));
    finish(rt.loop, held);
    usleep(20000);
    const double start = cpu_seconds();
    usleep(300000);
    const double idle = cpu_seconds() - start;
    if (in_flight > 0.1 || idle > 0.05) {
      check::fail(__FILE__, __LINE__,
                  std::string(family) + ": " + std::to_string(in_flight) + " s with an op, " +
                      std::to_string(idle) + " s without");
    }
    aiocann_mem_release(mem);
    rt.close(stream);
  }
}

// A fault that is told by the exception callback, once, and to the right op.
void faults_are_told_once() {
  for (const char *family : kFamilies) {
    With setting("AIOCANN_COMPLETION", family);
    Runtime rt(1);
    aiocann_stream *stream = rt.stream();
    aiocann_mem *mem = rt.allocate(64);
    CHECK_OK(sim().inject("copy", "memset", 3, kKernelFault));
    std::vector<aiocann_op *> ops;
    for (int i = 0; i < 5; ++i) ops.push_back(rt.fill(stream, mem, i));
    finish(rt.loop, ops[0]);
    finish(rt.loop, ops[1]);
    CHECK_CONTAINS(fails(rt.loop, ops[2], kKernelFault), "memset");
    for (int i = 3; i < 5; ++i) fails(rt.loop, ops[static_cast<size_t>(i)], AIOCANN_E_PREDECESSOR);
    aiocann_mem_release(mem);
    rt.close(stream);
    sim().clear_faults();
  }
}

// The driver answers with a fault when it is asked: as good as being told. (Only who asks can hear it.)
void faults_by_status() {
  With setting("AIOCANN_COMPLETION", "query");
  Runtime rt(1);
  aiocann_stream *stream = rt.stream();
  aiocann_mem *mem = rt.allocate(64);
  CHECK_OK(sim().inject("call", "aclrtQueryEventStatus", 1, kKernelFault));
  aiocann_op *op = rt.fill(stream, mem, 1);
  const uint64_t id = aiocann_op_id(op);
  aiocann_op *later = rt.fill(stream, mem, 2);
  CHECK_CONTAINS(fails(rt.loop, op, kKernelFault), "memset");
  rt.loop.await(later);
  CHECK_EQ(aiocann_op_error(later)->code, AIOCANN_E_PREDECESSOR);
  CHECK_EQ(aiocann_op_error(later)->cause_op, id);
  aiocann_op_release(later);
  CHECK_EQ(aiocann_device_poisoned(rt.device(0)), 1);
  sim().clear_faults();
  aiocann_mem_release(mem);
  rt.close(stream);
}

// Where one failure stops the context, no marker comes any more, on no stream: all of them end, by the first fault.
void stop_on_failure_ends_every_stream() {
  const auto set_device = driver<int32_t (*)(int32_t)>("aclrtSetDevice");
  const auto reset_device = driver<int32_t (*)(int32_t)>("aclrtResetDevice");
  const auto set_mode = driver<int32_t (*)(void *, uint64_t)>("aclrtSetStreamFailureMode");
  for (const char *family : kFamilies) {
    With setting("AIOCANN_COMPLETION", family);
    Runtime rt(2);
    aiocann_stream *broken = rt.stream(0), *other = rt.stream(0), *elsewhere = rt.stream(1);
    aiocann_mem *a = rt.allocate(64, 0), *b = rt.allocate(64, 1);
    CHECK_OK(set_device(0));
    CHECK_OK(set_mode(reinterpret_cast<void *>(aiocann_stream_handle(broken)), 1));
    CHECK_OK(reset_device(0));
    CHECK_OK(sim().hold(0, -1));
    CHECK_OK(sim().inject("copy", "memset", 1, kKernelFault));
    aiocann_op *fault = rt.fill(broken, a, 1);
    const uint64_t id = aiocann_op_id(fault);
    aiocann_op *later = rt.fill(broken, a, 1);
    // Submitted before the fault, behind it in time: the two streams are let go one after the other.
    aiocann_op *event = rt.mark(broken, AIOCANN_MARK_RECORD);
    aiocann_op *wait = rt.wait(other, event), *work = rt.fill(other, a, 2);
    aiocann_op *far_wait = rt.wait(elsewhere, event), *far = rt.fill(elsewhere, b, 3);
    CHECK_OK(sim().release(0, -1));
    fails(rt.loop, fault, kKernelFault);
    for (aiocann_op *op : {later, event, wait, work, far_wait, far}) {
      rt.loop.await(op);
      CHECK_EQ(aiocann_op_state(op), 2);
      CHECK_EQ(aiocann_op_error(op)->code, AIOCANN_E_PREDECESSOR);
      CHECK_EQ(aiocann_op_error(op)->cause_op, id);
      aiocann_op_release(op);
    }
    // Nothing is accepted any more, and that has a cause as well.
    aiocann_op *refused = rt.fill(other, a, 4);
    fails(rt.loop, refused, AIOCANN_E_PREDECESSOR);
    aiocann_stream *healthy = rt.stream(1);
    finish(rt.loop, rt.fill(healthy, b, 5));
    sim().clear_faults();
    for (aiocann_mem *mem : {a, b}) aiocann_mem_release(mem);
    for (aiocann_stream *stream : {broken, other, elsewhere, healthy}) rt.close(stream);
  }
}

// Another library's stream: its work and ours in one order, in every family; let go of, and closed by a reset, but
// never destroyed or aborted by us.
void adopted_streams() {
  const uint64_t misuse = sim().counter("misuse");
  const auto set_device = driver<int32_t (*)(int32_t)>("aclrtSetDevice");
  const auto create = driver<int32_t (*)(void **)>("aclrtCreateStream");
  const auto destroy = driver<int32_t (*)(void *)>("aclrtDestroyStream");
  const auto synchronize = driver<int32_t (*)(void *)>("aclrtSynchronizeStream");
  const auto fill =
      driver<int32_t (*)(void *, size_t, int32_t, size_t, void *)>("aclrtMemsetAsync");
  for (const char *family : kFamilies) {
    With setting("AIOCANN_COMPLETION", family);
    Runtime rt(1);
    CHECK_OK(set_device(0));  // until the reset
    void *raw = nullptr;
    CHECK_OK(create(&raw));
    const auto handle = reinterpret_cast<uint64_t>(raw);
    aiocann_op *op = nullptr;
    accepted(aiocann_stream_adopt(rt.device(0), handle, rt.loop.raw, &op));
    aiocann_stream *stream = result<aiocann_stream>(rt.loop, op);
    CHECK_EQ(aiocann_stream_handle(stream), handle);
    accepted(aiocann_stream_adopt(rt.device(0), handle, rt.loop.raw, &op));
    CHECK_CONTAINS(fails(rt.loop, op, AIOCANN_E_USAGE), "in use here already");
    aiocann_mem *mem = rt.allocate(64);
    std::vector<unsigned char> back(64);
    CHECK_OK(sim().hold(0, -1));
    CHECK_OK(fill(reinterpret_cast<void *>(aiocann_mem_address(mem)), 64, 5, 64, raw));
    aiocann_op *copy = rt.copy(stream, of(back), of(mem), 64), *mark = rt.mark(stream);
    usleep(1000);
    CHECK_EQ(aiocann_op_state(copy), 0);
    CHECK_OK(sim().release(0, -1));
    finish(rt.loop, copy);
    finish(rt.loop, mark);
    CHECK(back == std::vector<unsigned char>(64, 5));
    rt.close(stream);
    CHECK_OK(synchronize(raw));
    CHECK_OK(destroy(raw));

    CHECK_OK(create(&raw));
    accepted(aiocann_stream_adopt(rt.device(0), reinterpret_cast<uint64_t>(raw), rt.loop.raw, &op));
    stream = result<aiocann_stream>(rt.loop, op);
    CHECK_OK(sim().hold(0, -1));
    aiocann_op *held = rt.fill(stream, mem, 1);
    accepted(aiocann_device_reset(rt.device(0), rt.loop.raw, &op));
    finish(rt.loop, op);
    CHECK_OK(sim().release(0, -1));
    fails(rt.loop, held, AIOCANN_E_CLOSED);
    CHECK_EQ(aiocann_stream_handle(stream), 0);
    CHECK_EQ(aiocann_stream_mark(stream, 0, rt.loop.raw, &op), AIOCANN_E_CLOSED);
    aiocann_stream_release(stream);
    aiocann_mem_release(mem);
  }
  CHECK_EQ(sim().counter("misuse"), misuse);
}

// A callback that does not come is found missing; one that comes late, or too late for everything, hits nothing.
/// Long enough to need a callback.
aiocann_op *slow_fill(Runtime &rt, aiocann_stream *stream, aiocann_mem *mem) {
  CHECK_OK(sim().hold(0, -1));
  aiocann_op *op = rt.fill(stream, mem, 1);
  usleep(20000);
  CHECK_OK(sim().release(0, -1));
  return op;
}

void lost_and_late_callbacks() {
  for (const char *family : {"callback", "host-func"}) {
    With setting("AIOCANN_COMPLETION", family);
    Runtime rt(1);
    aiocann_stream *streams[] = {rt.stream(), rt.stream(), rt.stream()};
    // One for each stream: nothing orders their fills.
    aiocann_mem *mems[] = {rt.allocate(64), rt.allocate(64), rt.allocate(64)};
    CHECK_OK(sim().inject("callback_delay", "*", 0, 0));
    std::vector<aiocann_op *> ops;
    for (int i = 0; i < 3; ++i) ops.push_back(slow_fill(rt, streams[i], mems[i]));
    for (aiocann_op *op : ops) rt.loop.await(op);
    CHECK_EQ(rt.statistics().lost_callbacks, 3);
    sim().clear_faults();
    if (family == std::string("callback")) {  // it does not hold its stream
      rt.close(streams[0]);
      rt.lost = 1;
    }
    sim().let_go();
    for (int i = 0; i < kPatienceMs && rt.statistics().lost_callbacks != rt.lost; ++i) usleep(1000);
    CHECK_EQ(rt.statistics().lost_callbacks, rt.lost);
    for (aiocann_op *op : ops) finish(rt.loop, op);
    // This one never comes. What is behind it goes on.
    CHECK_OK(sim().inject("callback_drop", "*", 1, 0));
    finish(rt.loop, slow_fill(rt, streams[1], mems[1]));
    ++rt.lost;
    CHECK_EQ(rt.statistics().lost_callbacks, rt.lost);
    finish(rt.loop, rt.fill(streams[1], mems[1], 3));
    // And this one when everything is over.
    sim().clear_faults();
    CHECK_OK(sim().inject("callback_delay", "*", 1, 0));
    finish(rt.loop, slow_fill(rt, streams[2], mems[2]));
    ++rt.lost;
    sim().clear_faults();
    for (aiocann_mem *mem : mems) aiocann_mem_release(mem);
    if (family == std::string("callback")) {
      rt.close(streams[1]);
      rt.close(streams[2]);
      rt.close();
      sim().let_go();
    } else {
      sim().let_go();
      --rt.lost;
      for (aiocann_stream *stream : streams) rt.close(stream);
    }
  }
}

}  // namespace

int main() {
  unknown_settings_are_refused();
  all_tell_alike();
  what_is_refused_is_not_used();
  what_is_missing_is_not_used();
  a_callback_is_refused_later();
  waits_hold();
  events_run_out_in_every_family();
  idle_costs_nothing();
  lost_and_late_callbacks();
  faults_are_told_once();
  faults_by_status();
  stop_on_failure_ends_every_stream();
  adopted_streams();
}
