// quant.variant.cpp: products of float rows with rows of small integers.
#include "sim/kernels/loops.hpp"
#include "sim/kernels/simd.hpp"

#if defined(__SSE4_1__)
#include <immintrin.h>
#endif

namespace aiocann::sim::AIOCANN_VARIANT {
namespace {

/// Pairs of numbers that lie in a byte are kLanes apart in rows for quant_dot.
constexpr size_t kPair = 2 * kLanes;

/// kLanes bytes as numbers of 32 bits. The compiler makes single moves of a conversion between vectors of such
/// different widths, so it is told.
AIOCANN_INLINE I load_bytes(const int8_t *p) {
#if defined(__AVX512F__)
  return (I)_mm512_maskz_cvtepi8_epi32(0xffff,
                                       _mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
#elif defined(__AVX2__)
  return (I)_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p)));
#elif defined(__SSE4_1__)
  int32_t bytes;
  __builtin_memcpy(&bytes, p, sizeof bytes);
  return (I)_mm_cvtepi8_epi32(_mm_cvtsi32_si128(bytes));
#else
  typedef int8_t B __attribute__((vector_size(kLanes)));
  B bytes;
  __builtin_memcpy(&bytes, p, sizeof bytes);
  return __builtin_convertvector(bytes, I);
#endif
}
AIOCANN_INLINE F low_half(I bytes) { return __builtin_convertvector((I)((U)bytes << 28) >> 28, F); }
AIOCANN_INLINE F high_half(I bytes) { return __builtin_convertvector(bytes >> 4, F); }

AIOCANN_INLINE float low_half(int8_t byte) { return (float)((int8_t)((uint8_t)byte << 4) >> 4); }
AIOCANN_INLINE float high_half(int8_t byte) { return (float)(byte >> 4); }

AIOCANN_INLINE float sum_of(F v) {
  float total = 0;
  for (size_t i = 0; i < kLanes; ++i) total += v[i];
  return total;
}

/// Sums [0, n) in lanes; n is a multiple of kPair.
template <int kBits>
AIOCANN_INLINE F lanes_of(const int8_t *w, const float *x, size_t n) {
  F a = {}, b = {};
  for (size_t i = 0; i < n; i += kPair) {
    if (kBits == 8) {
      a += __builtin_convertvector(load_bytes(w + i), F) * load(x + i);
      b += __builtin_convertvector(load_bytes(w + i + kLanes), F) * load(x + i + kLanes);
    } else {
      const I bytes = load_bytes(w + i / 2);
      a += low_half(bytes) * load(x + i);
      b += high_half(bytes) * load(x + i + kLanes);
    }
  }
  return a + b;
}

template <int kBits>
AIOCANN_INLINE float dot(const int8_t *w, const float *x, const float *scale, size_t n,
                         size_t group) {
  F total = {};
  float rest = 0;
  for (size_t from = 0, g = 0; from < n; from += group, ++g) {
    const size_t length = n - from < group ? n - from : group;
    const size_t whole = length / kPair * kPair;
    total += lanes_of<kBits>(w + from * kBits / 8, x + from, whole) * scale[g];
    float tail = 0;
    for (size_t i = from + whole; i < from + length; ++i) {
      const float number = kBits == 8   ? (float)w[i]
                           : i % 2 == 0 ? low_half(w[i / 2])
                                        : high_half(w[i / 2]);
      tail += number * x[i];
    }
    rest += tail * scale[g];
  }
  return sum_of(total) + rest;
}

}  // namespace

void widen(float *out, const void *in, int bits, size_t n) {
  const auto *bytes = static_cast<const int8_t *>(in);
  if (bits == 8) {
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      store(out + i, __builtin_convertvector(load_bytes(bytes + i), F));
    for (; i < n; ++i) out[i] = (float)bytes[i];
    return;
  }
  for (size_t i = 0; i + 1 < n; i += 2) {
    out[i] = low_half(bytes[i / 2]);
    out[i + 1] = high_half(bytes[i / 2]);
  }
}

void quant_arrange(float *out, const float *in, int bits, size_t n) {
  size_t i = 0;
  if (bits == 4) {
    for (; i + kPair <= n; i += kPair) {
      for (size_t j = 0; j < kLanes; ++j) {
        out[i + j] = in[i + 2 * j];
        out[i + kLanes + j] = in[i + 2 * j + 1];
      }
    }
  }
  for (; i < n; ++i) out[i] = in[i];
}

float quant_dot(const void *w, int bits, const float *x, const float *scale, size_t n,
                size_t group) {
  const auto *bytes = static_cast<const int8_t *>(w);
  return bits == 8 ? dot<8>(bytes, x, scale, n, group) : dot<4>(bytes, x, scale, n, group);
}

}  // namespace aiocann::sim::AIOCANN_VARIANT
