// Activations with parameters, comparisons, powers and gated linear units, against double.
#include "nn_fixture.hpp"

using namespace nn;

namespace {

const aclDataType kFloats[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE};
const aclDataType kHalves[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
const Layout kLayouts[] = {Layout::kRow, Layout::kRandom};

double elu(double x, double alpha, double scale, double input_scale) {
  return x > 0 ? scale * x : alpha * scale * std::expm1(x * input_scale);
}
double softplus(double x, double beta, double threshold) {
  const double z = beta * x;
  if (z > threshold) return x;
  return (z > 0 ? z + std::log1p(std::exp(-z)) : std::log1p(std::exp(z))) / beta;
}
double hard_sigmoid(double x) { return std::min(1.0, std::max(0.0, (x + 3) / 6)); }
double hard_swish(double x) { return x >= 3 ? x : x <= -3 ? 0 : x * (x + 3) / 6; }
double silu(double x) { return x / (1 + std::exp(-x)); }
double gelu_erf(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double gelu_tanh(double x) {
  return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

void activations() {
  for (const aclDataType dtype : kFloats) {
    for (const Layout layout : kLayouts) {
      Tensor x({5, 7, 11, 13}, dtype, layout), y({5, 7, 11, 13}, dtype, layout);
      for (const double range : {0.5, 20.0, 150.0}) {
        x.random(-range, range);
        Scalar alpha(1.25, ACL_FLOAT), scale(0.75, ACL_FLOAT), input_scale(0.5, ACL_DOUBLE),
            one(1, ACL_INT32), twenty(20, ACL_INT64);
        execute(
            [&](auto *w, auto *e) { return aclnnEluGetWorkspaceSize(x, one, one, one, y, w, e); },
            aclnnElu);
        check_values(y, [&](int64_t i) { return elu(x[i], 1, 1, 1); }, 3);
        execute(
            [&](auto *w, auto *e) {
              return aclnnEluGetWorkspaceSize(x, alpha, scale, input_scale, y, w, e);
            },
            aclnnElu);
        check_values(y, [&](int64_t i) { return elu(x[i], 1.25, 0.75, 0.5); }, 4);
        execute([&](auto *w,
                    auto *e) { return aclnnLeakyReluGetWorkspaceSize(x, input_scale, y, w, e); },
                aclnnLeakyRelu);
        check_values(y, [&](int64_t i) { return x[i] > 0 ? x[i] : 0.5 * x[i]; }, 1);
        if (dtype == ACL_DOUBLE) continue;
        execute([&](auto *w,
                    auto *e) { return aclnnSoftplusGetWorkspaceSize(x, one, twenty, y, w, e); },
                aclnnSoftplus);
        check_values(y, [&](int64_t i) { return softplus(x[i], 1, 20); }, 4, 1e-37);
        execute([&](auto *w,
                    auto *e) { return aclnnSoftplusGetWorkspaceSize(x, scale, alpha, y, w, e); },
                aclnnSoftplus);
        // beta * x is rounded, and the exponential multiplies that by as much as its argument.
        check_values(y, [&](int64_t i) { return softplus(x[i], 0.75, 1.25); }, 100, 1e-37);
        execute([&](auto *w, auto *e) { return aclnnHardsigmoidGetWorkspaceSize(x, y, w, e); },
                aclnnHardsigmoid);
        check_values(y, [&](int64_t i) { return hard_sigmoid(x[i]); });
        execute([&](auto *w, auto *e) { return aclnnHardswishGetWorkspaceSize(x, y, w, e); },
                aclnnHardswish);
        check_values(y, [&](int64_t i) { return hard_swish(x[i]); });
      }
    }
  }
  // Results may be of another floating type; integers are truncated.
  Tensor x({300}, ACL_FLOAT16), y({300}, ACL_FLOAT), i({9}, ACL_INT32), j({9}, ACL_INT32);
  x.random(-5, 5);
  Scalar slope(0.25, ACL_FLOAT16);
  execute([&](auto *w, auto *e) { return aclnnLeakyReluGetWorkspaceSize(x, slope, y, w, e); },
          aclnnLeakyRelu);
  check_values(y, [&](int64_t k) { return rounded(x[k] > 0 ? x[k] : 0.25 * x[k], ACL_FLOAT16); });
  execute([&](auto *w, auto *e) { return aclnnHardswishGetWorkspaceSize(x, y, w, e); },
          aclnnHardswish);
  check_values(y, [&](int64_t k) { return rounded(hard_swish(x[k]), ACL_FLOAT16); }, 5000);
  i.fill([](int64_t k) { return static_cast<double>(k - 4); });
  execute([&](auto *w, auto *e) { return aclnnHardsigmoidGetWorkspaceSize(i, j, w, e); },
          aclnnHardsigmoid);
  check_values(j, [&](int64_t k) { return std::trunc(hard_sigmoid(i[k])); });
}

void infinities() {
  const double inputs[] = {0, -0.0, INFINITY, -INFINITY, NAN, 3, -3, 1e30, -1e30, 1e-30};
  const int64_t n = sizeof inputs / sizeof inputs[0];
  for (const aclDataType dtype : {ACL_FLOAT, ACL_BF16}) {
    Tensor x({n}, dtype), y({n}, dtype);
    x.fill([&](int64_t i) { return inputs[i]; });
    const auto check = [&](auto want) {
      check_values(y, [&](int64_t i) { return std::isnan(x[i]) ? NAN : want(x[i]); }, 4);
    };
    Scalar one(1, ACL_FLOAT), twenty(20, ACL_FLOAT), slope(0.1, ACL_FLOAT);
    execute([&](auto *w, auto *e) { return aclnnEluGetWorkspaceSize(x, one, one, one, y, w, e); },
            aclnnElu);
    check([](double v) { return elu(v, 1, 1, 1); });
    execute(
        [&](auto *w, auto *e) { return aclnnSoftplusGetWorkspaceSize(x, one, twenty, y, w, e); },
        aclnnSoftplus);
    check([](double v) { return softplus(v, 1, 20); });
    execute([&](auto *w, auto *e) { return aclnnHardsigmoidGetWorkspaceSize(x, y, w, e); },
            aclnnHardsigmoid);
    check(hard_sigmoid);
    execute([&](auto *w, auto *e) { return aclnnHardswishGetWorkspaceSize(x, y, w, e); },
            aclnnHardswish);
    check(hard_swish);
    execute([&](auto *w, auto *e) { return aclnnLeakyReluGetWorkspaceSize(x, slope, y, w, e); },
            aclnnLeakyRelu);
    check([](double v) { return v > 0 ? v : static_cast<double>(0.1f) * v; });
    execute([&](auto *w, auto *e) { return aclnnSignGetWorkspaceSize(x, y, w, e); }, aclnnSign);
    check([](double v) { return v > 0 ? 1.0 : v < 0 ? -1.0 : 0.0; });
  }
}

void signs() {
  for (const aclDataType dtype :
       {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE, ACL_INT32, ACL_INT64, ACL_BOOL}) {
    Tensor x({4, 33}, dtype, Layout::kRandom), y({4, 33}, dtype, Layout::kRandom);
    x.random(dtype == ACL_BOOL ? 0 : -2, dtype == ACL_BOOL ? 1 : 2);
    execute([&](auto *w, auto *e) { return aclnnSignGetWorkspaceSize(x, y, w, e); }, aclnnSign);
    check_values(y, [&](int64_t i) { return x[i] > 0 ? 1.0 : x[i] < 0 ? -1.0 : 0.0; }, 0, 0);
  }
}

void bounds_in_place() {
  for (const aclDataType dtype : {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE, ACL_INT8, ACL_UINT8,
                                  ACL_INT16, ACL_INT32, ACL_INT64}) {
    const double low = dtype == ACL_UINT8 ? 0 : -9;
    Tensor x({6, 35}, dtype, Layout::kRandom);
    x.random(low, 9);
    Scalar bound(3, is_floating(dtype) ? ACL_FLOAT : ACL_INT64), value(7, ACL_INT64);
    execute([&](auto *w, auto *e) { return aclnnInplaceClampMaxGetWorkspaceSize(x, bound, w, e); },
            aclnnInplaceClampMax);
    check_values(x, [&](int64_t i) { return std::min(x[i], 3.0); }, 0, 0);
    if (dtype == ACL_DOUBLE) continue;
    x.random(low, 9);
    execute([&](auto *w,
                auto *e) { return aclnnInplaceThresholdGetWorkspaceSize(x, bound, value, w, e); },
            aclnnInplaceThreshold);
    check_values(x, [&](int64_t i) { return x[i] > 3 ? x[i] : 7; }, 0, 0);
  }
  // Integers against fractions, with all their digits; what is not above the threshold, NaN too, is replaced.
  Tensor i({3}, ACL_INT64), f({3}, ACL_FLOAT);
  const double whole[] = {16777217, 2, 3}, wild[] = {NAN, INFINITY, -INFINITY};
  i.fill([&](int64_t k) { return whole[k]; });
  f.fill([&](int64_t k) { return wild[k]; });
  Scalar half(2.5, ACL_FLOAT), minus(-1.75, ACL_FLOAT);
  execute(
      [&](auto *w, auto *e) { return aclnnInplaceThresholdGetWorkspaceSize(i, half, minus, w, e); },
      aclnnInplaceThreshold);
  check_values(i, [&](int64_t k) { return k == 1 ? -1 : whole[k]; });
  execute(
      [&](auto *w, auto *e) { return aclnnInplaceThresholdGetWorkspaceSize(f, half, minus, w, e); },
      aclnnInplaceThreshold);
  check_values(f, [](int64_t k) { return k == 1 ? INFINITY : -1.75; });
  f.fill([&](int64_t k) { return wild[k]; });
  execute([&](auto *w, auto *e) { return aclnnInplaceClampMaxGetWorkspaceSize(f, half, w, e); },
          aclnnInplaceClampMax);
  check_values(f, [](int64_t k) { return k == 0 ? NAN : k == 1 ? 2.5 : -INFINITY; });
}

void comparisons() {
  const aclDataType inputs[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,  ACL_DOUBLE, ACL_INT8,
                                ACL_UINT8, ACL_INT16,   ACL_INT32, ACL_INT64,  ACL_BOOL};
  const aclDataType outputs[] = {ACL_BOOL, ACL_FLOAT, ACL_INT32, ACL_FLOAT16, ACL_UINT8};
  int round = 0;
  for (const aclDataType a : inputs) {
    for (const aclDataType b : {a, ACL_FLOAT, ACL_INT32, ACL_BOOL}) {
      const aclDataType out = outputs[round++ % 5];
      Tensor x({3, 1, 17}, a, Layout::kRandom), y({5, 17}, b, Layout::kRandom),
          z({3, 5, 17}, out, Layout::kRandom);
      x.fill([](int64_t) { return static_cast<double>(pick(0, 1)); });
      y.fill([](int64_t) { return static_cast<double>(pick(0, 1)); });
      execute([&](auto *w, auto *e) { return aclnnEqTensorGetWorkspaceSize(x, y, z, w, e); },
              aclnnEqTensor);
      check_values(z, [&](int64_t i) {
        return static_cast<double>(x.at({i / 85, 0, i % 17}) == y.at({i / 17 % 5, i % 17}));
      });
      Tensor g({3, 1, 17}, out, Layout::kRandom);
      Scalar zero(0, b);
      execute([&](auto *w, auto *e) { return aclnnGtScalarGetWorkspaceSize(x, zero, g, w, e); },
              aclnnGtScalar);
      check_values(g, [&](int64_t i) { return static_cast<double>(x[i] > 0); });
    }
  }
  // Long rows of integers, which are compared as they lie.
  for (const aclDataType dtype : {ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64}) {
    for (const aclDataType out : {ACL_BOOL, ACL_INT8, ACL_INT64}) {
      Tensor x({70001}, dtype), y({70001}, dtype), z({70001}, out);
      x.random(-3, 3);
      y.random(-3, 3);
      execute([&](auto *w, auto *e) { return aclnnEqTensorGetWorkspaceSize(x, y, z, w, e); },
              aclnnEqTensor);
      check_values(z, [&](int64_t i) { return static_cast<double>(x[i] == y[i]); });
    }
  }
  for (const aclDataType dtype : {ACL_UINT16, ACL_UINT32, ACL_UINT64}) {
    Tensor x({3}, dtype), g({3}, ACL_BOOL);
    x.fill([](int64_t i) { return static_cast<double>(i * 20000); });
    Scalar limit(20000, dtype);
    execute([&](auto *w, auto *e) { return aclnnGtScalarGetWorkspaceSize(x, limit, g, w, e); },
            aclnnGtScalar);
    check_values(g, [](int64_t i) { return static_cast<double>(i > 1); });
  }
  // Numbers without a sign are large, not negative.
  Tensor huge({2}, ACL_UINT64), g({2}, ACL_BOOL);
  huge.fill([](int64_t i) { return i == 0 ? 18446744073709549568.0 : 1.0; });
  Scalar two(2, ACL_UINT64);
  execute([&](auto *w, auto *e) { return aclnnGtScalarGetWorkspaceSize(huge, two, g, w, e); },
          aclnnGtScalar);
  check_values(g, [](int64_t i) { return i == 0 ? 1.0 : 0.0; });
  // A double scalar counts as the tensor's own number where it is nearly one: nothing is above itself.
  Tensor x({4}, ACL_FLOAT), y({4}, ACL_FLOAT), same({4}, ACL_BOOL);
  const double values[] = {0.1, NAN, INFINITY, -0.0};
  x.fill([&](int64_t i) { return values[i]; });
  y.fill([&](int64_t i) { return i == 3 ? 0.0 : values[i]; });
  Scalar tenth(0.1, ACL_DOUBLE);
  execute([&](auto *w, auto *e) { return aclnnGtScalarGetWorkspaceSize(x, tenth, same, w, e); },
          aclnnGtScalar);
  check_values(same, [](int64_t i) { return i == 2 ? 1.0 : 0.0; });
  execute([&](auto *w, auto *e) { return aclnnEqTensorGetWorkspaceSize(x, y, same, w, e); },
          aclnnEqTensor);
  check_values(same, [](int64_t i) { return i == 1 ? 0.0 : 1.0; });
}

void powers() {
  for (const aclDataType dtype : kFloats) {
    for (const double base : {0.5, 2.0, 0.7071067811865476, 3.7, 1.0, 1e-3, 0.0, -2.0}) {
      Tensor x({7, 40}, dtype, Layout::kRandom), y({7, 40}, dtype, Layout::kRandom);
      const double range = dtype == ACL_FLOAT16 ? 4 : 12;
      x.fill([&](int64_t i) {
        return base < 0     ? static_cast<double>(pick(-6, 6))
               : i % 3 == 0 ? static_cast<double>(pick(-4, 4))
                            : uniform(-range, range);
      });
      Scalar b(base, ACL_DOUBLE);
      execute([&](auto *w, auto *e) { return aclnnPowScalarTensorGetWorkspaceSize(b, x, y, w, e); },
              aclnnPowScalarTensor);
      const double exact = rounded(base, dtype);
      check_values(y, [&](int64_t i) { return std::pow(exact, x[i]); }, 3);
    }
  }
  const double exponents[] = {0, INFINITY, -INFINITY, NAN, 2000, -2000, 126.5, -140};
  for (const double base : {2.0, 0.5, 1.0, -1.0, 0.0, static_cast<double>(INFINITY)}) {
    Tensor x({8}, ACL_FLOAT), y({8}, ACL_FLOAT);
    x.fill([&](int64_t i) { return exponents[i]; });
    Scalar b(base, ACL_FLOAT);
    execute([&](auto *w, auto *e) { return aclnnPowScalarTensorGetWorkspaceSize(b, x, y, w, e); },
            aclnnPowScalarTensor);
    check_values(
        y,
        [&](int64_t i) {
          return static_cast<double>(std::pow(static_cast<float>(base), static_cast<float>(x[i])));
        },
        3, 2e-45);
  }
  // Integers: exact, and of the exponent's type; with a floating base they are floating.
  Tensor i({5}, ACL_INT32), j({5}, ACL_INT32), f({5}, ACL_FLOAT), wide({5}, ACL_INT64);
  i.fill([](int64_t k) { return static_cast<double>(k - 1); });
  Scalar three(3, ACL_INT32), minus(-1, ACL_INT64), half(0.5, ACL_FLOAT);
  execute([&](auto *w, auto *e) { return aclnnPowScalarTensorGetWorkspaceSize(three, i, j, w, e); },
          aclnnPowScalarTensor);
  check_values(j, [](int64_t k) { return k == 0 ? 0 : std::pow(3.0, static_cast<double>(k - 1)); });
  execute(
      [&](auto *w, auto *e) { return aclnnPowScalarTensorGetWorkspaceSize(minus, i, wide, w, e); },
      aclnnPowScalarTensor);
  check_values(wide, [](int64_t k) { return k % 2 == 0 ? -1.0 : 1.0; });
  execute([&](auto *w, auto *e) { return aclnnPowScalarTensorGetWorkspaceSize(half, i, f, w, e); },
          aclnnPowScalarTensor);
  check_values(f, [](int64_t k) { return std::pow(0.5, static_cast<double>(k - 1)); });
}

void gated_units() {
  for (const aclDataType dtype : kHalves) {
    for (const Layout layout : kLayouts) {
      for (int64_t axis = 0; axis < 3; ++axis) {
        const Dims shape{4, 6, 38};
        Dims half = shape;
        half[static_cast<size_t>(axis)] /= 2;
        Tensor x(shape, dtype, layout), y(half, dtype, layout), kept(half, dtype, layout);
        x.random(-4, 4);
        const auto part = [&](int64_t i, bool right) {
          Dims index = index_of(half, i);
          if (right) index[static_cast<size_t>(axis)] += half[static_cast<size_t>(axis)];
          return x.at(index);
        };
        execute([&](auto *w, auto *e) { return aclnnSwiGluGetWorkspaceSize(x, axis - 3, y, w, e); },
                aclnnSwiGlu);
        check_values(y, [&](int64_t i) { return silu(part(i, false)) * part(i, true); }, 5);
        for (const bool left : {true, false}) {
          for (const int64_t approximate : {0, 1}) {
            const auto gelu = approximate == 0 ? gelu_erf : gelu_tanh;
            execute(
                [&](auto *w, auto *e) {
                  return aclnnGeGluV3GetWorkspaceSize(x, axis, approximate, left, y, kept, w, e);
                },
                aclnnGeGluV3);
            check_values(kept, [&](int64_t i) { return gelu(part(i, !left)); }, 40, 1e-7);
            check_values(
                y, [&](int64_t i) { return gelu(part(i, !left)) * part(i, left); }, 40, 1e-6);
          }
        }
      }
    }
  }
}

void refusals() {
  Tensor x({2, 4}, ACL_FLOAT), b({4, 2}, ACL_FLOAT), h({2, 4}, ACL_FLOAT16), i({2, 4}, ACL_INT32),
      flags({2, 4}, ACL_BOOL), u({2, 4}, ACL_UINT32), odd({2, 3}, ACL_FLOAT),
      half({2, 2}, ACL_FLOAT);
  Scalar one(1, ACL_FLOAT), whole(1, ACL_INT32), yes(1, ACL_BOOL);
  const auto elu_of = [&](const aclTensor *self, const aclScalar *alpha, const aclScalar *scale,
                          const aclScalar *input, aclTensor *out) {
    return [=](auto *w, auto *e) {
      return aclnnEluGetWorkspaceSize(self, alpha, scale, input, out, w, e);
    };
  };
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnElu", elu_of(nullptr, one, one, one, x));
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnElu", elu_of(x, nullptr, one, one, x));
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnElu", elu_of(x, one, nullptr, one, x));
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnElu", elu_of(x, one, one, nullptr, x));
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnElu", elu_of(x, one, one, one, nullptr));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnElu", elu_of(i, one, one, one, i));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnElu", elu_of(x, one, one, one, b));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnSoftplus",
         [&](auto *w, auto *e) { return aclnnSoftplusGetWorkspaceSize(i, one, one, i, w, e); });
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnSoftplus",
         [&](auto *w, auto *e) { return aclnnSoftplusGetWorkspaceSize(x, one, nullptr, x, w, e); });
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnLeakyRelu",
         [&](auto *w, auto *e) { return aclnnLeakyReluGetWorkspaceSize(x, nullptr, x, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnLeakyRelu",
         [&](auto *w, auto *e) { return aclnnLeakyReluGetWorkspaceSize(x, one, b, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnHardsigmoid",
         [&](auto *w, auto *e) { return aclnnHardsigmoidGetWorkspaceSize(x, h, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnHardswish",
         [&](auto *w, auto *e) { return aclnnHardswishGetWorkspaceSize(i, i, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnSign",
         [&](auto *w, auto *e) { return aclnnSignGetWorkspaceSize(x, h, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnSign",
         [&](auto *w, auto *e) { return aclnnSignGetWorkspaceSize(u, u, w, e); });
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnInplaceClampMax",
         [&](auto *w, auto *e) { return aclnnInplaceClampMaxGetWorkspaceSize(x, nullptr, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnInplaceClampMax",
         [&](auto *w, auto *e) { return aclnnInplaceClampMaxGetWorkspaceSize(flags, one, w, e); });
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnInplaceThreshold", [&](auto *w, auto *e) {
    return aclnnInplaceThresholdGetWorkspaceSize(x, one, nullptr, w, e);
  });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnInplaceThreshold", [&](auto *w, auto *e) {
    return aclnnInplaceThresholdGetWorkspaceSize(flags, one, one, w, e);
  });
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnEqTensor",
         [&](auto *w, auto *e) { return aclnnEqTensorGetWorkspaceSize(x, nullptr, x, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnEqTensor",
         [&](auto *w, auto *e) { return aclnnEqTensorGetWorkspaceSize(x, b, x, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnEqTensor",
         [&](auto *w, auto *e) { return aclnnEqTensorGetWorkspaceSize(x, u, flags, w, e); });
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnGtScalar",
         [&](auto *w, auto *e) { return aclnnGtScalarGetWorkspaceSize(x, nullptr, flags, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnGtScalar",
         [&](auto *w, auto *e) { return aclnnGtScalarGetWorkspaceSize(x, one, b, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnPowScalarTensor", [&](auto *w, auto *e) {
    return aclnnPowScalarTensorGetWorkspaceSize(yes, flags, x, w, e);
  });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnPowScalarTensor", [&](auto *w, auto *e) {
    return aclnnPowScalarTensorGetWorkspaceSize(one, x, flags, w, e);
  });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnSwiGlu",
         [&](auto *w, auto *e) { return aclnnSwiGluGetWorkspaceSize(odd, 1, half, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnSwiGlu",
         [&](auto *w, auto *e) { return aclnnSwiGluGetWorkspaceSize(x, 2, half, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnSwiGlu",
         [&](auto *w, auto *e) { return aclnnSwiGluGetWorkspaceSize(x, 0, half, w, e); });
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnGeGluV3", [&](auto *w, auto *e) {
    return aclnnGeGluV3GetWorkspaceSize(x, 1, 0, true, half, nullptr, w, e);
  });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnGeGluV3", [&](auto *w, auto *e) {
    return aclnnGeGluV3GetWorkspaceSize(x, 1, 2, true, half, half, w, e);
  });
  // Nothing to compute is no error.
  Tensor none({0, 4}, ACL_FLOAT), nothing({0, 2}, ACL_FLOAT);
  execute([&](auto *w, auto *e) { return aclnnSwiGluGetWorkspaceSize(none, 1, nothing, w, e); },
          aclnnSwiGlu);
  execute([&](auto *w, auto *e) { return aclnnSignGetWorkspaceSize(none, none, w, e); }, aclnnSign);
}

}  // namespace

int main() {
  activations();
  infinities();
  signs();
  bounds_in_place();
  comparisons();
  powers();
  gated_units();
  refusals();
  return 0;
}
