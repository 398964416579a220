// Operators that work element by element, against the same arithmetic in double.
#include <algorithm>

#include "nn_fixture.hpp"

using namespace nn;

namespace {

Dims random_shape(int max_rank = 4, int64_t max_dim = 9) {
  Dims shape(static_cast<size_t>(pick(0, max_rank)));
  for (int64_t &dim : shape) dim = pick(1, max_dim);
  return shape;
}

/// Element i of a result of shape `shape`, taken from a tensor that is broadcast to it.
double broadcast_at(const Tensor &t, const Dims &shape, int64_t flat) {
  Dims index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  Dims own(index.end() - static_cast<ptrdiff_t>(t.shape().size()), index.end());
  for (size_t d = 0; d < own.size(); ++d) own[d] = t.shape()[d] == 1 ? 0 : own[d];
  return t.at(own);
}

Dims narrowed(const Dims &shape) {
  Dims narrow(shape.begin() + pick(0, static_cast<int64_t>(shape.size())), shape.end());
  for (int64_t &dim : narrow) dim = pick(0, 2) == 0 ? 1 : dim;
  return narrow;
}

Dims joined(const Dims &a, const Dims &b) {
  Dims out(std::max(a.size(), b.size()), 1);
  for (size_t d = 1; d <= out.size(); ++d) {
    const int64_t x = d <= a.size() ? a[a.size() - d] : 1, y = d <= b.size() ? b[b.size() - d] : 1;
    out[out.size() - d] = x == 1 ? y : x;
  }
  return out;
}

const aclDataType kFloats[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE};
const aclDataType kInts[] = {ACL_INT8, ACL_UINT8, ACL_INT16, ACL_INT32, ACL_INT64};

void binary_operators() {
  for (int round = 0; round < 240; ++round) {
    const int op = round % 4;
    const aclDataType dtype = kFloats[round / 4 % 4];
    const Dims whole = random_shape();
    const Dims a = narrowed(whole), b = narrowed(whole), shape = joined(a, b);
    const Layout layout = round % 2 == 0 ? Layout::kRow : Layout::kRandom;
    Tensor x(a, dtype, layout), y(b, dtype, layout), out(shape, dtype, layout);
    x.random();
    y.random();
    const double factor = round % 3 == 0 ? 1 : 0.75;
    Scalar alpha(factor, ACL_FLOAT);
    const auto want = [&](int64_t i) {
      const double p = broadcast_at(x, shape, i), q = broadcast_at(y, shape, i);
      return op == 0 ? p + factor * q : op == 1 ? p - factor * q : op == 2 ? p * q : p / q;
    };
    switch (op) {
      case 0:
        execute([&](auto *w, auto *e) { return aclnnAddGetWorkspaceSize(x, y, alpha, out, w, e); },
                aclnnAdd);
        break;
      case 1:
        execute([&](auto *w, auto *e) { return aclnnSubGetWorkspaceSize(x, y, alpha, out, w, e); },
                aclnnSub);
        break;
      case 2:
        execute([&](auto *w, auto *e) { return aclnnMulGetWorkspaceSize(x, y, out, w, e); },
                aclnnMul);
        break;
      default:
        execute([&](auto *w, auto *e) { return aclnnDivGetWorkspaceSize(x, y, out, w, e); },
                aclnnDiv);
    }
    // Sums may cancel: the error is relative to the operands, at most 2.
    check_values(out, want, 2, dtype == ACL_DOUBLE ? 1e-15 : 2e-7);
  }
}

void binary_in_place() {
  for (int round = 0; round < 60; ++round) {
    const aclDataType dtype = kFloats[round % 4];
    const Dims shape = random_shape();
    Tensor x(shape, dtype, Layout::kRandom), y(narrowed(shape), dtype, Layout::kRandom);
    x.random(0.5, 2);
    y.random(0.5, 2);
    Scalar alpha(1, ACL_FLOAT);
    const auto p = [&](int64_t i) { return x[i]; };
    const auto q = [&](int64_t i) { return broadcast_at(y, shape, i); };
    switch (round / 4 % 4) {
      case 0:
        execute(
            [&](auto *w, auto *e) { return aclnnInplaceAddGetWorkspaceSize(x, y, alpha, w, e); },
            aclnnInplaceAdd);
        check_values(x, [&](int64_t i) { return p(i) + q(i); });
        break;
      case 1:
        execute(
            [&](auto *w, auto *e) { return aclnnInplaceSubGetWorkspaceSize(x, y, alpha, w, e); },
            aclnnInplaceSub);
        check_values(
            x, [&](int64_t i) { return p(i) - q(i); }, 2, dtype == ACL_DOUBLE ? 1e-15 : 2e-7);
        break;
      case 2:
        execute([&](auto *w, auto *e) { return aclnnInplaceMulGetWorkspaceSize(x, y, w, e); },
                aclnnInplaceMul);
        check_values(x, [&](int64_t i) { return p(i) * q(i); });
        break;
      default:
        execute([&](auto *w, auto *e) { return aclnnInplaceDivGetWorkspaceSize(x, y, w, e); },
                aclnnInplaceDiv);
        check_values(x, [&](int64_t i) { return p(i) / q(i); });
    }
  }
}

/// Integers wrap at the width of the type they are combined in.
void integers() {
  for (const aclDataType dtype : kInts) {
    Tensor x({3, 50}, dtype, Layout::kRandom), y({3, 50}, dtype), out({3, 50}, dtype);
    const double low = dtype == ACL_UINT8 ? 0 : -100;
    x.random(low, 100);
    y.random(1, 100);
    const auto wrap = [dtype](double v) {
      const auto n = static_cast<int64_t>(v);
      switch (dtype) {
        case ACL_INT8:
          return static_cast<double>(static_cast<int8_t>(n));
        case ACL_UINT8:
          return static_cast<double>(static_cast<uint8_t>(n));
        case ACL_INT16:
          return static_cast<double>(static_cast<int16_t>(n));
        default:
          return static_cast<double>(n);
      }
    };
    Scalar three(3, ACL_INT32);
    execute([&](auto *w, auto *e) { return aclnnAddGetWorkspaceSize(x, y, three, out, w, e); },
            aclnnAdd);
    check_values(out, [&](int64_t i) { return wrap(x[i] + 3 * y[i]); });
    execute([&](auto *w, auto *e) { return aclnnMulGetWorkspaceSize(x, y, out, w, e); }, aclnnMul);
    check_values(out, [&](int64_t i) { return wrap(x[i] * y[i]); });
    execute([&](auto *w, auto *e) { return aclnnDivGetWorkspaceSize(x, y, out, w, e); }, aclnnDiv);
    check_values(out, [&](int64_t i) { return std::trunc(x[i] / y[i]); });
    Tensor real({3, 50}, ACL_FLOAT);
    execute([&](auto *w, auto *e) { return aclnnDivGetWorkspaceSize(x, y, real, w, e); }, aclnnDiv);
    check_values(real, [&](int64_t i) { return x[i] / y[i]; });
    execute([&](auto *w, auto *e) { return aclnnMulsGetWorkspaceSize(x, three, out, w, e); },
            aclnnMuls);
    check_values(out, [&](int64_t i) { return wrap(3 * x[i]); });
  }
  // The extremes: nothing here may be undefined behaviour.
  Tensor x({2}, ACL_INT64), y({2}, ACL_INT64), out({2}, ACL_INT64), bytes({2}, ACL_INT8);
  x.fill([](int64_t i) { return i == 0 ? -9223372036854775808.0 : 5.0; });
  y.fill([](int64_t i) { return i == 0 ? -1.0 : 0.0; });
  execute([&](auto *w, auto *e) { return aclnnDivGetWorkspaceSize(x, y, out, w, e); }, aclnnDiv);
  execute([&](auto *w, auto *e) { return aclnnMulGetWorkspaceSize(x, y, out, w, e); }, aclnnMul);
  execute([&](auto *w, auto *e) { return aclnnAbsGetWorkspaceSize(x, out, w, e); }, aclnnAbs);
  execute([&](auto *w, auto *e) { return aclnnNegGetWorkspaceSize(x, out, w, e); }, aclnnNeg);
  execute([&](auto *w, auto *e) { return aclnnNegGetWorkspaceSize(x, bytes, w, e); }, aclnnNeg);
}

/// Operands of different types are combined in the type that the published table says.
void promotion() {
  struct Case {
    aclDataType a, b, type, out;
  };
  const Case cases[] = {
      {ACL_FLOAT16, ACL_FLOAT, ACL_FLOAT, ACL_FLOAT},
      {ACL_FLOAT16, ACL_BF16, ACL_FLOAT, ACL_FLOAT},
      {ACL_FLOAT16, ACL_INT32, ACL_FLOAT16, ACL_FLOAT16},
      {ACL_BF16, ACL_INT64, ACL_BF16, ACL_BF16},
      {ACL_FLOAT, ACL_INT64, ACL_FLOAT, ACL_FLOAT},
      {ACL_FLOAT16, ACL_FLOAT16, ACL_FLOAT16, ACL_FLOAT},
      {ACL_FLOAT, ACL_FLOAT, ACL_FLOAT, ACL_FLOAT16},
      {ACL_FLOAT, ACL_DOUBLE, ACL_DOUBLE, ACL_FLOAT},
      {ACL_BOOL, ACL_FLOAT, ACL_FLOAT, ACL_FLOAT},
  };
  for (const Case &c : cases) {
    Tensor x({7, 33}, c.a, Layout::kRandom), y({7, 33}, c.b, Layout::kRandom), out({7, 33}, c.out);
    is_floating(c.a) ? x.random(-3, 3) : x.random(0, 1);
    is_floating(c.b) ? y.random(-3, 3) : y.random(-3000, 3000);
    execute([&](auto *w, auto *e) { return aclnnMulGetWorkspaceSize(x, y, out, w, e); }, aclnnMul);
    check_values(out, [&](int64_t i) {
      return rounded(rounded(rounded(x[i], c.type) * rounded(y[i], c.type), c.type), c.out);
    });
  }
  Tensor i8({8}, ACL_INT8), u8({8}, ACL_UINT8), wide({8}, ACL_INT16);
  i8.random(-100, 100);
  u8.random(0, 200);
  execute([&](auto *w, auto *e) { return aclnnMulGetWorkspaceSize(i8, u8, wide, w, e); }, aclnnMul);
  check_values(wide, [&](int64_t i) { return i8[i] * u8[i]; });
}

struct UnaryCase {
  const char *name;
  aclnnStatus (*plan)(const aclTensor *, aclTensor *, uint64_t *, aclOpExecutor **);
  Run run;
  double (*want)(double);
  double low, high;
  double units;     ///< of the result
  double absolute;  ///< near zeros of the result
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_erf(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

aclnnStatus relu(const aclTensor *x, aclTensor *y, uint64_t *w, aclOpExecutor **e) {
  return aclnnReluGetWorkspaceSize(x, y, w, e);
}
aclnnStatus gelu_v2_erf(const aclTensor *x, aclTensor *y, uint64_t *w, aclOpExecutor **e) {
  return aclnnGeluV2GetWorkspaceSize(x, 0, y, w, e);
}
aclnnStatus gelu_v2_tanh(const aclTensor *x, aclTensor *y, uint64_t *w, aclOpExecutor **e) {
  return aclnnGeluV2GetWorkspaceSize(x, 1, y, w, e);
}

const UnaryCase kUnary[] = {
    {"abs", aclnnAbsGetWorkspaceSize, aclnnAbs, [](double x) { return std::fabs(x); }, -150, 150, 0,
     0},
    {"neg", aclnnNegGetWorkspaceSize, aclnnNeg, [](double x) { return -x; }, -150, 150, 0, 0},
    {"exp", aclnnExpGetWorkspaceSize, aclnnExp, [](double x) { return std::exp(x); }, -150, 150, 2,
     2e-45},
    {"exp, small", aclnnExpGetWorkspaceSize, aclnnExp, [](double x) { return std::exp(x); }, -2, 2,
     2, 0},
    {"log", aclnnLogGetWorkspaceSize, aclnnLog, [](double x) { return std::log(x); }, 0, 150, 2, 0},
    {"log near 1", aclnnLogGetWorkspaceSize, aclnnLog, [](double x) { return std::log(x); }, 0.9,
     1.1, 3, 0},
    {"sqrt", aclnnSqrtGetWorkspaceSize, aclnnSqrt, [](double x) { return std::sqrt(x); }, 0, 150, 1,
     0},
    {"sin", aclnnSinGetWorkspaceSize, aclnnSin, [](double x) { return std::sin(x); }, -150, 150, 2,
     1e-9},
    {"cos", aclnnCosGetWorkspaceSize, aclnnCos, [](double x) { return std::cos(x); }, -150, 150, 2,
     1e-9},
    {"sin, large", aclnnSinGetWorkspaceSize, aclnnSin, [](double x) { return std::sin(x); }, -1e7,
     1e7, 2, 1e-7},
    {"tanh", aclnnTanhGetWorkspaceSize, aclnnTanh, [](double x) { return std::tanh(x); }, -10, 10,
     3, 0},
    {"tanh, small", aclnnTanhGetWorkspaceSize, aclnnTanh, [](double x) { return std::tanh(x); },
     -0.7, 0.7, 3, 0},
    {"relu", relu, aclnnRelu, [](double x) { return x < 0 ? 0 : x; }, -150, 150, 0, 0},
    {"sigmoid", aclnnSigmoidGetWorkspaceSize, aclnnSigmoid, sigmoid, -150, 150, 3, 1e-38},
    {"silu", aclnnSiluGetWorkspaceSize, aclnnSilu, [](double x) { return x * sigmoid(x); }, -150,
     150, 3, 1e-36},
    {"gelu", aclnnGeluGetWorkspaceSize, aclnnGelu, gelu_tanh, -10, 10, 40, 1e-7},
    {"gelu v2 erf", gelu_v2_erf, aclnnGeluV2, gelu_erf, -5, 5, 12, 1e-9},
    {"gelu v2 erf, wide", gelu_v2_erf, aclnnGeluV2, gelu_erf, -150, 150, 100, 1e-30},
    {"gelu v2 tanh", gelu_v2_tanh, aclnnGeluV2, gelu_tanh, -150, 150, 40, 1e-7},
};

void unary_operators() {
  for (const UnaryCase &c : kUnary) {
    for (const aclDataType dtype : {ACL_FLOAT, ACL_FLOAT16, ACL_BF16}) {
      for (const Layout layout : {Layout::kRow, Layout::kRandom}) {
        Tensor x({5, 7, 11, 13}, dtype, layout), y({5, 7, 11, 13}, dtype, layout);
        const double high = dtype == ACL_FLOAT16 ? std::min(c.high, 60000.0) : c.high;
        x.random(std::max(c.low, -high), high);
        execute([&](auto *w, auto *e) { return c.plan(x, y, w, e); }, c.run);
        const auto got = y.read();
        for (int64_t i = 0; i < x.count(); ++i) {
          const double want = c.want(x[i]);
          const double value = got[static_cast<size_t>(i)];
          const bool good = is_right(value, want, dtype, c.units, c.absolute);
          if (!good)
            std::fprintf(stderr, "%s(%.9g) = %.9g, not %.9g, type %d\n", c.name, x[i], value, want,
                         dtype);
          CHECK(good);
        }
      }
    }
  }
}

void special_values() {
  const double inputs[] = {0.0,  -0.0,  INFINITY, -INFINITY, NAN,    1e-40, -1e-40,
                           3e38, -3e38, 88.9,     -103.5,    -104.5, 1e30};
  const int64_t n = sizeof inputs / sizeof inputs[0];
  Tensor x({n}, ACL_FLOAT), y({n}, ACL_FLOAT);
  x.fill([&](int64_t i) { return inputs[i]; });
  for (const UnaryCase &c : kUnary) {
    execute([&](auto *w, auto *e) { return c.plan(x, y, w, e); }, c.run);
    const auto got = y.read();
    for (int64_t i = 0; i < n; ++i) {
      double want = c.want(x[i]);
      // x * 0 at minus infinity has a limit, and the simulator takes it.
      const bool gate = c.run == aclnnSilu || c.run == aclnnGelu || c.run == aclnnGeluV2;
      if (gate && x[i] < -1e29 && std::isnan(want)) want = 0;
      if (std::fabs(x[i]) > 1e29 && (c.run == aclnnSin || c.run == aclnnCos) &&
          std::isfinite(x[i])) {
        want = c.run == aclnnSin ? std::sin(x[i]) : std::cos(x[i]);
      }
      const bool good = close(got[static_cast<size_t>(i)],
                              static_cast<double>(static_cast<float>(want)), 1e-5, 3e-38);
      if (!good)
        std::fprintf(stderr, "%s(%g) = %g, not %g\n", c.name, x[i], got[static_cast<size_t>(i)],
                     want);
      CHECK(good);
    }
  }
  // Division.
  Tensor a({4}, ACL_FLOAT), b({4}, ACL_FLOAT), q({4}, ACL_FLOAT);
  const double tops[] = {1, -1, 0, NAN};
  a.fill([&](int64_t i) { return tops[i]; });
  b.fill([](int64_t) { return 0.0; });
  execute([&](auto *w, auto *e) { return aclnnDivGetWorkspaceSize(a, b, q, w, e); }, aclnnDiv);
  const auto got = q.read();
  CHECK(got[0] == INFINITY && got[1] == -INFINITY && std::isnan(got[2]) && std::isnan(got[3]));
}

void scalars() {
  for (const aclDataType dtype : kFloats) {
    Tensor x({6, 35}, dtype, Layout::kRandom), y({6, 35}, dtype, Layout::kRandom);
    x.random(-4, 4);
    // A floating scalar is not rounded to the tensor's type before it is used.
    Scalar tenth(0.1, ACL_FLOAT), two(2, ACL_INT64);
    const double f = static_cast<double>(0.1f);
    execute([&](auto *w, auto *e) { return aclnnMulsGetWorkspaceSize(x, tenth, y, w, e); },
            aclnnMuls);
    check_values(y, [&](int64_t i) { return x[i] * f; });
    execute([&](auto *w, auto *e) { return aclnnClampGetWorkspaceSize(x, tenth, two, y, w, e); },
            aclnnClamp);
    check_values(y, [&](int64_t i) { return std::max(std::min(x[i], 2.0), f); });
    execute([&](auto *w, auto *e) { return aclnnClampMinGetWorkspaceSize(x, tenth, y, w, e); },
            aclnnClampMin);
    check_values(y, [&](int64_t i) { return std::max(x[i], f); });
    execute([&](auto *w, auto *e) { return aclnnInplaceMulsGetWorkspaceSize(x, tenth, w, e); },
            aclnnInplaceMuls);
    check_values(x, [&](int64_t i) { return x[i] * f; });
    x.random(-4, 4);
    execute([&](auto *w, auto *e) { return aclnnInplaceDivsGetWorkspaceSize(x, tenth, w, e); },
            aclnnInplaceDivs);
    check_values(x, [&](int64_t i) { return x[i] / f; });
    x.random(1, 4);
    execute([&](auto *w, auto *e) { return aclnnInplaceAddsGetWorkspaceSize(x, tenth, two, w, e); },
            aclnnInplaceAdds);
    check_values(x, [&](int64_t i) { return x[i] + 2 * f; });
    x.random(1, 4);
    execute([&](auto *w, auto *e) { return aclnnInplaceSubsGetWorkspaceSize(x, tenth, two, w, e); },
            aclnnInplaceSubs);
    check_values(x, [&](int64_t i) { return x[i] - 2 * f; });
  }
}

void in_place_functions() {
  Tensor x({300}, ACL_FLOAT), y({300}, ACL_FLOAT), z({300}, ACL_FLOAT);
  x.random(-5, 5);
  y.random(-5, 5);
  z.random(-5, 5);
  execute([&](auto *w, auto *e) { return aclnnInplaceExpGetWorkspaceSize(x, w, e); },
          aclnnInplaceExp);
  execute([&](auto *w, auto *e) { return aclnnInplaceSinGetWorkspaceSize(y, w, e); },
          aclnnInplaceSin);
  execute([&](auto *w, auto *e) { return aclnnInplaceCosGetWorkspaceSize(z, w, e); },
          aclnnInplaceCos);
  check_values(x, [&](int64_t i) { return std::exp(x[i]); });
  check_values(y, [&](int64_t i) { return std::sin(y[i]); }, 2, 1e-9);
  check_values(z, [&](int64_t i) { return std::cos(z[i]); }, 2, 1e-9);
}

/// Long enough to be cut into tasks, with a tail.
void large() {
  const int64_t n = 3 * 65536 + 777;
  Tensor x({n}, ACL_FLOAT), y({n}, ACL_FLOAT), out({n}, ACL_FLOAT);
  x.random();
  y.random();
  Scalar one(1, ACL_FLOAT);
  execute([&](auto *w, auto *e) { return aclnnAddGetWorkspaceSize(x, y, one, out, w, e); },
          aclnnAdd);
  check_values(
      out, [&](int64_t i) { return static_cast<float>(x[i]) + static_cast<float>(y[i]); }, 0);
}

void filling() {
  for (const aclDataType dtype :
       {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE, ACL_INT8, ACL_INT32, ACL_INT64, ACL_BOOL}) {
    Tensor x({3, 4, 5}, dtype, Layout::kRandom);
    Scalar value(1, dtype);
    execute(
        [&](auto *w, auto *e) { return aclnnInplaceFillScalarGetWorkspaceSize(x, value, w, e); },
        aclnnInplaceFillScalar);
    check_values(x, [](int64_t) { return 1.0; });
    execute([&](auto *w, auto *e) { return aclnnInplaceZeroGetWorkspaceSize(x, w, e); },
            aclnnInplaceZero);
    check_values(x, [](int64_t) { return 0.0; });
  }
  Tensor steps({2000}, ACL_FLOAT), whole({10}, ACL_INT64);
  Scalar start(-1.5, ACL_FLOAT), end(998.5, ACL_FLOAT), step(0.5, ACL_FLOAT);
  execute(
      [&](auto *w, auto *e) { return aclnnArangeGetWorkspaceSize(start, end, step, steps, w, e); },
      aclnnArange);
  check_values(steps, [](int64_t i) { return -1.5 + 0.5 * static_cast<double>(i); }, 1);
  Scalar ten(10, ACL_INT64), zero(0, ACL_INT64), back(-1, ACL_INT64);
  execute(
      [&](auto *w, auto *e) { return aclnnArangeGetWorkspaceSize(ten, zero, back, whole, w, e); },
      aclnnArange);
  check_values(whole, [](int64_t i) { return static_cast<double>(10 - i); });
}

void refusals() {
  Tensor a({2, 3}, ACL_FLOAT), b({2, 4}, ACL_FLOAT), h({2, 3}, ACL_FLOAT16), i({2, 3}, ACL_INT32);
  Tensor u({2, 3}, ACL_UINT32), deep({1, 1, 1, 1, 1, 1, 1, 1, 1}, ACL_FLOAT);
  Scalar one(1, ACL_FLOAT);
  const auto add = [&](const aclTensor *x, const aclTensor *y, const aclScalar *s, aclTensor *o) {
    return [=](auto *w, auto *e) { return aclnnAddGetWorkspaceSize(x, y, s, o, w, e); };
  };
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnAdd", add(nullptr, a, one, a));
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnAdd", add(a, nullptr, one, a));
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnAdd", add(a, a, nullptr, a));
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnAdd", add(a, a, one, nullptr));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnAdd",
         add(a, b, one, a));  // shapes that cannot be broadcast
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnAdd", add(a, a, one, b));     // wrong shape of out
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnAdd", add(a, u, one, a));     // a type without support
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnAdd", add(deep, a, one, a));  // nine dimensions
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnAdd", add(i, i, one, i));  // a floating alpha for integers
  uint64_t size = 0;
  aclOpExecutor *executor = nullptr;
  CHECK_EQ(aclnnAddGetWorkspaceSize(a, a, one, a, nullptr, &executor), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_EQ(aclnnAddGetWorkspaceSize(a, a, one, a, &size, nullptr), ACLNN_ERR_PARAM_NULLPTR);
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnInplaceMul",
         [&](auto *w, auto *e) { return aclnnInplaceMulGetWorkspaceSize(a, b, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnSilu",
         [&](auto *w, auto *e) { return aclnnSiluGetWorkspaceSize(a, h, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnSilu",
         [&](auto *w, auto *e) { return aclnnSiluGetWorkspaceSize(i, i, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnGeluV2",
         [&](auto *w, auto *e) { return aclnnGeluV2GetWorkspaceSize(a, 2, a, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnMuls",
         [&](auto *w, auto *e) { return aclnnMulsGetWorkspaceSize(a, one, b, w, e); });
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnClamp", [&](auto *w, auto *e) {
    return aclnnClampGetWorkspaceSize(a, nullptr, nullptr, a, w, e);
  });
  Scalar zero(0, ACL_FLOAT);
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnArange",
         [&](auto *w, auto *e) { return aclnnArangeGetWorkspaceSize(zero, one, zero, a, w, e); });
}

void empty_and_scalar_tensors() {
  Tensor none({0, 3}, ACL_FLOAT), out({0, 3}, ACL_FLOAT), one_row({1, 3}, ACL_FLOAT);
  one_row.random();
  Scalar alpha(1, ACL_FLOAT);
  execute(
      [&](auto *w, auto *e) { return aclnnAddGetWorkspaceSize(none, one_row, alpha, out, w, e); },
      aclnnAdd);
  execute([&](auto *w, auto *e) { return aclnnExpGetWorkspaceSize(none, out, w, e); }, aclnnExp);
  Tensor x({}, ACL_FLOAT), y({}, ACL_FLOAT), z({}, ACL_FLOAT);
  x.random();
  y.random();
  execute([&](auto *w, auto *e) { return aclnnMulGetWorkspaceSize(x, y, z, w, e); }, aclnnMul);
  check_values(z, [&](int64_t) { return x[0] * y[0]; });
}

}  // namespace

int main() {
  binary_operators();
  binary_in_place();
  integers();
  promotion();
  unary_operators();
  special_values();
  scalars();
  in_place_functions();
  large();
  filling();
  refusals();
  empty_and_scalar_tensors();
  return 0;
}
