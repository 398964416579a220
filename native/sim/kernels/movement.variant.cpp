// movement.variant.cpp: transposing tiles.
#include "sim/kernels/loops.hpp"
#include "sim/kernels/simd.hpp"

namespace aiocann::sim::AIOCANN_VARIANT {
namespace {

/// Small square tiles that stay in registers or at least in the first-level cache; edges one by one.
template <class T>
AIOCANN_INLINE void transpose_items(char *out, const char *in, size_t rows, size_t cols,
                                    ptrdiff_t out_stride, ptrdiff_t in_stride) {
  constexpr size_t kTile = 16;
  for (size_t r = 0; r < rows; r += kTile) {
    const size_t rn = rows - r < kTile ? rows - r : kTile;
    for (size_t c = 0; c < cols; c += kTile) {
      const size_t cn = cols - c < kTile ? cols - c : kTile;
      T tile[kTile][kTile];
      if (rn == kTile && cn == kTile) {
        for (size_t i = 0; i < kTile; ++i) {
          T row[kTile];
          __builtin_memcpy(
              row, in + ((ptrdiff_t)(r + i) * in_stride + (ptrdiff_t)c) * (ptrdiff_t)sizeof(T),
              sizeof row);
          for (size_t j = 0; j < kTile; ++j) tile[j][i] = row[j];
        }
        for (size_t j = 0; j < kTile; ++j) {
          __builtin_memcpy(
              out + ((ptrdiff_t)(c + j) * out_stride + (ptrdiff_t)r) * (ptrdiff_t)sizeof(T),
              tile[j], sizeof tile[j]);
        }
      } else {
        for (size_t i = 0; i < rn; ++i) {
          for (size_t j = 0; j < cn; ++j) {
            __builtin_memcpy(
                out + ((ptrdiff_t)(c + j) * out_stride + (ptrdiff_t)(r + i)) * (ptrdiff_t)sizeof(T),
                in + ((ptrdiff_t)(r + i) * in_stride + (ptrdiff_t)(c + j)) * (ptrdiff_t)sizeof(T),
                sizeof(T));
          }
        }
      }
    }
  }
}

}  // namespace

void transpose(void *out, const void *in, size_t rows, size_t cols, ptrdiff_t out_stride,
               ptrdiff_t in_stride, size_t item) {
  auto *to = static_cast<char *>(out);
  const auto *from = static_cast<const char *>(in);
  switch (item) {
    case 1:
      return transpose_items<uint8_t>(to, from, rows, cols, out_stride, in_stride);
    case 2:
      return transpose_items<uint16_t>(to, from, rows, cols, out_stride, in_stride);
    case 4:
      return transpose_items<uint32_t>(to, from, rows, cols, out_stride, in_stride);
    default:
      return transpose_items<uint64_t>(to, from, rows, cols, out_stride, in_stride);
  }
}

}  // namespace aiocann::sim::AIOCANN_VARIANT
