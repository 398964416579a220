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
std::atomic<void *> victim{nullptr};  ///< the stream whose calls do not return

int32_t hang() {
  inside.fetch_add(1);
  while (hangs.load()) usleep(1000);
  inside.fetch_sub(1);
  return 0;
}

aiocann::acl::Api real;

/// Where it hangs: called for a command before it is the stream's, while it is, when it is, or for none.
enum class Call { kAbort, kMemset, kRecord, kCallback, kQuery, kMemoryInfo };

void replace(aiocann::acl::Api &api, Call call) {
  switch (call) {
    case Call::kAbort:
      api.aclrtStreamAbort = [](void *) { return hang(); };
      return;
    case Call::kMemset:
      api.aclrtMemsetAsync = [](void *to, size_t max, int32_t value, size_t n, void *stream) {
        return stream == victim.load() ? hang() : real.aclrtMemsetAsync(to, max, value, n, stream);
      };
      return;
    case Call::kRecord:
      api.aclrtRecordEvent = [](void *event, void *stream) {
        return stream == victim.load() ? hang() : real.aclrtRecordEvent(event, stream);
      };
      return;
    case Call::kCallback:
      api.aclrtLaunchCallback = [](aclrtCallback fn, void *argument, aclrtCallbackBlockType block,
                                   void *stream) {
        return stream == victim.load() ? hang()
                                       : real.aclrtLaunchCallback(fn, argument, block, stream);
      };
      return;
    case Call::kQuery:
      api.aclrtStreamQuery = [](void *stream, aclrtStreamStatus *status) {
        return stream == victim.load() ? hang() : real.aclrtStreamQuery(stream, status);
      };
      return;
    case Call::kMemoryInfo:
      api.aclrtGetMemInfo = [](aclrtMemAttr, size_t *, size_t *) { return hang(); };
      return;
  }
}

/// Whatever the call: all that was in flight has failed when the closing tells.
[[maybe_unused]] void closing(Call call) {
  Runtime rt(2);
  auto &api = const_cast<aiocann::acl::Api &>(rt.raw->api());
  real = api;
  aiocann_stream *stuck = rt.stream(0), *second = rt.stream(0), *fine = rt.stream(1);
  aiocann_mem *mem = rt.allocate(kMiB, 0), *other = rt.allocate(kMiB, 1);
  std::vector<unsigned char> host(9 * kMiB);
  aiocann_mem *large = rt.allocate(9 * kMiB, 0);
  CHECK_OK(sim().hold(0, -1));
  hangs.store(true);
  std::vector<aiocann_op *> ops;
  ops.push_back(rt.copy(stuck, of(host), of(large), 9 * kMiB));
  ops.push_back(rt.mark(stuck, AIOCANN_MARK_RECORD));
  for (int i = 0; i < 1000; ++i) ops.push_back(rt.fill(stuck, mem, i));
  // The lane has seen them.
  aiocann_op *seen = nullptr;
  accepted(aiocann_device_memory_info(rt.device(0), rt.loop.raw, &seen));
  finish(rt.loop, seen);
  victim.store(reinterpret_cast<void *>(aiocann_stream_handle(second)));
  replace(api, call);
  if (call == Call::kMemoryInfo) {
    accepted(aiocann_device_memory_info(rt.device(0), rt.loop.raw, &seen));
    ops.push_back(seen);
  }
  for (int i = 0; i < 3; ++i) ops.push_back(rt.fill(second, mem, i));
  while (call != Call::kAbort && inside.load() == 0) std::this_thread::yield();
  finish(rt.loop, rt.fill(fine, other, 1));
  for (int i = 0; i < 3; ++i) ops.push_back(rt.fill(stuck, mem, i));
  aiocann_op *close = nullptr, *hastened = nullptr;
  const int64_t start = aiocann::core::now_ms();
  // Its patience is that of the last who asked.
  accepted(aiocann_runtime_close(rt.raw, 60000, rt.loop.raw, &close));
  accepted(aiocann_runtime_close(rt.raw, 100, rt.loop.raw, &hastened));
  for (aiocann_op *each : {close, hastened}) {
    CHECK_CONTAINS(fails(rt.loop, each, AIOCANN_E_TIMEOUT), "device 0 does not return");
  }
  CHECK(aiocann::core::now_ms() - start < 20000);
  CHECK_EQ(inside.load(), 1);
  for (aiocann_op *op : ops) CHECK_EQ(aiocann_op_state(op), 2);
  CHECK_EQ(rt.statistics().in_flight_ops, 0);
  CHECK_OK(sim().release(0, -1));
  // The thread comes back, and touches nothing.
  hangs.store(false);
  while (inside.load() != 0) std::this_thread::yield();
  for (aiocann_op *op : ops) {
    rt.loop.await(op);
    aiocann_op_release(op);
  }
  for (uint64_t id : rt.loop.order) CHECK_EQ(rt.loop.delivered.count(id), 1);
  for (aiocann_mem *each : {mem, other, large}) aiocann_mem_release(each);
  for (aiocann_stream *stream : {stuck, fine, second}) aiocann_stream_release(stream);
  api = real;
  aiocann_runtime_release(rt.raw);
  rt.raw = nullptr;
  sim().start_anew();
}

}  // namespace

int main() {
#if !defined( \
    __SANITIZE_THREAD__)  // the test changes the driver's table under running lanes, which is a race
  for (Call call : {Call::kAbort, Call::kMemset, Call::kRecord, Call::kCallback, Call::kQuery,
                    Call::kMemoryInfo}) {
    closing(call);
  }
#endif
}
