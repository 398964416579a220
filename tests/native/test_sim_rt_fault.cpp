// Faults: exception callbacks before the next task, injected failures of calls and tasks, misuse, the controls.
#include <algorithm>

#include "sim_rt.hpp"

namespace {

struct Seen {
  uint32_t task, stream, thread, device, code;
  uint64_t tasks_run;  ///< by the whole machine, when the callback came
};
std::vector<Seen> g_seen;  // written by one worker at a time, read after a synchronisation
std::atomic<int> g_registered{0};

void on_exception(aclrtExceptionInfo *info) {
  g_seen.push_back(
      Seen{aclrtGetTaskIdFromExceptionInfo(info), aclrtGetStreamIdFromExceptionInfo(info),
           aclrtGetThreadIdFromExceptionInfo(info), aclrtGetDeviceIdFromExceptionInfo(info),
           aclrtGetErrorCodeFromExceptionInfo(info), counter("tasks")});
}
void on_registered(aclrtExceptionInfo *) { g_registered.fetch_add(1); }

void the_getters_take_null() {
  CHECK_EQ(aclrtGetTaskIdFromExceptionInfo(nullptr), 0xFFFFFFFFu);
  CHECK_EQ(aclrtGetStreamIdFromExceptionInfo(nullptr), 0xFFFFFFFFu);
  CHECK_EQ(aclrtGetThreadIdFromExceptionInfo(nullptr), 0xFFFFFFFFu);
  CHECK_EQ(aclrtGetDeviceIdFromExceptionInfo(nullptr), 0xFFFFFFFFu);
  CHECK_EQ(aclrtGetErrorCodeFromExceptionInfo(nullptr), 0xFFFFFFFFu);
}

void a_fault_is_reported_before_the_next_task() {
  CHECK_OK(aclrtSetExceptionInfoCallback(on_exception));
  CHECK_OK(aclrtExceptionInfoCallbackRegister(on_registered));
  CHECK_CODE(aclrtExceptionInfoCallbackRegister(nullptr), ACL_ERROR_INVALID_PARAM);
  aclrtStream stream = new_stream();
  int32_t id = -1;
  CHECK_OK(aclrtStreamGetId(stream, &id));
  char *pinned = static_cast<char *>(pinned_memory(64));
  memset(pinned, 0, 64);
  g_seen.clear();
  uint32_t faulty = 0;
  CHECK_OK(aiocann_sim_hold(1, -1));
  CHECK_OK(aiocann_sim_inject("copy", "memset", 2, ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR));
  const uint64_t tasks = counter("tasks");
  CHECK_OK(aclrtMemsetAsync(pinned, 64, 1, 1, stream));
  CHECK_OK(aclrtMemsetAsync(pinned + 1, 63, 1, 1, stream));
  CHECK_OK(aclrtGetThreadLastTaskId(&faulty));
  CHECK_OK(aclrtMemsetAsync(pinned + 2, 62, 1, 1, stream));
  CHECK_OK(aiocann_sim_release(1, -1));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR);
  CHECK_EQ(g_seen.size(), 1);
  CHECK_EQ(g_seen[0].task, faulty);
  CHECK_EQ(g_seen[0].stream, id);
  CHECK_EQ(g_seen[0].device, 1);
  CHECK_EQ(g_seen[0].code, ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR);
  CHECK(g_seen[0].thread != 0);
  CHECK_EQ(g_seen[0].tasks_run, tasks + 2);
  CHECK_EQ(g_registered.load(), 1);
  CHECK_EQ(pinned[0], 1);
  CHECK_EQ(pinned[1], 0);
  CHECK_EQ(pinned[2], 1);

  CHECK_OK(aclrtExceptionInfoCallbackUnregister(on_registered));
  CHECK_CODE(aclrtExceptionInfoCallbackUnregister(on_registered), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtSetExceptionInfoCallback(nullptr));
  CHECK_OK(aiocann_sim_inject("copy", "*", 1, 0));
  CHECK_OK(aclrtMemsetAsync(pinned, 64, 1, 1, stream));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_DEVICE_MEM_ERROR);
  CHECK_EQ(g_seen.size(), 1);
  CHECK_EQ(g_registered.load(), 1);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFreeHost(pinned));
}

struct Kernel {
  int calls = 0;
  aclError code = 0;
  std::vector<const void *> arguments;
  aclrtFuncHandle function = nullptr;
} g_kernel;

void on_kernel_exception(aclrtExceptionInfo *info) {
  void *arguments = nullptr;
  uint32_t bytes = 0;
  CHECK_CODE(aclrtGetArgsFromExceptionInfo(info, nullptr, &bytes), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtGetArgsFromExceptionInfo(info, &arguments, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtGetFuncHandleFromExceptionInfo(info, nullptr), ACL_ERROR_INVALID_PARAM);
  ++g_kernel.calls;
  g_kernel.code = aclrtGetArgsFromExceptionInfo(info, &arguments, &bytes);
  CHECK_CODE(aclrtGetFuncHandleFromExceptionInfo(info, &g_kernel.function), g_kernel.code);
  if (g_kernel.code != 0) return;
  g_kernel.arguments.resize(bytes / sizeof(void *));
  memcpy(g_kernel.arguments.data(), arguments, bytes);
}

/// What a kernel was launched with; other tasks have neither arguments nor a function.
void exceptions_of_kernels_have_arguments() {
  void *pointer = nullptr;
  uint32_t bytes = 0;
  CHECK_CODE(aclrtGetArgsFromExceptionInfo(nullptr, &pointer, &bytes), -1);
  CHECK_CODE(aclrtGetFuncHandleFromExceptionInfo(nullptr, &pointer), -1);
  aclrtStream stream = new_stream();
  auto *memory = static_cast<char *>(device_memory(128));
  CHECK_OK(aclrtMemset(memory, 128, 0, 128));
  CHECK_OK(aclrtSetExceptionInfoCallback(on_kernel_exception));
  CHECK_OK(aiocann_sim_inject("kernel", "*", 1, 0));
  CHECK_OK(aclrtReduceAsync(memory, memory + 64, 16, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT,
                            stream, nullptr));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_AICORE_EXCEPTION);
  CHECK_EQ(g_kernel.calls, 1);
  CHECK_OK(g_kernel.code);
  CHECK(g_kernel.function != nullptr);
  for (const void *expected : {memory, memory + 64}) {
    CHECK(std::count(g_kernel.arguments.begin(), g_kernel.arguments.end(), expected) > 0);
  }
  CHECK_OK(aiocann_sim_inject("copy", "*", 1, 0));
  CHECK_OK(aclrtMemsetAsync(memory, 128, 0, 1, stream));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_DEVICE_MEM_ERROR);
  CHECK_EQ(g_kernel.calls, 2);
  CHECK_EQ(g_kernel.code, ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtSetExceptionInfoCallback(nullptr));
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtDestroyStream(stream));
}

void any_call_can_be_made_to_fail() {
  aclrtStream stream = nullptr;
  CHECK_OK(aiocann_sim_inject("call", "aclrtCreateStream", 1, ACL_ERROR_RT_NO_STREAM_RESOURCE));
  CHECK_CODE(aclrtCreateStream(&stream), ACL_ERROR_RT_NO_STREAM_RESOURCE);
  CHECK_CONTAINS(recent(), "aclrtCreateStream");
  CHECK_OK(aclrtCreateStream(&stream));
  CHECK_OK(aiocann_sim_inject("call", "aclrtSynchronizeStream", 0, 507000));  // until cleared
  for (int i = 0; i < 3; ++i) CHECK_CODE(aclrtSynchronizeStream(stream), 507000);
  CHECK_EQ(counter("armed_faults"), 1);
  aiocann_sim_clear_faults();
  CHECK_OK(aclrtSynchronizeStream(stream));
  CHECK_EQ(counter("armed_faults"), 0);
  CHECK_OK(aclrtDestroyStream(stream));
}

void bad_faults_are_refused() {
  (void)recent();
  CHECK_EQ(aiocann_sim_inject("cal", "aclrtMalloc", 1, 1), ACL_ERROR_INVALID_PARAM);
  CHECK_CONTAINS(std::string(aiocann_sim_last_error()), "expected one of call, kernel, copy");
  CHECK_EQ(aiocann_sim_inject("call", "aclrtMalloc", 1, 0), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aiocann_sim_inject("kernel_delay", "*", 1, 0), ACL_ERROR_INVALID_PARAM);
  CHECK_CONTAINS(std::string(aiocann_sim_last_error()), "a value of at least 1");
  CHECK_EQ(aiocann_sim_inject(nullptr, "x", 1, 1), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(counter("armed_faults"), 0);
  CHECK(aclGetRecentErrMsg() == nullptr);  // not mixed with the program's own errors
}

void calls_are_counted_by_function() {
  void *memory = nullptr;
  uint64_t times = 0;
  aiocann_sim_count_calls(1);
  for (int i = 0; i < 3; ++i) CHECK_OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(aclrtFree(memory));
  aiocann_sim_count_calls(0);
  CHECK_OK(aclrtSynchronizeDevice());
  CHECK_EQ(std::string(aiocann_sim_called(0, &times)), "aclrtFree");
  CHECK_EQ(times, 1);
  CHECK_EQ(std::string(aiocann_sim_called(1, &times)), "aclrtMalloc");
  CHECK_EQ(times, 3);
  CHECK(aiocann_sim_called(2, &times) == nullptr);
  CHECK_EQ(counter("armed_faults"), 0);
}

void counters_have_names() {
  int named = 0;
  while (aiocann_sim_counter_name(named) != nullptr) {
    CHECK(aiocann_sim_counter(aiocann_sim_counter_name(named)) != UINT64_MAX);
    ++named;
  }
  CHECK(named > 10);
  CHECK_EQ(aiocann_sim_counter("no such"), UINT64_MAX);
  CHECK_EQ(aiocann_sim_counter(nullptr), UINT64_MAX);
  CHECK(aiocann_sim_counter_name(-1) == nullptr);
}

std::string g_hooked;

void misuse_reaches_the_hook() {
  aiocann_sim_set_misuse_hook([](const char *text) { g_hooked = text; });
  void *memory = device_memory(64);
  CHECK_OK(aclrtFree(memory));
  CHECK_CODE(aclrtFree(memory), ACL_ERROR_RT_PARAM_INVALID);
  aiocann_sim_set_misuse_hook(nullptr);
  CHECK_CONTAINS(g_hooked, "freed twice");
}

}  // namespace

int main() {
  start(2);
  CHECK_OK(aclrtSetDevice(1));
  the_getters_take_null();
  a_fault_is_reported_before_the_next_task();
  exceptions_of_kernels_have_arguments();
  any_call_can_be_made_to_fail();
  bad_faults_are_refused();
  calls_are_counted_by_function();
  counters_have_names();
  misuse_reaches_the_hook();
  return 0;
}
