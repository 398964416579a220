// copy.cpp: bulk copies in chunks over the worker pool.
#include "sim/copy.hpp"

#include <string.h>

#include <algorithm>

#include "sim/faults.hpp"
#include "sim/machine.hpp"
#include "sim/moving.hpp"
#include "sim/pool.hpp"
#include "sim/stream.hpp"
#include "sim/strict.hpp"

namespace aiocann::sim {
namespace {

constexpr uint64_t kChunk = 1ull << 20;
constexpr uint64_t kParallelFrom = 4ull << 20;  ///< below, waking a helper costs more than it saves

/// What is left of a task that its stream is to drop is not done: an abort also ends what is running.
bool is_dropped(const Where &where) {
  return where.stream != nullptr && where.stream->must_discard();
}

template <class Body>
void for_chunks(const Where &where, uint64_t bytes, Body &&body) {
  if (bytes < kParallelFrom) {
    body(0, bytes);
    return;
  }
  Pool::instance().parallel_for((bytes + kChunk - 1) / kChunk, [&](size_t i) {
    const uint64_t begin = i * kChunk;
    if (!is_dropped(where)) body(begin, std::min(kChunk, bytes - begin));
  });
}

bool overlap(const void *a, const void *b, uint64_t bytes) {
  const uintptr_t x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return x < y ? y - x < bytes : x - y < bytes;
}

}  // namespace

void copy_bytes(const Where &where, void *dst, const void *src, uint64_t bytes) {
  if (strict::is_on()) strict::copies(where, dst, bytes, src, bytes, bytes, 1);
  const WriteSection writes;
  if (overlap(dst, src, bytes)) {
    memmove(dst, src, bytes);
    return;
  }
  for_chunks(where, bytes, [&](uint64_t begin, uint64_t n) {
    memcpy(static_cast<char *>(dst) + begin, static_cast<const char *>(src) + begin, n);
  });
}

void copy_rows(const Where &where, void *dst, uint64_t dst_pitch, const void *src,
               uint64_t src_pitch, uint64_t width, uint64_t height) {
  if (strict::is_on()) strict::copies(where, dst, dst_pitch, src, src_pitch, width, height);
  const uint64_t rows_per_chunk = std::max<uint64_t>(1, kChunk / std::max<uint64_t>(1, width));
  const uint64_t chunks = (height + rows_per_chunk - 1) / rows_per_chunk;
  const auto copy_chunk = [&](size_t i) {
    if (is_dropped(where)) return;
    const uint64_t last = std::min(height, (i + 1) * rows_per_chunk);
    for (uint64_t row = i * rows_per_chunk; row < last; ++row) {
      memmove(static_cast<char *>(dst) + row * dst_pitch,
              static_cast<const char *>(src) + row * src_pitch, width);
    }
  };
  const WriteSection writes;
  if (width * height < kParallelFrom) {
    for (uint64_t i = 0; i < chunks; ++i) copy_chunk(i);
  } else {
    Pool::instance().parallel_for(chunks, copy_chunk);
  }
}

void fill_bytes(const Where &where, void *dst, uint8_t value, uint64_t bytes) {
  if (strict::is_on()) strict::writes(dst, bytes);
  const WriteSection writes;
  for_chunks(where, bytes, [&](uint64_t begin, uint64_t n) {
    memset(static_cast<char *>(dst) + begin, value, n);
  });
}

void count_copy(const void *dst, const void *src, uint64_t bytes) {
  const Location to = machine().locate(dst), from = machine().locate(src);
  count(g_counters.copies);
  if (to.device != nullptr && from.device != nullptr) {
    count(to.device == from.device ? g_counters.bytes_d2d : g_counters.bytes_peer, bytes);
  } else if (to.device != nullptr) {
    count(g_counters.bytes_h2d, bytes);
  } else if (from.device != nullptr) {
    count(g_counters.bytes_d2h, bytes);
  }
}

}  // namespace aiocann::sim
