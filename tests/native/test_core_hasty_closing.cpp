// Closing in a hurry: whoever asks again with less time gets it, and what is given up ends at its next slice.
#include <memory>

#include "core_driver.hpp"

using namespace core_test;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kLarge = 128 * kMiB;

void asked_again_with_less_time() {
  Runtime rt(1);
  aiocann_stream *stream = rt.stream();
  aiocann_mem *mem = rt.allocate(64);
  CHECK_OK(sim().hold(0, -1));
  aiocann_op *fill = rt.fill(stream, mem, 1), *first = nullptr, *later = nullptr;
  accepted(aiocann_runtime_close(rt.raw, 10 * kPatienceMs, rt.loop.raw, &first));
  // No more time than before: not that.
  accepted(aiocann_runtime_close(rt.raw, 20 * kPatienceMs, rt.loop.raw, &later));
  rt.loop.turn(50);
  CHECK_EQ(aiocann_op_state(first), 0);
  accepted(aiocann_runtime_close(rt.raw, 0, nullptr, nullptr));
  for (aiocann_op *close : {first, later}) {
    CHECK_CONTAINS(fails(rt.loop, close, AIOCANN_E_TIMEOUT), "1 commands had not ended");
  }
  CHECK_CONTAINS(fails(rt.loop, fill, AIOCANN_E_CLOSED), "aborted");
  CHECK_OK(sim().release(0, -1));
  aiocann_mem_release(mem);
  aiocann_stream_release(stream);
}

/// Until the copy, which was going on when the runtime was closed, did not come to its end.
void copies_end(size_t dst, size_t src) {
  for (int i = 0; i < 20; ++i) {
    Runtime rt(1);
    aiocann_stream *stream = rt.stream();
    std::unique_ptr<char[]> memory(new char[kLarge + kMiB]());
    std::memset(&memory[src], 1, kLarge);
    char *const first = &memory[dst], *const last = first + kLarge - 1;
    *first = *last = 0;
    aiocann_op *copy = rt.copy(stream, of(first), of(&memory[src]), kLarge), *close = nullptr;
    accepted(aiocann_runtime_close(rt.raw, 0, rt.loop.raw, &close));
    rt.loop.await(close);
    rt.loop.await(copy);
    const bool has_failed = aiocann_op_state(copy) == 2;
    for (aiocann_op *op : {close, copy}) aiocann_op_release(op);
    aiocann_stream_release(stream);
    // Whatever the direction in which it went.
    if (has_failed && (*first == 0 || *last == 0)) return;
  }
  CHECK(!"a copy that was given up goes on to its end");
}

}  // namespace

int main() {
  asked_again_with_less_time();
  copies_end(0, kMiB);
  copies_end(kMiB, 0);
}
