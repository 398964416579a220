// elementwise.variant.cpp: conversions, functions of one and of two numbers.
#include "sim/kernels/loops.hpp"
#include "sim/kernels/vmath.hpp"

namespace aiocann::sim::AIOCANN_VARIANT {
namespace {

AIOCANN_INLINE uint32_t bits_of(float x) {
  uint32_t u;
  __builtin_memcpy(&u, &x, sizeof u);
  return u;
}

AIOCANN_INLINE float float_of(uint32_t u) {
  float x;
  __builtin_memcpy(&x, &u, sizeof x);
  return x;
}

#if !defined(__F16C__) && !defined(__aarch64__)
// Portable half precision, written without branches so that the compiler vectorises the loops.

AIOCANN_INLINE float half_to_float(uint16_t h) {
  const uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13;
  const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
  // Scaling by 2^112 moves the exponent's bias and makes subnormals right as well.
  const uint32_t finite = bits_of(float_of(magnitude) * 5.192296858534827628530496329220096e33f);
  const uint32_t special = magnitude | 0x7f800000u | (magnitude & 0x7fffffu ? 0x400000u : 0u);
  return float_of((magnitude >= 0x0f800000u ? special : finite) | sign);
}

AIOCANN_INLINE uint16_t float_to_half(float x) {
  const uint32_t u = bits_of(x);
  const uint32_t sign = (u >> 16) & 0x8000u;
  const uint32_t magnitude = u & 0x7fffffffu;
  // Subnormal results: adding 0.5 lines the mantissa up so that the hardware rounds at the right bit.
  const uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1)) >> 13;
  const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
  const uint32_t large = magnitude > 0x7f800000u ? 0x7e00u | ((magnitude >> 13) & 0x1ffu) : 0x7c00u;
  return (uint16_t)((magnitude >= 0x477ff000u ? large : finite) | sign);
}
#endif

/// Whether any lane is huge, infinite or NaN: the vector code does not cover those.
AIOCANN_INLINE bool has_wild(F x) {
  const I wild = ~(abs(x) <= kMaxAngle);
  uint64_t words[sizeof(I) / 8];
  __builtin_memcpy(words, &wild, sizeof wild);
  uint64_t any = 0;
  for (size_t i = 0; i < sizeof(I) / 8; ++i) any |= words[i];
  return any != 0;
}

__attribute__((noinline)) void wild_sines(float *out, const float *in, size_t n, int phase) {
  for (size_t i = 0; i < n; ++i) {
    if (in[i] <= kMaxAngle && in[i] >= -kMaxAngle) continue;
    out[i] = phase ? __builtin_cosf(in[i]) : __builtin_sinf(in[i]);
  }
}

AIOCANN_INLINE void sines(float *out, const float *in, size_t n, int phase) {
  for (size_t i = 0; i < n; i += kLanes) {
    const size_t part = n - i < kLanes ? n - i : kLanes;
    const F x = part == kLanes ? load(in + i) : load_part(in + i, part);
    F y = sine(x, phase);
    if (__builtin_expect(has_wild(x), 0)) {
      float arguments[kLanes], results[kLanes];
      store(arguments, x);
      store(results, y);
      wild_sines(results, arguments, kLanes, phase);
      y = load(results);
    }
    if (part == kLanes) {
      store(out + i, y);
    } else {
      store_part(out + i, y, part);
    }
  }
}

/// base to the power in[i]. The logarithm is taken once, in double precision.
AIOCANN_INLINE void powers(float *out, const float *in, size_t n, float base) {
  if (base > 0.0f && base != 1.0f && base < __builtin_inff()) {
    const double log2_base = __builtin_log2(base);
    return map(out, in, n, [log2_base](F x) { return exp2_product(x, log2_base); });
  }
  for (size_t i = 0; i < n; ++i) out[i] = __builtin_powf(base, in[i]);
}

}  // namespace

void f16_to_f32(float *out, const uint16_t *in, size_t n) {
  size_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(in + i))));
  }
#endif
  for (; i < n; ++i) {
#if defined(__F16C__)
    out[i] = _cvtsh_ss(in[i]);
#elif defined(__aarch64__)
    __fp16 h;
    __builtin_memcpy(&h, in + i, 2);
    out[i] = (float)h;
#else
    out[i] = half_to_float(in[i]);
#endif
  }
}

void f32_to_f16(uint16_t *out, const float *in, size_t n) {
  size_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128((__m128i *)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(in + i), 0));
  }
#endif
  for (; i < n; ++i) {
#if defined(__F16C__)
    out[i] = _cvtss_sh(in[i], 0);
#elif defined(__aarch64__)
    const __fp16 h = (__fp16)in[i];
    __builtin_memcpy(out + i, &h, 2);
#else
    out[i] = float_to_half(in[i]);
#endif
  }
}

void bf16_to_f32(float *out, const uint16_t *in, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = float_of((uint32_t)in[i] << 16);
}

void f32_to_bf16(uint16_t *out, const float *in, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t u = bits_of(in[i]);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
    const uint32_t nan = (u >> 16) | 0x40u;
    out[i] = (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

void round_hf32(float *data, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t u = bits_of(data[i]);
    const uint32_t rounded = (u + 0x7ffu + ((u >> 12) & 1)) & 0xfffff000u;
    data[i] = float_of((u & 0x7f800000u) == 0x7f800000u ? u : rounded);
  }
}

void unary(UnaryOp op, float *out, const float *in, size_t n, float a, float b, float c) {
  switch (op) {
    case UnaryOp::kCopy:
      return map(out, in, n, [](F x) { return x; });
    case UnaryOp::kNeg:
      return map(out, in, n, [](F x) { return -x; });
    case UnaryOp::kAbs:
      return map(out, in, n, [](F x) { return abs(x); });
    case UnaryOp::kExp:
      return map(out, in, n, [](F x) { return exp(x); });
    case UnaryOp::kLog:
      return map(out, in, n, [](F x) { return log(x); });
    case UnaryOp::kSqrt:
      for (size_t i = 0; i < n; ++i) out[i] = __builtin_sqrtf(in[i]);
      return;
    case UnaryOp::kSin:
      return sines(out, in, n, 0);
    case UnaryOp::kCos:
      return sines(out, in, n, 1);
    case UnaryOp::kTanh:
      return map(out, in, n, [](F x) { return tanh(x); });
    case UnaryOp::kRelu:
      return map(out, in, n, [](F x) { return select(x <= 0.0f, all(0.0f), x); });
    case UnaryOp::kSigmoid:
      return map(out, in, n, [](F x) { return sigmoid(x); });
    case UnaryOp::kSilu:
      return map(out, in, n, [](F x) { return gated(x, x); });
    case UnaryOp::kGeluTanh:
      return map(out, in, n, [](F x) { return gelu_tanh(x); });
    case UnaryOp::kGeluErf:
      return map(out, in, n, [](F x) { return gelu_erf(x); });
    case UnaryOp::kScale:
      return map(out, in, n, [a](F x) { return x * a; });
    case UnaryOp::kShift:
      return map(out, in, n, [a](F x) { return x + a; });
    case UnaryOp::kDivide:
      return map(out, in, n, [a](F x) { return x / a; });
    case UnaryOp::kClamp:
      return map(out, in, n, [a, b](F x) {
        const F high = select(x > b, all(b), x);
        return select(high < a, all(a), high);
      });
    case UnaryOp::kSign:
      return map(out, in, n,
                 [](F x) { return select(x > 0.0f, all(1.0f), select(x < 0.0f, all(-1.0f), x)); });
    case UnaryOp::kHardsigmoid:
      return map(out, in, n, [](F x) { return hard_sigmoid(x); });
    case UnaryOp::kHardswish:
      // The product only where it is wanted: at infinity it would be NaN.
      return map(out, in, n, [](F x) {
        const F middle = x * hard_sigmoid(x);
        return select(x >= 3.0f, x, select(x <= -3.0f, all(0.0f), middle));
      });
    case UnaryOp::kLeakyRelu:
      return map(out, in, n, [a](F x) { return select(x > 0.0f, x, x * a); });
    case UnaryOp::kElu:
      return map(out, in, n, [a, b, c](F x) { return select(x > 0.0f, x * b, a * expm1(x * c)); });
    case UnaryOp::kSoftplus:
      return map(out, in, n, [a, b](F x) {
        const F z = x * a;
        return select(z > b, x, softplus(z) / a);
      });
    case UnaryOp::kThreshold:
      return map(out, in, n, [a, b](F x) { return select(x > a, x, all(b)); });
    case UnaryOp::kGreater:
      return map(out, in, n, [a](F x) { return select(x > a, all(1.0f), all(0.0f)); });
    case UnaryOp::kPower:
      return powers(out, in, n, a);
  }
}

void binary(BinaryOp op, float *out, const float *x, const float *y, size_t n, float alpha) {
  switch (op) {
    case BinaryOp::kAdd:
      if (alpha == 1.0f) return map2(out, x, y, n, [](F p, F q) { return p + q; });
      return map2(out, x, y, n, [alpha](F p, F q) { return p + alpha * q; });
    case BinaryOp::kSub:
      if (alpha == 1.0f) return map2(out, x, y, n, [](F p, F q) { return p - q; });
      return map2(out, x, y, n, [alpha](F p, F q) { return p - alpha * q; });
    case BinaryOp::kMul:
      return map2(out, x, y, n, [](F p, F q) { return p * q; });
    case BinaryOp::kDiv:
      return map2(out, x, y, n, [](F p, F q) { return p / q; });
    case BinaryOp::kEqual:
      return map2(out, x, y, n, [](F p, F q) { return select(p == q, all(1.0f), all(0.0f)); });
  }
}

}  // namespace aiocann::sim::AIOCANN_VARIANT
