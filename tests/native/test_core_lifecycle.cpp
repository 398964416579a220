// Opening, closing and what outlives them; loops that close early; abandoned ops; forks.
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "core_driver.hpp"

using namespace core_test;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::string refused(const aiocann_config &config, Loop &loop, int32_t code) {
  aiocann_runtime *rt = nullptr;
  aiocann_op *op = nullptr;
  if (const int32_t at_once = aiocann_runtime_open(&config, loop.raw, &rt, &op); at_once != 0) {
    CHECK_EQ(at_once, code);
    return aiocann_last_error()->detail;
  }
  const std::string detail = fails(loop, op, code);
  aiocann_runtime_release(rt);
  return detail;
}

void what_cannot_be_opened() {
  Loop loop;
  const int32_t twice[] = {0, 0}, negative[] = {-3}, missing[] = {9};
  CHECK_CONTAINS(refused({"tpu", nullptr, nullptr, -1}, loop, AIOCANN_E_USAGE), "tpu");
  CHECK_CONTAINS(refused({"sim", "/nonexistent/libsim.so", nullptr, -1}, loop, AIOCANN_E_LIBRARY),
                 "/nonexistent");
  CHECK_OK(sim().configure("devices", "2"));
  CHECK_CONTAINS(refused({"sim", Simulator::path(), nullptr, 5}, loop, AIOCANN_E_USAGE),
                 "5 devices");
  CHECK_CONTAINS(refused({"sim", Simulator::path(), nullptr, 0}, loop, AIOCANN_E_USAGE),
                 "at least one");
  CHECK_CONTAINS(refused({"sim", Simulator::path(), twice, 2}, loop, AIOCANN_E_USAGE), "twice");
  CHECK_CONTAINS(refused({"sim", Simulator::path(), negative, 1}, loop, AIOCANN_E_USAGE), "-3");
  CHECK_CONTAINS(refused({"sim", Simulator::path(), missing, 1}, loop, 107001), "aclrtSetDevice");
  CHECK_OK(sim().inject("call", "aclInit", 1, 500000));
  CHECK_CONTAINS(refused({"sim", Simulator::path(), nullptr, -1}, loop, 500000), "aclInit");
  for (const char *function :
       {"aclrtSubscribeReport", "aclrtCreateStream", "aclrtGetCurrentContext"}) {
    if (function == std::string("aclrtSubscribeReport") && marker_calls().count(function) == 0)
      continue;
    CHECK_OK(sim().inject("call", function, 0, 507899));
    CHECK_CONTAINS(refused({"sim", Simulator::path(), nullptr, -1}, loop, 507899), function);
    sim().clear_faults();
  }
}

// One device of two fails: the other works, and the reason is kept.
void one_device_fails() {
  CHECK_OK(sim().configure("devices", "2"));
  Loop loop;
  const int32_t ids[] = {7, 1};
  const aiocann_config config{"sim", Simulator::path(), ids, 2};
  aiocann_runtime *rt = nullptr;
  aiocann_op *op = nullptr;
  accepted(aiocann_runtime_open(&config, loop.raw, &rt, &op));
  finish(loop, op);
  CHECK_EQ(aiocann_runtime_device_count(rt), 2);
  aiocann_device *bad = aiocann_runtime_device(rt, 0), *good = aiocann_runtime_device(rt, 1);
  CHECK_EQ(aiocann_device_open_error(bad)->code, 107001);
  CHECK(aiocann_device_open_error(good) == nullptr);
  CHECK_EQ(aiocann_device_index(good), 1);
  CHECK(aiocann_device_soc_name(good)[0] != '\0');
  CHECK_EQ(aiocann_stream_create(bad, -1, loop.raw, &op), 107001);
  accepted(aiocann_device_memory_info(good, loop.raw, &op));
  loop.await(op);
  CHECK(aiocann_op_value(op, 0) > 0 && aiocann_op_value(op, 0) <= aiocann_op_value(op, 1));
  CHECK_EQ(aiocann_op_value(op, 2), 0);
  aiocann_op_release(op);
  accepted(aiocann_runtime_close(rt, 1000, loop.raw, &op));
  finish(loop, op);
  aiocann_runtime_release(rt);
}

void opens_again_and_again() {
  for (int i = 0; i < 5; ++i) {
    Runtime rt(1 + i % 3);
    aiocann_stream *stream = rt.stream(0);
    aiocann_mem *mem = rt.allocate(kMiB);
    finish(rt.loop, rt.fill(stream, mem, 1));
    CHECK(std::string(aiocann_runtime_acl_version(rt.raw)).find('.') != std::string::npos);
    CHECK_CONTAINS(aiocann_runtime_library(rt.raw), "libaiocann_sim");
    // Closing drains what is enqueued, destroys the stream, and may be asked for twice.
    std::vector<unsigned char> host(12 * kMiB);
    aiocann_mem *large = rt.lazy(12 * kMiB);
    aiocann_op *copy = rt.copy(stream, of(large), of(host), 12 * kMiB);
    aiocann_op *close = nullptr, *close2 = nullptr;
    accepted(aiocann_runtime_close(rt.raw, 30000, rt.loop.raw, &close));
    accepted(aiocann_runtime_close(rt.raw, 30000, rt.loop.raw, &close2));
    finish(rt.loop, copy);
    finish(rt.loop, close);
    finish(rt.loop, close2);
    // Closed: refused, with a reason; releasing still works.
    aiocann_op *op = nullptr;
    CHECK_EQ(aiocann_stream_mark(stream, 0, rt.loop.raw, &op), AIOCANN_E_CLOSED);
    CHECK_EQ(aiocann_stream_create(rt.device(0), -1, rt.loop.raw, &op), AIOCANN_E_CLOSED);
    rt.close(stream);
    aiocann_mem_release(mem);
    aiocann_mem_release(large);
    CHECK_EQ(rt.statistics().live_buffers, 0);
    CHECK_EQ(rt.statistics().live_streams, 0);
    CHECK_EQ(rt.statistics().in_flight_ops, 0);
    CHECK_EQ(rt.statistics().pool_reserved_bytes, 0);
  }
  CHECK_EQ(sim().counter("live_streams"), 0);
}

// Two runtimes on one driver: the first to close does not take ACL away from the other.
void two_runtimes() {
  Runtime first(2);
  {
    const aiocann_config config{"sim", Simulator::path(), nullptr, 2};
    Loop loop;
    aiocann_runtime *second = nullptr;
    aiocann_op *op = nullptr;
    accepted(aiocann_runtime_open(&config, loop.raw, &second, &op));
    finish(loop, op);
    accepted(aiocann_stream_create(aiocann_runtime_device(second, 0), -1, loop.raw, &op));
    auto *stream = result<aiocann_stream>(loop, op);
    aiocann_mem *foreign = first.allocate(64);
    CHECK_EQ(aiocann_stream_memset(stream, foreign, 0, 1, 64, loop.raw, &op), AIOCANN_E_USAGE);
    CHECK_CONTAINS(aiocann_last_error()->detail, "another runtime");
    aiocann_mem_release(foreign);
    aiocann_stream_release(stream);
    accepted(aiocann_runtime_close(second, 1000, loop.raw, &op));
    finish(loop, op);
    aiocann_runtime_release(second);
  }
  aiocann_stream *stream = first.stream(1);
  aiocann_mem *mem = first.allocate(64, 1);
  finish(first.loop, first.fill(stream, mem, 1));
  aiocann_mem_release(mem);
  first.close(stream);
}

/// can_abort: the driver drops what is stuck, and everything is given back. Otherwise it is leaked.
void closing_with_stuck_work(bool can_abort) {
  for (int kind = 0; kind < 3; ++kind) {
    auto *owned = Runtime::as_it_is(2);
    Runtime &rt = *owned;
    aiocann_stream *stuck = rt.stream(0), *fine = rt.stream(1), *waits = rt.stream(1);
    aiocann_mem *mem = rt.allocate(20 * kMiB, 0), *other = rt.allocate(20 * kMiB, 1);
    aiocann_mem *pinned = rt.pinned(20 * kMiB);
    std::vector<unsigned char> host(20 * kMiB);
    finish(rt.loop, rt.fill(fine, other, 1));
    CHECK_OK(sim().hold(0, -1));
    std::vector<aiocann_op *> ops;
    ops.push_back(rt.copy(stuck, of(pinned), of(mem), 20 * kMiB));
    ops.push_back(kind == 0   ? rt.copy(stuck, of(host), of(mem), 20 * kMiB)
                  : kind == 1 ? rt.copy(stuck, of(mem), of(host), 20 * kMiB)
                              : rt.copy(stuck, of(other), of(mem), 20 * kMiB));
    ops.push_back(rt.copy(stuck, of(host), of(mem), 500));
    ops.push_back(rt.copy(stuck, of(mem), of(host), 500));
    ops.push_back(rt.mark(stuck, AIOCANN_MARK_RECORD));
    ops.push_back(rt.wait(waits, ops.back()));
    ops.push_back(rt.fill(waits, other, 1));
    ops.push_back(rt.fill(stuck, mem, 1));
    aiocann_op_abandon(ops[1]);
    if (!can_abort) CHECK_OK(sim().inject("call", "aclrtStreamAbort", 0, 207000));
    aiocann_op *close = nullptr;
    accepted(aiocann_runtime_close(rt.raw, 200, rt.loop.raw, &close));
    CHECK_CONTAINS(fails(rt.loop, close, AIOCANN_E_TIMEOUT), can_abort ? "aborted them" : "leaked");
    sim().clear_faults();
    for (aiocann_op *op : ops) {
      rt.loop.await(op);
      CHECK_EQ(aiocann_op_state(op), 2);
      aiocann_op_release(op);
    }
    CHECK_EQ(rt.statistics().in_flight_ops, 0);
    CHECK_EQ(rt.statistics().abandoned, 1);
    CHECK_EQ(rt.statistics().reaped, 1);
    CHECK_OK(sim().release(0, -1));
    for (aiocann_mem *each : {mem, other, pinned}) aiocann_mem_release(each);
    if (can_abort) {
      CHECK_EQ(rt.statistics().live_buffers, 0);
      CHECK_EQ(rt.statistics().live_streams, 0);
    }
    for (aiocann_stream *stream : {stuck, fine, waits}) aiocann_stream_release(stream);
    aiocann_runtime_release(rt.raw);
    rt.raw = nullptr;
    delete owned;
    if (can_abort) {
      CHECK_OK(sim().configure("devices", "2"));  // no device is open any more
      // What the user held; staging memory is back, and what a user held before was freed by this runtime.
      CHECK_EQ(sim().counter("live_pinned"), 1);
    }
  }
}

// Letting go of everything without closing: the runtime closes behind our back, nothing hangs or crashes.
void released_without_close() {
  CHECK_OK(sim().configure("devices", nullptr));
  const aiocann_config config{"sim", Simulator::path(), nullptr, 1};
  for (int i = 0; i < 3; ++i) {
    Loop loop;
    aiocann_runtime *rt = nullptr;
    aiocann_op *op = nullptr;
    accepted(aiocann_runtime_open(&config, loop.raw, &rt, &op));
    if (i == 1) {
      aiocann_op_release(op);
      aiocann_runtime_release(rt);  // while it opens
      continue;
    }
    finish(loop, op);
    accepted(aiocann_stream_create(aiocann_runtime_device(rt, 0), -1, loop.raw, &op));
    auto *stream = result<aiocann_stream>(loop, op);
    aiocann_mem *mem = nullptr;
    accepted(aiocann_device_allocate_lazy(aiocann_runtime_device(rt, 0), kMiB, &mem));
    accepted(aiocann_stream_memset(stream, mem, 0, 1, kMiB, loop.raw, &op));
    aiocann_op_release(op);
    aiocann_mem_release(mem);
    aiocann_stream_release(stream);
    aiocann_runtime_release(rt);
  }
  nothing_open();
}

void pinned_memory_outlives_the_runtime() {
  auto *rt = new Runtime(1);
  const uint64_t before = sim().counter("live_pinned");
  aiocann_mem *pinned = rt->pinned(kMiB);
  auto *bytes = reinterpret_cast<unsigned char *>(aiocann_mem_address(pinned));
  bytes[5] = 77;
  // Nobody holds another: it goes with the runtime.
  aiocann_mem_release(rt->pinned(30 * kMiB));
  rt->close();
  CHECK_EQ(rt->statistics().pinned_bytes, kMiB);
  aiocann_runtime *closed = rt->raw;
  rt->raw = nullptr;
  delete rt;
  CHECK_EQ(bytes[5], 77);
  CHECK_EQ(sim().counter("live_pinned"), before + 1);
  aiocann_mem_release(pinned);
  aiocann_statistics statistics;
  aiocann_runtime_statistics(closed, &statistics);
  CHECK_EQ(statistics.pinned_bytes, 0);
  CHECK_EQ(statistics.live_buffers, 0);
  aiocann_runtime_release(closed);
  // The driver's next runtime gives it back.
  Runtime next(1);
  CHECK_EQ(sim().counter("live_pinned"), before);
}

// A device whose reactor cannot work with it does not open, and says why.
void a_reactor_without_a_context() {
  CHECK_OK(sim().configure("devices", "1"));
  CHECK_OK(sim().inject("call", "aclrtSetCurrentContext", 1, 507000));
  Loop loop;
  const aiocann_config config{"sim", Simulator::path(), nullptr, 1};
  aiocann_runtime *rt = nullptr;
  aiocann_op *op = nullptr;
  accepted(aiocann_runtime_open(&config, loop.raw, &rt, &op));
  CHECK_CONTAINS(fails(loop, op, 507000), "aclrtSetCurrentContext");
  aiocann_runtime_release(rt);
  sim().clear_faults();
  nothing_open();
}

void loops() {
  Runtime rt(1);
  aiocann_stream *stream = rt.stream();
  aiocann_mem *mem = rt.allocate(64);
  CHECK_OK(sim().hold(0, -1));
  auto *short_lived = new Loop;
  Loop watcher;
  aiocann_loop *heir = aiocann_loop_create(-1);
  std::vector<aiocann_op *> ops;
  for (int i = 0; i < 20; ++i) {
    aiocann_op *op = nullptr;
    accepted(aiocann_stream_memset(stream, mem, 0, i, 64, short_lived->raw, &op));
    ops.push_back(op);
    CHECK_EQ(aiocann_op_watch(op, watcher.raw), 0);
    CHECK_EQ(aiocann_op_watch(op, watcher.raw), 0);  // each watching delivers
  }
  // It closes before anything settles: what would come goes to the heir, in order.
  short_lived->close(heir);
  delete short_lived;
  CHECK_OK(sim().release(0, -1));
  for (aiocann_op *op : ops) watcher.await(op);
  finish(rt.loop, rt.mark(stream));
  uint64_t ids[64];
  int32_t inherited = 0;  // an op is settled before it has been delivered everywhere
  while (inherited < 20) inherited += aiocann_loop_drain(heir, ids + inherited, 64 - inherited);
  CHECK_EQ(inherited, 20);
  for (int i = 0; i < 20; ++i) CHECK_EQ(ids[i], aiocann_op_id(ops[i]));
  CHECK_EQ(aiocann_loop_wakes(heir), 0);
  while (watcher.order.size() < 40) CHECK(watcher.turn());
  for (aiocann_op *op : ops) {
    CHECK_EQ(watcher.delivered.count(aiocann_op_id(op)), 2);
    CHECK_EQ(aiocann_op_watch(op, watcher.raw), 1);  // settled already
    aiocann_op_release(op);
  }
  aiocann_loop_release(heir);
  aiocann_mem_release(mem);
  rt.close(stream);
}

// A batch wakes a parked loop once.
void one_write_per_parked_period() {
  Runtime rt(1);
  aiocann_stream *stream = rt.stream();
  aiocann_mem *mem = rt.allocate(64);
  const uint64_t before = aiocann_loop_wakes(rt.loop.raw);
  std::vector<aiocann_op *> ops;
  CHECK_OK(sim().hold(0, -1));
  for (int i = 0; i < 500; ++i) ops.push_back(rt.fill(stream, mem, i));
  CHECK_OK(sim().release(0, -1));
  aiocann_op *last = rt.mark(stream);
  while (aiocann_op_state(last) == 0) std::this_thread::yield();
  CHECK(aiocann_loop_wakes(rt.loop.raw) - before <= 1);
  for (aiocann_op *op : ops) finish(rt.loop, op);
  finish(rt.loop, last);
  aiocann_mem_release(mem);
  rt.close(stream);
}

// Threads abandon ops while they settle: every one is counted in both numbers or in neither.
void abandoning() {
  Runtime rt(2);
  std::vector<std::thread> threads;
  std::atomic<uint64_t> abandoned{0};
  aiocann_stream *streams[] = {rt.stream(0), rt.stream(1)};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto bytes = pattern(2000, t);
      for (int i = 0; i < 400; ++i) {
        aiocann_mem *mem = nullptr;
        accepted(aiocann_device_allocate_lazy(rt.device(t % 2), 2000, &mem));
        aiocann_op *op = nullptr;
        const aiocann_span dst = of(mem), src = of(bytes);
        accepted(aiocann_stream_memcpy(streams[t % 2], &dst, &src, 2000, nullptr, &op));
        for (int spin = 0; spin < (i % 7) * 200 && aiocann_op_state(op) == 0; ++spin) {
        }
        if (aiocann_op_state(op) == 0) abandoned.fetch_add(1);
        aiocann_op_abandon(op);
        aiocann_op_abandon(op);
        aiocann_mem_release(mem);
        while (aiocann_op_state(op) == 0) std::this_thread::yield();  // bytes must live till then
        aiocann_op_abandon(op);
        aiocann_op_release(op);
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  const aiocann_statistics s = rt.statistics();
  CHECK_EQ(s.abandoned, s.reaped);
  CHECK(s.abandoned <= abandoned.load());
  CHECK_EQ(s.in_flight_ops, 0);
  rt.settles_at(&aiocann_statistics::live_buffers, 0);
  for (aiocann_stream *stream : streams) rt.close(stream);
}

void streams_close_in_order() {
  Runtime rt(1);
  aiocann_stream *stream = rt.stream();
  aiocann_mem *mem = rt.allocate(kMiB);
  std::vector<unsigned char> back(kMiB);
  aiocann_op *work = rt.fill(stream, mem, 9);
  aiocann_op *down = rt.copy(stream, of(back), of(mem), kMiB);
  aiocann_op *close = nullptr, *again = nullptr, *late = nullptr;
  accepted(aiocann_stream_close(stream, rt.loop.raw, &close));
  CHECK_EQ(aiocann_stream_mark(stream, 0, rt.loop.raw, &late), AIOCANN_E_CLOSED);
  accepted(aiocann_stream_close(stream, rt.loop.raw, &again));
  finish(rt.loop, close);
  CHECK_EQ(aiocann_op_state(down), 1);
  CHECK_EQ(back[kMiB - 1], 9);
  finish(rt.loop, again);
  finish(rt.loop, work);
  finish(rt.loop, down);
  CHECK_EQ(rt.statistics().live_streams, 0);
  aiocann_stream_release(stream);
  // Released without closing, with work enqueued: closed behind it.
  stream = rt.stream();
  work = rt.fill(stream, mem, 1);
  accepted(aiocann_stream_memset(stream, mem, 0, 2, 64, nullptr, nullptr));
  aiocann_stream_release(stream);
  finish(rt.loop, work);
  rt.settles_at(&aiocann_statistics::live_streams, 0);
  aiocann_mem_release(mem);
}

void forked_child() {
  Runtime rt(1);
  aiocann_stream *stream = rt.stream();
  aiocann_mem *mem = rt.allocate(64);
  const pid_t child = fork();
  if (child == 0) {
    aiocann_op *op = nullptr;
    aiocann_mem *lazy = nullptr;
    bool well = aiocann_stream_mark(stream, 0, nullptr, &op) == AIOCANN_E_CLOSED &&
                std::strstr(aiocann_last_error()->detail, "fork") != nullptr &&
                aiocann_device_allocate_lazy(rt.device(0), 8, &lazy) == AIOCANN_E_CLOSED &&
                aiocann_runtime_close(rt.raw, 1000, nullptr, &op) == AIOCANN_E_CLOSED &&
                aiocann_stream_close(stream, nullptr, &op) == AIOCANN_E_CLOSED;
    aiocann_mem_release(mem);  // finalisers run in children too
    aiocann_stream_release(stream);
    aiocann_runtime_release(rt.raw);
    _exit(well ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK_EQ(status, 0);
  finish(rt.loop, rt.fill(stream, mem, 1));
  aiocann_mem_release(mem);
  rt.close(stream);
}

}  // namespace

int main(int argc, char **) {
  what_cannot_be_opened();
  one_device_fails();
  opens_again_and_again();
  two_runtimes();
  loops();
  one_write_per_parked_period();
  abandoning();
  streams_close_in_order();
  forked_child();
  released_without_close();
  pinned_memory_outlives_the_runtime();
  a_reactor_without_a_context();
  nothing_open();
  CHECK_OK(sim().configure("devices", "2"));
  closing_with_stuck_work(true);
  closing_with_stuck_work(false);
  if (argc > 1) return 0;
  // And the process ends with a runtime open and work in flight.
  static Runtime *open = Runtime::as_it_is(1);  // reachable, for leak checkers
  aiocann_stream *stream = open->stream();
  aiocann_mem *mem = open->lazy(64 * kMiB);
  for (int i = 0; i < 10; ++i) open->fill(stream, mem, i);
}
