// reduce.variant.cpp: sums over rows in a fixed tree, and what softmax and the norms are made of.
//
// A row is cut into blocks of kBlock elements. A block is added up in kWide interleaved float32 sums, which are
// then halved as double until one is left; blocks are added as double. The tree depends on the length alone, so
// that a sum is the same on every CPU.
#include "sim/kernels/loops.hpp"
#include "sim/kernels/vmath.hpp"

namespace aiocann::sim::AIOCANN_VARIANT {
namespace {

constexpr size_t kWide = 64;
constexpr size_t kVectors = kWide / kLanes;

template <class Function>
AIOCANN_INLINE double sum_of(const float *in, size_t n, Function f) {
  double total = 0;
  for (size_t start = 0; start < n; start += kBlock) {
    const size_t length = n - start < kBlock ? n - start : kBlock;
    const float *row = in + start;
    F acc[kVectors] = {};
    size_t i = 0;
    for (; i + kWide <= length; i += kWide) {
      for (size_t v = 0; v < kVectors; ++v) {
        expect(row + i + v * kLanes);
        acc[v] += f(load(row + i + v * kLanes));
      }
    }
    float lanes[kWide];
    for (size_t v = 0; v < kVectors; ++v) store(lanes + v * kLanes, acc[v]);
    for (size_t lane = 0; i < length;) {
      const size_t part = length - i < kLanes ? length - i : kLanes;
      float tail[kLanes];
      store(tail, f(load_part(row + i, part)));
      for (size_t j = 0; j < part; ++j) lanes[lane++] += tail[j];
      i += part;
    }
    double halves[kWide];
    for (size_t j = 0; j < kWide; ++j) halves[j] = lanes[j];
    for (size_t width = kWide / 2; width != 0; width /= 2) {
      for (size_t j = 0; j < width; ++j) halves[j] += halves[j + width];
    }
    total += halves[0];
  }
  return total;
}

}  // namespace

double sum(const float *in, size_t n) {
  return sum_of(in, n, [](F x) { return x; });
}

double sum_squares(const float *in, size_t n, float centre) {
  return sum_of(in, n, [centre](F x) { return (x - centre) * (x - centre); });
}

double sum_abs(const float *in, size_t n) {
  return sum_of(in, n, [](F x) { return abs(x); });
}

float max(const float *in, size_t n) {
  F best = all(-__builtin_inff());
  I bad = {};
  size_t i = 0;
  if (n >= 4 * kLanes) {
    // Four at once: one alone would wait for itself.
    F most[4] = {best, best, best, best};
    I wrong[4] = {};
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
      for (size_t v = 0; v < 4; ++v) {
        expect(in + i + v * kLanes);
        const F x = load(in + i + v * kLanes);
        most[v] = select(x > most[v], x, most[v]);
        wrong[v] |= x != x;
      }
    }
    for (size_t v = 0; v < 4; ++v) {
      best = select(most[v] > best, most[v], best);
      bad |= wrong[v];
    }
  }
  for (; i < n; i += kLanes) {
    const size_t part = n - i < kLanes ? n - i : kLanes;
    const F x = part == kLanes ? load(in + i) : load_part(in + i, part, -__builtin_inff());
    best = select(x > best, x, best);
    bad |= x != x;
  }
  uint64_t words[sizeof(I) / 8];
  __builtin_memcpy(words, &bad, sizeof bad);
  uint64_t any = 0;
  for (size_t i = 0; i < sizeof(I) / 8; ++i) any |= words[i];
  if (any != 0) return __builtin_nanf("");
  float lanes[kLanes];
  store(lanes, best);
  for (size_t width = kLanes / 2; width != 0; width /= 2) {
    for (size_t i = 0; i < width; ++i)
      lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
  }
  return lanes[0];
}

void accumulate(ReduceOp op, float *acc, const float *in, size_t n) {
  switch (op) {
    case ReduceOp::kSum:
      return map2(acc, acc, in, n, [](F a, F x) { return a + x; });
    case ReduceOp::kSquares:
      return map2(acc, acc, in, n, [](F a, F x) { return a + x * x; });
    case ReduceOp::kAbs:
      return map2(acc, acc, in, n, [](F a, F x) { return a + abs(x); });
    case ReduceOp::kMaxAbs:
      return map2(acc, acc, in, n,
                  [](F a, F x) { return select((abs(x) > a) | (x != x), abs(x), a); });
    case ReduceOp::kMinAbs:
      return map2(acc, acc, in, n,
                  [](F a, F x) { return select((abs(x) < a) | (x != x), abs(x), a); });
    default:
      return;
  }
}

double exp_shifted(float *out, const float *in, size_t n, float shift) {
  map(out, in, n, [shift](F x) { return exp(x - shift); });
  return sum(out, n);
}

void normalise(float *out, const float *in, size_t n, float mean, float rstd, const float *weight,
               const float *bias) {
  size_t i = 0;
  for (; i < n; i += kLanes) {
    const size_t part = n - i < kLanes ? n - i : kLanes;
    const bool whole = part == kLanes;
    F y = ((whole ? load(in + i) : load_part(in + i, part)) - mean) * rstd;
    if (weight != nullptr) y = y * (whole ? load(weight + i) : load_part(weight + i, part));
    if (bias != nullptr) y = y + (whole ? load(bias + i) : load_part(bias + i, part));
    if (whole) {
      store(out + i, y);
    } else {
      store_part(out + i, y, part);
    }
  }
}

}  // namespace aiocann::sim::AIOCANN_VARIANT
