// vmath.hpp: elementary functions on vectors, for the *.variant.cpp files. Errors are within two or three units
// in the last place over the whole range; infinities and NaN go where mathematics sends them.
//
// The polynomials are minimax fits (iteratively reweighted least squares) made for these intervals.
#pragma once
#include "sim/kernels/simd.hpp"

namespace aiocann::sim::AIOCANN_VARIANT {
namespace {

AIOCANN_INLINE F infinity() { return all(__builtin_inff()); }

/// x * 2^n, n in [-252, 254], rounding once even when the result is subnormal.
AIOCANN_INLINE F scale_by_power(F x, I n) {
  const I half = n >> 1;
  return x * floats((I)((U)(half + 127) << 23)) * floats((I)((U)(n - half + 127) << 23));
}

/// (exp(r) - 1 - r) / r^2 for |r| <= log(2) / 2.
AIOCANN_INLINE F exp_tail(F r) {
  F p = all(1.381459836e-03f);
  p = p * r + 8.368716898e-03f;
  p = p * r + 4.166838805e-02f;
  p = p * r + 1.666652063e-01f;
  return p * r + 4.999999345e-01f;
}

AIOCANN_INLINE F exp(F x) {
  // Clamped so that the exponent stays in range; what lies outside is settled at the end.
  const F c = select(x < -150.0f, all(-150.0f), select(x > 90.0f, all(90.0f), x));
  const F magic = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const F shifted = c * 1.44269504f + magic;
  const F n = shifted - magic;
  const F r = (c - n * 0.693145752f) - n * 1.42860677e-6f;
  const F y = r + r * r * exp_tail(r) + 1.0f;
  const F scaled = scale_by_power(y, (I)((U)bits(shifted) - (U)bits(magic)));
  const F high = select(x > 88.7228391f, infinity(), scaled);
  return select(x < -104.0f, all(0.0f), select(x != x, x, high));
}

AIOCANN_INLINE F log(F x) {
  const I tiny = x < 1.17549435e-38f;
  const F scaled = select(tiny, x * 8388608.0f, x);
  // Split at sqrt(1/2), so that the mantissa lies in [sqrt(1/2), sqrt(2)).
  const I raw = (I)((U)bits(scaled) - 0x3f3504f3u);
  const I exponent = (raw >> 23) - (tiny & 23);
  const F f = floats((raw & 0x7fffff) + 0x3f3504f3) - 1.0f;
  const F e = __builtin_convertvector(exponent, F);
  F p = all(6.746638264e-02f);
  p = p * f - 1.167565121e-01f;
  p = p * f + 1.188816297e-01f;
  p = p * f - 1.240558906e-01f;
  p = p * f + 1.421955228e-01f;
  p = p * f - 1.666799584e-01f;
  p = p * f + 2.000211866e-01f;
  p = p * f - 2.500000960e-01f;
  p = p * f + 3.333331260e-01f;
  const F ff = f * f;
  F y = f * ff * p + e * 1.42860677e-6f;
  y = y - 0.5f * ff;
  y = e * 0.693145752f + (f + y);
  const F nan = all(__builtin_nanf(""));
  y = select(x == infinity(), x, y);
  y = select(x == 0.0f, -infinity(), y);
  return select((x < 0.0f) | (x != x), select(x != x, x, nan), y);
}

/// tanh for |x| < 0.625.
AIOCANN_INLINE F tanh_small(F x) {
  const F z = x * x;
  F p = all(2.142962069e-03f);
  p = p * z - 8.177398530e-03f;
  p = p * z + 2.170070337e-02f;
  p = p * z - 5.394676310e-02f;
  p = p * z + 1.333320601e-01f;
  p = p * z - 3.333333080e-01f;
  return x * z * p + x;
}

AIOCANN_INLINE F tanh(F x) {
  const F t = abs(x);
  const F small = tanh_small(x);
  const F large = 1.0f - 2.0f / (exp(t + t) + 1.0f);
  return select(t < 0.625f, small, floats(bits(large) | sign_bit(x)));
}

/// exp(x) - 1, precise near 0 as well.
AIOCANN_INLINE F expm1(F x) {
  const F half = tanh_small(0.5f * x);
  return select(abs(x) < 1.0f, 2.0f * half / (1.0f - half), exp(x) - 1.0f);
}

/// log(1 + exp(x)), for any x.
AIOCANN_INLINE F softplus(F x) {
  const F u = exp(-abs(x));
  const F w = 1.0f + u;
  // log(1 + u) for small u: what adding 1 rounds away comes back as a factor.
  const F d = w - 1.0f;
  const F l = select(d == 0.0f, u, log(w) * (u / d));
  return select(x > 0.0f, x + l, l);
}

/// 2^(x * factor), the product in double precision.
AIOCANN_INLINE F exp2_product(F x, double factor) {
  D y = __builtin_convertvector(x, D) * factor;
  y = y < -252.0 ? D{} - 252.0 : y;
  y = y > 254.0 ? D{} + 254.0 : y;
  const D magic = D{} + 6755399441055744.0;  // 1.5 * 2^52
  const D shifted = y + magic;
  const F r = __builtin_convertvector((y - (shifted - magic)) * 0.69314718055994530942, F);
  const I n = __builtin_convertvector((L)shifted - (L)magic, I);
  const F power = scale_by_power(r + r * r * exp_tail(r) + 1.0f, n);
  return select(x != x, x, power);
}

AIOCANN_INLINE F hard_sigmoid(F x) {
  // (x + 3) / 6 keeps its digits near -3.
  const F y = (x + 3.0f) / 6.0f;
  return select(x > 3.0f, all(1.0f), select(x <= -3.0f, all(0.0f), y));
}

AIOCANN_INLINE F sigmoid(F x) { return 1.0f / (1.0f + exp(-x)); }

/// x * sigmoid(s), for an s that goes to -infinity with x: there the product is 0.
AIOCANN_INLINE F gated(F x, F s) {
  const F y = x / (1.0f + exp(-s));
  return select(x == -infinity(), all(-0.0f), y);
}

AIOCANN_INLINE F gelu_tanh(F x) {
  // 0.5 x (1 + tanh(u)) = x sigmoid(2u)
  return gated(x, 1.59576912f * (x + 0.044715f * x * x * x));
}

AIOCANN_INLINE F gelu_erf(F x) {
  // x Phi(x), Phi(-t) = exp(-t^2/2) erfcx(t / sqrt(2)) / 2, with erfcx(s) = u Q(u), u = 1 / (1 + 0.4 s):
  // no cancellation on the negative side.
  const F t = abs(x);
  const F u = 1.0f / (1.0f + t * (0.4f * 0.707106781f));
  F q = all(-2.921499541e-02f);
  q = q * u + 1.404460938e-01f;
  q = q * u - 2.355259008e-01f;
  q = q * u + 1.375597755e-01f;
  q = q * u - 4.689397723e-02f;
  q = q * u + 8.391586162e-02f;
  q = q * u + 1.190084495e-01f;
  q = q * u + 1.717392609e-01f;
  q = q * u + 2.076137311e-01f;
  q = q * u + 2.256758601e-01f;
  q = q * u + 2.256758348e-01f;
  const F tail = 0.5f * exp(-0.5f * t * t) * (u * q);
  const F y = x * select(x < 0.0f, tail, 1.0f - tail);
  return select(x == -infinity(), all(-0.0f), y);
}

/// sin (phase 0) or cos (phase 1). The argument is reduced in double precision: exact enough up to
/// kMaxAngle; beyond, and for infinities and NaN, the caller's scalar path takes over.
constexpr float kMaxAngle = 1e8f;
AIOCANN_INLINE F sine(F x, int phase) {
  const D wide = __builtin_convertvector(x, D);
  const D magic = D{} + 6755399441055744.0;  // 1.5 * 2^52
  const D shifted = wide * 0.63661977236758134308 + magic;
  const D n = shifted - magic;
  const D reduced = (wide - n * 1.5707963267341256142) - n * 6.0771005065061922e-11;
  const F r = __builtin_convertvector(reduced, F);
  const I quarter = __builtin_convertvector((L)shifted - (L)magic, I) + phase;  // n fits 32 bits
  const F z = r * r;
  F s = all(2.718114116e-06f);
  s = s * z - 1.983931149e-04f;
  s = s * z + 8.333329302e-03f;
  s = s * z - 1.666666664e-01f;
  s = r * z * s + r;
  F c = all(-2.720568376e-07f);
  c = c * z + 2.479945930e-05f;
  c = c * z - 1.388888350e-03f;
  c = c * z + 4.166666662e-02f;
  c = z * z * c + (1.0f - 0.5f * z);
  const F y = select((quarter & 1) != 0, c, s);
  return floats(bits(y) ^ (I)((U)(quarter & 2) << 30));
}

}  // namespace
}  // namespace aiocann::sim::AIOCANN_VARIANT
