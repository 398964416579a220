// Closing is bounded also where a call of the driver does not return: the core's table of functions is changed under
// it, so that a call waits until the test lets it go.
#include <atomic>
#include <thread>

#include "core/lane.hpp"
#include "core/runtime.hpp"
#include "core_driver.hpp"

using namespace core_test;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::atomic<bool> hangs{false};
std::atomic<int> inside{0};

int32_t hang() {
  inside.fetch_add(1);
  while (hangs.load()) usleep(1000);
  inside.fetch_sub(1);
  return 0;
}

decltype(aiocann::acl::Api::aclrtMemsetAsync) real_memset;

/// In abort: what was not submitted fails as well. Otherwise it is the thread's, and fails when that comes back.
[[maybe_unused]] void closing(bool in_abort) {
  Runtime rt(2);
  auto &api = const_cast<aiocann::acl::Api &>(rt.raw->api());
  const aiocann::acl::Api before = api;
  real_memset = before.aclrtMemsetAsync;
  aiocann_stream *stuck = rt.stream(0), *fine = rt.stream(1);
  aiocann_mem *mem = rt.allocate(kMiB, 0), *other = rt.allocate(kMiB, 1);
  std::vector<unsigned char> host(9 * kMiB);
  aiocann_mem *large = rt.allocate(9 * kMiB, 0);
  CHECK_OK(sim().hold(0, -1));
  hangs.store(true);
  std::vector<aiocann_op *> ops;
  ops.push_back(rt.copy(stuck, of(host), of(large), 9 * kMiB));
  aiocann_op *record = rt.mark(stuck, AIOCANN_MARK_RECORD);
  ops.push_back(record);
  for (int i = 0; i < 1000; ++i) ops.push_back(rt.fill(stuck, mem, i));
  // The lane has seen them.
  aiocann_op *seen = nullptr;
  accepted(aiocann_device_memory_info(rt.device(0), rt.loop.raw, &seen));
  finish(rt.loop, seen);
  if (in_abort) {
    api.aclrtStreamAbort = [](void *) { return hang(); };
  } else {
    api.aclrtMemsetAsync = [](void *to, size_t max, int32_t value, size_t n, void *stream) {
      return value == 77 ? hang() : real_memset(to, max, value, n, stream);
    };
  }
  aiocann_stream *second = nullptr;
  aiocann_op *hung = nullptr;
  if (!in_abort) {
    second = rt.stream(0);
    hung = rt.fill(second, mem, 77);
    while (inside.load() == 0) std::this_thread::yield();
  }
  finish(rt.loop, rt.fill(fine, other, 1));
  aiocann_op *close = nullptr;
  const int64_t start = aiocann::core::now_ms();
  // Its patience is that of the last who asked.
  accepted(aiocann_runtime_close(rt.raw, 60000, rt.loop.raw, &close));
  accepted(aiocann_runtime_close(rt.raw, 100, nullptr, nullptr));
  CHECK_CONTAINS(fails(rt.loop, close, AIOCANN_E_TIMEOUT), "device 0 does not return");
  CHECK(aiocann::core::now_ms() - start < 20000);
  CHECK_EQ(inside.load(), 1);
  CHECK_OK(sim().release(0, -1));
  if (in_abort) {
    for (aiocann_op *op : ops) CHECK_EQ(aiocann_op_state(op), 2);
    CHECK_EQ(rt.statistics().in_flight_ops, 0);
  } else {
    CHECK_EQ(aiocann_op_state(record), 2);
    CHECK_EQ(aiocann_op_state(hung), 0);
  }
  // The thread comes back: it touches nothing, or settles what was its own.
  hangs.store(false);
  while (inside.load() != 0) std::this_thread::yield();
  if (hung != nullptr) ops.push_back(hung);
  for (aiocann_op *op : ops) {
    rt.loop.await(op);
    CHECK_EQ(aiocann_op_state(op), 2);
    aiocann_op_release(op);
  }
  for (aiocann_mem *each : {mem, other, large}) aiocann_mem_release(each);
  for (aiocann_stream *stream : {stuck, fine, second}) {
    if (stream != nullptr) aiocann_stream_release(stream);
  }
  api = before;
  aiocann_runtime_release(rt.raw);
  rt.raw = nullptr;
  sim().start_anew();
}

}  // namespace

int main() {
#if !defined( \
    __SANITIZE_THREAD__)  // the test changes the driver's table under running lanes, which is a race
  closing(true);
  closing(false);
#endif
}
