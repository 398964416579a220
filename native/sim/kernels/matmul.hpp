// matmul.hpp: the engine of matrix products.
#pragma once
#include <cstdint>

#include "sim/kernels/view.hpp"
#include "sim/task.hpp"

namespace aiocann::sim {

/// How inputs are rounded before they are multiplied. Sums are float32 always.
enum class MatmulRounding : int32_t { kNone, kF16, kHf32 };

/// A matrix in FRACTAL_NZ: blocks of columns one after the other, 32 bytes wide; in each all rows, and rows of zeros
/// up to a multiple of 16.
struct Tiling {
  static constexpr int64_t kRowsOfTile = 16;

  int64_t columns = 0;  ///< of a block; 0: the matrix is not tiled
  int64_t rows = 0;     ///< of a block
  bool turned = false;  ///< it is the transpose that is tiled
};

struct MatmulParams {
  MatmulRounding rounding = MatmulRounding::kNone;
  aclDataType via = ACL_DT_UNDEFINED;  ///< the result has this type before it is stored
  Tiling tiling;                       ///< of b
};

/// Views: out [batch..., m, n], a [batch..., m, k], b [batch..., k, n]; batch axes are broadcast by stride 0. A tiled b
/// has only the strides of its batch axes, and a view of all its bytes follows.
int matmul_kernel(ExecContext &context, const void *args);

/// Views: tiled [batch..., blocks, rows, columns], in [batch..., rows, columns]; both may share memory.
int tile_kernel(ExecContext &context, const void *args);

/// One tile on one thread: c = a b, row-major c. Strides in elements; each of a and b has an inner stride of 1 in
/// one of its two directions.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  const float *a = nullptr;
  int64_t a_row = 0, a_col = 0;
  const float *b = nullptr;
  int64_t b_row = 0, b_col = 0;
  float *c = nullptr;
  int64_t ldc = 0;
};
void run_gemm(const Gemm &gemm);

/// Whether products run on OpenBLAS (or on the built-in loop). AIOCANN_SIM_BLAS=builtin forces the latter.
bool has_blas();

}  // namespace aiocann::sim
