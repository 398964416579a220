// A process without memory: entries of the C ABI answer with a code and a text, whichever allocation fails.
#include <cstdlib>
#include <new>

#include "core_driver.hpp"

using namespace core_test;

namespace {

thread_local int allocations_left = -1;  ///< -1: as many as one likes

void *allocate(std::size_t n) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void *memory = std::malloc(n);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void *operator new(std::size_t n) { return allocate(n); }
void *operator new[](std::size_t n) { return allocate(n); }
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::size_t) noexcept { std::free(memory); }

namespace {

/// call with its nth allocation failing, for every n until it goes well; how many failed.
template <typename Call>
int starve(Call &&call) {
  for (int n = 0;; ++n) {
    CHECK(n < 100);
    allocations_left = n;
    const int32_t code = call();
    allocations_left = -1;
    if (code == 0) return n;
    CHECK_EQ(code, AIOCANN_E_NO_MEMORY);
    CHECK_EQ(aiocann_last_error()->code, AIOCANN_E_NO_MEMORY);
    CHECK_CONTAINS(aiocann_last_error()->detail, "no memory");
  }
}

}  // namespace

int main() {
  Runtime rt(1);
  aiocann_stream *stream = rt.stream();
  aiocann_mem *mem = rt.allocate(64), *lazy = nullptr;
  aiocann_op *op = nullptr;
  CHECK(starve([&] { return aiocann_device_allocate_lazy(rt.device(0), 64, &lazy); }) > 0);
  CHECK(starve([&] { return aiocann_stream_mark(stream, 0, rt.loop.raw, &op); }) > 0);
  finish(rt.loop, op);
  CHECK(starve([&] { return aiocann_pinned_allocate(rt.raw, 64, rt.loop.raw, &op); }) > 0);
  aiocann_mem *pinned = result<aiocann_mem>(rt.loop, op);
  CHECK(starve([&] { return aiocann_device_memory_info(rt.device(0), rt.loop.raw, &op); }) > 0);
  finish(rt.loop, op);
  // A refusal, too, needs memory for its text.
  CHECK(starve([&] {
          const int32_t code = aiocann_stream_mark(stream, 9, rt.loop.raw, &op);
          return code == AIOCANN_E_USAGE ? 0 : code;
        }) > 0);
  finish(rt.loop, rt.fill(stream, mem, 1));
  for (aiocann_mem *each : {mem, lazy, pinned}) aiocann_mem_release(each);
  rt.close(stream);
}
