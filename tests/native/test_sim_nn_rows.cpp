// Normalisation of sums and of groups of channels, cross entropy, running sums, against double.
#include "nn_fixture.hpp"

using namespace nn;

namespace {

const aclDataType kHalves[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
const Layout kLayouts[] = {Layout::kRow, Layout::kRandom};

void group_norms() {
  struct Case {
    Dims shape;
    int64_t groups;
  };
  const Case cases[] = {{{2, 6, 5, 7}, 3}, {{3, 8}, 2}, {{1, 4, 9}, 4}, {{2, 12, 3, 2, 2}, 1}};
  const double eps = 1e-5;
  for (const Case &c : cases) {
    for (const aclDataType dtype : kHalves) {
      for (const Layout layout : kLayouts) {
        const int64_t n = c.shape[0], channels = c.shape[1];
        const int64_t area = count(c.shape) / n / channels, length = channels / c.groups * area;
        Tensor x(c.shape, dtype, layout), y(c.shape, dtype, layout),
            gamma({channels}, dtype, layout), beta({channels}, dtype, layout),
            mean({n, c.groups}, dtype, layout), rstd({n, c.groups}, dtype, layout);
        x.random(-2, 5);
        gamma.random();
        beta.random();
        const auto mean_of = [&](int64_t row) {
          double sum = 0;
          for (int64_t i = 0; i < length; ++i) sum += x[row * length + i];
          return sum / static_cast<double>(length);
        };
        const auto rstd_of = [&](int64_t row) {
          const double centre = mean_of(row);
          double sum = 0;
          for (int64_t i = 0; i < length; ++i) sum += std::pow(x[row * length + i] - centre, 2);
          return 1 / std::sqrt(sum / static_cast<double>(length) + eps);
        };
        for (const bool affine : {true, false}) {
          execute(
              [&](auto *w, auto *e) {
                return aclnnGroupNormGetWorkspaceSize(x, affine ? gamma.get() : nullptr,
                                                      affine ? beta.get() : nullptr, n, channels,
                                                      area, c.groups, eps, y, mean, rstd, w, e);
              },
              aclnnGroupNorm);
          check_values(mean, mean_of, 4, 1e-6);
          check_values(rstd, rstd_of, 8);
          check_values(
              y,
              [&](int64_t i) {
                const double z = (x[i] - mean_of(i / length)) * rstd_of(i / length);
                const int64_t channel = i / area % channels;
                return affine ? z * gamma[channel] + beta[channel] : z;
              },
              8, 2e-6);
        }
      }
    }
  }
}

void sums_and_norms() {
  const double eps = 1e-6;
  for (const aclDataType dtype : kHalves) {
    for (const Layout layout : kLayouts) {
      for (const int trailing : {1, 2}) {
        const Dims shape{3, 4, 37};
        const Dims row = trailing == 1 ? Dims{37} : Dims{4, 37};
        const Dims outer = trailing == 1 ? Dims{3, 4, 1} : Dims{3, 1, 1};
        const int64_t n = count(row);
        Tensor a(shape, dtype, layout), b(shape, dtype, layout), gamma(row, dtype, layout),
            y(shape, dtype, layout), sum(shape, dtype, layout), rstd(outer, ACL_FLOAT, layout);
        a.random();
        b.random();
        gamma.random();
        const auto added = [&](int64_t i) { return rounded(a[i] + b[i], dtype); };
        const auto rstd_of = [&](int64_t r) {
          double squares = 0;
          for (int64_t i = 0; i < n; ++i) squares += added(r * n + i) * added(r * n + i);
          return 1 / std::sqrt(squares / static_cast<double>(n) + eps);
        };
        const auto normed = [&](int64_t i) { return added(i) * rstd_of(i / n) * gamma[i % n]; };
        execute(
            [&](auto *w, auto *e) {
              return aclnnAddRmsNormGetWorkspaceSize(a, b, gamma, eps, y, rstd, sum, w, e);
            },
            aclnnAddRmsNorm);
        check_values(sum, added, 0, 0);
        check_values(rstd, rstd_of, 4);
        check_values(y, normed, 6);
        if (dtype == ACL_FLOAT || trailing != 1) continue;
        // Without rstdOut, with and without the sum.
        Tensor wide({1, 37}, dtype, layout);
        wide.fill([&](int64_t i) { return gamma[i]; });
        for (const bool keeps : {true, false}) {
          y.random();
          sum.random();
          execute(
              [&](auto *w, auto *e) {
                return aclnnAddRmsNormGetWorkspaceSize(a, b, wide, eps, y, nullptr,
                                                       keeps ? sum.get() : nullptr, w, e);
              },
              aclnnAddRmsNorm);
          if (keeps) check_values(sum, added, 0, 0);
          check_values(y, normed, 6);
        }
      }
    }
  }
}

void cross_entropies() {
  for (const aclDataType dtype : kHalves) {
    for (const Layout layout : kLayouts) {
      const int64_t rows = 9, n = 77;
      Tensor x({rows, n}, dtype, layout), t({rows, n}, dtype, layout), loss({rows}, dtype, layout),
          gradient({rows, n}, dtype, layout);
      x.random(-6, 6);
      t.random(0, 1);
      const auto log_sum = [&](int64_t row) {
        double sum = 0;
        for (int64_t j = 0; j < n; ++j) sum += std::exp(x[row * n + j]);
        return std::log(sum);
      };
      execute(
          [&](auto *w, auto *e) {
            return aclnnSoftmaxCrossEntropyWithLogitsGetWorkspaceSize(x, t, loss, gradient, w, e);
          },
          aclnnSoftmaxCrossEntropyWithLogits);
      check_values(
          loss,
          [&](int64_t row) {
            double total = 0;
            for (int64_t j = 0; j < n; ++j)
              total -= t[row * n + j] * (x[row * n + j] - log_sum(row));
            return total;
          },
          6);
      check_values(
          gradient, [&](int64_t i) { return std::exp(x[i] - log_sum(i / n)) - t[i]; }, 8, 2e-7);
    }
  }
}

void running_sums() {
  for (const aclDataType dtype : {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE, ACL_INT8, ACL_UINT8,
                                  ACL_INT16, ACL_INT32, ACL_INT64}) {
    for (int64_t axis = 0; axis < 3; ++axis) {
      const Dims shape{5, 6, 7};
      Tensor x(shape, dtype, Layout::kRandom), y(shape, dtype, Layout::kRandom);
      x.random(0, 5);
      execute([&](auto *w,
                  auto *e) { return aclnnCumsumGetWorkspaceSize(x, axis - 3, dtype, y, w, e); },
              aclnnCumsum);
      check_values(y, [&](int64_t i) {
        Dims index = index_of(shape, i);
        double total = 0;
        for (int64_t last = index[static_cast<size_t>(axis)]; last >= 0; --last) {
          index[static_cast<size_t>(axis)] = last;
          total += x.at(index);
        }
        return total;
      });
    }
  }
  // The result's type is what is added; a scalar is a row of one; integers wrap.
  Tensor small({300}, ACL_INT8), f({300}, ACL_FLOAT), scalar({}, ACL_FLOAT), one({}, ACL_FLOAT),
      bytes({300}, ACL_UINT8);
  small.fill([](int64_t) { return 100.0; });
  scalar.random();
  execute(
      [&](auto *w, auto *e) { return aclnnCumsumGetWorkspaceSize(small, 0, ACL_FLOAT, f, w, e); },
      aclnnCumsum);
  check_values(f, [](int64_t i) { return 100.0 * static_cast<double>(i + 1); });
  execute([&](auto *w,
              auto *e) { return aclnnCumsumGetWorkspaceSize(small, 0, ACL_UINT8, bytes, w, e); },
          aclnnCumsum);
  check_values(bytes, [](int64_t i) { return static_cast<double>((100 * (i + 1)) % 256); });
  execute([&](auto *w,
              auto *e) { return aclnnCumsumGetWorkspaceSize(scalar, -1, ACL_FLOAT, one, w, e); },
          aclnnCumsum);
  check_values(one, [&](int64_t) { return scalar[0]; });
  // A long row does not drift; NaN and infinity stay from where they are.
  const int64_t n = 200003;
  Tensor x({n}, ACL_FLOAT), y({n}, ACL_FLOAT);
  std::vector<double> sums(static_cast<size_t>(n));
  x.random(0, 1);
  double total = 0;
  for (int64_t i = 0; i < n; ++i) sums[static_cast<size_t>(i)] = total += x[i];
  execute([&](auto *w, auto *e) { return aclnnCumsumGetWorkspaceSize(x, 0, ACL_FLOAT, y, w, e); },
          aclnnCumsum);
  check_values(y, [&](int64_t i) { return sums[static_cast<size_t>(i)]; }, 1);
  x.fill([](int64_t i) { return i == 7 ? INFINITY : i == 30 ? NAN : 1.0; });
  execute([&](auto *w, auto *e) { return aclnnCumsumGetWorkspaceSize(x, 0, ACL_FLOAT, y, w, e); },
          aclnnCumsum);
  check_values(y, [](int64_t i) {
    return i < 7 ? static_cast<double>(i + 1) : i < 30 ? INFINITY : NAN;
  });
}

void refusals() {
  Tensor x({2, 6, 5}, ACL_FLOAT), h({2, 6, 5}, ACL_FLOAT16), six({6}, ACL_FLOAT),
      stat({2, 3}, ACL_FLOAT), five({5}, ACL_FLOAT), rstd({2, 6, 1}, ACL_FLOAT);
  const auto group = [&](const aclTensor *gamma, int64_t n, int64_t c, int64_t area, int64_t groups,
                         double eps, aclTensor *mean) {
    return [=, &x, &stat](auto *w, auto *e) {
      return aclnnGroupNormGetWorkspaceSize(x, gamma, nullptr, n, c, area, groups, eps, x, mean,
                                            stat, w, e);
    };
  };
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnGroupNorm", group(six, 2, 6, 5, 3, 1e-5, nullptr));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnGroupNorm", group(five, 2, 6, 5, 3, 1e-5, stat));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnGroupNorm", group(six, 3, 6, 5, 3, 1e-5, stat));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnGroupNorm", group(six, 2, 5, 6, 3, 1e-5, stat));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnGroupNorm", group(six, 2, 6, 4, 3, 1e-5, stat));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnGroupNorm", group(six, 2, 6, 5, 4, 1e-5, stat));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnGroupNorm", group(six, 2, 6, 5, 0, 1e-5, stat));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnGroupNorm", group(six, 2, 6, 5, 3, 0, stat));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnGroupNorm", group(six, 2, 6, 5, 2, 1e-5, stat));
  const auto add = [&](const aclTensor *a, const aclTensor *gamma, double eps, aclTensor *r,
                       aclTensor *sum) {
    return [=, &x](auto *w, auto *e) {
      return aclnnAddRmsNormGetWorkspaceSize(a, x, gamma, eps, x, r, sum, w, e);
    };
  };
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnAddRmsNorm", add(nullptr, five, 1e-6, rstd, x));
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnAddRmsNorm", add(x, five, 1e-6, rstd, nullptr));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnAddRmsNorm", add(h, five, 1e-6, rstd, x));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnAddRmsNorm", add(x, six, 1e-6, rstd, x));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnAddRmsNorm", add(x, five, -1, rstd, x));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnAddRmsNorm", add(x, five, 1e-6, stat, x));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnAddRmsNorm", add(x, five, 1e-6, nullptr, x));
  Tensor flat({2, 3}, ACL_FLOAT), other({3, 2}, ACL_FLOAT), two({2}, ACL_FLOAT),
      three({3}, ACL_FLOAT);
  const auto entropy = [&](const aclTensor *features, aclTensor *labels, aclTensor *loss) {
    return [=, &flat](auto *w, auto *e) {
      return aclnnSoftmaxCrossEntropyWithLogitsGetWorkspaceSize(features, labels, loss, flat, w, e);
    };
  };
  const char *name = "aclnnSoftmaxCrossEntropyWithLogits";
  refuse(ACLNN_ERR_PARAM_NULLPTR, name, entropy(flat, nullptr, two));
  refuse(ACLNN_ERR_PARAM_INVALID, name, entropy(flat, other, two));
  refuse(ACLNN_ERR_PARAM_INVALID, name, entropy(flat, flat, three));
  refuse(ACLNN_ERR_PARAM_INVALID, name, entropy(x, x, two));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnCumsum",
         [&](auto *w, auto *e) { return aclnnCumsumGetWorkspaceSize(x, 3, ACL_FLOAT, x, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnCumsum",
         [&](auto *w, auto *e) { return aclnnCumsumGetWorkspaceSize(x, 0, ACL_INT32, x, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnCumsum", [&](auto *w, auto *e) {
    return aclnnCumsumGetWorkspaceSize(x, 0, ACL_FLOAT, flat, w, e);
  });
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnCumsum", [&](auto *w, auto *e) {
    return aclnnCumsumGetWorkspaceSize(nullptr, 0, ACL_FLOAT, flat, w, e);
  });
}

}  // namespace

int main() {
  group_norms();
  sums_and_norms();
  cross_entropies();
  running_sums();
  refusals();
  return 0;
}
