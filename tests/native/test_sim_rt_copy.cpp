// Copies and fills: checks, directions, what is asynchronous and what is not.
#include "sim_rt.hpp"

namespace {

void checks_of_the_synchronous_copy() {
  char *memory = static_cast<char *>(device_memory(kMiB));
  std::vector<char> host(kMiB, 1);
  CHECK_OK(aclrtMemcpy(nullptr, 0, nullptr, 0,
                       static_cast<aclrtMemcpyKind>(99)));  // count 0 comes first
  CHECK_CODE(aclrtMemcpy(nullptr, 8, host.data(), 8, ACL_MEMCPY_HOST_TO_DEVICE),
             ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtMemcpy(memory, 8, nullptr, 8, ACL_MEMCPY_HOST_TO_DEVICE),
             ACL_ERROR_INVALID_PARAM);
  for (int kind : {-1, 6, 7, 8}) {
    CHECK_CODE(aclrtMemcpy(memory, 8, host.data(), 8, static_cast<aclrtMemcpyKind>(kind)),
               ACL_ERROR_INVALID_PARAM);
  }
  CHECK_CODE(aclrtMemcpy(memory, 7, host.data(), 8, ACL_MEMCPY_HOST_TO_DEVICE),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtMemcpy(memory, 8, memory, 8, ACL_MEMCPY_DEVICE_TO_DEVICE));
  on_thread([&] {
    CHECK_CODE(aclrtMemcpy(memory, 8, host.data(), 8, ACL_MEMCPY_HOST_TO_DEVICE),
               ACL_ERROR_RT_CONTEXT_NULL);
  });
  // Out of bounds, and after the memory is gone.
  CHECK_CODE(aclrtMemcpy(memory + kMiB - 4, 100, host.data(), 100, ACL_MEMCPY_HOST_TO_DEVICE),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtFree(memory));
  CHECK_CODE(aclrtMemcpy(memory, 8, host.data(), 8, ACL_MEMCPY_HOST_TO_DEVICE),
             ACL_ERROR_RT_PARAM_INVALID);
}

/// The direction follows from the pointers; `kind` is advice.
void every_direction_moves_the_bytes() {
  char *a = static_cast<char *>(device_memory(3 * kMiB)),
       *b = static_cast<char *>(device_memory(3 * kMiB));
  char *pinned = static_cast<char *>(pinned_memory(3 * kMiB));
  std::vector<char> ordinary(3 * kMiB), back(3 * kMiB);
  for (size_t i = 0; i < ordinary.size(); ++i) ordinary[i] = static_cast<char>(i * 7 + i / 251);
  const size_t n = ordinary.size();
  for (const auto kind : {ACL_MEMCPY_HOST_TO_HOST, ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEFAULT,
                          ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE}) {
    CHECK_OK(aclrtMemset(a, n, 0, n));
    CHECK_OK(aclrtMemcpy(a, n, ordinary.data(), n, kind));
    CHECK_OK(aclrtMemcpy(b, n, a, n, kind));
    CHECK_OK(aclrtMemcpy(pinned, n, b, n, kind));
    CHECK_OK(aclrtMemcpy(back.data(), n, pinned, n, kind));
    CHECK(back == ordinary);
  }
  // Overlapping ranges behave like memmove.
  CHECK_OK(aclrtMemcpy(a + 100, n - 100, a, n - 100, ACL_MEMCPY_DEVICE_TO_DEVICE));
  CHECK_OK(aclrtMemcpy(back.data(), n, a, n, ACL_MEMCPY_DEVICE_TO_HOST));
  CHECK(memcmp(back.data() + 100, ordinary.data(), n - 100) == 0);
  for (char *p : {a, b}) CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtFreeHost(pinned));
}

void checks_of_the_asynchronous_copy() {
  aclrtStream stream = new_stream();
  char *memory = static_cast<char *>(device_memory(kKiB)),
       *pinned = static_cast<char *>(pinned_memory(kKiB));
  std::vector<char> host(kKiB, 1);
  const auto copy = [stream](void *dst, size_t max, const void *src, size_t n, int kind) {
    return aclrtMemcpyAsync(dst, max, src, n, static_cast<aclrtMemcpyKind>(kind), stream);
  };
  CHECK_OK(copy(nullptr, 0, nullptr, 0, 99));
  CHECK_CODE(copy(nullptr, 8, pinned, 8, 1), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(copy(memory, 8, pinned, 8, 6), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(copy(memory, 7, pinned, 8, 1), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(copy(memory, 8, memory, 8, 3));
  // Host to host is not for a stream, whatever kind says.
  for (int kind : {0, 1, 3, 4}) {
    CHECK_CODE(copy(host.data(), 8, pinned, 8, kind), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_CODE(copy(pinned, 8, pinned + 64, 8, kind), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  }
  // Pinned and device: the places decide. Ordinary memory: kind must fit.
  for (int kind : {0, 1, 2, 3, 4}) CHECK_OK(copy(memory, 8, pinned, 8, kind));
  CHECK_OK(copy(memory, 8, host.data(), 8, ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK_OK(copy(memory, 8, host.data(), 8, ACL_MEMCPY_DEFAULT));
  CHECK_OK(copy(host.data(), 8, memory, 8, ACL_MEMCPY_DEVICE_TO_HOST));
  CHECK_CODE(copy(memory, 8, host.data(), 8, ACL_MEMCPY_DEVICE_TO_HOST),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(copy(host.data(), 8, memory, 8, ACL_MEMCPY_HOST_TO_DEVICE),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(copy(memory + kKiB - 4, 64, pinned, 64, 1), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(copy(memory, kKiB, pinned + kKiB - 4, 100, 1), ACL_ERROR_RT_PARAM_INVALID);
  sync(stream);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtFreeHost(pinned));
}

void pinned_memory_is_read_when_the_stream_gets_there() {
  aclrtStream stream = new_stream();
  char *memory = static_cast<char *>(device_memory(kKiB)),
       *pinned = static_cast<char *>(pinned_memory(kKiB));
  memset(pinned, 1, kKiB);
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtMemcpyAsync(memory, kKiB, pinned, kKiB, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  memset(pinned, 2, kKiB);  // a program must not: the copy is in flight
  CHECK_OK(aiocann_sim_release(0, -1));
  sync(stream);
  char byte = 0;
  CHECK_OK(aclrtMemcpy(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  CHECK_EQ(byte, 2);
  // HOST_TO_BUF_TO_DEVICE takes the bytes at the call, pinned or not.
  CHECK_OK(aiocann_sim_hold(0, -1));
  {
    std::vector<char> ordinary(kKiB, 3);
    CHECK_OK(aclrtMemcpyAsync(memory, kKiB, ordinary.data(), kKiB, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE,
                              stream));
    memset(ordinary.data(), 4, kKiB);
  }
  CHECK_EQ(query(stream), ACL_STREAM_STATUS_NOT_READY);
  CHECK_OK(aiocann_sim_release(0, -1));
  sync(stream);
  CHECK_OK(aclrtMemcpy(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  CHECK_EQ(byte, 3);
  CHECK_CODE(aclrtMemcpyAsync(pinned, kKiB, memory, kKiB, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtFreeHost(pinned));
}

void ordinary_memory_makes_the_call_wait_for_the_stream() {
  aclrtStream stream = new_stream();
  char *memory = static_cast<char *>(device_memory(kKiB));
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtMemsetAsync(memory, kKiB, 9, kKiB, stream));
  std::atomic<bool> returned{false};
  char byte = 0;
  std::thread caller([&] {
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtMemcpyAsync(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    returned = true;
    CHECK_OK(aclrtResetDevice(0));
  });
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 50), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK(!returned.load());
  CHECK_OK(aiocann_sim_release(0, -1));
  caller.join();
  CHECK_EQ(byte, 9);  // done when the call returns, in stream order
  CHECK_EQ(query(stream), ACL_STREAM_STATUS_COMPLETE);
  // An earlier failure of the stream comes out of the call.
  CHECK_OK(aiocann_sim_inject("copy", "memset", 1, 0));
  CHECK_OK(aclrtMemsetAsync(memory, kKiB, 1, kKiB, stream));
  CHECK_CODE(aclrtMemcpyAsync(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST, stream),
             ACL_ERROR_RT_DEVICE_MEM_ERROR);
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtDestroyStream(stream));
}

/// The synchronous copy waits for no stream.
void the_synchronous_copy_is_in_no_order() {
  aclrtStream stream = new_stream();
  char *memory = static_cast<char *>(device_memory(kKiB));
  CHECK_OK(aclrtMemset(memory, kKiB, 1, kKiB));
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtMemsetAsync(memory, kKiB, 2, kKiB, stream));
  char byte = 0;
  CHECK_OK(aclrtMemcpy(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  CHECK_EQ(byte, 1);
  CHECK_OK(aiocann_sim_release(0, -1));
  sync(stream);
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtDestroyStream(stream));
}

void fills() {
  char *memory = static_cast<char *>(device_memory(10 * kMiB)),
       *pinned = static_cast<char *>(pinned_memory(kKiB));
  char ordinary[8] = {};
  CHECK_OK(aclrtMemset(nullptr, 0, 1, 0));
  CHECK_CODE(aclrtMemset(nullptr, 8, 1, 8), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtMemset(memory, 7, 1, 8), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtMemset(ordinary, 8, 1, 8), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtMemset(memory, 10 * kMiB, 0x1234ab, 10 * kMiB));  // the low 8 bits
  std::vector<char> back(10 * kMiB);
  CHECK_OK(aclrtMemcpy(back.data(), back.size(), memory, back.size(), ACL_MEMCPY_DEVICE_TO_HOST));
  for (char byte : back) CHECK_EQ(byte, static_cast<char>(0xab));
  CHECK_OK(aclrtMemset(pinned, kKiB, 5, kKiB));
  CHECK_EQ(pinned[kKiB - 1], 5);
  CHECK_OK(aclrtMemsetAsync(pinned, kKiB, 6, kKiB, nullptr));
  sync(nullptr);
  CHECK_EQ(pinned[kKiB - 1], 6);
  CHECK_CODE(aclrtMemsetAsync(memory, 7, 1, 8, nullptr), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtFreeHost(pinned));
}

void two_dimensions() {
  constexpr size_t kRows = 300, kWidth = 700, kPitch = 1024, kDevicePitch = 704;
  char *memory = static_cast<char *>(device_memory(kRows * kDevicePitch));
  char *other = static_cast<char *>(device_memory(kRows * kPitch));
  std::vector<char> host(kRows * kPitch, 1), back(kRows * kPitch, 0);
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<char>(i % 127);
  const auto copy = [](void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                       size_t height, int kind) {
    return aclrtMemcpy2d(dst, dpitch, src, spitch, width, height,
                         static_cast<aclrtMemcpyKind>(kind));
  };
  CHECK_OK(copy(nullptr, 0, nullptr, 0, 0, 5, 1));
  CHECK_OK(copy(nullptr, 0, nullptr, 0, 5, 0, 1));
  CHECK_CODE(copy(memory, 8, host.data(), kPitch, 9, 2, 1), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(copy(memory, kDevicePitch, host.data(), 8, 9, 2, 1), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(copy(memory, kDevicePitch, other, kPitch, kWidth, kRows, 3),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(copy(memory, kDevicePitch, host.data(), kPitch, kWidth, kRows + 1, 1),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(copy(memory, 6000000, host.data(), 6000000, 5000001, 1, 1),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(copy(memory, kDevicePitch, host.data(), kPitch, kWidth, kRows, 1));
  CHECK_OK(aclrtMemcpy2dAsync(other, kPitch, memory, kDevicePitch, kWidth, kRows,
                              ACL_MEMCPY_DEVICE_TO_DEVICE, nullptr));
  sync(nullptr);
  CHECK_OK(copy(back.data(), kPitch, other, kPitch, kWidth, kRows, 2));
  for (size_t row = 0; row < kRows; ++row) {
    CHECK(memcmp(&back[row * kPitch], &host[row * kPitch], kWidth) == 0);
    if (row + 1 < kRows) CHECK_EQ(back[row * kPitch + kWidth], 0);  // the padding is left alone
  }
  std::fill(back.begin(), back.end(), 0);
  CHECK_OK(aclrtMemcpy2dAsync(back.data(), kPitch, memory, kDevicePitch, kWidth, kRows,
                              ACL_MEMCPY_DEVICE_TO_HOST,
                              nullptr));  // ordinary memory: done when the call returns
  CHECK(memcmp(&back[0], &host[0], kWidth) == 0);
  for (char *p : {memory, other}) CHECK_OK(aclrtFree(p));
}

void memory_freed_under_a_queued_copy_faults() {
  aclrtStream stream = new_stream();
  char *memory = static_cast<char *>(device_memory(4 * kMiB)),
       *pinned = static_cast<char *>(pinned_memory(4 * kMiB));
  memset(pinned, 1, 4 * kMiB);
  const uint64_t misuses = counter("misuse");
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtMemcpyAsync(pinned, 4 * kMiB, memory, 4 * kMiB, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aiocann_sim_release(0, -1));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_DEVICE_MEM_ERROR);
  CHECK_EQ(counter("misuse"), misuses + 1);
  CHECK_CONTAINS(std::string(aiocann_sim_last_misuse()), "not allocated");
  CHECK_EQ(pinned[0], 1);
  CHECK_OK(aclrtFreeHost(pinned));
  CHECK_OK(aclrtDestroyStream(stream));
}

void reaching_into_the_padding_is_misuse_only() {
  char *memory = static_cast<char *>(device_memory(100));
  char host[128] = {};
  const uint64_t misuses = counter("misuse");
  CHECK_OK(
      aclrtMemcpy(memory, 128, host, 110, ACL_MEMCPY_HOST_TO_DEVICE));  // hardware would not notice
  CHECK_EQ(counter("misuse"), misuses + 1);
  CHECK_OK(aclrtFree(memory));
}

void bytes_are_counted_by_direction() {
  char *a = static_cast<char *>(device_memory(kMiB)), *b = static_cast<char *>(device_memory(kMiB));
  char *pinned = static_cast<char *>(pinned_memory(kMiB));
  const uint64_t h2d = counter("bytes_h2d"), d2h = counter("bytes_d2h"), d2d = counter("bytes_d2d");
  CHECK_OK(aclrtMemcpyAsync(a, kMiB, pinned, 1000, ACL_MEMCPY_HOST_TO_DEVICE, nullptr));
  CHECK_OK(aclrtMemcpyAsync(b, kMiB, a, 200, ACL_MEMCPY_DEVICE_TO_DEVICE, nullptr));
  CHECK_OK(aclrtMemcpyAsync(pinned, kMiB, b, 30, ACL_MEMCPY_DEVICE_TO_HOST, nullptr));
  sync(nullptr);
  CHECK_EQ(counter("bytes_h2d"), h2d + 1000);
  CHECK_EQ(counter("bytes_d2d"), d2d + 200);
  CHECK_EQ(counter("bytes_d2h"), d2h + 30);
  for (char *p : {a, b}) CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtFreeHost(pinned));
}

/// Looks at memory that the device is writing: what no program may do, and ThreadSanitizer is not to see.
__attribute__((no_sanitize("thread"))) bool is_zero(const volatile char *memory) {
  return *memory == 0;
}

/// Until a copy, or fill, that had begun did not come to its end.
void an_abort_ends_what_is_running() {
  constexpr size_t kLarge = 192 * kMiB;
  char *from = static_cast<char *>(pinned_memory(kLarge)),
       *to = static_cast<char *>(device_memory(kLarge));
  memset(from, 1, kLarge);
  for (const bool fills : {false, true}) {
    bool unfinished = false;
    for (int i = 0; i < 20 && !unfinished; ++i) {
      CHECK_OK(aclrtMemset(to, kLarge, 0, kLarge));
      aclrtStream stream = new_stream();
      CHECK_OK(fills
                   ? aclrtMemsetAsync(to, kLarge, 1, kLarge, stream)
                   : aclrtMemcpyAsync(to, kLarge, from, kLarge, ACL_MEMCPY_HOST_TO_DEVICE, stream));
      while (is_zero(to)) sched_yield();
      CHECK_OK(aclrtStreamAbort(stream));
      unfinished = is_zero(to + kLarge - 1);
      CHECK_OK(aclrtDestroyStreamForce(stream));
    }
    CHECK(unfinished);
  }
  CHECK_OK(aclrtFree(to));
  CHECK_OK(aclrtFreeHost(from));
}

}  // namespace

int main() {
  configure("strict", "0");  // what is reported without it
  start(1);
  checks_of_the_synchronous_copy();
  every_direction_moves_the_bytes();
  checks_of_the_asynchronous_copy();
  pinned_memory_is_read_when_the_stream_gets_there();
  ordinary_memory_makes_the_call_wait_for_the_stream();
  the_synchronous_copy_is_in_no_order();
  fills();
  two_dimensions();
  memory_freed_under_a_queued_copy_faults();
  reaching_into_the_padding_is_misuse_only();
  bytes_are_counted_by_direction();
  an_abort_ends_what_is_running();
  CHECK_EQ(counter("live_allocations"), 0);
  CHECK_EQ(counter("live_pinned"), 0);
  CHECK_OK(aclrtResetDevice(0));
  return 0;
}
