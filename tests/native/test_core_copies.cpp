// Copies of every kind and size through the core and the simulator: the bytes arrive, by the path that is promised.
#include <thread>

#include "core_driver.hpp"

using namespace core_test;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
const uint64_t kSizes[] = {1,     3,        511,          4096,     65535,        65536,
                           65537, kMiB + 1, 4 * kMiB - 1, 4 * kMiB, 4 * kMiB + 1, 21 * kMiB + 5};

void *address(aiocann_mem *mem) { return reinterpret_cast<void *>(aiocann_mem_address(mem)); }

void direct_round_trip() {
  Runtime rt(1);
  aiocann_stream *stream = rt.stream();
  aiocann_mem *from = rt.pinned(kMiB), *to = rt.pinned(kMiB);
  aiocann_mem *buffer = rt.lazy(kMiB);
  CHECK_EQ(aiocann_mem_address(buffer), 0);
  const auto bytes = pattern(kMiB, 1);
  std::memcpy(address(from), bytes.data(), bytes.size());
  aiocann_op *up = rt.copy(stream, of(buffer), of(from), kMiB);
  aiocann_op *down = rt.copy(stream, of(to), of(buffer), kMiB);
  CHECK_EQ(aiocann_op_path(up), AIOCANN_PATH_DIRECT);
  CHECK_EQ(aiocann_op_path(down), AIOCANN_PATH_DIRECT);
  finish(rt.loop, up);
  finish(rt.loop, down);
  CHECK(aiocann_mem_address(buffer) != 0);
  CHECK(std::memcmp(address(to), bytes.data(), bytes.size()) == 0);
  for (aiocann_mem *mem : {from, to, buffer}) aiocann_mem_release(mem);
  rt.close(stream);
  rt.settles_at(&aiocann_statistics::live_buffers, 0);
  CHECK_EQ(rt.statistics().pinned_bytes, 0);
  CHECK_EQ(rt.statistics().h2d_bytes, kMiB);
  CHECK_EQ(rt.statistics().d2h_bytes, kMiB);
}

void ordinary_memory_of_every_size() {
  Runtime rt(1);
  aiocann_stream *stream = rt.stream();
  for (uint64_t size : kSizes) {
    auto bytes = pattern(size, size);
    std::vector<unsigned char> back(size), back2(size);
    aiocann_mem *a = rt.lazy(size), *b = rt.lazy(size + 7);
    // All enqueued at once: host -> a -> b -> host, and a -> host.
    aiocann_op *ops[] = {
        rt.copy(stream, of(a), of(bytes), size),
        rt.copy(stream, of(b, 7), of(a), size),
        rt.copy(stream, of(back), of(b, 7), size),
        rt.copy(stream, of(back2), of(a), size),
    };
    CHECK_EQ(aiocann_op_path(ops[0]), AIOCANN_PATH_STAGED);
    CHECK_EQ(aiocann_op_path(ops[1]), AIOCANN_PATH_DIRECT);
    for (aiocann_op *op : ops) finish(rt.loop, op);
    CHECK(back == bytes);
    CHECK(back2 == bytes);
    aiocann_mem_release(a);
    aiocann_mem_release(b);
  }
  rt.close(stream);
}

void offsets_and_pinned_addresses() {
  Runtime rt(1);
  aiocann_stream *stream = rt.stream();
  aiocann_mem *pinned = rt.pinned(kMiB), *buffer = rt.allocate(kMiB);
  auto bytes = pattern(kMiB, 5);
  std::memcpy(address(pinned), bytes.data(), kMiB);
  finish(rt.loop, rt.fill(stream, buffer, 0));
  // An address inside a pinned block is recognised, and the op keeps the block.
  char *inside = static_cast<char *>(address(pinned)) + 100;
  aiocann_op *op = rt.copy(stream, of(buffer, 300), of(static_cast<void *>(inside)), 1000);
  CHECK_EQ(aiocann_op_path(op), AIOCANN_PATH_DIRECT);
  aiocann_mem_release(pinned);
  finish(rt.loop, op);
  std::vector<unsigned char> back(2000);
  finish(rt.loop, rt.copy(stream, of(back), of(buffer), 2000));
  CHECK(std::memcmp(&back[300], &bytes[100], 1000) == 0);
  CHECK_EQ(back[299], 0);
  CHECK_EQ(back[1300], 0);
  rt.settles_at(&aiocann_statistics::live_buffers, 1);
  aiocann_mem_release(buffer);
  rt.close(stream);
}

void host_to_host_in_order() {
  Runtime rt(1);
  aiocann_stream *stream = rt.stream();
  for (uint64_t size : kSizes) {
    auto bytes = pattern(size, size + 1);
    std::vector<unsigned char> middle(size), back(size), end(size);
    aiocann_mem *buffer = rt.lazy(size);
    aiocann_op *ops[] = {
        rt.copy(stream, of(buffer), of(bytes), size), rt.copy(stream, of(middle), of(buffer), size),
        rt.copy(stream, of(back), of(middle), size), rt.copy(stream, of(buffer), of(back), size),
        rt.copy(stream, of(end), of(buffer), size)};
    for (aiocann_op *op : ops) finish(rt.loop, op);
    CHECK(middle == bytes);
    CHECK(back == bytes);
    CHECK(end == bytes);
    aiocann_mem_release(buffer);
  }
  // Within one array, overlapping.
  for (const auto &[to, from] : {std::pair{1000, 0}, std::pair{0, 1000}}) {
    auto bytes = pattern(11 * kMiB, 3);
    auto expected = bytes;
    std::memmove(&expected[to], &expected[from], 10 * kMiB);
    finish(rt.loop, rt.copy(stream, of(bytes, to), of(bytes, from), 10 * kMiB));
    CHECK(bytes == expected);
  }
  rt.close(stream);
}

void between_devices(const char *peers, int32_t path) {
  Runtime rt(2, peers);
  CHECK_EQ(aiocann_device_can_access_peer(rt.device(0), rt.device(1)), path == AIOCANN_PATH_PEER);
  aiocann_stream *first = rt.stream(0), *second = rt.stream(1);
  for (uint64_t size : kSizes) {
    auto bytes = pattern(size, size + 2);
    std::vector<unsigned char> back(size), back2(size);
    aiocann_mem *a = rt.lazy(size, 0), *b = rt.lazy(size, 1), *c = rt.lazy(size, 0);
    aiocann_op *up = rt.copy(first, of(a), of(bytes), size);
    aiocann_op *event = rt.mark(first, AIOCANN_MARK_RECORD);
    aiocann_op *wait = rt.wait(second, event);
    aiocann_op *pull = rt.copy(second, of(b), of(a), size);  // by the destination's stream
    aiocann_op *push = rt.copy(second, of(c), of(b), size);  // by the source's stream
    CHECK_EQ(aiocann_op_path(pull), path);
    aiocann_op *down = rt.copy(second, of(back), of(b), size);
    aiocann_op *event2 = rt.mark(second, AIOCANN_MARK_RECORD);
    aiocann_op *wait2 = rt.wait(first, event2);
    aiocann_op *down2 = rt.copy(first, of(back2), of(c), size);
    for (aiocann_op *op : {up, event, wait, pull, push, down, event2, wait2, down2})
      finish(rt.loop, op);
    CHECK(back == bytes);
    CHECK(back2 == bytes);
    for (aiocann_mem *mem : {a, b, c}) aiocann_mem_release(mem);
  }
  rt.close(first);
  rt.close(second);
  CHECK(rt.statistics().peer_bytes > 0);
  CHECK_EQ(rt.statistics().d2d_bytes, 0);
}

void without_notification() {
  Runtime rt(1);
  aiocann_stream *stream = rt.stream();
  aiocann_mem *pinned = rt.pinned(1000 * 256), *buffer = rt.lazy(1000 * 256),
              *back = rt.pinned(1000 * 256);
  auto bytes = pattern(1000 * 256, 9);
  std::memcpy(address(pinned), bytes.data(), bytes.size());
  for (uint64_t i = 0; i < 1000; ++i) {
    const aiocann_span dst = of(buffer, i * 256), src = of(pinned, i * 256);
    accepted(aiocann_stream_memcpy(stream, &dst, &src, 256, nullptr, nullptr));
  }
  const aiocann_span dst = of(back), src = of(buffer);
  accepted(aiocann_stream_memcpy(stream, &dst, &src, 1000 * 256, nullptr, nullptr));
  finish(rt.loop, rt.mark(stream));
  CHECK(std::memcmp(address(back), bytes.data(), bytes.size()) == 0);
  CHECK_EQ(aiocann_stream_idle(stream), 1);
  // Ordinary memory cannot go without: nobody could tell when it is free.
  const aiocann_span ordinary = of(bytes);
  CHECK_EQ(aiocann_stream_memcpy(stream, &src, &ordinary, 16, nullptr, nullptr), AIOCANN_E_USAGE);
  // And without a mark: the lane sees to it that they end.
  accepted(aiocann_stream_memset(stream, buffer, 0, 1, 1000, nullptr, nullptr));
  for (int i = 0; i < 20000 && aiocann_stream_idle(stream) == 0; ++i) std::this_thread::yield();
  rt.settles_at(&aiocann_statistics::in_flight_ops, 0);
  for (aiocann_mem *mem : {pinned, buffer, back}) aiocann_mem_release(mem);
  rt.close(stream);
}

void bad_arguments() {
  Runtime rt(2);
  aiocann_stream *stream = rt.stream(0);
  aiocann_mem *here = rt.allocate(100, 0), *there = rt.allocate(100, 1);
  aiocann_op *op = nullptr;
  std::vector<unsigned char> host(1000);
  auto refuse = [&](aiocann_span dst, aiocann_span src, uint64_t nbytes, const char *why) {
    CHECK_EQ(aiocann_stream_memcpy(stream, &dst, &src, nbytes, rt.loop.raw, &op), AIOCANN_E_USAGE);
    CHECK_CONTAINS(aiocann_last_error()->detail, why);
  };
  refuse(of(here), of(host), 101, "has 100 bytes");
  refuse(of(here, 60), of(host), 50, "has 100 bytes");
  refuse(of(here, UINT64_MAX), of(host), 2, "has 100 bytes");
  refuse(of(there), of(host), 10, "device 1");
  refuse(of(there), of(there), 10, "neither side");
  refuse(of(here), of(static_cast<void *>(nullptr)), 10, "neither memory nor an address");
  CHECK_EQ(aiocann_stream_memset(stream, there, 0, 0, 10, rt.loop.raw, &op), AIOCANN_E_USAGE);
  CHECK_EQ(aiocann_stream_memset(stream, here, 90, 0, 11, rt.loop.raw, &op), AIOCANN_E_USAGE);
  aiocann_mem *mem = nullptr;
  CHECK_EQ(aiocann_device_allocate(rt.device(0), 0, nullptr, 0, rt.loop.raw, &mem, &op),
           AIOCANN_E_USAGE);
  CHECK_EQ(aiocann_device_allocate(rt.device(1), 8, stream, 0, rt.loop.raw, &mem, &op),
           AIOCANN_E_USAGE);
  CHECK_EQ(aiocann_pinned_allocate(rt.raw, 0, rt.loop.raw, &op), AIOCANN_E_USAGE);
  // Nothing to copy: settled at once, delivered once.
  const aiocann_span dst = of(here), src = of(host);
  accepted(aiocann_stream_memcpy(stream, &dst, &src, 0, rt.loop.raw, &op));
  CHECK_EQ(aiocann_op_state(op), 1);
  finish(rt.loop, op);
  aiocann_mem_release(here);
  aiocann_mem_release(there);
  rt.close(stream);
  CHECK_EQ(rt.statistics().in_flight_bytes, 0);
}

void no_wait_allocation() {
  Runtime rt(1);
  aiocann_mem *mem = nullptr;
  aiocann_op *op = nullptr;
  CHECK_EQ(aiocann_device_allocate(rt.device(0), 4096, nullptr, 1, rt.loop.raw, &mem, &op),
           AIOCANN_E_WOULD_BLOCK);
  aiocann_mem *first = rt.allocate(4096);
  CHECK_OK(aiocann_device_allocate(rt.device(0), 4096, nullptr, 1, rt.loop.raw, &mem, &op));
  CHECK(op == nullptr);
  CHECK(aiocann_mem_address(mem) != aiocann_mem_address(first));
  CHECK_EQ(rt.statistics().pool_used_bytes, 8192);
  aiocann_mem_release(mem);
  aiocann_mem_release(first);
  rt.settles_at(&aiocann_statistics::pool_used_bytes, 0);
}

}  // namespace

int main() {
  direct_round_trip();
  ordinary_memory_of_every_size();
  offsets_and_pinned_addresses();
  host_to_host_in_order();
  between_devices("all", AIOCANN_PATH_PEER);
  between_devices("none", AIOCANN_PATH_STAGED);
  without_notification();
  bad_arguments();
  no_wait_allocation();
}
