#include "sim/kernels/elementwise.hpp"

#include <algorithm>
#include <cmath>

#include "sim/aclnn/executor.hpp"
#include "sim/kernels/copy.hpp"
#include "sim/kernels/loop.hpp"

namespace aiocann::sim {
namespace {

void apply(const UnaryParams &p, float *out, const float *in, size_t n) {
  table().unary(p.op, out, in, n, static_cast<float>(p.a), static_cast<float>(p.b),
                static_cast<float>(p.c));
}

double unary_double(const UnaryParams &p, double x) {
  const double a = p.a, b = p.b;
  switch (p.op) {
    case UnaryOp::kCopy:
      return x;
    case UnaryOp::kNeg:
      return -x;
    case UnaryOp::kAbs:
      return std::fabs(x);
    case UnaryOp::kExp:
      return std::exp(x);
    case UnaryOp::kLog:
      return std::log(x);
    case UnaryOp::kSqrt:
      return std::sqrt(x);
    case UnaryOp::kSin:
      return std::sin(x);
    case UnaryOp::kCos:
      return std::cos(x);
    case UnaryOp::kTanh:
      return std::tanh(x);
    case UnaryOp::kRelu:
      return x <= 0 ? 0 : x;
    case UnaryOp::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case UnaryOp::kSilu:
      return x / (1 + std::exp(-x));
    case UnaryOp::kGeluTanh:
      return x / (1 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
    case UnaryOp::kGeluErf:
      return 0.5 * x * std::erfc(-x * 0.70710678118654752);
    case UnaryOp::kScale:
      return x * a;
    case UnaryOp::kShift:
      return x + a;
    case UnaryOp::kDivide:
      return x / a;
    case UnaryOp::kClamp: {
      const double high = x > b ? b : x;
      return high < a ? a : high;
    }
    case UnaryOp::kSign:
      return x > 0 ? 1 : x < 0 ? -1 : x;
    case UnaryOp::kHardsigmoid:
      return x > 3 ? 1 : x <= -3 ? 0 : (x + 3) / 6;
    case UnaryOp::kHardswish:
      return x >= 3 ? x : x <= -3 ? 0 : x * ((x + 3) / 6);
    case UnaryOp::kLeakyRelu:
      return x > 0 ? x : x * a;
    case UnaryOp::kElu:
      return x > 0 ? x * b : a * std::expm1(x * p.c);
    case UnaryOp::kSoftplus: {
      const double z = x * a;
      return z > b ? x : (z > 0 ? z + std::log1p(std::exp(-z)) : std::log1p(std::exp(z))) / a;
    }
    case UnaryOp::kThreshold:
      return x > a ? x : b;
    case UnaryOp::kGreater:
      return x > a;
    case UnaryOp::kPower:
      return std::pow(a, x);
  }
  return x;
}

void apply(const UnaryParams &p, double *out, const double *in, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = unary_double(p, in[i]);
}

/// Powers wrap like products. Of negative exponents only 1 and -1 leave anything but 0.
int64_t int_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 || base == -1 ? int_power(base, -(exponent + 1)) * base : 0;
  uint64_t result = 1;
  for (auto factor = static_cast<uint64_t>(base); exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= factor;
    factor *= factor;
  }
  return static_cast<int64_t>(result);
}

/// Integers wrap, as they do on the device: computed without a sign, where wrapping is defined.
int64_t unary_int(UnaryOp op, int64_t x, int64_t a, int64_t b) {
  const auto u = static_cast<uint64_t>(x);
  switch (op) {
    case UnaryOp::kNeg:
      return static_cast<int64_t>(0 - u);
    case UnaryOp::kAbs:
      return x < 0 ? static_cast<int64_t>(0 - u) : x;
    case UnaryOp::kRelu:
      return x < 0 ? 0 : x;
    case UnaryOp::kScale:
      return static_cast<int64_t>(u * static_cast<uint64_t>(a));
    case UnaryOp::kShift:
      return static_cast<int64_t>(u + static_cast<uint64_t>(a));
    case UnaryOp::kClamp:
      return std::max(std::min(x, b), a);
    case UnaryOp::kSign:
      return (x > 0) - (x < 0);
    case UnaryOp::kHardsigmoid:  // truncated
      return x >= 3;
    case UnaryOp::kThreshold:
      return x > a ? x : b;
    case UnaryOp::kGreater:  // b flips the sign bits of what has no sign
      return (x ^ b) > (a ^ b);
    case UnaryOp::kPower:
      return int_power(a, x);
    default:
      return x;
  }
}

void apply(const UnaryParams &p, int64_t *out, const int64_t *in, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = unary_int(p.op, in[i], p.int_a, p.int_b);
}

void apply(const BinaryParams &p, float *out, const float *x, const float *y, size_t n) {
  table().binary(p.op, out, x, y, n, static_cast<float>(p.alpha));
}

void apply(const BinaryParams &p, double *out, const double *x, const double *y, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    switch (p.op) {
      case BinaryOp::kAdd:
        out[i] = x[i] + p.alpha * y[i];
        break;
      case BinaryOp::kSub:
        out[i] = x[i] - p.alpha * y[i];
        break;
      case BinaryOp::kMul:
        out[i] = x[i] * y[i];
        break;
      case BinaryOp::kDiv:
        out[i] = x[i] / y[i];
        break;
      case BinaryOp::kEqual:
        out[i] = x[i] == y[i];
        break;
    }
  }
}

void apply(const BinaryParams &p, int64_t *out, const int64_t *x, const int64_t *y, size_t n) {
  const auto alpha = static_cast<uint64_t>(p.int_alpha);
  for (size_t i = 0; i < n; ++i) {
    const auto a = static_cast<uint64_t>(x[i]);
    const auto b = static_cast<uint64_t>(y[i]);
    // Integers are divided as doubles: see the operator.
    const uint64_t result = p.op == BinaryOp::kAdd     ? a + alpha * b
                            : p.op == BinaryOp::kSub   ? a - alpha * b
                            : p.op == BinaryOp::kEqual ? a == b
                                                       : a * b;
    out[i] = static_cast<int64_t>(result);
  }
}

template <class T>
void run_unary(ExecContext &context, const OpArgs &args, const UnaryParams &p) {
  const Loop loop(args.views.data(), 2);
  parallel_chunks(context, loop.count, kChunk, [&](int64_t begin, int64_t end) {
    Reader<T> x(loop, 1, args.views[1], p.as);
    Writer<T> out(loop, 0, args.views[0], p.via);
    for (int64_t at = begin; at < end; at += static_cast<int64_t>(kBlock)) {
      const auto n = static_cast<size_t>(std::min<int64_t>(end - at, kBlock));
      apply(p, out.begin(at), x.fetch(at, n), n);
      out.end(at, n);
    }
  });
}

template <class T>
void run_binary(ExecContext &context, const OpArgs &args, const BinaryParams &p) {
  const Loop loop(args.views.data(), 3);
  parallel_chunks(context, loop.count, kChunk, [&](int64_t begin, int64_t end) {
    Reader<T> x(loop, 1, args.views[1], p.as);
    Reader<T> y(loop, 2, args.views[2], p.as);
    Writer<T> out(loop, 0, args.views[0], p.via);
    for (int64_t at = begin; at < end; at += static_cast<int64_t>(kBlock)) {
      const auto n = static_cast<size_t>(std::min<int64_t>(end - at, kBlock));
      apply(p, out.begin(at), x.fetch(at, n), y.fetch(at, n), n);
      out.end(at, n);
    }
  });
}

template <class Item>
void equal_bits(const OpArgs &args, int64_t begin, int64_t end) {
  auto *out = reinterpret_cast<uint8_t *>(args.views[0].data);
  const auto *x = reinterpret_cast<const Item *>(args.views[1].data);
  const auto *y = reinterpret_cast<const Item *>(args.views[2].data);
  for (int64_t i = begin; i < end; ++i) out[i] = x[i] == y[i];
}

/// Integers of one type that lie in rows are compared as they are, for results of one byte. False: it is not so.
bool run_equal(ExecContext &context, const OpArgs &args) {
  const View &out = args.views[0], &x = args.views[1], &y = args.views[2];
  const size_t item = size_of(x.dtype);
  if (x.dtype != y.dtype || !is_integer(x.dtype) || size_of(out.dtype) != 1) return false;
  const Loop loop(args.views.data(), 3);
  const auto aligned = [item](const View &view) {
    return reinterpret_cast<uintptr_t>(view.data) % item == 0;
  };
  if (!loop.is_row(0) || !loop.is_row(1) || !loop.is_row(2) || !aligned(x) || !aligned(y))
    return false;
  const auto run = item == 1   ? equal_bits<uint8_t>
                   : item == 2 ? equal_bits<uint16_t>
                   : item == 4 ? equal_bits<uint32_t>
                               : equal_bits<uint64_t>;
  parallel_chunks(context, loop.count, kChunk,
                  [&](int64_t begin, int64_t end) { run(args, begin, end); });
  return true;
}

template <class T>
void run_fill(ExecContext &context, const View &view, T first, T step) {
  // The order of elements matters when they differ: no reordering of axes.
  const Loop loop = Loop::in_order(&view, 1);
  parallel_chunks(context, loop.count, kChunk, [&](int64_t begin, int64_t end) {
    Writer<T> out(loop, 0, view);
    for (int64_t at = begin; at < end; at += static_cast<int64_t>(kBlock)) {
      const auto n = static_cast<size_t>(std::min<int64_t>(end - at, kBlock));
      T *to = out.begin(at);
      for (size_t i = 0; i < n; ++i) {
        if constexpr (std::is_integral_v<T>) {
          const auto index = static_cast<uint64_t>(at) + i;
          to[i] =
              static_cast<T>(static_cast<uint64_t>(first) + index * static_cast<uint64_t>(step));
        } else {
          to[i] = first + (static_cast<T>(at) + static_cast<T>(static_cast<int32_t>(i))) * step;
        }
      }
      out.end(at, n);
    }
  });
}

}  // namespace

int unary_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const auto &p = op.as<UnaryParams>();
  switch (p.domain) {
    case Domain::kF32:
      run_unary<float>(context, op, p);
      break;
    case Domain::kF64:
      run_unary<double>(context, op, p);
      break;
    case Domain::kI64:
      run_unary<int64_t>(context, op, p);
      break;
  }
  return 0;
}

int binary_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const auto &p = op.as<BinaryParams>();
  if (p.op == BinaryOp::kEqual && run_equal(context, op)) return 0;
  switch (p.domain) {
    case Domain::kF32:
      run_binary<float>(context, op, p);
      break;
    case Domain::kF64:
      run_binary<double>(context, op, p);
      break;
    case Domain::kI64:
      run_binary<int64_t>(context, op, p);
      break;
  }
  return 0;
}

int glu_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const auto &p = op.as<GluParams>();
  const auto &views = op.views;
  const Loop loop(views.data(), p.keeps_activated ? 4 : 3);
  parallel_chunks(context, loop.count, kChunk, [&](int64_t begin, int64_t end) {
    Reader<float> a(loop, 1, views[1]), b(loop, 2, views[2]);
    Writer<float> out(loop, 0, views[0]);
    const size_t kept_view = p.keeps_activated ? 3 : 0;
    Writer<float> kept(loop, static_cast<int>(kept_view), views[kept_view]);
    alignas(64) float activated[kBlock];
    for (int64_t at = begin; at < end; at += static_cast<int64_t>(kBlock)) {
      const auto n = static_cast<size_t>(std::min<int64_t>(end - at, kBlock));
      table().unary(p.op, activated, a.fetch(at, n), n, 0, 0, 0);
      table().binary(BinaryOp::kMul, out.begin(at), activated, b.fetch(at, n), n, 1);
      out.end(at, n);
      if (!p.keeps_activated) continue;
      std::copy_n(activated, n, kept.begin(at));
      kept.end(at, n);
    }
  });
  return 0;
}

int fill_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const auto &p = op.as<FillParams>();
  if (p.step == 0 && p.int_step == 0) {
    const View &view = op.views[0];
    unsigned char element[16];
    if (p.domain == Domain::kI64) {
      write_elements(element, view.dtype, &p.int_value, 1);
    } else {
      write_elements(element, view.dtype, &p.value, 1);
    }
    fill_view(context, view, element);
  } else if (p.domain == Domain::kI64) {
    run_fill<int64_t>(context, op.views[0], p.int_value, p.int_step);
  } else {
    run_fill<double>(context, op.views[0], p.value, p.step);
  }
  return 0;
}

}  // namespace aiocann::sim
