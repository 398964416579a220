// simd.hpp: vectors for the *.variant.cpp files, and nothing else. Everything here lives in the variant's own
// namespace: a function shared between variants would be kept once by the linker, for the wrong CPU.
#pragma once
#include <cstddef>
#include <cstdint>

#include "sim/kernels/table.hpp"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace aiocann::sim::AIOCANN_VARIANT {
namespace {

#if defined(__AVX512F__)
constexpr size_t kLanes = 16;
#elif defined(__AVX2__)
constexpr size_t kLanes = 8;
#else
constexpr size_t kLanes = 4;
#endif

typedef float F __attribute__((vector_size(kLanes * 4)));
typedef int32_t I __attribute__((vector_size(kLanes * 4)));
typedef uint32_t U __attribute__((vector_size(kLanes * 4)));
typedef double D __attribute__((vector_size(kLanes * 8)));
typedef int64_t L __attribute__((vector_size(kLanes * 8)));

#define AIOCANN_INLINE inline __attribute__((always_inline))

AIOCANN_INLINE F load(const float *p) {
  F v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
AIOCANN_INLINE void store(float *p, F v) { __builtin_memcpy(p, &v, sizeof v); }
AIOCANN_INLINE F all(float x) { return F{} + x; }
AIOCANN_INLINE I bits(F v) { return (I)v; }
AIOCANN_INLINE F floats(I v) { return (F)v; }
AIOCANN_INLINE F select(I mask, F yes, F no) { return mask ? yes : no; }
AIOCANN_INLINE F abs(F v) { return floats(bits(v) & 0x7fffffff); }
AIOCANN_INLINE I sign_bit(F v) { return bits(v) & (int32_t)0x80000000; }

/// A part of a vector: the rest is filled with `fill`.
AIOCANN_INLINE F load_part(const float *p, size_t n, float fill = 0.0f) {
  F v = all(fill);
  __builtin_memcpy(&v, p, n * sizeof(float));
  return v;
}
AIOCANN_INLINE void store_part(float *p, F v, size_t n) {
  __builtin_memcpy(p, &v, n * sizeof(float));
}

/// How far ahead of what is read at memory is asked for, in numbers: most loops wait for memory and nothing else.
/// An address beyond the end does no harm.
constexpr size_t kAhead = 512;
AIOCANN_INLINE void expect(const float *p) {
  __builtin_prefetch(reinterpret_cast<const char *>(p) + kAhead * sizeof(float));
}

/// out[i] = f(in[i])
template <class Function>
AIOCANN_INLINE void map(float *out, const float *in, size_t n, Function f) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    expect(in + i);
    store(out + i, f(load(in + i)));
  }
  if (i < n) store_part(out + i, f(load_part(in + i, n - i)), n - i);
}

/// out[i] = f(x[i], y[i])
template <class Function>
AIOCANN_INLINE void map2(float *out, const float *x, const float *y, size_t n, Function f) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    expect(x + i);
    expect(y + i);
    store(out + i, f(load(x + i), load(y + i)));
  }
  if (i < n) store_part(out + i, f(load_part(x + i, n - i), load_part(y + i, n - i, 1.0f)), n - i);
}

}  // namespace
}  // namespace aiocann::sim::AIOCANN_VARIANT
