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

// Inlined, each pair looks to the compiler like one of new and free().
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

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
    CHECK(n < 1000);
    allocations_left = n;
    const int32_t code = call();
    allocations_left = -1;
    if (code == 0) return n;
    CHECK_EQ(code, AIOCANN_E_NO_MEMORY);
    CHECK_EQ(aiocann_last_error()->code, AIOCANN_E_NO_MEMORY);
    CHECK_CONTAINS(aiocann_last_error()->detail, "no memory");
  }
}

/// As starve, of a call that answers a pointer.
template <typename Call>
int starve_pointer(Call &&call) {
  return starve([&] { return call() != nullptr ? 0 : aiocann_last_error()->code; });
}

void opening_and_closing() {
  const aiocann_config config{"sim", Simulator::path(), nullptr, 1};
  Loop loop;
  aiocann_runtime *rt = nullptr;
  aiocann_op *op = nullptr;
  CHECK(starve([&] { return aiocann_runtime_open(&config, loop.raw, &rt, &op); }) > 2);
  finish(loop, op);
  const auto ops_in_flight = [&] {
    aiocann_statistics counted;
    aiocann_runtime_statistics(rt, &counted);
    return counted.in_flight_ops;
  };
  // Until there is a thread that closes, it stays open.
  CHECK(starve([&] {
          const int32_t code = aiocann_runtime_close(rt, 30000, loop.raw, &op);
          CHECK((code == 0) == (op != nullptr));
          CHECK(code == 0 || ops_in_flight() == 0);
          return code;
        }) > 2);
  finish(loop, op);
  aiocann_runtime_release(rt);
  // Nobody is told; what cannot be closed stays, and may be closed and released later.
  accepted(aiocann_runtime_open(&config, loop.raw, &rt, &op));
  finish(loop, op);
  allocations_left = 0;
  aiocann_runtime_release(rt);
  allocations_left = -1;
  accepted(aiocann_runtime_close(rt, 30000, loop.raw, &op));
  finish(loop, op);
  aiocann_runtime_release(rt);
}

void what_makes_no_op() {
  aiocann_loop *loop = nullptr;
  CHECK(starve_pointer([&] { return loop = aiocann_loop_create(-1); }) == 1);
  aiocann_loop_release(loop);
  CHECK(starve_pointer([&] { return aiocann_op_table_row(0); }) > 0);
  CHECK(starve([&] {
          const int32_t code = aiocann_op_infer(-1, nullptr, 0, nullptr, nullptr, nullptr);
          return code == AIOCANN_E_USAGE ? 0 : code;
        }) > 0);
  CHECK(starve([&] {
          const int32_t code = aiocann_signal_watch(-1, -1);
          return code == AIOCANN_E_USAGE ? 0 : code;
        }) > 0);
  CHECK(starve([&] {
          const int32_t code = aiocann_cann_present();
          return code < 0 ? code : 0;
        }) > 0);
}

}  // namespace

int main() {
  opening_and_closing();
  what_makes_no_op();
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
  Loop other;
  CHECK_OK(sim().hold(0, -1));
  op = rt.fill(stream, mem, 1);
  CHECK(starve([&] { return aiocann_op_watch(op, other.raw); }) == 1);
  CHECK_OK(sim().release(0, -1));
  other.await(op);
  finish(rt.loop, op);
  for (aiocann_mem *each : {mem, lazy, pinned}) aiocann_mem_release(each);
  rt.close(stream);
}
