// gemm.variant.cpp: a plain blocked matrix product for when OpenBLAS is not there.
//
// Micro-kernel of kRows x kCols accumulators over a whole block of k; b is read in place, row by row.
#include "sim/kernels/loops.hpp"
#include "sim/kernels/simd.hpp"

namespace aiocann::sim::AIOCANN_VARIANT {
namespace {

constexpr size_t kRows = 4;
constexpr size_t kVectors = 3;
constexpr size_t kCols = kVectors * kLanes;

/// c[rows][cols] (+)= a[rows][k] b[k][cols], rows <= kRows, cols <= kCols.
template <bool Whole>
AIOCANN_INLINE void micro(size_t rows, size_t cols, size_t k, const float *a, size_t lda,
                          const float *b, size_t ldb, float *c, size_t ldc, bool add) {
  F acc[kRows][kVectors] = {};
  for (size_t p = 0; p < k; ++p) {
    F line[kVectors];
    if (Whole) {
      for (size_t v = 0; v < kVectors; ++v) line[v] = load(b + p * ldb + v * kLanes);
    } else {
      float padded[kCols] = {};
      __builtin_memcpy(padded, b + p * ldb, cols * sizeof(float));
      for (size_t v = 0; v < kVectors; ++v) line[v] = load(padded + v * kLanes);
    }
    for (size_t r = 0; r < kRows; ++r) {
      const F left = all(Whole || r < rows ? a[r * lda + p] : 0.0f);
      for (size_t v = 0; v < kVectors; ++v) acc[r][v] += left * line[v];
    }
  }
  for (size_t r = 0; r < (Whole ? kRows : rows); ++r) {
    float out[kCols];
    for (size_t v = 0; v < kVectors; ++v) store(out + v * kLanes, acc[r][v]);
    for (size_t j = 0; j < cols; ++j) c[r * ldc + j] = add ? c[r * ldc + j] + out[j] : out[j];
  }
}

}  // namespace

void gemm(size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b, size_t ldb,
          float *c, size_t ldc) {
  constexpr size_t kDepth = 256;  // a panel of b, kDepth x kCols, stays in the first-level cache
  if (k == 0) {
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) c[i * ldc + j] = 0.0f;
    }
    return;
  }
  for (size_t p = 0; p < k; p += kDepth) {
    const size_t depth = k - p < kDepth ? k - p : kDepth;
    for (size_t j = 0; j < n; j += kCols) {
      const size_t cols = n - j < kCols ? n - j : kCols;
      for (size_t i = 0; i < m; i += kRows) {
        const size_t rows = m - i < kRows ? m - i : kRows;
        const float *left = a + i * lda + p;
        const float *right = b + p * ldb + j;
        if (rows == kRows && cols == kCols) {
          micro<true>(rows, cols, depth, left, lda, right, ldb, c + i * ldc + j, ldc, p != 0);
        } else {
          micro<false>(rows, cols, depth, left, lda, right, ldb, c + i * ldc + j, ldc, p != 0);
        }
      }
    }
  }
}

}  // namespace aiocann::sim::AIOCANN_VARIANT
