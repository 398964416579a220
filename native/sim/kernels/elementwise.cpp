#include "sim/kernels/elementwise.hpp"

#include <algorithm>
#include <cmath>

#include "sim/aclnn/executor.hpp"
#include "sim/kernels/loop.hpp"

namespace aiocann::sim {
namespace {

void apply(const UnaryParams &p, float *out, const float *in, size_t n) {
  table().unary(p.op, out, in, n, static_cast<float>(p.a), static_cast<float>(p.b));
}

double unary_double(UnaryOp op, double x, double a, double b) {
  switch (op) {
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
  }
  return x;
}

void apply(const UnaryParams &p, double *out, const double *in, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = unary_double(p.op, in[i], p.a, p.b);
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
    }
  }
}

void apply(const BinaryParams &p, int64_t *out, const int64_t *x, const int64_t *y, size_t n) {
  const auto alpha = static_cast<uint64_t>(p.int_alpha);
  for (size_t i = 0; i < n; ++i) {
    const auto a = static_cast<uint64_t>(x[i]);
    const auto b = static_cast<uint64_t>(y[i]);
    // Integers are divided as doubles: see the operator.
    const uint64_t result = p.op == BinaryOp::kAdd   ? a + alpha * b
                            : p.op == BinaryOp::kSub ? a - alpha * b
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
          to[i] = first + static_cast<T>(at + static_cast<int64_t>(i)) * step;
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

int fill_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const auto &p = op.as<FillParams>();
  if (p.domain == Domain::kI64) {
    run_fill<int64_t>(context, op.views[0], p.int_value, p.int_step);
  } else {
    run_fill<double>(context, op.views[0], p.value, p.step);
  }
  return 0;
}

}  // namespace aiocann::sim
