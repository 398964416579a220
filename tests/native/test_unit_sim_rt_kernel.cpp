// Kernel tasks and parallel loops, from inside: what the operator half of the simulator builds on.
#include <algorithm>

#include "sim/pool.hpp"
#include "sim/task.hpp"
#include "sim_rt.hpp"

using aiocann::sim::ExecContext;
using aiocann::sim::KernelTask;
using aiocann::sim::Operand;
using aiocann::sim::submit_kernel;

namespace {

struct ScaleArgs {
  const float *in;
  float *out;
  size_t n;
  float factor;
};

int scale(ExecContext &context, const void *raw) {
  const auto *args = static_cast<const ScaleArgs *>(raw);
  constexpr size_t kTile = 1000;
  context.parallel_for((args->n + kTile - 1) / kTile, [args](size_t tile) {
    const size_t end = std::min(args->n, (tile + 1) * kTile);
    for (size_t i = tile * kTile; i < end; ++i) args->out[i] = args->in[i] * args->factor;
  });
  return 0;
}

KernelTask scale_task(const float *in, float *out, size_t n, float factor) {
  KernelTask task;
  task.name = "testScale";
  task.fn = scale;
  task.args = std::make_shared<ScaleArgs>(ScaleArgs{in, out, n, factor});
  task.operands = {Operand{in, n * sizeof(float), false}, Operand{out, n * sizeof(float), true}};
  return task;
}

void fill(float *memory, size_t n) {
  std::vector<float> host(n);
  for (size_t i = 0; i < n; ++i) host[i] = static_cast<float>(i % 1024);
  CHECK_OK(aclrtMemcpy(memory, n * 4, host.data(), n * 4, ACL_MEMCPY_HOST_TO_DEVICE));
}

void kernels_run_in_stream_order() {
  constexpr size_t kN = 50000;
  aclrtStream stream = new_stream();
  auto *a = static_cast<float *>(device_memory(kN * 4)),
       *b = static_cast<float *>(device_memory(kN * 4));
  fill(a, kN);
  const uint64_t kernels = counter("kernels");
  const KernelTask there = scale_task(a, b, kN, 2), back = scale_task(b, a, kN, 0.5f);
  for (int i = 0; i < 100; ++i) {  // a task is data: the same one runs any number of times
    CHECK_OK(submit_kernel(stream, there));
    CHECK_OK(submit_kernel(stream, back));
  }
  CHECK_OK(submit_kernel(stream, there));
  sync(stream);
  CHECK_EQ(counter("kernels"), kernels + 201);
  std::vector<float> result(kN);
  CHECK_OK(aclrtMemcpy(result.data(), kN * 4, b, kN * 4, ACL_MEMCPY_DEVICE_TO_HOST));
  for (size_t i = 0; i < kN; ++i) CHECK_EQ(result[i], 2 * static_cast<float>(i % 1024));
  // Arguments are let go of when the task has run.
  CHECK_EQ(there.args.use_count(), 1);
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(b));
  CHECK_OK(aclrtDestroyStream(stream));
}

void launches_are_checked() {
  on_thread([] { CHECK_CODE(submit_kernel(nullptr, KernelTask{}), ACL_ERROR_RT_CONTEXT_NULL); });
  int unrelated = 0;
  CHECK_CODE(submit_kernel(&unrelated, KernelTask{}), ACL_ERROR_RT_STREAM_CONTEXT);
}

std::vector<uint32_t> g_faults;
void on_exception(aclrtExceptionInfo *info) {
  g_faults.push_back(aclrtGetErrorCodeFromExceptionInfo(info));
}

void operands_are_checked_when_the_kernel_runs() {
  CHECK_OK(aclrtSetExceptionInfoCallback(on_exception));
  aclrtStream stream = new_stream();
  auto *a = static_cast<float *>(device_memory(4000)),
       *b = static_cast<float *>(device_memory(4000));
  auto *pinned = static_cast<float *>(pinned_memory(4000));
  std::vector<float> ordinary(1000);
  fill(a, 1000);
  const uint64_t kernels = counter("kernels");
  const KernelTask bad[] = {
      scale_task(a, b + 900, 200, 1),         // past the end
      scale_task(a, pinned, 1000, 1),         // host memory
      scale_task(ordinary.data(), b, 10, 1),  // ordinary memory
      scale_task(nullptr, b, 10, 1),
  };
  g_faults.clear();
  for (const KernelTask &task : bad) {
    CHECK_OK(submit_kernel(stream, task));  // the launch does not notice
    CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_AICORE_EXCEPTION);
  }
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(submit_kernel(stream, scale_task(a, b, 1000, 1)));
  CHECK_OK(aclrtFree(b));
  CHECK_OK(aiocann_sim_release(0, -1));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_AICORE_EXCEPTION);
  CHECK_EQ(g_faults.size(), 5);
  for (uint32_t code : g_faults) CHECK_EQ(code, ACL_ERROR_RT_AICORE_EXCEPTION);
  CHECK_EQ(counter("kernels"), kernels);  // none ran
  CHECK_OK(aclrtSetExceptionInfoCallback(nullptr));
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFreeHost(pinned));
  CHECK_OK(aclrtDestroyStream(stream));
}

void a_kernel_of_another_device_needs_peer_access() {
  CHECK_OK(aclrtSetDevice(1));
  auto *theirs = static_cast<float *>(device_memory(400));
  CHECK_OK(aclrtSetDevice(0));
  auto *mine = static_cast<float *>(device_memory(400));
  aclrtStream stream = new_stream();
  CHECK_OK(submit_kernel(stream, scale_task(theirs, mine, 100, 1)));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_AICORE_EXCEPTION);
  CHECK_OK(aclrtDeviceEnablePeerAccess(1, 0));
  CHECK_OK(submit_kernel(stream, scale_task(theirs, mine, 100, 1)));
  sync(stream);
  CHECK_OK(aclrtFree(mine));
  CHECK_OK(aclrtFree(theirs));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtResetDevice(1));
}

void a_kernel_can_be_made_to_fail_by_name() {
  aclrtStream stream = new_stream();
  auto *a = static_cast<float *>(device_memory(400)), *b = static_cast<float *>(device_memory(400));
  fill(a, 100);
  CHECK_OK(aclrtMemset(b, 400, 0, 400));
  CHECK_OK(aiocann_sim_inject("kernel", "other", 1, 0));
  CHECK_OK(aiocann_sim_inject("kernel", "testScale", 3, 0));
  for (int i = 1; i <= 4; ++i) {
    CHECK_OK(submit_kernel(stream, scale_task(a, b, 100, static_cast<float>(i))));
    CHECK_CODE(aclrtSynchronizeStream(stream), i == 3 ? ACL_ERROR_RT_AICORE_EXCEPTION : 0);
    float last = 0;
    CHECK_OK(aclrtMemcpy(&last, 4, b + 99, 4, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(last, static_cast<float>(99 * (i == 3 ? 2 : i)));  // a failed one writes nothing
  }
  aiocann_sim_clear_faults();
  // A kernel may find out by itself.
  KernelTask task = scale_task(a, b, 100, 1);
  task.fn = [](ExecContext &, const void *) -> int { return ACL_ERROR_RT_AICORE_TRAP_EXCEPTION; };
  CHECK_OK(submit_kernel(stream, task));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_AICORE_TRAP_EXCEPTION);
  CHECK_OK(aclrtFree(a));
  CHECK_OK(aclrtFree(b));
  CHECK_OK(aclrtDestroyStream(stream));
}

/// Every index once, whoever calls, however deep, however busy the workers are.
void loops_are_complete_and_may_nest() {
  auto &pool = aiocann::sim::Pool::instance();
  for (size_t n : {size_t{0}, size_t{1}, size_t{2}, size_t{1000}}) {
    std::vector<std::atomic<int>> seen(n);
    pool.parallel_for(n, [&](size_t i) { seen[i].fetch_add(1); });
    for (const auto &count : seen) CHECK_EQ(count.load(), 1);
  }
  std::vector<std::thread> callers;
  std::atomic<int> total{0};
  for (int t = 0; t < 6; ++t) {
    callers.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        pool.parallel_for(
            8, [&](size_t) { pool.parallel_for(8, [&](size_t) { total.fetch_add(1); }); });
      }
    });
  }
  for (std::thread &caller : callers) caller.join();
  CHECK_EQ(total.load(), 6 * 20 * 64);
}

/// Loops inside kernels on more streams than there are workers.
void loops_in_kernels_of_many_streams() {
  struct Args {
    std::atomic<int> *total;
  };
  static std::atomic<int> total{0};
  total = 0;
  std::vector<aclrtStream> streams;
  for (int i = 0; i < 40; ++i) {
    streams.push_back(new_stream());
    for (int k = 0; k < 10; ++k) {
      KernelTask task;
      task.name = "testNest";
      task.fn = [](ExecContext &context, const void *raw) {
        const auto *args = static_cast<const Args *>(raw);
        context.parallel_for(10, [&](size_t) {
          context.parallel_for(10, [&](size_t) { args->total->fetch_add(1); });
        });
        return 0;
      };
      task.args = std::make_shared<Args>(Args{&total});
      CHECK_OK(submit_kernel(streams.back(), task));
    }
  }
  for (aclrtStream stream : streams) sync(stream);
  CHECK_EQ(total.load(), 40 * 10 * 100);
  for (aclrtStream stream : streams) CHECK_OK(aclrtDestroyStream(stream));
}

void with_threads(const char *threads) {
  configure("threads", threads);
  CHECK_OK(aclrtSetDevice(0));
  CHECK_EQ(std::to_string(counter("threads")), threads);
  kernels_run_in_stream_order();
  loops_are_complete_and_may_nest();
  loops_in_kernels_of_many_streams();
  CHECK_OK(aclrtResetDevice(0));
}

}  // namespace

int main() {
  start(2);
  kernels_run_in_stream_order();
  launches_are_checked();
  operands_are_checked_when_the_kernel_runs();
  a_kernel_of_another_device_needs_peer_access();
  a_kernel_can_be_made_to_fail_by_name();
  loops_are_complete_and_may_nest();
  loops_in_kernels_of_many_streams();
  while (aclrtResetDevice(0) == ACL_SUCCESS) {
  }
  for (const char *threads : {"4", "1", "7", "2"}) with_threads(threads);
  return 0;
}
