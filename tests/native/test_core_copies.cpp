// Copies of every kind and size through the core and the simulator: the bytes arrive, by the path that is promised.
#include "core_driver.hpp"

using namespace core_test;

namespace {

void direct_round_trip() {
  Runtime rt(1);
  aiocann_stream *stream = rt.stream();
  aiocann_mem *from = rt.pinned(1 << 20), *to = rt.pinned(1 << 20);
  aiocann_mem *buffer = rt.lazy(1 << 20);
  CHECK_EQ(aiocann_mem_address(buffer), 0);
  const auto bytes = pattern(1 << 20, 1);
  std::memcpy(reinterpret_cast<void *>(aiocann_mem_address(from)), bytes.data(), bytes.size());
  aiocann_op *up = rt.copy(stream, of(buffer), of(from), 1 << 20);
  aiocann_op *down = rt.copy(stream, of(to), of(buffer), 1 << 20);
  CHECK_EQ(aiocann_op_path(up), AIOCANN_PATH_DIRECT);
  CHECK_EQ(aiocann_op_path(down), AIOCANN_PATH_DIRECT);
  finish(rt.loop, up);
  finish(rt.loop, down);
  CHECK(aiocann_mem_address(buffer) != 0);
  CHECK(std::memcmp(reinterpret_cast<void *>(aiocann_mem_address(to)), bytes.data(), bytes.size()) == 0);
  for (aiocann_mem *mem : {from, to, buffer}) aiocann_mem_release(mem);
  rt.close(stream);
  rt.settles_at(&aiocann_statistics::live_buffers, 0);
  CHECK_EQ(rt.statistics().pinned_bytes, 0);
}

}  // namespace

int main() { direct_round_trip(); }
