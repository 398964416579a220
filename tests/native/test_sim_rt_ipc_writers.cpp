// Exporting a block while others write to it: no write is lost, whoever makes it.
#include <algorithm>

#include "sim_rt.hpp"

namespace {

constexpr size_t kBytes = 32 * kMiB, kChunk = 16 * kKiB, kChunks = kBytes / kChunk;
constexpr int kRounds = 6;

void export_block(void *block) {
  char key[65] = "";
  CHECK_OK(aclrtIpcMemGetExportKey(block, kBytes, key, sizeof key, 1));
  CHECK_OK(aclrtIpcMemClose(key));
}

/// A thread copies to the even chunks, a stream fills the odd ones, both back to front: what they write is mostly
/// behind the place that moving the block has got to.
void a_round(char value) {
  char *block = static_cast<char *>(device_memory(kBytes));
  CHECK_OK(aclrtMemset(block, kBytes, 0, kBytes));
  std::atomic<size_t> written{0};
  std::thread writer([&] {
    CHECK_OK(aclrtSetDevice(0));
    std::vector<char> chunk(kChunk, value);
    for (size_t i = kChunks; i-- > 0;) {
      if (i % 2 != 0) continue;
      CHECK_OK(
          aclrtMemcpy(block + i * kChunk, kChunk, chunk.data(), kChunk, ACL_MEMCPY_HOST_TO_DEVICE));
      written.fetch_add(1);
    }
    CHECK_OK(aclrtResetDevice(0));
  });
  aclrtStream stream = new_stream();
  for (size_t i = kChunks; i-- > 0;) {
    if (i % 2 != 0) CHECK_OK(aclrtMemsetAsync(block + i * kChunk, kChunk, value, kChunk, stream));
  }
  while (written.load() < kChunks / 20) std::this_thread::yield();
  export_block(block);
  writer.join();
  sync(stream);
  std::vector<char> found(kBytes);
  CHECK_OK(aclrtMemcpy(found.data(), kBytes, block, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  CHECK_EQ(std::count(found.begin(), found.end(), value), kBytes);
  CHECK_OK(aclrtFree(block));
  CHECK_OK(aclrtDestroyStream(stream));
}

}  // namespace

int main() {
  start(1);
  for (int i = 0; i < kRounds; ++i) a_round(static_cast<char>(i + 1));
  return 0;
}
