// Failures: of the device while it runs, of calls of the driver, of memory; whom they reach, and whom not.
#include <chrono>

#include "core_driver.hpp"

using namespace core_test;

namespace {

constexpr int32_t kCopyFault = 507053;
constexpr uint64_t kMiB = uint64_t{1} << 20;

/// Every nth asynchronous copy from now on fails on the device.
void break_copy(uint64_t nth) { CHECK_OK(sim().inject("copy", "memset", nth, 0)); }

void later_ops_of_the_stream_fail_others_do_not() {
  Runtime rt(2);
  aiocann_stream *broken = rt.stream(0), *sibling = rt.stream(0), *elsewhere = rt.stream(1);
  aiocann_mem *a = rt.allocate(4096, 0), *b = rt.allocate(4096, 0), *c = rt.allocate(4096, 1);
  std::vector<unsigned char> host(4096);
  aiocann_op *before = rt.copy(broken, of(host), of(a), 4096);
  finish(rt.loop, before);
  break_copy(1);
  aiocann_op *fault = rt.fill(broken, a, 1);
  const uint64_t id = aiocann_op_id(fault);
  aiocann_op *later = rt.copy(broken, of(host), of(a), 4096);
  aiocann_op *mark = rt.mark(broken);
  rt.loop.await(fault);
  CHECK_EQ(aiocann_op_state(fault), 2);
  const aiocann_error *error = aiocann_op_error(fault);
  CHECK_EQ(error->code, kCopyFault);
  CHECK_EQ(error->is_fault, 1);
  CHECK_EQ(error->device, 0);
  CHECK_CONTAINS(error->detail, "memset");
  aiocann_op_release(fault);
  rt.loop.await(later);
  CHECK_EQ(aiocann_op_error(later)->code, AIOCANN_E_PREDECESSOR);
  CHECK_EQ(aiocann_op_error(later)->cause_op, id);
  CHECK_EQ(std::string(aiocann_op_error(later)->cause_kind), "memset");
  aiocann_op_release(later);
  CHECK_CONTAINS(fails(rt.loop, mark, AIOCANN_E_PREDECESSOR), "memset");
  // For good: what was lost cannot come back on this stream.
  CHECK_CONTAINS(fails(rt.loop, rt.fill(broken, a, 2), AIOCANN_E_PREDECESSOR), "memset");
  CHECK_EQ(aiocann_device_poisoned(rt.device(0)), 1);
  CHECK_EQ(aiocann_device_poisoned(rt.device(1)), 0);
  finish(rt.loop, rt.fill(sibling, b, 3));
  finish(rt.loop, rt.fill(elsewhere, c, 3));
  for (aiocann_mem *mem : {a, b, c}) aiocann_mem_release(mem);
  for (aiocann_stream *stream : {broken, sibling, elsewhere}) rt.close(stream);
  CHECK_EQ(rt.statistics().in_flight_ops, 0);
}

// Of a command without an op nobody knows but its code; what fails because of it says that, also from afar.
void a_fault_that_has_no_op() {
  Runtime rt(2);
  aiocann_stream *broken = rt.stream(0), *elsewhere = rt.stream(1);
  aiocann_mem *a = rt.allocate(4096, 0), *b = rt.allocate(4096, 1);
  CHECK_OK(sim().hold(0, -1));
  CHECK_OK(sim().inject("copy", "memset", 1, 507054));
  accepted(aiocann_stream_memset(broken, a, 0, 1, 4096, nullptr, nullptr));
  aiocann_op *later = rt.fill(broken, a, 2);
  aiocann_op *event = rt.mark(broken, AIOCANN_MARK_RECORD);
  aiocann_op *wait = rt.wait(elsewhere, event);
  aiocann_op *far = rt.fill(elsewhere, b, 3);
  CHECK_OK(sim().release(0, -1));
  for (aiocann_op *op : {later, event, wait, far}) {
    rt.loop.await(op);
    const aiocann_error *error = aiocann_op_error(op);
    CHECK_EQ(error->code, AIOCANN_E_PREDECESSOR);
    CHECK_EQ(error->cause_code, 507054);
    CHECK_EQ(error->cause_is_fault, 1);
    CHECK_EQ(std::string(error->cause_kind), "memset");
    CHECK_EQ(
        std::string(error->detail + error->cause_at).rfind("Device 0 reports failure 507054", 0),
        size_t{0});
    aiocann_op_release(op);
  }
  sim().clear_faults();
  for (aiocann_mem *mem : {a, b}) aiocann_mem_release(mem);
  aiocann_stream_release(broken);
  aiocann_stream_release(elsewhere);
}

// From device to device, by events: each stream fails because of the first.
void faults_follow_events() {
  Runtime rt(3);
  aiocann_stream *streams[] = {rt.stream(0), rt.stream(1), rt.stream(2)};
  aiocann_mem *mems[] = {rt.allocate(64, 0), rt.allocate(64, 1), rt.allocate(64, 2)};
  CHECK_OK(sim().hold(0, -1));
  break_copy(1);
  aiocann_op *fault = rt.fill(streams[0], mems[0], 1);
  const uint64_t id = aiocann_op_id(fault);
  aiocann_op *event = rt.mark(streams[0], AIOCANN_MARK_RECORD);
  aiocann_op *wait = rt.wait(streams[1], event);
  aiocann_op *copy = rt.copy(streams[1], of(mems[1]), of(mems[0]), 64);
  aiocann_op *event2 = rt.mark(streams[1], AIOCANN_MARK_RECORD);
  aiocann_op *wait2 = rt.wait(streams[2], event2);
  aiocann_op *work = rt.fill(streams[2], mems[2], 1);
  CHECK_OK(sim().release(0, -1));
  for (aiocann_op *op : {event, wait, copy, event2, wait2, work}) {
    rt.loop.await(op);
    if (aiocann_op_state(op) != 2)
      check::fail(__FILE__, __LINE__, "an op ordered after a fault went well");
    CHECK_EQ(aiocann_op_error(op)->code, AIOCANN_E_PREDECESSOR);
    CHECK_EQ(aiocann_op_error(op)->cause_op, id);
    CHECK_EQ(std::string(aiocann_op_error(op)->cause_kind), "memset");
    aiocann_op_release(op);
  }
  fails(rt.loop, fault, kCopyFault);
  for (aiocann_mem *mem : mems) aiocann_mem_release(mem);
  for (aiocann_stream *stream : streams) rt.close(stream);
}

// A wait for a mark that failed before, and long ago.
void late_waits_fail_too() {
  Runtime rt(2);
  aiocann_stream *first = rt.stream(0), *second = rt.stream(1);
  aiocann_mem *mem = rt.allocate(64, 0);
  break_copy(1);
  fails(rt.loop, rt.fill(first, mem, 1), kCopyFault);
  aiocann_op *event = rt.mark(first, AIOCANN_MARK_RECORD);
  rt.loop.await(event);
  fails(rt.loop, rt.wait(second, event), AIOCANN_E_PREDECESSOR);
  fails(rt.loop, rt.mark(second), AIOCANN_E_PREDECESSOR);
  aiocann_op_release(event);
  aiocann_mem_release(mem);
  rt.close(first);
  rt.close(second);
}

// A wait for an event that is over launches no task, so no fault is its own: the blame is not on it, but on the
// command behind it. Task ids of the other stream are far ahead, as the driver tells only the thread's last one.
void waits_are_not_to_blame() {
  Runtime rt(1);
  aiocann_stream *busy = rt.stream();
  aiocann_mem *a = rt.allocate(65536), *b = rt.allocate(65536);
  for (int i = 0; i < 5000; ++i) {
    accepted(aiocann_stream_memset(busy, a, 0, i, 64, nullptr, nullptr));
  }
  finish(rt.loop, rt.mark(busy));
  for (int round = 0; round < 300; ++round) {
    aiocann_stream *stream = rt.stream();
    aiocann_op *event = rt.mark(busy, AIOCANN_MARK_RECORD);
    for (int i = 0; i < 6; ++i) {
      accepted(aiocann_stream_memset(busy, a, 0, i, 65536, nullptr, nullptr));
    }
    // Now and then the event is over when the wait is submitted, and the core does not know yet.
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(round % 50);
    while (std::chrono::steady_clock::now() < until) {
    }
    CHECK_OK(sim().inject("copy", "memcpy", 1, 0));
    aiocann_op *wait = rt.wait(stream, event);
    fails(rt.loop, rt.copy(stream, of(b), of(a), 65536), kCopyFault);
    finish(rt.loop, wait);
    finish(rt.loop, event);
    finish(rt.loop, rt.mark(busy));
    rt.close(stream);
  }
  for (aiocann_mem *mem : {a, b}) aiocann_mem_release(mem);
  rt.close(busy);
}

// In the middle of a staged copy, each way, and between devices without peer access.
void staged_copies_fail_as_one() {
  for (int kind = 0; kind < 3; ++kind) {
    Runtime rt(2, "none");
    aiocann_stream *stream = rt.stream(0);
    aiocann_mem *a = rt.allocate(40 * kMiB, 0), *b = rt.allocate(40 * kMiB, 1);
    std::vector<unsigned char> host(40 * kMiB);
    CHECK_OK(sim().inject("copy", "memcpy", 3, 0));
    aiocann_op *copy = kind == 0   ? rt.copy(stream, of(a), of(host), 40 * kMiB)
                       : kind == 1 ? rt.copy(stream, of(host), of(a), 40 * kMiB)
                                   : rt.copy(stream, of(b), of(a), 40 * kMiB);
    aiocann_op *after = rt.mark(stream);
    CHECK_CONTAINS(fails(rt.loop, copy, kCopyFault), "memcpy");
    fails(rt.loop, after, AIOCANN_E_PREDECESSOR);
    sim().clear_faults();
    // Staging memory is back, other streams work.
    aiocann_stream *fresh = rt.stream(0);
    finish(rt.loop, rt.copy(fresh, of(b), of(a), 40 * kMiB));
    finish(rt.loop, rt.copy(fresh, of(host), of(a), 40 * kMiB));
    aiocann_mem_release(a);
    aiocann_mem_release(b);
    rt.close(stream);
    rt.close(fresh);
    CHECK_EQ(rt.statistics().in_flight_ops, 0);
  }
}

// A call that fails concerns its op alone: nothing on the device went wrong.
void failing_calls_fail_one_op() {
  // Left to itself, the lane sees short work end, and makes no call for its marker.
  const bool chooses = std::getenv("AIOCANN_COMPLETION") == nullptr;
  if (chooses) setenv("AIOCANN_COMPLETION", "callback", 1);
  Runtime rt(1);
  if (chooses) unsetenv("AIOCANN_COMPLETION");
  aiocann_stream *stream = rt.stream();
  aiocann_mem *mem = rt.allocate(4096);
  struct Case {
    const char *function;
    bool small;
  };
  std::vector<unsigned char> host(4096), large(9 * kMiB);
  aiocann_mem *wide = rt.allocate(9 * kMiB);
  for (const std::string function :
       {"aclrtMemcpyAsync", "aclrtLaunchCallback", "aclrtLaunchHostFunc", "aclrtRecordEvent"}) {
    if (function.find("Launch") != std::string::npos && marker_calls().count(function) == 0)
      continue;
    for (int which = 0; which < 3; ++which) {
      CHECK_OK(sim().inject("call", function.c_str(), 1, 507899));
      aiocann_op *op = which == 0   ? rt.copy(stream, of(mem), of(host), 4096)
                       : which == 1 ? rt.copy(stream, of(wide), of(large), 9 * kMiB)
                                    : rt.copy(stream, of(large), of(wide), 9 * kMiB);
      CHECK_CONTAINS(fails(rt.loop, op, 507899), function);
      sim().clear_faults();
      finish(rt.loop, rt.mark(stream));
      finish(rt.loop, rt.copy(stream, of(mem), of(host), 4096));
    }
  }
  CHECK_OK(sim().inject("call", "aclrtCreateStream", 1, 207008));
  aiocann_op *op = nullptr;
  accepted(aiocann_stream_create(rt.device(0), -1, rt.loop.raw, &op));
  CHECK_CONTAINS(fails(rt.loop, op, 207008), "aclrtCreateStream");
  // Without an op, the failure comes with the next synchronize, once.
  aiocann_mem *pinned = rt.pinned(64);
  CHECK_OK(sim().inject("call", "aclrtMemcpyAsync", 1, 507899));
  const aiocann_span dst = of(mem), src = of(pinned);
  accepted(aiocann_stream_memcpy(stream, &dst, &src, 64, nullptr, nullptr));
  CHECK_CONTAINS(fails(rt.loop, rt.mark(stream), AIOCANN_E_PREDECESSOR), "aclrtMemcpyAsync");
  finish(rt.loop, rt.mark(stream));
  sim().clear_faults();
  CHECK_EQ(aiocann_device_poisoned(rt.device(0)), 0);
  for (aiocann_mem *each : {mem, wide, pinned}) aiocann_mem_release(each);
  rt.close(stream);
}

void running_out_of_memory() {
  Runtime rt(1, "all", "256M");
  aiocann_stream *stream = rt.stream();
  aiocann_mem *half = rt.allocate(120 * kMiB);
  aiocann_mem *mem = nullptr;
  aiocann_op *op = nullptr;
  accepted(aiocann_device_allocate(rt.device(0), 200 * kMiB, nullptr, 0, rt.loop.raw, &mem, &op));
  rt.loop.await(op);
  CHECK_EQ(aiocann_op_state(op), 2);
  const aiocann_error *error = aiocann_op_error(op);
  CHECK_EQ(error->code, AIOCANN_E_NO_MEMORY);
  CHECK_EQ(error->requested, 200 * kMiB);
  CHECK_EQ(error->total, 256 * kMiB);
  CHECK(error->free_bytes > 0 && error->free_bytes <= 136 * kMiB);
  CHECK_EQ(error->reserved, 120 * kMiB);
  CHECK_EQ(error->used, 120 * kMiB);
  CHECK_EQ(error->device, 0);
  aiocann_op_release(op);
  // Lazily: the op that would have touched it fails, and once there is room, a later one does not.
  aiocann_mem *lazy = rt.lazy(200 * kMiB);
  fails(rt.loop, rt.fill(stream, lazy, 1), AIOCANN_E_NO_MEMORY);
  aiocann_mem_release(half);
  // What the pool keeps for nothing (120 MiB) goes back to the driver for it.
  finish(rt.loop, rt.fill(stream, lazy, 1));
  CHECK_EQ(rt.statistics().pool_reserved_bytes, 200 * kMiB);
  // The other way round: the one that failed is usable as lazy memory afterwards.
  aiocann_mem_release(lazy);
  finish(rt.loop, rt.fill(stream, mem, 1));
  aiocann_mem_release(mem);
  accepted(aiocann_pinned_allocate(rt.raw, uint64_t{1} << 60, rt.loop.raw, &op));
  fails(rt.loop, op, AIOCANN_E_NO_MEMORY);
  rt.close(stream);
}

// An op of another device needs memory there that is not to be had.
void out_of_memory_on_the_other_device() {
  Runtime rt(2, "all", "256M");
  aiocann_stream *stream = rt.stream(1);
  aiocann_mem *far = rt.lazy(300 * kMiB, 0), *near = rt.lazy(64 * kMiB, 1);
  fails(rt.loop, rt.copy(stream, of(near), of(far), 64 * kMiB), AIOCANN_E_NO_MEMORY);
  finish(rt.loop, rt.mark(stream));
  aiocann_mem_release(far);
  aiocann_mem_release(near);
  rt.close(stream);
}

// Peers that turn out not to be: by way of the host.
void peer_access_refused() {
  Runtime rt(2);
  aiocann_stream *stream = rt.stream(0);
  aiocann_mem *a = rt.lazy(5 * kMiB, 0), *b = rt.lazy(5 * kMiB, 1);
  auto bytes = pattern(5 * kMiB, 1);
  std::vector<unsigned char> back(5 * kMiB);
  CHECK_OK(sim().inject("call", "aclrtDeviceEnablePeerAccess", 0, 507899));
  finish(rt.loop, rt.copy(stream, of(a), of(bytes), 5 * kMiB));
  aiocann_op *peer = rt.copy(stream, of(b), of(a), 5 * kMiB);
  rt.loop.await(peer);
  sim().clear_faults();
  CHECK_EQ(aiocann_op_path(peer), AIOCANN_PATH_STAGED);
  finish(rt.loop, peer);
  aiocann_op *event = rt.mark(stream, AIOCANN_MARK_RECORD);
  aiocann_stream *other = rt.stream(1);
  finish(rt.loop, rt.wait(other, event));
  finish(rt.loop, event);
  finish(rt.loop, rt.copy(other, of(back), of(b), 5 * kMiB));
  CHECK(back == bytes);
  aiocann_mem_release(a);
  aiocann_mem_release(b);
  rt.close(stream);
  rt.close(other);
}

// A stream that is being closed makes room for the next, which waits for it; without one, there is no room.
void streams_run_out() {
  CHECK_OK(sim().configure("max_streams", "6"));
  {
    Runtime rt(1);
    aiocann_mem *mems[] = {rt.allocate(64), rt.allocate(64)};  // nothing orders the streams
    std::vector<aiocann_stream *> streams;
    aiocann_op *op = nullptr;
    for (;;) {
      accepted(aiocann_stream_create(rt.device(0), -1, rt.loop.raw, &op));
      rt.loop.await(op);
      if (aiocann_op_state(op) == 2) break;
      streams.push_back(static_cast<aiocann_stream *>(aiocann_op_take_result(op)));
      aiocann_op_release(op);
    }
    CHECK_EQ(aiocann_op_error(op)->code, 207008);
    aiocann_op_release(op);
    // Two streams with work go; two that wait for them get their places, a third none.
    CHECK_OK(sim().hold(0, -1));
    std::vector<aiocann_op *> closing, making;
    for (int i = 0; i < 2; ++i) {
      finish(rt.loop, rt.mark(streams.back()));
      aiocann_op_release(rt.fill(streams.back(), mems[i], i));
      accepted(aiocann_stream_close(streams.back(), rt.loop.raw, &op));
      closing.push_back(op);
      aiocann_stream_release(streams.back());
      streams.pop_back();
    }
    for (int i = 0; i < 3; ++i) {
      accepted(aiocann_stream_create(rt.device(0), i - 1, rt.loop.raw, &op));
      making.push_back(op);
    }
    accepted(aiocann_device_memory_info(rt.device(0), rt.loop.raw, &op));
    finish(rt.loop, op);  // the lane has come past them
    for (aiocann_op *each : making) CHECK_EQ(aiocann_op_state(each), 0);
    CHECK_OK(sim().release(0, -1));
    for (aiocann_op *each : closing) finish(rt.loop, each);
    for (size_t i = 0; i < 2; ++i) {
      streams.push_back(result<aiocann_stream>(rt.loop, making[i]));
      finish(rt.loop, rt.fill(streams.back(), mems[i], 1));
    }
    fails(rt.loop, making[2], 207008);
    // Closing the runtime waits for no place.
    CHECK_OK(sim().hold(0, -1));
    aiocann_op_release(rt.fill(streams.back(), mems[0], 1));
    aiocann_stream_release(streams.back());
    streams.pop_back();
    accepted(aiocann_stream_create(rt.device(0), -1, rt.loop.raw, &op));
    aiocann_op *close = nullptr;
    accepted(aiocann_runtime_close(rt.raw, 100, rt.loop.raw, &close));
    fails(rt.loop, close, AIOCANN_E_TIMEOUT);
    fails(rt.loop, op, AIOCANN_E_CLOSED);
    CHECK_OK(sim().release(0, -1));
    for (aiocann_stream *stream : streams) aiocann_stream_release(stream);
    for (aiocann_mem *mem : mems) aiocann_mem_release(mem);
    aiocann_runtime_release(rt.raw);
    rt.raw = nullptr;
  }
  CHECK_OK(sim().configure("max_streams", nullptr));
}

// Pinned memory is handed out again without the driver; what is idle goes back to it when memory is short.
void pinned_memory_is_pooled() {
  {
    Runtime rt(2);
    const uint64_t before = sim().counter("live_pinned");
    uint64_t address = 0;
    for (int i = 0; i < 20; ++i) {
      aiocann_mem *mem = rt.pinned(5 * kMiB), *small = rt.pinned(100);
      CHECK_EQ(aiocann_mem_address(mem) % 64, 0);
      CHECK(i == 0 || aiocann_mem_address(mem) == address);
      address = aiocann_mem_address(mem);
      CHECK_EQ(rt.statistics().pinned_bytes, 5 * kMiB + 100);
      CHECK_EQ(rt.statistics().pinned_reserved_bytes, 7 * kMiB);
      aiocann_mem_release(mem);
      aiocann_mem_release(small);
      rt.settles_at(&aiocann_statistics::pinned_bytes, 0);
    }
    CHECK_EQ(sim().counter("live_pinned"), before + 2);
    // It is not kept without bounds.
    aiocann_mem *large = rt.pinned(300 * kMiB);
    aiocann_mem_release(large);
    rt.settles_at(&aiocann_statistics::pinned_bytes, 0);
    CHECK_EQ(rt.statistics().pinned_reserved_bytes, 0);
    CHECK_EQ(sim().counter("live_pinned"), before);
  }
  CHECK_OK(sim().configure("pinned_memory", "64M"));
  {
    Runtime rt(2);
    std::vector<unsigned char> host(20 * kMiB);
    for (int i = 0; i < 2; ++i) {  // staging memory of both devices
      aiocann_stream *stream = rt.stream(i);
      aiocann_mem *mem = rt.allocate(20 * kMiB, i);
      finish(rt.loop, rt.copy(stream, of(mem), of(host), 20 * kMiB));
      finish(rt.loop, rt.copy(stream, of(host), of(mem), 100));
      aiocann_mem_release(mem);
      rt.close(stream);
    }
    aiocann_mem_release(rt.pinned(10 * kMiB));
    rt.settles_at(&aiocann_statistics::pinned_bytes, 0);
    // All that is idle makes room for it: 20 MiB at the least were staging memory.
    aiocann_mem *most = rt.pinned(60 * kMiB);
    aiocann_op *op = nullptr;
    accepted(aiocann_pinned_allocate(rt.raw, 8 * kMiB, rt.loop.raw, &op));
    rt.loop.await(op);
    CHECK_EQ(aiocann_op_error(op)->code, AIOCANN_E_NO_MEMORY);
    CHECK_EQ(aiocann_op_error(op)->requested, 8 * kMiB);
    aiocann_op_release(op);
    aiocann_mem_release(most);
    rt.settles_at(&aiocann_statistics::pinned_bytes, 0);
    // And the other way round: staging memory where the pool had all.
    aiocann_stream *stream = rt.stream(1);
    aiocann_mem *mem = rt.allocate(20 * kMiB, 1);
    finish(rt.loop, rt.copy(stream, of(mem), of(host), 20 * kMiB));
    aiocann_mem_release(mem);
    rt.close(stream);
  }
  CHECK_OK(sim().configure("pinned_memory", nullptr));
}

void events_run_out() {
  CHECK_OK(sim().configure("max_events", "4"));
  {
    Runtime rt(1);
    aiocann_stream *stream = rt.stream();
    aiocann_mem *mem = rt.allocate(64);
    std::vector<aiocann_op *> ops;
    for (int i = 0; i < 300; ++i) ops.push_back(rt.fill(stream, mem, i));
    for (aiocann_op *op : ops) finish(rt.loop, op);
    // Those that serve one marker are made anew.
    const bool reused = setting("AIOCANN_EVENTS") == "" || setting("AIOCANN_EVENTS") == "ex";
    CHECK(rt.statistics().events_created == 4 || !reused);
    CHECK_EQ(rt.statistics().live_events, 0);
    aiocann_mem_release(mem);
    rt.close(stream);
  }
  CHECK_OK(sim().configure("max_events", nullptr));
}

}  // namespace

int main() {
  later_ops_of_the_stream_fail_others_do_not();
  faults_follow_events();
  late_waits_fail_too();
  waits_are_not_to_blame();
  staged_copies_fail_as_one();
  failing_calls_fail_one_op();
  running_out_of_memory();
  out_of_memory_on_the_other_device();
  peer_access_refused();
  a_fault_that_has_no_op();
  events_run_out();
  streams_run_out();
  pinned_memory_is_pooled();
}
