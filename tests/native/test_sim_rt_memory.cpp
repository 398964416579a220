// Allocation, accounting, what is known of a pointer, and running out.
#include "sim_rt.hpp"

namespace {

size_t free_bytes() {
  size_t free = 0, total = 0;
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  CHECK_EQ(total, 256 * kMiB);
  return free;
}

void sizes_and_alignment() {
  void *pointer = nullptr;
  CHECK_CODE(aclrtMalloc(&pointer, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtMallocAlign32(&pointer, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtMalloc(nullptr, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtMallocHost(&pointer, 0), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtMallocHost(nullptr, 64), ACL_ERROR_INVALID_PARAM);
  std::vector<void *> pointers;
  for (size_t bytes : {size_t{1}, size_t{31}, size_t{64}, size_t{4096}, size_t{1} << 20,
                       (size_t{1} << 20) + 1, size_t{5} << 20}) {
    pointers.push_back(device_memory(bytes));
    CHECK_EQ(reinterpret_cast<uintptr_t>(pointers.back()) % 64, 0);
    void *host = pinned_memory(bytes);
    CHECK_EQ(reinterpret_cast<uintptr_t>(host) % 64, 0);
    memset(host, 1, bytes);
    CHECK_OK(aclrtFreeHost(host));
  }
  for (void *p : pointers) CHECK_OK(aclrtFree(p));
}

void accounting_is_in_pages() {
  const size_t before = free_bytes();
  const auto cost = [before](aclrtMemMallocPolicy policy, size_t bytes) {
    void *pointer = nullptr;
    CHECK_OK(aclrtMalloc(&pointer, bytes, policy));
    const size_t used = before - free_bytes();
    CHECK_OK(aclrtFree(pointer));
    CHECK_EQ(free_bytes(), before);
    return used;
  };
  for (const auto first : {ACL_MEM_MALLOC_HUGE_FIRST, ACL_MEM_MALLOC_HUGE_FIRST_P2P}) {
    CHECK_EQ(cost(first, 100), 4096);
    CHECK_EQ(cost(first, kMiB), kMiB + 4096);  // 32 bytes more than asked for are the driver's
    CHECK_EQ(cost(first, kMiB + 1), 2 * kMiB);
    CHECK_EQ(cost(first, 2 * kMiB), 4 * kMiB);
  }
  CHECK_EQ(cost(ACL_MEM_MALLOC_HUGE_ONLY, 100), 2 * kMiB);
  CHECK_EQ(cost(ACL_MEM_MALLOC_HUGE_ONLY_P2P, 100), 2 * kMiB);
  CHECK_EQ(cost(ACL_MEM_MALLOC_NORMAL_ONLY, 3 * kMiB), 3 * kMiB + 4096);
  CHECK_EQ(cost(ACL_MEM_MALLOC_NORMAL_ONLY_P2P, 100), 4096);
  const auto unknown = static_cast<aclrtMemMallocPolicy>(77);
  CHECK_EQ(cost(unknown, 2 * kMiB - 1), 2 * kMiB + 4096);  // normal pages
  CHECK_EQ(cost(unknown, 2 * kMiB), 4 * kMiB);             // huge pages
  void *pointer = nullptr;
  CHECK_OK(aclrtMallocAlign32(&pointer, 2 * kMiB, ACL_MEM_MALLOC_HUGE_ONLY));  // nothing is added
  CHECK_EQ(before - free_bytes(), 2 * kMiB);
  CHECK_OK(aclrtFree(pointer));
  CHECK_CODE(aclrtMalloc(&pointer, 1, ACL_MEM_MALLOC_HUGE1G_ONLY), ACL_ERROR_RT_MEMORY_ALLOCATION);
}

void memory_info() {
  size_t free = 1, total = 1;
  CHECK_OK(aclrtGetMemInfo(ACL_DDR_MEM, &free, &total));
  CHECK_EQ(total, 0);  // this SoC has no DDR
  for (int attribute : {1, 4, 5, 8, 9, 10, 11, 12, 13, 17}) {
    CHECK_OK(aclrtGetMemInfo(static_cast<aclrtMemAttr>(attribute), &free, &total));
    CHECK_EQ(total, 256 * kMiB);
  }
  for (int attribute : {-1, 18, 1000}) {
    CHECK_CODE(aclrtGetMemInfo(static_cast<aclrtMemAttr>(attribute), &free, &total),
               ACL_ERROR_RT_INVALID_MEMORY_TYPE);
  }
  CHECK_CODE(aclrtGetMemInfo(ACL_HBM_MEM, nullptr, &total), ACL_ERROR_INVALID_PARAM);
}

void freeing() {
  void *memory = device_memory(kMiB), *host = pinned_memory(kMiB);
  CHECK_CODE(aclrtFree(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtFreeHost(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtFree(host), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtFreeHost(memory), ACL_ERROR_RT_PARAM_INVALID);
  int unrelated = 0;
  CHECK_CODE(aclrtFree(&unrelated), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtFree(static_cast<char *>(memory) + 64), ACL_ERROR_RT_PARAM_INVALID);
  on_thread([memory, host] {  // needs no context
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtFreeHost(host));
  });
  const uint64_t misuses = counter("misuse");
  CHECK_CODE(aclrtFree(memory), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_EQ(counter("misuse"), misuses + 1);
  CHECK_CONTAINS(std::string(aiocann_sim_last_misuse()), "freed twice");
}

/// Freeing waits for nobody; the forms that say so wait for the device.
void freeing_waits_only_where_it_says_so() {
  aclrtStream stream = new_stream();
  void *used = device_memory(kKiB), *host = pinned_memory(kKiB);
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtMemsetAsync(used, kKiB, 1, kKiB, stream));
  CHECK_OK(aclrtMemsetAsync(host, kKiB, 1, kKiB, stream));
  CHECK_OK(aclrtFree(device_memory(kKiB)));
  CHECK_EQ(query(stream), ACL_STREAM_STATUS_NOT_READY);
  std::atomic<int> freed{0};
  std::vector<std::thread> callers;
  callers.emplace_back([&] {
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtFreeWithDevSync(used));
    ++freed;
    CHECK_OK(aclrtResetDevice(0));
  });
  callers.emplace_back([&] {
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtFreeHostWithDevSync(host));
    ++freed;
    CHECK_OK(aclrtResetDevice(0));
  });
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_EQ(freed.load(), 0);
  CHECK_OK(aiocann_sim_release(0, -1));
  for (std::thread &caller : callers) caller.join();
  CHECK_EQ(freed.load(), 2);
  CHECK_OK(aclrtSynchronizeStream(stream));
  CHECK_OK(aclrtDestroyStream(stream));
}

void pointer_attributes() {
  char *memory = static_cast<char *>(device_memory(3 * kMiB)),
       *small = static_cast<char *>(device_memory(64));
  char *host = static_cast<char *>(pinned_memory(kMiB));
  int unrelated = 0;
  aclrtPtrAttributes attributes;
  CHECK_OK(aclrtPointerGetAttributes(memory + 2 * kMiB, &attributes));
  CHECK_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
  CHECK_EQ(attributes.location.id, 0);
  CHECK_EQ(attributes.pageSize, 2 * kMiB);
  CHECK_OK(aclrtPointerGetAttributes(small, &attributes));
  CHECK_EQ(attributes.pageSize, 4096);
  CHECK_OK(aclrtPointerGetAttributes(host + 100, &attributes));
  CHECK_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_HOST);
  CHECK_OK(aclrtPointerGetAttributes(&unrelated, &attributes));
  CHECK_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
  CHECK_CODE(aclrtPointerGetAttributes(nullptr, &attributes), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtPointerGetAttributes(memory, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtSetDevice(1));
  char *theirs = static_cast<char *>(device_memory(64));
  CHECK_OK(aclrtPointerGetAttributes(theirs, &attributes));
  CHECK_EQ(attributes.location.id, 1);
  CHECK_OK(aclrtFree(theirs));
  CHECK_OK(aclrtResetDevice(1));
  CHECK_OK(aclrtSetDevice(0));
  for (char *p : {memory, small}) CHECK_OK(aclrtFree(p));
  CHECK_OK(aclrtFreeHost(host));
  CHECK_OK(aclrtPointerGetAttributes(memory, &attributes));
  CHECK_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
}

void running_out() {
  std::vector<void *> blocks;
  void *pointer = nullptr;
  while (aclrtMalloc(&pointer, 16 * kMiB - 32, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS)
    blocks.push_back(pointer);
  CHECK_EQ(blocks.size(), 16);
  CHECK_CODE(aclrtMalloc(&pointer, 1, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_RT_MEMORY_ALLOCATION);
  CHECK_CONTAINS(recent(), "0 of 268435456 are free");
  CHECK_EQ(free_bytes(), 0);
  // Every second block freed: half the memory, in fragments; a block of that size still fits.
  for (size_t i = 0; i < blocks.size(); i += 2) CHECK_OK(aclrtFree(blocks[i]));
  CHECK_OK(aclrtMalloc(&pointer, 128 * kMiB - 32, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(aclrtMemset(pointer, 128 * kMiB - 32, 1, 128 * kMiB - 32));
  CHECK_OK(aclrtFree(pointer));
  for (size_t i = 1; i < blocks.size(); i += 2) CHECK_OK(aclrtFree(blocks[i]));
  CHECK_EQ(free_bytes(), 256 * kMiB);
  CHECK_CODE(aclrtMalloc(&pointer, SIZE_MAX - 8, ACL_MEM_MALLOC_HUGE_FIRST),
             ACL_ERROR_RT_MEMORY_ALLOCATION);
  CHECK_CODE(aclrtMallocHost(&pointer, SIZE_MAX - 8), ACL_ERROR_RT_MEMORY_ALLOCATION);
}

void an_allocation_can_be_made_to_fail() {
  void *pointer = nullptr;
  CHECK_OK(aiocann_sim_inject("call", "aclrtMalloc", 2, ACL_ERROR_RT_MEMORY_ALLOCATION));
  CHECK_OK(aclrtMalloc(&pointer, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  void *second = nullptr;
  CHECK_CODE(aclrtMalloc(&second, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
  CHECK_CONTAINS(recent(), "injected");
  CHECK_OK(aclrtMalloc(&second, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(aclrtFree(pointer));
  CHECK_OK(aclrtFree(second));
}

/// Many blocks of many sizes, from several threads: none overlaps another, and all comes back.
void many_blocks_from_many_threads() {
  const size_t before = free_bytes();
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      CHECK_OK(aclrtSetDevice(0));
      struct Block {
        unsigned char *bytes;
        size_t size;
        unsigned char fill;
      };
      std::vector<Block> blocks;
      uint32_t random = t + 1;
      for (int i = 0; i < 400; ++i) {
        random = random * 1664525 + 1013904223;
        const size_t size = 1 + (random >> 8) % (random % 7 == 0 ? 3000000 : 9000);
        const auto fill = static_cast<unsigned char>(random >> 3);
        void *pointer = nullptr;
        if (aclrtMalloc(&pointer, size, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS) {
          blocks.push_back({static_cast<unsigned char *>(pointer), size, fill});
          CHECK_OK(aclrtMemset(pointer, size, fill, size));
        }
        if (blocks.size() > 20 || random % 3 == 0) {
          if (blocks.empty()) continue;
          const size_t victim = (random >> 5) % blocks.size();
          const Block block = blocks[victim];
          unsigned char first = 0, last = 0;
          CHECK_OK(aclrtMemcpy(&first, 1, block.bytes, 1, ACL_MEMCPY_DEVICE_TO_HOST));
          CHECK_OK(
              aclrtMemcpy(&last, 1, block.bytes + block.size - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST));
          CHECK_EQ(first, block.fill);
          CHECK_EQ(last, block.fill);
          CHECK_OK(aclrtFree(block.bytes));
          blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(victim));
        }
      }
      for (const Block &block : blocks) CHECK_OK(aclrtFree(block.bytes));
      CHECK_OK(aclrtResetDevice(0));
    });
  }
  for (std::thread &thread : threads) thread.join();
  CHECK_EQ(free_bytes(), before);
  CHECK_EQ(counter("live_allocations"), 0);
}

}  // namespace

int main() {
  start(2);
  sizes_and_alignment();
  accounting_is_in_pages();
  memory_info();
  freeing();
  freeing_waits_only_where_it_says_so();
  pointer_attributes();
  running_out();
  an_allocation_can_be_made_to_fail();
  many_blocks_from_many_threads();
  CHECK_EQ(counter("live_pinned"), 0);
  return 0;
}
