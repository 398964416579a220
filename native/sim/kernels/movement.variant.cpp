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

typedef uint32_t Four __attribute__((vector_size(16)));

/// 4 x 4 blocks of 4-byte elements in registers.
AIOCANN_INLINE void transpose_block(char *out, const char *in, ptrdiff_t out_step,
                                    ptrdiff_t in_step) {
  Four a, b, c, d;
  __builtin_memcpy(&a, in, 16);
  __builtin_memcpy(&b, in + in_step, 16);
  __builtin_memcpy(&c, in + 2 * in_step, 16);
  __builtin_memcpy(&d, in + 3 * in_step, 16);
  const Four low = {0, 4, 1, 5}, high = {2, 6, 3, 7};
  const Four ab = __builtin_shuffle(a, b, low), AB = __builtin_shuffle(a, b, high);
  const Four cd = __builtin_shuffle(c, d, low), CD = __builtin_shuffle(c, d, high);
  const Four left = {0, 1, 4, 5}, right = {2, 3, 6, 7};
  const Four rows[4] = {__builtin_shuffle(ab, cd, left), __builtin_shuffle(ab, cd, right),
                        __builtin_shuffle(AB, CD, left), __builtin_shuffle(AB, CD, right)};
  for (int i = 0; i < 4; ++i) __builtin_memcpy(out + i * out_step, &rows[i], 16);
}

AIOCANN_INLINE void transpose_fours(char *out, const char *in, size_t rows, size_t cols,
                                    ptrdiff_t out_stride, ptrdiff_t in_stride) {
  const ptrdiff_t out_step = out_stride * 4, in_step = in_stride * 4;
  const size_t whole_rows = rows & ~(size_t)15, whole_cols = cols & ~(size_t)3;
  for (size_t r = 0; r < whole_rows; r += 16) {
    // Sixteen rows at a time fill whole lines of the result.
    for (size_t c = 0; c < whole_cols; c += 4) {
      for (size_t i = 0; i < 16; i += 4) {
        transpose_block(out + (ptrdiff_t)c * out_step + (ptrdiff_t)(r + i) * 4,
                        in + (ptrdiff_t)(r + i) * in_step + (ptrdiff_t)c * 4, out_step, in_step);
      }
    }
  }
  if (whole_cols < cols) {
    transpose_items<uint32_t>(out + (ptrdiff_t)whole_cols * out_step,
                              in + (ptrdiff_t)whole_cols * 4, whole_rows, cols - whole_cols,
                              out_stride, in_stride);
  }
  if (whole_rows < rows) {
    transpose_items<uint32_t>(out + (ptrdiff_t)whole_rows * 4, in + (ptrdiff_t)whole_rows * in_step,
                              rows - whole_rows, cols, out_stride, in_stride);
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
      return transpose_fours(to, from, rows, cols, out_stride, in_stride);
    default:
      return transpose_items<uint64_t>(to, from, rows, cols, out_stride, in_stride);
  }
}

}  // namespace aiocann::sim::AIOCANN_VARIANT
