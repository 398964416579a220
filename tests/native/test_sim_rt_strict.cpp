// Strict mode: misuse that hardware lets pass is reported, with what, where and which call; codes stay as they are.
#include "sim_rt.hpp"

namespace {

bool has(const std::string &text, const char *part) {
  if (text.find(part) != std::string::npos) return true;
  fprintf(stderr, "'%s' is not in '%s'\n", part, text.c_str());
  return false;
}

/// Runs `body`, which must be reported once, with all of `parts`.
template <class Body>
void reported(std::initializer_list<const char *> parts, Body &&body) {
  const uint64_t before = counter("misuse");
  body();
  CHECK_EQ(counter("misuse"), before + 1);
  for (const char *part : parts) CHECK(has(aiocann_sim_last_misuse(), part));
}

template <class Body>
void not_reported(Body &&body) {
  const uint64_t before = counter("misuse");
  body();
  if (counter("misuse") != before) check::fail(__FILE__, __LINE__, aiocann_sim_last_misuse());
}

void reading_what_was_never_written() {
  aclrtStream stream = new_stream();
  char *memory = static_cast<char *>(device_memory(4096)), host[4096] = {};
  reported({"aclrtMemcpy", "never written", "byte 0 of 4096"},
           [&] { CHECK_OK(aclrtMemcpy(host, 4096, memory, 4096, ACL_MEMCPY_DEVICE_TO_HOST)); });
  CHECK_OK(aclrtMemset(memory, 4096, 1, 1024));
  not_reported([&] {
    CHECK_OK(aclrtMemcpy(host, 4096, memory, 1024, ACL_MEMCPY_DEVICE_TO_HOST));
    // A granule of 32 bytes is written as a whole.
    CHECK_OK(aclrtMemset(memory + 1024, 32, 1, 1));
    CHECK_OK(aclrtMemcpy(host, 4096, memory, 1056, ACL_MEMCPY_DEVICE_TO_HOST));
  });
  char *pinned = static_cast<char *>(pinned_memory(4096)),
       *other = static_cast<char *>(device_memory(4096));
  reported({"memcpy of stream", "device 0", "task", "byte 1056 of 1100"}, [&] {
    CHECK_OK(aclrtMemcpyAsync(other, 4096, memory, 1100, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    sync(stream);
  });
  // The copy has written it all the same; and what the host put into pinned memory nobody can know.
  not_reported([&] {
    CHECK_OK(aclrtMemcpyAsync(pinned, 4096, other, 1100, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_OK(aclrtMemcpyAsync(memory, 4096, pinned, 4096, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CHECK_OK(aclrtMemcpyAsync(other, 4096, memory, 4096, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    sync(stream);
  });
  // Memory that is handed out again holds nothing.
  CHECK_OK(aclrtFree(memory));
  void *again = device_memory(4096);
  CHECK(again == memory);
  reported({"never written"},
           [&] { CHECK_OK(aclrtMemcpy(host, 4096, again, 4096, ACL_MEMCPY_DEVICE_TO_HOST)); });
  CHECK_OK(aclrtFree(again));
  CHECK_OK(aclrtFree(other));
  CHECK_OK(aclrtFreeHost(pinned));
  CHECK_OK(aclrtDestroyStream(stream));
}

void kernels_read_and_write() {
  aclrtStream stream = new_stream();
  const int64_t shape[] = {16}, strides[] = {1}, one = 1;
  void *x = device_memory(64), *y = device_memory(64);
  aclTensor *from = aclCreateTensor(shape, 1, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, shape, 1, x);
  aclTensor *to = aclCreateTensor(shape, 1, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, shape, 1, y);
  aclScalar *alpha = aclCreateScalar(const_cast<int64_t *>(&one), ACL_INT64);
  const auto scale = [&] {
    uint64_t need = 0;
    aclOpExecutor *executor = nullptr;
    CHECK_OK(aclnnMulsGetWorkspaceSize(from, alpha, to, &need, &executor));
    CHECK_OK(aclnnMuls(nullptr, 0, executor, stream));
    sync(stream);
  };
  reported({"aclnnMuls of stream", "never written"}, scale);
  CHECK_OK(aclrtMemset(x, 64, 0, 64));
  float back[16];
  not_reported([&] {
    scale();
    CHECK_OK(aclrtMemcpy(back, 64, y, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  });
  CHECK_EQ(back[15], 0.0f);
  CHECK_OK(aclDestroyTensor(from));
  CHECK_OK(aclDestroyTensor(to));
  CHECK_OK(aclDestroyScalar(alpha));
  CHECK_OK(aclrtFree(x));
  CHECK_OK(aclrtFree(y));
  CHECK_OK(aclrtDestroyStream(stream));
}

void ranges_that_overlap() {
  aclrtStream stream = new_stream();
  char *memory = static_cast<char *>(device_memory(4096));
  CHECK_OK(aclrtMemset(memory, 4096, 0, 4096));
  reported({"aclrtMemcpy copies between ranges that overlap", "100 bytes"}, [&] {
    CHECK_OK(aclrtMemcpy(memory, 4096, memory + 99, 100, ACL_MEMCPY_DEVICE_TO_DEVICE));
  });
  not_reported([&] {
    CHECK_OK(
        aclrtMemcpyAsync(memory, 4096, memory + 100, 100, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    CHECK_OK(aclrtMemcpyAsync(memory + 100, 100, memory, 100, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    sync(stream);
  });
  reported({"memcpy of stream", "overlap"}, [&] {
    CHECK_OK(aclrtMemcpyAsync(memory + 1, 4000, memory, 100, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    sync(stream);
  });
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtDestroyStream(stream));
}

void freeing_what_is_in_use() {
  aclrtStream stream = new_stream();
  void *memory = device_memory(4096), *pinned = pinned_memory(4096);
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtMemcpyAsync(memory, 4096, pinned, 4096, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  CHECK_OK(aclrtMemsetAsync(memory, 4096, 0, 4096, stream));
  reported({"aclrtFree:", "2 tasks", "memset of stream"}, [&] { CHECK_OK(aclrtFree(memory)); });
  reported({"aclrtFreeHost:", "1 tasks", "memcpy"}, [&] { CHECK_OK(aclrtFreeHost(pinned)); });
  // The address may be in use again: those tasks have nothing to do with it.
  void *again = device_memory(4096);
  not_reported([&] { CHECK_OK(aclrtFree(again)); });
  CHECK_OK(aclrtDestroyStreamForce(stream));
  CHECK_OK(aiocann_sim_release(0, -1));
  stream = new_stream();
  memory = device_memory(4096);
  not_reported([&] {
    for (int i = 0; i < 100; ++i) CHECK_OK(aclrtMemsetAsync(memory, 4096, 0, 4096, stream));
    sync(stream);
    CHECK_OK(aclrtFree(memory));
  });
  CHECK_OK(aclrtDestroyStream(stream));
}

void destroying_what_is_waited_for() {
  aclrtStream stream = new_stream();
  aclrtEvent event = nullptr;
  CHECK_OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
  CHECK_OK(aclrtStreamWaitEvent(stream, event));
  reported({"aclrtDestroyEvent: 1 waits"}, [&] { CHECK_OK(aclrtDestroyEvent(event)); });
  CHECK_OK(aclrtDestroyStreamForce(stream));
}

void following_a_fault() {
  aclrtStream stream = new_stream();
  char *memory = static_cast<char *>(device_memory(4096)), host[64];
  CHECK_OK(aiocann_sim_inject("copy", "memset", 1, 0));
  // The fault is told; that nothing was written follows from it.
  not_reported([&] {
    CHECK_OK(aclrtMemsetAsync(memory, 4096, 1, 64, stream));
    CHECK(aclrtSynchronizeStreamWithTimeout(stream, kLongMs) != 0);
    CHECK_OK(aclrtMemcpy(host, 64, memory, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  });
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtDestroyStream(stream));
}

std::string last_text;
void hook(const char *text) { last_text = text; }

void leaving_things_behind() {
  aiocann_sim_set_misuse_hook(hook);
  const uint64_t before = counter("leaks"), misuse = counter("misuse");
  void *memory = device_memory(64);
  aclrtStream stream = new_stream();
  (void)memory;
  (void)stream;
  CHECK_OK(aclrtResetDevice(0));
  CHECK_EQ(counter("leaks"), before + 2);
  CHECK(
      has(last_text, "aclrtResetDevice: the program leaves 1 blocks of device memory, 1 streams"));
  CHECK_OK(aclrtSetDevice(0));
  void *pinned = pinned_memory(64);
  CHECK_OK(aclrtResetDevice(0));
  CHECK_OK(aclFinalize());
  CHECK_EQ(counter("leaks"), before + 3);
  CHECK(has(last_text, "aclFinalize: "));
  CHECK(has(last_text, "1 blocks of pinned memory"));
  CHECK_EQ(counter("misuse"), misuse);
  CHECK_OK(aclrtFreeHost(pinned));
}

/// Objects of the operators' interface are told of apart, by kind and count.
void leaving_objects_behind() {
  CHECK_OK(aclInit(nullptr));
  CHECK_OK(aclrtSetDevice(0));
  aiocann_sim_set_misuse_hook(hook);
  const uint64_t before = counter("leaks"), tensors = counter("live_tensors");
  const int64_t dims[2] = {2, 3};
  float one = 1;
  char *memory = static_cast<char *>(device_memory(64));
  const auto tensor = [&] {
    return aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, memory);
  };
  aclTensor *self = tensor(), *out = tensor();
  aclTensor *members[2] = {tensor(), tensor()};
  aclTensorList *list = aclCreateTensorList(members, 2);
  aclScalar *alpha = aclCreateScalar(&one, ACL_FLOAT);
  aclIntArray *ints = aclCreateIntArray(dims, 2);
  aclBoolArray *bools = aclCreateBoolArray(nullptr, 0);
  uint64_t workspace = 0;
  aclOpExecutor *executor = nullptr;
  CHECK_OK(aclnnAddGetWorkspaceSize(self, self, alpha, out, &workspace, &executor));
  CHECK_EQ(counter("live_tensors"), tensors + 4);
  CHECK_EQ(counter("live_executors"), 1);
  CHECK_OK(aclFinalize());
  CHECK(has(last_text,
            "aclFinalize: the program leaves 1 blocks of device memory"));  // what is last told
  CHECK_EQ(counter("leaks"), before + 4 + 1 + 2 + 1 + 1 + 1);

  // One kind after the other goes; members go with their list, and an executor with its second phase.
  CHECK_OK(aclDestroyTensorList(list));
  CHECK_EQ(counter("live_lists"), 0);
  CHECK_EQ(counter("live_tensors"), tensors + 2);
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclInit(nullptr));
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclFinalize());
  CHECK(has(last_text,
            "aclFinalize: the program leaves 2 tensors, 1 scalars, 2 arrays, 0 lists and 1 "
            "executors"));
  CHECK_OK(aclDestroyAclOpExecutor(executor));
  CHECK_OK(aclDestroyIntArray(ints));
  CHECK_OK(aclDestroyBoolArray(bools));
  CHECK_OK(aclDestroyScalar(alpha));
  for (aclTensor *t : {self, out}) CHECK_OK(aclDestroyTensor(t));
  const uint64_t told = counter("leaks");
  CHECK_OK(aclInit(nullptr));
  CHECK_OK(aclFinalize());
  CHECK_EQ(counter("leaks"), told);
  for (const char *kind : {"tensors", "scalars", "arrays", "lists", "executors"})
    CHECK_EQ(counter(("live_" + std::string(kind)).c_str()), 0);
}

}  // namespace

int main() {
  CHECK(aiocann_sim_configure("strict", "maybe") != 0);
  configure("strict", "0");
  start(1);
  CHECK_EQ(std::string(aiocann_sim_setting("strict")), "0");
  char host[64];
  void *memory = device_memory(64);
  not_reported([&] { CHECK_OK(aclrtMemcpy(host, 64, memory, 64, ACL_MEMCPY_DEVICE_TO_HOST)); });
  CHECK_OK(aclrtResetDevice(0));
  CHECK_OK(aclFinalize());
  CHECK_EQ(counter("leaks"), 0);

  configure("strict", "1");
  start(1);
  reading_what_was_never_written();
  kernels_read_and_write();
  ranges_that_overlap();
  freeing_what_is_in_use();
  destroying_what_is_waited_for();
  following_a_fault();
  leaving_things_behind();
  leaving_objects_behind();
  return 0;
}
