// Argmax, argsort and triangular systems.
#include <cstring>

#include "nn_fixture.hpp"

using namespace nn;

namespace {

/// NaN is larger than any number.
bool is_less(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

double sample(aclDataType dtype, int64_t i) {
  if (!is_floating(dtype)) return static_cast<double>(pick(dtype == ACL_UINT8 ? 0 : -20, 20));
  if (i % 13 == 5) return NAN;
  if (i % 17 == 3) return pick(0, 1) == 0 ? INFINITY : -INFINITY;
  return std::round(uniform(-20, 20)) / 4;  // with ties
}

void argmax() {
  const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,  ACL_DOUBLE, ACL_INT8,
                               ACL_INT16, ACL_INT32,   ACL_INT64, ACL_UINT8};
  for (int round = 0; round < 54; ++round) {
    const aclDataType dtype = types[round % 9];
    const Layout layout = round % 2 == 0 ? Layout::kRow : Layout::kRandom;
    const Dims shape = {pick(1, 4), pick(1, 40), pick(1, 4)};
    const int axis = static_cast<int>(pick(0, 2));
    const bool keep = pick(0, 1) == 1;
    Dims reduced = shape;
    if (keep) {
      reduced[static_cast<size_t>(axis)] = 1;
    } else {
      reduced.erase(reduced.begin() + axis);
    }
    Tensor x(shape, dtype, layout), y(reduced, round % 3 == 0 ? ACL_INT32 : ACL_INT64, layout);
    x.fill([&](int64_t i) { return sample(dtype, round % 4 == 0 ? i : 1); });
    execute(
        [&](auto *w, auto *e) {
          return aclnnArgMaxGetWorkspaceSize(x, round % 2 == 0 ? axis : axis - 3, keep, y, w, e);
        },
        aclnnArgMax);
    check_values(y, [&](int64_t i) {
      Dims at(3);
      for (int d = 2; d >= 0; --d) {
        if (d == axis) continue;
        const auto s = static_cast<size_t>(d);
        at[s] = i % shape[s];
        i /= shape[s];
      }
      int64_t best = 0;
      double largest = 0;
      for (int64_t j = 0; j < shape[static_cast<size_t>(axis)]; ++j) {
        at[static_cast<size_t>(axis)] = j;
        if (j == 0 || is_less(largest, x.at(at))) {
          best = j;
          largest = x.at(at);
        }
      }
      return static_cast<double>(best);
    });
  }
  Tensor x({2, 3}, ACL_FLOAT), y({2}, ACL_INT64), z({3}, ACL_INT64), f({2}, ACL_FLOAT),
      b({2, 3}, ACL_BOOL);
  const auto plan = [&](aclTensor *in, int64_t dim, aclTensor *out) {
    return [=](uint64_t *w, aclOpExecutor **e) {
      return aclnnArgMaxGetWorkspaceSize(in, dim, false, out, w, e);
    };
  };
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnArgMax", plan(nullptr, 0, y));
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnArgMax", plan(x, 0, nullptr));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnArgMax", plan(x, 2, y));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnArgMax", plan(x, 1, z));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnArgMax", plan(x, 1, f));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnArgMax", plan(b, 1, y));
}

void argsort() {
  const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,  ACL_INT8,
                               ACL_INT16, ACL_INT32,   ACL_INT64, ACL_UINT8};
  for (int round = 0; round < 48; ++round) {
    const aclDataType dtype = types[round % 8];
    const Layout layout = round % 2 == 0 ? Layout::kRow : Layout::kRandom;
    const Dims shape = {pick(1, 3), round % 5 == 0 ? pick(400, 3000) : pick(1, 60), pick(1, 3)};
    const bool descending = round % 3 == 0;
    Tensor x(shape, dtype, layout), y(shape, ACL_INT64, layout);
    x.fill([&](int64_t i) { return sample(dtype, i); });
    execute(
        [&](auto *w, auto *e) { return aclnnArgsortGetWorkspaceSize(x, 1, descending, y, w, e); },
        aclnnArgsort);
    std::vector<double> want(static_cast<size_t>(x.count()));
    for (int64_t a = 0; a < shape[0]; ++a) {
      for (int64_t c = 0; c < shape[2]; ++c) {
        std::vector<int64_t> places(static_cast<size_t>(shape[1]));
        std::iota(places.begin(), places.end(), int64_t{0});
        std::stable_sort(places.begin(), places.end(), [&](int64_t i, int64_t j) {
          const double u = x.at({a, i, c}), v = x.at({a, j, c});
          return descending ? is_less(v, u) : is_less(u, v);
        });
        for (int64_t i = 0; i < shape[1]; ++i) {
          want[static_cast<size_t>((a * shape[1] + i) * shape[2] + c)] =
              static_cast<double>(places[static_cast<size_t>(i)]);
        }
      }
    }
    check_values(y, [&](int64_t i) { return want[static_cast<size_t>(i)]; });
  }
  Tensor x({2, 3}, ACL_FLOAT), y({2, 3}, ACL_INT64), z({2, 3}, ACL_INT32), s({3, 2}, ACL_INT64),
      d({2, 3}, ACL_DOUBLE);
  const auto plan = [&](aclTensor *in, int64_t dim, aclTensor *out) {
    return [=](uint64_t *w, aclOpExecutor **e) {
      return aclnnArgsortGetWorkspaceSize(in, dim, false, out, w, e);
    };
  };
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnArgsort", plan(nullptr, 0, y));
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnArgsort", plan(x, 0, nullptr));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnArgsort", plan(x, -3, y));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnArgsort", plan(x, 0, z));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnArgsort", plan(x, 0, s));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnArgsort", plan(d, 0, y));
}

void triangular() {
  for (int round = 0; round < 48; ++round) {
    const aclDataType dtype = round % 3 == 0 ? ACL_DOUBLE : ACL_FLOAT;
    const Layout layout = round % 2 == 0 ? Layout::kRow : Layout::kRandom;
    const bool upper = round % 4 < 2, transpose = round % 8 < 4;
    const bool unit = dtype == ACL_FLOAT && round % 5 == 0;
    const int64_t n = pick(1, 24), m = round % 11 == 0 ? 150 : pick(1, 9), batch = pick(1, 3);
    const bool shared = pick(0, 1) == 1;
    Tensor a({shared ? 1 : batch, n, n}, dtype, layout), b({batch, n, m}, dtype, layout);
    Tensor x({batch, n, m}, dtype, layout), copy({batch, n, n}, dtype, layout);
    // Well conditioned: large on the diagonal; what lies beyond the triangle must not matter.
    a.fill([&](int64_t i) {
      const int64_t r = i / n % n, c = i % n;
      if (r == c) return unit ? NAN : uniform(2, 4);
      return (c > r) == upper ? uniform(-1, 1) / static_cast<double>(n) : NAN;
    });
    b.random();
    execute(
        [&](auto *w, auto *e) {
          return aclnnTriangularSolveGetWorkspaceSize(b, a, upper, transpose, unit, x, copy, w, e);
        },
        aclnnTriangularSolve);
    const auto at = [&](int64_t i, int64_t r, int64_t c) {
      if (transpose) std::swap(r, c);
      if (r == c && unit) return 1.0;
      if (r != c && (c > r) != upper) return 0.0;
      return a.at({shared ? 0 : i, r, c});
    };
    const auto got = x.read();
    for (int64_t i = 0; i < batch; ++i) {
      for (int64_t r = 0; r < n; ++r) {
        for (int64_t c = 0; c < m; ++c) {
          double sum = 0;
          for (int64_t k = 0; k < n; ++k)
            sum += at(i, r, k) * got[static_cast<size_t>((i * n + k) * m + c)];
          CHECK(close(sum, b.at({i, r, c}), 0, dtype == ACL_DOUBLE ? 1e-13 : 2e-6));
        }
      }
    }
    check_values(copy, [&](int64_t i) {
      const int64_t r = i / n % n, c = i % n;
      if (r != c && (c > r) != upper) return 0.0;
      return a.at({shared ? 0 : i / (n * n), r, c});
    });
  }
  Tensor b({3, 2}, ACL_FLOAT), a({3, 3}, ACL_FLOAT), half({3, 3}, ACL_FLOAT16),
      wide({3, 4}, ACL_FLOAT), d({3, 3}, ACL_DOUBLE);
  const auto plan = [&](aclTensor *right, aclTensor *left, aclTensor *x, aclTensor *copy) {
    return [=](uint64_t *w, aclOpExecutor **e) {
      return aclnnTriangularSolveGetWorkspaceSize(right, left, true, false, false, x, copy, w, e);
    };
  };
  const char *op = "aclnnTriangularSolve";
  refuse(ACLNN_ERR_PARAM_NULLPTR, op, plan(nullptr, a, b, a));
  refuse(ACLNN_ERR_PARAM_NULLPTR, op, plan(b, a, b, nullptr));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(half, half, half, half));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(b, wide, b, wide));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(b, d, b, d));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(b, a, a, a));
}

}  // namespace

int main() {
  argmax();
  argsort();
  triangular();
  return 0;
}
