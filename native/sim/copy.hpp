// copy.hpp: moving and filling bytes, large amounts with the help of idle workers.
#pragma once
#include <cstdint>

namespace aiocann::sim {

struct Where;

/// `where`: who asks, for what strict mode has to say. A task that is aborted meanwhile leaves it unfinished.
void copy_bytes(const Where &where, void *dst, const void *src, uint64_t bytes);
void copy_rows(const Where &where, void *dst, uint64_t dst_pitch, const void *src,
               uint64_t src_pitch, uint64_t width, uint64_t height);
void fill_bytes(const Where &where, void *dst, uint8_t value, uint64_t bytes);
/// Adds to the counter of the copy's direction.
void count_copy(const void *dst, const void *src, uint64_t bytes);

}  // namespace aiocann::sim
