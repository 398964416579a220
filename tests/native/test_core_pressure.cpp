// Every deadlock that one could fear: what is full, held or exhausted holds up nobody who could go on, and itself goes
// on when what it lacks comes back.
#include "core_driver.hpp"

using namespace core_test;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

void finish_all(Runtime &rt, std::vector<aiocann_op *> &ops) {
  for (aiocann_op *op : ops) finish(rt.loop, op);
  ops.clear();
}

void give_up(Runtime &rt, const std::vector<aiocann_mem *> &mems,
             const std::vector<aiocann_stream *> &streams) {
  for (aiocann_mem *mem : mems) aiocann_mem_release(mem);
  for (aiocann_stream *stream : streams) rt.close(stream);
  CHECK_EQ(rt.statistics().in_flight_ops, 0);
  CHECK_EQ(rt.statistics().live_events, 0);
}

// A stream whose credit is used up, behind a wait for a device that stands still: its own device goes on, and so does
// one that waits for it in turn, once it may.
void full_stream_behind_a_wait() {
  Runtime rt(2);
  aiocann_stream *gate = rt.stream(0), *full = rt.stream(1), *other = rt.stream(1);
  aiocann_stream *behind = rt.stream(1);
  aiocann_mem *on0 = rt.allocate(64, 0), *a = rt.allocate(64, 1), *b = rt.allocate(64, 1);
  CHECK_OK(sim().hold(0, -1));
  std::vector<aiocann_op *> ops{rt.fill(gate, on0, 1), rt.mark(gate, AIOCANN_MARK_RECORD)};
  ops.push_back(rt.wait(full, ops[1]));
  for (int i = 0; i < 2000; ++i) ops.push_back(rt.fill(full, a, i & 255));
  // Recorded by a command that the lane cannot even submit yet.
  aiocann_op *far = rt.mark(full, AIOCANN_MARK_RECORD);
  ops.push_back(far);
  ops.push_back(rt.wait(behind, far));
  for (int i = 0; i < 600; ++i) ops.push_back(rt.fill(behind, a, 7));
  for (int i = 0; i < 1200; ++i)
    accepted(aiocann_stream_memset(other, b, 0, i & 255, 64, nullptr, nullptr));
  finish(rt.loop, rt.mark(other));
  CHECK_EQ(aiocann_op_state(far), 0);
  std::vector<unsigned char> back(64);
  CHECK_OK(sim().release(0, -1));
  finish_all(rt, ops);
  finish(rt.loop, rt.copy(behind, of(back), of(a), 64));
  CHECK(back == std::vector<unsigned char>(64, 7));
  give_up(rt, {on0, a, b}, {gate, full, other, behind});
}

// Chains of waits: every stream waits for the one before it, over and over, across devices; enqueued in an order in
// which each wait comes long before its record could pass.
void chains_across_devices() {
  constexpr int kDevices = 4, kPerDevice = 4, kStreams = kDevices * kPerDevice, kRounds = 12;
  Runtime rt(kDevices);
  std::vector<aiocann_stream *> streams;
  std::vector<aiocann_mem *> mems;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(rt.stream(i % kDevices));
    mems.push_back(rt.allocate(256, i % kDevices));
  }
  CHECK_OK(sim().hold(0, -1));
  std::vector<aiocann_op *> ops{rt.fill(streams[0], mems[0], 200)};
  aiocann_op *last = nullptr;
  for (int step = 0; step < kRounds * kStreams; ++step) {
    const int at = step % kStreams, next = (step + 1) % kStreams;
    last = rt.mark(streams[at], AIOCANN_MARK_RECORD);
    ops.push_back(last);
    ops.push_back(rt.wait(streams[next], last));
    ops.push_back(rt.copy(streams[next], of(mems[next]), of(mems[at]), 256));
  }
  CHECK_EQ(aiocann_op_state(last), 0);
  CHECK_OK(sim().release(0, -1));
  finish_all(rt, ops);
  std::vector<unsigned char> back(256);
  finish(rt.loop, rt.copy(streams[0], of(back), of(mems[0]), 256));
  CHECK(back == std::vector<unsigned char>(256, 200));
  give_up(rt, mems, streams);
}

// A copy far larger than the staging memory, held half-way: small ones on other streams of the device go on.
void small_copies_beside_a_huge_one() {
  Runtime rt(2);
  aiocann_stream *gate = rt.stream(0), *up = rt.stream(1), *down = rt.stream(1),
                 *small = rt.stream(1);
  aiocann_mem *on0 = rt.allocate(64, 0);
  aiocann_mem *first = rt.allocate(100 * kMiB, 1), *second = rt.allocate(100 * kMiB, 1);
  aiocann_mem *mine = rt.allocate(5 * kMiB, 1);
  const auto bytes = pattern(100 * kMiB, 3), little = pattern(5 * kMiB, 4);
  std::vector<unsigned char> there(100 * kMiB), back(5 * kMiB);
  CHECK_OK(sim().hold(0, -1));
  std::vector<aiocann_op *> ops{rt.fill(gate, on0, 1), rt.mark(gate, AIOCANN_MARK_RECORD)};
  for (aiocann_stream *stream : {up, down}) ops.push_back(rt.wait(stream, ops[1]));
  aiocann_op *huge =
      rt.copy(up, of(first), of(const_cast<unsigned char *>(bytes.data())), 100 * kMiB);
  ops.push_back(huge);
  ops.push_back(rt.copy(down, of(there), of(second), 100 * kMiB));
  for (const uint64_t n : {uint64_t{10}, uint64_t{64} << 10, kMiB, 5 * kMiB}) {
    for (int i = 0; i < 10; ++i) {
      finish(rt.loop, rt.copy(small, of(mine), of(const_cast<unsigned char *>(little.data())), n));
      finish(rt.loop, rt.copy(small, of(back), of(mine), n));
    }
    CHECK(std::memcmp(back.data(), little.data(), n) == 0);
  }
  CHECK_EQ(aiocann_op_state(huge), 0);
  CHECK_OK(sim().release(0, -1));
  finish_all(rt, ops);
  finish(rt.loop, rt.copy(up, of(there), of(first), 100 * kMiB));
  CHECK(there == bytes);
  give_up(rt, {on0, first, second, mine}, {gate, up, down, small});
}

// Copies both ways at once between devices that cannot reach each other: each lane needs the other's.
void crossing_copies() {
  Runtime rt(2, "none");
  std::vector<aiocann_stream *> streams;
  std::vector<aiocann_mem *> mems;
  std::vector<aiocann_op *> ops;
  for (int device : {0, 1}) CHECK_OK(sim().hold(device, -1));
  for (int i = 0; i < 6; ++i) {
    aiocann_stream *stream = rt.stream(i % 2);
    aiocann_mem *here = rt.lazy(41 * kMiB, i % 2), *there = rt.lazy(41 * kMiB, 1 - i % 2);
    ops.push_back(rt.fill(stream, here, i + 1));
    ops.push_back(rt.copy(stream, of(there), of(here), 41 * kMiB));
    ops.push_back(rt.copy(stream, of(here), of(there), 41 * kMiB));
    CHECK_EQ(aiocann_op_path(ops.back()), AIOCANN_PATH_STAGED);
    streams.push_back(stream);
    mems.push_back(here);
    mems.push_back(there);
  }
  for (int device : {0, 1}) CHECK_OK(sim().release(device, -1));
  finish_all(rt, ops);
  std::vector<unsigned char> back(41 * kMiB);
  for (int i = 0; i < 6; ++i) {
    finish(rt.loop, rt.copy(streams[i], of(back), of(mems[2 * i]), 41 * kMiB));
    CHECK(back == std::vector<unsigned char>(41 * kMiB, static_cast<unsigned char>(i + 1)));
  }
  give_up(rt, mems, streams);
}

// Fewer events than commands want: held streams go on as events come back, and nothing fails.
void events_run_out(const char *setting, const char *value, int n_streams, int per_stream) {
  nothing_open();
  CHECK_OK(sim().configure(setting, value));
  {
    Runtime rt(1);
    std::vector<aiocann_stream *> streams;
    aiocann_mem *mem = rt.allocate(64);
    std::vector<aiocann_op *> ops;
    for (int i = 0; i < n_streams; ++i) streams.push_back(rt.stream());
    CHECK_OK(sim().hold(0, -1));
    for (int k = 0; k < per_stream; ++k) {
      for (int i = 0; i < n_streams; ++i) {
        ops.push_back(rt.fill(streams[i], mem, k & 255));
        ops.push_back(rt.mark(streams[i], AIOCANN_MARK_RECORD));
        ops.push_back(rt.wait(streams[(i + 1) % n_streams], ops.back()));
      }
    }
    CHECK_OK(sim().release(0, -1));
    finish_all(rt, ops);
    give_up(rt, {mem}, streams);
  }
  CHECK_OK(sim().configure(setting, nullptr));
}

}  // namespace

int main() {
  full_stream_behind_a_wait();
  chains_across_devices();
  small_copies_beside_a_huge_one();
  crossing_copies();
  events_run_out("max_events", "5", 6, 40);
  events_run_out("soc", "Ascend310P3", 8, 200);
}
