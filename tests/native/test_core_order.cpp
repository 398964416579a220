// Order: within a stream, across streams and devices, of marks and host parts; and that nobody holds up others.
#include <atomic>
#include <thread>

#include "core_driver.hpp"

using namespace core_test;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

void one_stream_is_in_order() {
  Runtime rt(1);
  aiocann_stream *stream = rt.stream();
  aiocann_mem *buffer = rt.lazy(64);
  std::vector<std::vector<unsigned char>> seen(500, std::vector<unsigned char>(64));
  std::vector<aiocann_op *> ops;
  for (int i = 0; i < 500; ++i) {
    accepted(aiocann_stream_memset(stream, buffer, 0, i & 255, 64, nullptr, nullptr));
    ops.push_back(rt.copy(stream, of(seen[i]), of(buffer), 64));
  }
  aiocann_op *all = rt.mark(stream);
  finish(rt.loop, all);
  for (aiocann_op *op : ops)
    CHECK_EQ(aiocann_op_state(op), 1);  // a mark settles after what was before it
  for (aiocann_op *op : ops) finish(rt.loop, op);
  for (int i = 0; i < 500; ++i) CHECK(seen[i] == std::vector<unsigned char>(64, i & 255));
  CHECK_EQ(aiocann_stream_idle(stream), 1);
  aiocann_mem_release(buffer);
  rt.close(stream);
  CHECK_EQ(rt.statistics().in_flight_ops, 0);
}

// A ring of devices, each waiting for its neighbour's mark before it adds its own step.
void waits_across_devices() {
  constexpr int kDevices = 4, kRounds = 50;
  Runtime rt(kDevices);
  aiocann_stream *streams[kDevices];
  for (int i = 0; i < kDevices; ++i) streams[i] = rt.stream(i);
  aiocann_mem *tokens[kDevices];
  for (int i = 0; i < kDevices; ++i) tokens[i] = rt.lazy(1000, i);
  auto bytes = pattern(1000, 7);
  std::vector<aiocann_op *> ops{rt.copy(streams[0], of(tokens[0]), of(bytes), 1000)};
  for (int step = 0; step < kDevices * kRounds; ++step) {
    const int from = step % kDevices, to = (step + 1) % kDevices;
    aiocann_op *event = rt.mark(streams[from], AIOCANN_MARK_RECORD);
    ops.push_back(rt.wait(streams[to], event));
    ops.push_back(event);
    ops.push_back(rt.copy(streams[to], of(tokens[to]), of(tokens[from]), 1000));
    // What would be seen if the order did not hold.
    event = rt.mark(streams[to], AIOCANN_MARK_RECORD);
    ops.push_back(rt.wait(streams[from], event));
    ops.push_back(event);
    ops.push_back(rt.fill(streams[from], tokens[from], step));
  }
  std::vector<unsigned char> back(1000);
  ops.push_back(rt.copy(streams[0], of(back), of(tokens[0]), 1000));
  for (aiocann_op *op : ops) finish(rt.loop, op);
  CHECK(back == bytes);
  const uint64_t created = rt.statistics().events_created;
  CHECK(created > 0);
  CHECK_EQ(rt.statistics().live_events, 0);
  for (int i = 0; i < kDevices; ++i) {
    aiocann_mem_release(tokens[i]);
    rt.close(streams[i]);
  }
}

// A wait that is enqueued for a mark whose lane has not seen it yet, or never settles, holds up its stream alone.
void waiting_holds_up_nobody_else() {
  Runtime rt(2);
  aiocann_stream *held = rt.stream(0), *waiting = rt.stream(1), *free_stream = rt.stream(1);
  CHECK_OK(sim().hold(0, -1));
  aiocann_mem *on0 = rt.lazy(1 * kMiB, 0), *on1 = rt.lazy(1 * kMiB, 1);
  aiocann_op *blocked = rt.fill(held, on0, 1);
  aiocann_op *event = rt.mark(held, AIOCANN_MARK_RECORD);
  std::vector<aiocann_op *> behind{rt.wait(waiting, event)};
  auto bytes = pattern(30 * kMiB, 1);
  // Far more staged work than there are chunks, behind the wait.
  aiocann_mem *large = rt.lazy(30 * kMiB, 1);
  for (int i = 0; i < 4; ++i) behind.push_back(rt.copy(waiting, of(large), of(bytes), 30 * kMiB));
  std::vector<unsigned char> back(30 * kMiB), other(30 * kMiB);
  behind.push_back(rt.copy(waiting, of(back), of(large), 30 * kMiB));
  // The other stream of the same device goes on, staged copies included.
  aiocann_mem *mine = rt.lazy(30 * kMiB, 1);
  finish(rt.loop, rt.copy(free_stream, of(mine), of(bytes), 30 * kMiB));
  finish(rt.loop, rt.copy(free_stream, of(other), of(mine), 30 * kMiB));
  finish(rt.loop, rt.copy(free_stream, of(on1), of(bytes), kMiB));
  CHECK(other == bytes);
  CHECK_EQ(aiocann_op_state(blocked), 0);
  CHECK_EQ(aiocann_op_state(event), 0);
  for (aiocann_op *op : behind) CHECK_EQ(aiocann_op_state(op), 0);
  CHECK_EQ(aiocann_stream_idle(waiting), 0);
  CHECK_OK(sim().release(0, -1));
  finish(rt.loop, blocked);
  finish(rt.loop, event);
  for (aiocann_op *op : behind) finish(rt.loop, op);
  CHECK(back == bytes);
  for (aiocann_mem *mem : {on0, on1, large, mine}) aiocann_mem_release(mem);
  for (aiocann_stream *stream : {held, waiting, free_stream}) rt.close(stream);
}

// Many streams stuck with staged copies: others still get staging memory.
void stuck_streams_do_not_keep_the_staging_memory() {
  Runtime rt(2);
  aiocann_stream *gate = rt.stream(0);
  CHECK_OK(sim().hold(0, -1));
  aiocann_mem *on0 = rt.lazy(64, 0);
  aiocann_op *blocked = rt.fill(gate, on0, 1);
  aiocann_op *event = rt.mark(gate, AIOCANN_MARK_RECORD);
  constexpr int kStuck = 12;
  std::vector<aiocann_stream *> streams;
  std::vector<aiocann_op *> ops{blocked, event};
  std::vector<aiocann_mem *> mems{on0};
  std::vector<std::vector<unsigned char>> hosts(kStuck, std::vector<unsigned char>(9 * kMiB));
  std::vector<std::vector<unsigned char>> small(kStuck * 20, std::vector<unsigned char>(1000));
  for (int i = 0; i < kStuck; ++i) {
    streams.push_back(rt.stream(1));
    mems.push_back(rt.allocate(9 * kMiB, 1));
    ops.push_back(rt.wait(streams.back(), event));
    for (int k = 0; k < 20; ++k)
      ops.push_back(rt.copy(streams.back(), of(small[i * 20 + k]), of(mems.back()), 1000));
    ops.push_back(rt.copy(streams.back(), of(hosts[i]), of(mems.back()), 9 * kMiB));
  }
  aiocann_stream *mine = rt.stream(1);
  aiocann_mem *buffer = rt.lazy(20 * kMiB, 1);
  auto bytes = pattern(20 * kMiB, 8);
  std::vector<unsigned char> back(20 * kMiB), little(10);
  finish(rt.loop, rt.copy(mine, of(buffer), of(bytes), 20 * kMiB));
  finish(rt.loop, rt.copy(mine, of(back), of(buffer), 20 * kMiB));
  finish(rt.loop, rt.copy(mine, of(little), of(buffer), 10));
  CHECK(back == bytes);
  CHECK_OK(sim().release(0, -1));
  for (aiocann_op *op : ops) finish(rt.loop, op);
  mems.push_back(buffer);
  streams.push_back(mine);
  streams.push_back(gate);
  for (aiocann_mem *mem : mems) aiocann_mem_release(mem);
  for (aiocann_stream *stream : streams) rt.close(stream);
}

// A mark, and a wait for it, also cover host parts: what a staged copy has yet to bring into ordinary memory.
void marks_cover_host_parts() {
  Runtime rt(2);
  aiocann_stream *first = rt.stream(0), *second = rt.stream(1);
  aiocann_mem *a = rt.lazy(25 * kMiB, 0), *b = rt.lazy(25 * kMiB, 1);
  for (int round = 0; round < 10; ++round) {
    auto bytes = pattern(25 * kMiB, round);
    std::vector<unsigned char> middle(25 * kMiB), back(25 * kMiB);
    aiocann_op *up = rt.copy(first, of(a), of(bytes), 25 * kMiB);
    aiocann_op *down = rt.copy(first, of(middle), of(a), 25 * kMiB);
    aiocann_op *event = rt.mark(first, AIOCANN_MARK_RECORD);
    aiocann_op *wait = rt.wait(second, event);
    aiocann_op *up2 = rt.copy(second, of(b), of(middle), 25 * kMiB);
    aiocann_op *down2 = rt.copy(second, of(back), of(b), 25 * kMiB);
    finish(rt.loop, event);
    CHECK_EQ(aiocann_op_state(down), 1);
    for (aiocann_op *op : {up, down, wait, up2, down2}) finish(rt.loop, op);
    CHECK(back == bytes);
  }
  aiocann_mem_release(a);
  aiocann_mem_release(b);
  rt.close(first);
  rt.close(second);
}

// More commands than a driver's queue holds, behind a held engine: enqueueing never blocks, other streams go on.
void credit() {
  Runtime rt(1);
  aiocann_stream *full = rt.stream(), *other = rt.stream();
  aiocann_stream *source = rt.stream();
  aiocann_mem *buffer = rt.allocate(64), *apart = rt.allocate(64);
  aiocann_op *event = nullptr;
  CHECK_OK(sim().hold(0, -1));
  aiocann_op *first = rt.fill(source, buffer, 1);
  event = rt.mark(source, AIOCANN_MARK_RECORD);
  aiocann_op *wait = rt.wait(full, event);
  std::vector<aiocann_op *> ops;
  for (int i = 0; i < 3000; ++i) ops.push_back(rt.fill(full, buffer, i));
  CHECK_OK(sim().release(0, -1));
  finish(rt.loop, rt.fill(other, apart, 3));
  for (aiocann_op *op : ops) finish(rt.loop, op);
  finish(rt.loop, first);
  finish(rt.loop, event);
  finish(rt.loop, wait);
  aiocann_mem_release(buffer);
  aiocann_mem_release(apart);
  for (aiocann_stream *stream : {full, other, source}) rt.close(stream);
}

void timestamps_go_forward() {
  Runtime rt(1);
  aiocann_stream *stream = rt.stream();
  aiocann_op *before = rt.mark(stream, AIOCANN_MARK_RECORD);
  aiocann_mem *buffer = rt.lazy(64 * kMiB);
  aiocann_op *work = rt.fill(stream, buffer, 1);
  aiocann_op *after = rt.mark(stream, AIOCANN_MARK_RECORD);
  for (aiocann_op *op : {before, work, after}) rt.loop.await(op);
  CHECK(aiocann_op_timestamp_us(before) > 0);
  CHECK(aiocann_op_timestamp_us(after) > aiocann_op_timestamp_us(before));
  CHECK_EQ(aiocann_op_timestamp_us(work), 0);
  for (aiocann_op *op : {before, work, after}) aiocann_op_release(op);
  aiocann_mem_release(buffer);
  rt.close(stream);
}

// Threads enqueue on streams of their own and on shared ones, with loops of their own.
void many_threads() {
  Runtime rt(4);
  constexpr int kThreads = 6, kRounds = 150;
  std::vector<aiocann_stream *> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(rt.stream(i));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Loop loop;
      const int device = t % 4;
      for (int i = 0; i < kRounds; ++i) {
        const uint64_t size = 1 + (static_cast<uint64_t>(i) * 7919 + t * 131) % 100000;
        auto bytes = pattern(size, t * 1000 + i);
        std::vector<unsigned char> back(size);
        aiocann_mem *mem = nullptr;
        accepted(aiocann_device_allocate_lazy(aiocann_runtime_device(rt.raw, device), size, &mem));
        const aiocann_span device_side = of(mem), up_side = of(bytes), down_side = of(back);
        aiocann_op *up = nullptr, *down = nullptr;
        accepted(
            aiocann_stream_memcpy(streams[device], &device_side, &up_side, size, loop.raw, &up));
        accepted(aiocann_stream_memcpy(streams[device], &down_side, &device_side, size, loop.raw,
                                       &down));
        aiocann_mem_release(mem);  // the ops keep it
        finish(loop, down);
        finish(loop, up);
        CHECK(back == bytes);
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  rt.settles_at(&aiocann_statistics::live_buffers, 0);
  rt.settles_at(&aiocann_statistics::pool_used_bytes, 0);
  CHECK_EQ(rt.statistics().in_flight_ops, 0);
  CHECK_EQ(rt.statistics().in_flight_bytes, 0);
  for (aiocann_stream *stream : streams) rt.close(stream);
  CHECK_EQ(rt.statistics().live_streams, 0);
}

// The same stream may have a block again before its last use has passed; others may not.
void stream_ordered_reuse() {
  Runtime rt(1);
  aiocann_stream *stream = rt.stream(), *other = rt.stream();
  aiocann_mem *pad = rt.allocate(16);  // a segment is there
  CHECK_OK(sim().hold(0, -1));
  aiocann_mem *first = rt.allocate(kMiB, 0, stream);
  const uint64_t address = aiocann_mem_address(first);
  aiocann_op *use = rt.fill(stream, first, 1);
  aiocann_mem_release(first);
  rt.settles_at(&aiocann_statistics::pool_used_bytes, 512);  // its lane knows that it was dropped
  aiocann_mem *elsewhere = rt.allocate(kMiB, 0, other);
  CHECK(aiocann_mem_address(elsewhere) != address);
  aiocann_mem *again = rt.allocate(kMiB, 0, stream);
  CHECK_EQ(aiocann_mem_address(again), address);
  CHECK_EQ(aiocann_op_state(use), 0);
  aiocann_op *use2 = rt.fill(stream, again, 2);
  std::vector<unsigned char> back(kMiB);
  aiocann_op *down = rt.copy(stream, of(back), of(again), kMiB);
  CHECK_OK(sim().release(0, -1));
  for (aiocann_op *op : {use, use2, down}) finish(rt.loop, op);
  CHECK(back == std::vector<unsigned char>(kMiB, 2));
  for (aiocann_mem *mem : {pad, elsewhere, again}) aiocann_mem_release(mem);
  rt.settles_at(&aiocann_statistics::pool_used_bytes, 0);
  rt.close(stream);
  rt.close(other);
}

}  // namespace

int main() {
  one_stream_is_in_order();
  waits_across_devices();
  waiting_holds_up_nobody_else();
  stuck_streams_do_not_keep_the_staging_memory();
  marks_cover_host_parts();
  credit();
  timestamps_go_forward();
  many_threads();
  stream_ordered_reuse();
}
