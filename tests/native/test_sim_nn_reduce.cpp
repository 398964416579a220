// Sums, means, norms, softmax and normalisation, against double.
#include <algorithm>

#include "nn_fixture.hpp"

using namespace nn;

namespace {

struct Case {
  Dims shape, axes, kept, out;
  std::vector<bool> reduced;
  bool keep;
};

Case random_case(int64_t max_dim) {
  Case c;
  c.shape.resize(static_cast<size_t>(pick(1, 4)));
  do {
    for (int64_t &dim : c.shape) dim = pick(1, max_dim);
  } while (count(c.shape) > 6000);
  c.keep = pick(0, 1) == 1;
  c.reduced.resize(c.shape.size());
  for (size_t d = 0; d < c.shape.size(); ++d) {
    c.reduced[d] = pick(0, 1) == 1;
    const auto axis = static_cast<int64_t>(d);
    if (c.reduced[d])
      c.axes.push_back(pick(0, 1) == 1 ? axis : axis - static_cast<int64_t>(c.shape.size()));
  }
  if (c.axes.empty()) std::fill(c.reduced.begin(), c.reduced.end(), true);  // no axes stand for all
  std::shuffle(c.axes.begin(), c.axes.end(), rng());
  for (size_t d = 0; d < c.shape.size(); ++d) {
    if (!c.reduced[d]) c.kept.push_back(c.shape[d]);
    if (!c.reduced[d] || c.keep) c.out.push_back(c.reduced[d] ? 1 : c.shape[d]);
  }
  return c;
}

/// The elements that each result is made of.
std::vector<std::vector<double>> groups(const Tensor &x, const Case &c) {
  std::vector<std::vector<double>> all(static_cast<size_t>(count(c.kept)));
  for (int64_t i = 0; i < x.count(); ++i) {
    const Dims index = index_of(c.shape, i);
    int64_t flat = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      if (!c.reduced[d]) flat = flat * c.shape[d] + index[d];
    }
    all[static_cast<size_t>(flat)].push_back(x[i]);
  }
  return all;
}

void sums_and_means() {
  for (int round = 0; round < 120; ++round) {
    const Case c = random_case(round % 3 == 0 ? 40 : 9);
    const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE};
    const aclDataType dtype = types[round % 4];
    const Layout layout = round % 2 == 0 ? Layout::kRow : Layout::kRandom;
    Tensor x(c.shape, dtype, layout), y(c.out, dtype, layout);
    x.random();
    Ints axes(c.axes);
    const auto parts = groups(x, c);
    const auto total = [&](int64_t i) {
      double sum = 0;
      for (const double v : parts[static_cast<size_t>(i)]) sum += v;
      return sum;
    };
    const auto n = static_cast<double>(parts[0].size());
    execute(
        [&](auto *w, auto *e) {
          return aclnnReduceSumGetWorkspaceSize(x, axes, c.keep, dtype, y, w, e);
        },
        aclnnReduceSum);
    check_values(y, total, 2, dtype == ACL_DOUBLE ? 1e-15 * n : 1e-6 * std::sqrt(n));
    execute([&](auto *w,
                auto *e) { return aclnnMeanGetWorkspaceSize(x, axes, c.keep, dtype, y, w, e); },
            aclnnMean);
    check_values(y, [&](int64_t i) { return total(i) / n; }, 2, dtype == ACL_DOUBLE ? 1e-15 : 1e-6);
  }
  // Types change: integers are summed as what they become.
  Tensor i8({5, 300}, ACL_INT8), i64({5}, ACL_INT64), real({5}, ACL_FLOAT),
      flags({5, 300}, ACL_BOOL);
  i8.random(-100, 100);
  flags.random(0, 1);
  Ints last({-1});
  const auto sum = [](const Tensor &t, int64_t row) {
    double total = 0;
    for (int64_t j = 0; j < 300; ++j) total += t[row * 300 + j];
    return total;
  };
  execute(
      [&](auto *w, auto *e) {
        return aclnnReduceSumGetWorkspaceSize(i8, last, false, ACL_INT64, i64, w, e);
      },
      aclnnReduceSum);
  check_values(i64, [&](int64_t i) { return sum(i8, i); });
  execute(
      [&](auto *w, auto *e) {
        return aclnnReduceSumGetWorkspaceSize(flags, last, false, ACL_INT64, i64, w, e);
      },
      aclnnReduceSum);
  check_values(i64, [&](int64_t i) { return sum(flags, i); });
  execute(
      [&](auto *w, auto *e) {
        return aclnnMeanGetWorkspaceSize(i8, last, false, ACL_FLOAT, real, w, e);
      },
      aclnnMean);
  check_values(real, [&](int64_t i) { return sum(i8, i) / 300; });
}

/// Long enough that float32 sums taken one after the other would drift.
void long_sums() {
  const int64_t n = 500003;
  Tensor x({n}, ACL_FLOAT), y({}, ACL_FLOAT), columns({n / 100, 100}, ACL_FLOAT),
      c({100}, ACL_FLOAT);
  x.fill([](int64_t i) { return 0.1 + 1e-6 * static_cast<double>(i % 1000); });
  columns.fill([](int64_t i) { return 0.1 + 1e-6 * static_cast<double>(i % 1000); });
  Ints first({0});
  execute(
      [&](auto *w, auto *e) {
        return aclnnReduceSumGetWorkspaceSize(x, first, false, ACL_FLOAT, y, w, e);
      },
      aclnnReduceSum);
  check_values(
      y,
      [&](int64_t) {
        double total = 0;
        for (int64_t i = 0; i < n; ++i) total += x[i];
        return total;
      },
      2);
  execute(
      [&](auto *w, auto *e) {
        return aclnnReduceSumGetWorkspaceSize(columns, first, false, ACL_FLOAT, c, w, e);
      },
      aclnnReduceSum);
  check_values(
      c,
      [&](int64_t j) {
        double total = 0;
        for (int64_t i = 0; i < n / 100; ++i) total += columns[i * 100 + j];
        return total;
      },
      2);
}

void norms() {
  const double powers[] = {2, 1, 0, INFINITY, -INFINITY, 3, 0.5};
  for (int round = 0; round < 84; ++round) {
    const Case c = random_case(round % 3 == 0 ? 30 : 7);
    const double power = powers[round % 7];
    const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
    const aclDataType dtype = types[round % 3];
    Tensor x(c.shape, dtype, Layout::kRandom), y(c.out, dtype, Layout::kRandom);
    x.random();
    Ints axes(c.axes);
    Scalar p(power, ACL_FLOAT);
    const auto parts = groups(x, c);
    execute(
        [&](auto *w, auto *e) { return aclnnNormGetWorkspaceSize(x, p, axes, c.keep, y, w, e); },
        aclnnNorm);
    check_values(
        y,
        [&](int64_t i) {
          double total = power == -INFINITY ? INFINITY : 0;
          for (const double v : parts[static_cast<size_t>(i)]) {
            const double m = std::fabs(v);
            if (power == INFINITY) {
              total = std::max(total, m);
            } else if (power == -INFINITY) {
              total = std::min(total, m);
            } else {
              total += power == 0 ? (m != 0) : std::pow(m, power);
            }
          }
          return std::isinf(power) || power == 0 ? total : std::pow(total, 1 / power);
        },
        8, 1e-30);
  }
}

void softmaxes() {
  for (int round = 0; round < 60; ++round) {
    Dims shape(static_cast<size_t>(pick(1, 4)));
    for (int64_t &dim : shape) dim = pick(1, 12);
    const int64_t axis = pick(0, static_cast<int64_t>(shape.size()) - 1);
    const int64_t length = shape[static_cast<size_t>(axis)];
    const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE};
    const aclDataType dtype = types[round % 4];
    Tensor x(shape, dtype, Layout::kRandom), y(shape, dtype, Layout::kRandom);
    x.random(-80, 80);
    execute([&](auto *w, auto *e) { return aclnnSoftmaxGetWorkspaceSize(x, axis, y, w, e); },
            aclnnSoftmax);
    check_values(
        y,
        [&](int64_t i) {
          Dims index = index_of(shape, i);
          double largest = -INFINITY, sum = 0;
          for (int64_t j = 0; j < length; ++j) {
            index[static_cast<size_t>(axis)] = j;
            largest = std::max(largest, x.at(index));
          }
          for (int64_t j = 0; j < length; ++j) {
            index[static_cast<size_t>(axis)] = j;
            sum += std::exp(x.at(index) - largest);
          }
          return std::exp(x[i] - largest) / sum;
        },
        130, 1e-37);  // a difference of 160 is known to 8e-6, and the exponential passes that on
  }
  // Rows longer than a block; masked elements; a row with nothing left.
  Tensor x({3, 5000}, ACL_FLOAT), y({3, 5000}, ACL_FLOAT);
  x.fill([](int64_t i) { return i >= 10000 || i % 7 == 0 ? -INFINITY : uniform(-200, 200); });
  execute([&](auto *w, auto *e) { return aclnnSoftmaxGetWorkspaceSize(x, -1, y, w, e); },
          aclnnSoftmax);
  const auto got = y.read();
  double sum = 0;
  for (size_t i = 0; i < 5000; ++i) {
    sum += got[i];
    if (i % 7 == 0) CHECK_EQ(got[i], 0.0);
  }
  CHECK(close(sum, 1, 1e-5, 0));
  CHECK(std::isnan(got[12000]));
}

/// A statistic of every row, computed once.
std::vector<double> each_row(int64_t n, const std::function<double(int64_t)> &of) {
  std::vector<double> values;
  for (int64_t r = 0; r < n; ++r) values.push_back(of(r));
  return values;
}

void layer_norms() {
  for (int round = 0; round < 60; ++round) {
    Dims shape(static_cast<size_t>(pick(1, 4)));
    for (int64_t &dim : shape) dim = pick(1, 10);
    shape.back() = round % 4 == 0 ? 384 : pick(2, 70);
    const auto n = static_cast<size_t>(pick(1, static_cast<int64_t>(shape.size())));
    const Dims row(shape.end() - static_cast<ptrdiff_t>(n), shape.end());
    Dims statistics = shape;
    std::fill(statistics.end() - static_cast<ptrdiff_t>(n), statistics.end(), 1);
    const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
    const aclDataType dtype = types[round % 3];
    const bool affine = round % 2 == 0, outputs = round % 5 != 0;
    const double offset = round % 3 == 0 ? 100 : 0;
    const Layout layout = round % 2 == 0 ? Layout::kRow : Layout::kRandom;
    Tensor x(shape, dtype, layout), y(shape, dtype, layout), weight(row, dtype, layout),
        bias(row, dtype, layout);
    Tensor mean(statistics, ACL_FLOAT, layout), rstd(statistics, ACL_FLOAT, layout);
    x.random(offset - 1, offset + 1);
    weight.random(0.5, 2);
    bias.random();
    Ints normalised(row);
    const double eps = 1e-5;
    execute(
        [&](auto *w, auto *e) {
          return aclnnLayerNormGetWorkspaceSize(
              x, normalised, affine ? weight.get() : nullptr, affine ? bias.get() : nullptr, eps, y,
              outputs ? mean.get() : nullptr, outputs ? rstd.get() : nullptr, w, e);
        },
        aclnnLayerNorm);
    const int64_t length = count(row);
    const auto mean_at = [&](int64_t r) {
      double sum = 0;
      for (int64_t j = 0; j < length; ++j) sum += x[r * length + j];
      return sum / static_cast<double>(length);
    };
    const auto rstd_at = [&](int64_t r) {
      const double m = mean_at(r);
      double sum = 0;
      for (int64_t j = 0; j < length; ++j) sum += (x[r * length + j] - m) * (x[r * length + j] - m);
      return 1 / std::sqrt(sum / static_cast<double>(length) + eps);
    };
    const auto means = each_row(count(shape) / length, mean_at),
               rstds = each_row(count(shape) / length, rstd_at);
    const auto mean_of = [&](int64_t r) { return means[static_cast<size_t>(r)]; };
    const auto rstd_of = [&](int64_t r) { return rstds[static_cast<size_t>(r)]; };
    // float32 holds numbers around 100 to 4e-6: that is what the input is worth.
    const double slack = offset != 0 ? 4e-5 : 2e-6;
    const double spread = rstd_of(0) > 20 ? 400 : 1;
    check_values(
        y,
        [&](int64_t i) {
          const int64_t r = i / length, j = i % length;
          const double v = (x[i] - mean_of(r)) * rstd_of(r);
          return affine ? v * weight[j] + bias[j] : v;
        },
        8, slack * spread);
    if (outputs) {
      check_values(mean, mean_of, 2, 1e-7);
      check_values(rstd, rstd_of, 1000, 1e-6);
    }
  }
}

void rms_norms() {
  for (int round = 0; round < 30; ++round) {
    const Dims shape = {pick(1, 5), pick(1, 6), pick(2, 90)};
    const bool two = round % 2 == 0;
    const Dims row = two ? Dims{shape[1], shape[2]} : Dims{shape[2]};
    const Dims statistics = {shape[0], two ? 1 : shape[1], 1};
    const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
    const aclDataType dtype = types[round % 3];
    Tensor x(shape, dtype, Layout::kRandom), y(shape, dtype, Layout::kRandom),
        gamma(row, round % 4 == 0 ? ACL_FLOAT : dtype);
    Tensor rstd(statistics, ACL_FLOAT);
    x.random(-3, 3);
    gamma.random();
    execute([&](auto *w,
                auto *e) { return aclnnRmsNormGetWorkspaceSize(x, gamma, 1e-6, y, rstd, w, e); },
            aclnnRmsNorm);
    const int64_t length = count(row);
    const auto rstd_at = [&](int64_t r) {
      double sum = 0;
      for (int64_t j = 0; j < length; ++j) sum += x[r * length + j] * x[r * length + j];
      return 1 / std::sqrt(sum / static_cast<double>(length) + 1e-6);
    };
    const auto rstds = each_row(count(shape) / length, rstd_at);
    const auto rstd_of = [&](int64_t r) { return rstds[static_cast<size_t>(r)]; };
    check_values(y, [&](int64_t i) { return x[i] * rstd_of(i / length) * gamma[i % length]; }, 8);
    check_values(rstd, rstd_of, 4);
  }
}

/// NaN and infinities get through.
void special_values() {
  Tensor x({2, 100}, ACL_FLOAT), y({2}, ACL_FLOAT);
  Ints last({1});
  for (const double special : {double(NAN), double(INFINITY)}) {
    x.fill([special](int64_t i) { return i == 37 ? special : 0.5; });
    for (const double power : {2.0, 1.0, double(INFINITY)}) {
      Scalar p(power, ACL_FLOAT);
      execute(
          [&](auto *w, auto *e) { return aclnnNormGetWorkspaceSize(x, p, last, false, y, w, e); },
          aclnnNorm);
      const auto got = y.read();
      CHECK(close(got[0], special, 0, 0));
      CHECK(std::isfinite(got[1]));
    }
    execute(
        [&](auto *w, auto *e) {
          return aclnnReduceSumGetWorkspaceSize(x, last, false, ACL_FLOAT, y, w, e);
        },
        aclnnReduceSum);
    CHECK(close(y.read()[0], special, 0, 0));
  }
  // Nothing to add up.
  Tensor none({3, 0}, ACL_FLOAT), z({3}, ACL_FLOAT);
  z.random();
  execute(
      [&](auto *w, auto *e) {
        return aclnnReduceSumGetWorkspaceSize(none, last, false, ACL_FLOAT, z, w, e);
      },
      aclnnReduceSum);
  check_values(z, [](int64_t) { return 0.0; });
  execute([&](auto *w,
              auto *e) { return aclnnMeanGetWorkspaceSize(none, last, false, ACL_FLOAT, z, w, e); },
          aclnnMean);
  check_values(z, [](int64_t) { return NAN; });
  Tensor scalar({}, ACL_FLOAT), total({}, ACL_FLOAT);
  scalar.random();
  Ints nothing({});
  execute(
      [&](auto *w, auto *e) {
        return aclnnReduceSumGetWorkspaceSize(scalar, nothing, false, ACL_FLOAT, total, w, e);
      },
      aclnnReduceSum);
  check_values(total, [&](int64_t) { return scalar[0]; });
  execute([&](auto *w, auto *e) { return aclnnSoftmaxGetWorkspaceSize(scalar, 0, total, w, e); },
          aclnnSoftmax);
  check_values(total, [](int64_t) { return 1.0; });
}

void refusals() {
  Tensor x({2, 3}, ACL_FLOAT), row({2}, ACL_FLOAT), half({2}, ACL_FLOAT16), three({3}, ACL_FLOAT),
      i({2, 3}, ACL_INT32);
  Ints last({1}), twice({1, -1}), far({2}), six({6}), nothing({});
  const auto sum = [&](const aclIntArray *dims, bool keep, aclDataType dtype, aclTensor *out) {
    return [=, &x](auto *w, auto *e) {
      return aclnnReduceSumGetWorkspaceSize(x, dims, keep, dtype, out, w, e);
    };
  };
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnReduceSum", sum(nullptr, false, ACL_FLOAT, row));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnReduceSum", sum(twice, false, ACL_FLOAT, row));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnReduceSum", sum(far, false, ACL_FLOAT, row));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnReduceSum", sum(last, true, ACL_FLOAT, row));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnReduceSum", sum(last, false, ACL_FLOAT, half));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnSoftmax",
         [&](auto *w, auto *e) { return aclnnSoftmaxGetWorkspaceSize(x, 2, x, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnSoftmax",
         [&](auto *w, auto *e) { return aclnnSoftmaxGetWorkspaceSize(i, 1, i, w, e); });
  const auto norm = [&](const aclIntArray *shape, const aclTensor *weight) {
    return [=, &x](auto *w, auto *e) {
      return aclnnLayerNormGetWorkspaceSize(x, shape, weight, nullptr, 1e-5, x, nullptr, nullptr, w,
                                            e);
    };
  };
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnLayerNorm", norm(nullptr, nullptr));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnLayerNorm", norm(nothing, nullptr));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnLayerNorm", norm(six, nullptr));
  Ints good({3});
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnLayerNorm", norm(good, row));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnRmsNorm", [&](auto *w, auto *e) {
    return aclnnRmsNormGetWorkspaceSize(x, row, 1e-6, x, row, w, e);
  });
}

}  // namespace

int main() {
  sums_and_means();
  long_sums();
  norms();
  softmaxes();
  layer_norms();
  rms_norms();
  special_values();
  refusals();
  return 0;
}
