// table.hpp: the vectorised inner loops, one table of them for each level of CPU instructions.
//
// Every loop works on n elements in a row; n is a block of at most kBlock elements unless said otherwise. Where a
// loop reads and writes, both may be the same memory. One machine always uses one table, chosen when the library
// is first used: results may differ in the last bits between machines, never between runs.
#pragma once
#include <cstddef>
#include <cstdint>

namespace aiocann::sim {

/// Elements that are staged at a time: a few such blocks fit the first-level cache.
constexpr size_t kBlock = 1024;

enum class UnaryOp : int32_t {
  kCopy,
  kNeg,
  kAbs,
  kExp,
  kLog,
  kSqrt,
  kSin,
  kCos,
  kTanh,
  kRelu,
  kSigmoid,
  kSilu,
  kGeluTanh,
  kGeluErf,
  kScale,   ///< x * a
  kShift,   ///< x + a
  kDivide,  ///< x / a
  kClamp,   ///< min(max(x, a), b); NaN stays NaN
  kSign,    ///< NaN stays NaN
  kHardsigmoid,
  kHardswish,
  kLeakyRelu,  ///< x > 0 ? x : a * x
  kElu,        ///< x > 0 ? b * x : a * (exp(c * x) - 1)
  kSoftplus,   ///< a * x > b ? x : log(1 + exp(a * x)) / a
  kThreshold,  ///< x > a ? x : b
  kGreater,    ///< x > a, as 1 or 0
  kPower,      ///< a to the power x
};

enum class BinaryOp : int32_t {
  kAdd,  ///< x + alpha * y
  kSub,  ///< x - alpha * y
  kMul,
  kDiv,
  kEqual,  ///< x == y, as 1 or 0
};

/// What a reduction adds up. Everything but the maxima and minima is a sum.
enum class ReduceOp : int32_t { kSum, kSquares, kAbs, kMaxAbs, kMinAbs, kNonZero, kPower };

struct KernelTable {
  const char *name;

  void (*f16_to_f32)(float *out, const uint16_t *in, size_t n);
  void (*f32_to_f16)(uint16_t *out, const float *in, size_t n);
  void (*bf16_to_f32)(float *out, const uint16_t *in, size_t n);
  void (*f32_to_bf16)(uint16_t *out, const float *in, size_t n);
  /// Rounds to the 11 bits of mantissa that the cube unit's HFLOAT32 keeps.
  void (*round_hf32)(float *data, size_t n);

  void (*unary)(UnaryOp op, float *out, const float *in, size_t n, float a, float b, float c);
  void (*binary)(BinaryOp op, float *out, const float *x, const float *y, size_t n, float alpha);

  /// Sums (squares of, magnitudes of) a row of any length in a fixed tree; centred on `centre`.
  double (*sum)(const float *in, size_t n);
  double (*sum_squares)(const float *in, size_t n, float centre);
  double (*sum_abs)(const float *in, size_t n);
  /// Largest element of a non-empty row; NaN if there is one.
  float (*max)(const float *in, size_t n);
  /// acc[i] += f(in[i]) for kSum, kSquares, kAbs; combines for the maxima and minima.
  void (*accumulate)(ReduceOp op, float *acc, const float *in, size_t n);

  /// out = exp(in - shift); returns the sum.
  double (*exp_shifted)(float *out, const float *in, size_t n, float shift);
  /// out = (in - mean) * rstd * weight + bias; weight and bias may be NULL.
  void (*normalise)(float *out, const float *in, size_t n, float mean, float rstd,
                    const float *weight, const float *bias);

  /// Integers of 8 bits, or of 4 (two in a byte, the lower half first), as floats. n is even for the latter.
  void (*widen)(float *out, const void *in, int bits, size_t n);
  /// Puts a row of numbers in the order in which quant_dot wants them. out and in differ.
  void (*quant_arrange)(float *out, const float *in, int bits, size_t n);
  /// The sum of x[i] * w[i] * scale[i / group] over a row of n integers; group is n or a multiple of 32.
  float (*quant_dot)(const void *w, int bits, const float *x, const float *scale, size_t n,
                     size_t group);

  /// Transposes a tile: out[c * out_stride + r] = in[r * in_stride + c], in elements of 1, 2, 4 or 8 bytes.
  void (*transpose)(void *out, const void *in, size_t rows, size_t cols, ptrdiff_t out_stride,
                    ptrdiff_t in_stride, size_t item);

  /// c[m][n] = a[m][k] b[k][n], all row-major with their leading dimensions. Used where OpenBLAS is missing.
  void (*gemm)(size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b, size_t ldb,
               float *c, size_t ldc);
};

/// The table for this CPU.
const KernelTable &table();

}  // namespace aiocann::sim
