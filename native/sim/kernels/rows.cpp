#include "sim/kernels/rows.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "sim/aclnn/executor.hpp"
#include "sim/kernels/row_access.hpp"

namespace aiocann::sim {
namespace {

std::vector<float> whole(const View &view) {
  RowReader<float> reader(view, 0);
  const float *numbers = reader.row(0);
  return std::vector<float>(numbers, numbers + view.count());
}

/// The sum of two inputs, as their type holds it: what is stored is what is normalised.
class RowSum {
 public:
  RowSum(const View &addend, const View *sum, int n_outer)
      : addends_(addend, n_outer), dtype_(addend.dtype) {
    if (sum != nullptr) sums_.emplace(*sum, n_outer);
  }

  const float *row(int64_t index, const float *x, size_t length) {
    buffer_.resize(length);
    table().binary(BinaryOp::kAdd, buffer_.data(), x, addends_.row(index), length, 1);
    requantise(buffer_.data(), dtype_, length);
    if (sums_) {
      std::copy_n(buffer_.data(), length, sums_->begin(index));
      sums_->end();
    }
    return buffer_.data();
  }

 private:
  RowReader<float> addends_;
  std::optional<RowWriter<float>> sums_;
  aclDataType dtype_;
  std::vector<float> buffer_;
};

/// Weights or biases: one number for each place in a row, or for each channel of its group.
class RowFactors {
 public:
  RowFactors(const View &view, int32_t n_groups) : numbers_(whole(view)), n_groups_(n_groups) {}

  /// For a row; `buffer` is the caller's.
  const float *row(int64_t index, size_t length, std::vector<float> *buffer) const {
    if (n_groups_ == 0) return numbers_.data();
    const size_t channels = numbers_.size() / static_cast<size_t>(n_groups_);
    const float *own = numbers_.data() + static_cast<size_t>(index % n_groups_) * channels;
    const size_t area = length / channels;
    buffer->resize(length);
    for (size_t c = 0; c < channels; ++c) std::fill_n(buffer->data() + c * area, area, own[c]);
    return buffer->data();
  }

 private:
  std::vector<float> numbers_;
  int32_t n_groups_;
};

/// Running sums of floating numbers, added up in double precision, four at a time.
void running_sums(float *out, const float *in, int64_t n) {
  double total = 0;
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const double a = in[i], b = a + in[i + 1], c = b + in[i + 2];
    const double d = b + (static_cast<double>(in[i + 2]) + in[i + 3]);
    out[i] = static_cast<float>(total + a);
    out[i + 1] = static_cast<float>(total + b);
    out[i + 2] = static_cast<float>(total + c);
    total += d;
    out[i + 3] = static_cast<float>(total);
  }
  for (; i < n; ++i) out[i] = static_cast<float>(total += in[i]);
}

void running_sums(double *out, const double *in, int64_t n) {
  double total = 0;
  for (int64_t i = 0; i < n; ++i) out[i] = total += in[i];
}

void running_sums(int64_t *out, const int64_t *in, int64_t n) {
  uint64_t total = 0;
  for (int64_t i = 0; i < n; ++i) {
    total += static_cast<uint64_t>(in[i]);
    out[i] = static_cast<int64_t>(total);
  }
}

/// Sums down columns that lie side by side, a strip of them at a time: memory is read as it lies. False: they do not.
bool sum_down(ExecContext &context, const OpArgs &args, const CumsumParams &p) {
  constexpr int64_t kStrip = 256;
  const View &out = args.views[0], &in = args.views[1];
  const View outer[] = {outer_part(out, p.n_outer), outer_part(in, p.n_outer)};
  const View rows[] = {row_part(out, p.n_outer), row_part(in, p.n_outer)};
  const Loop across(outer, 2), down(rows, 2);
  const int last = across.rank - 1;
  if (in.dtype != ACL_FLOAT || out.dtype != ACL_FLOAT || p.dtype != ACL_FLOAT || down.rank != 1 ||
      last < 0 || across.stride[0][last] != 1 || across.stride[1][last] != 1 ||
      across.dim[last] < 8)
    return false;
  if (reinterpret_cast<uintptr_t>(out.data) % sizeof(float) != 0 ||
      reinterpret_cast<uintptr_t>(in.data) % sizeof(float) != 0)
    return false;
  const int64_t width = across.dim[last], length = down.dim[0];
  const int64_t strips = (width + kStrip - 1) / kStrip;
  const int64_t work = std::max<int64_t>(1, std::min(width, kStrip) * length);
  parallel_chunks(context, across.count / width * strips, std::max<int64_t>(1, kChunk / work),
                  [&](int64_t begin, int64_t end) {
                    double totals[kStrip];
                    for (int64_t task = begin; task < end; ++task) {
                      const int64_t column = task % strips * kStrip;
                      const int64_t n = std::min(kStrip, width - column);
                      const int64_t first = task / strips * width + column;
                      auto *to = reinterpret_cast<float *>(out.data) + offset_at(across, 0, first);
                      const auto *from =
                          reinterpret_cast<const float *>(in.data) + offset_at(across, 1, first);
                      std::fill_n(totals, n, 0.0);
                      for (int64_t row = 0; row < length; ++row) {
                        for (int64_t i = 0; i < n; ++i) {
                          totals[i] += from[i];
                          to[i] = static_cast<float>(totals[i]);
                        }
                        to += down.stride[0][0];
                        from += down.stride[1][0];
                      }
                    }
                  });
  return true;
}

template <class T>
void run_cumsum(ExecContext &context, const OpArgs &args, const CumsumParams &p) {
  const View &out = args.views[0], &in = args.views[1];
  const int64_t n_rows = outer_part(in, p.n_outer).count();
  const int64_t length = row_part(in, p.n_outer).count();
  parallel_chunks(context, n_rows, rows_per_task(length), [&](int64_t begin, int64_t end) {
    RowReader<T> reader(in, p.n_outer, p.dtype);
    RowWriter<T> writer(out, p.n_outer);
    for (int64_t row = begin; row < end; ++row) {
      const T *x = reader.row(row);
      running_sums(writer.begin(row), x, length);
      writer.end();
    }
  });
}

}  // namespace

int softmax_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const int n_outer = op.as<SoftmaxParams>().n_outer;
  const View &out = op.views[0], &in = op.views[1];
  const int64_t n_rows = outer_part(in, n_outer).count();
  const auto length = static_cast<size_t>(row_part(in, n_outer).count());
  parallel_chunks(context, n_rows, rows_per_task(static_cast<int64_t>(length)),
                  [&](int64_t begin, int64_t end) {
                    RowReader<float> reader(in, n_outer);
                    RowWriter<float> writer(out, n_outer);
                    for (int64_t row = begin; row < end; ++row) {
                      const float *x = reader.row(row);
                      float *y = writer.begin(row);
                      // The largest element is subtracted: nothing overflows, and the sum is at least 1.
                      const float largest = table().max(x, length);
                      const double sum = table().exp_shifted(y, x, length, largest);
                      table().unary(UnaryOp::kScale, y, y, length, static_cast<float>(1 / sum), 0,
                                    0);
                      writer.end();
                    }
                  });
  return 0;
}

int softmax_double_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const int n_outer = op.as<SoftmaxParams>().n_outer;
  const View &out = op.views[0], &in = op.views[1];
  const int64_t n_rows = outer_part(in, n_outer).count();
  const int64_t length = row_part(in, n_outer).count();
  parallel_chunks(context, n_rows, rows_per_task(length), [&](int64_t begin, int64_t end) {
    RowReader<double> reader(in, n_outer);
    RowWriter<double> writer(out, n_outer);
    for (int64_t row = begin; row < end; ++row) {
      const double *x = reader.row(row);
      double *y = writer.begin(row);
      double largest = x[0];
      for (int64_t i = 1; i < length; ++i)
        largest = x[i] > largest || x[i] != x[i] ? x[i] : largest;
      double sum = 0;
      for (int64_t i = 0; i < length; ++i) sum += y[i] = std::exp(x[i] - largest);
      for (int64_t i = 0; i < length; ++i) y[i] /= sum;
      writer.end();
    }
  });
  return 0;
}

int norm_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const auto &p = op.as<NormParams>();
  const View &out = op.views[0], &in = op.views[1];
  size_t next = 2;
  const auto optional = [&](bool there) { return there ? &op.views[next++] : nullptr; };
  const View *addend = optional(p.has_addend);
  const View *weight = optional(p.has_weight), *bias = optional(p.has_bias);
  const View *mean_view = optional(p.has_mean), *rstd_view = optional(p.has_rstd);
  const View *sum = optional(p.has_sum);
  std::optional<RowFactors> weights, biases;
  if (weight != nullptr) weights.emplace(*weight, p.n_groups);
  if (bias != nullptr) biases.emplace(*bias, p.n_groups);
  const RowPlaces means(mean_view != nullptr ? *mean_view : in, p.n_outer),
      rstds(rstd_view != nullptr ? *rstd_view : in, p.n_outer);
  const int64_t n_rows = outer_part(in, p.n_outer).count();
  const auto length = static_cast<size_t>(row_part(in, p.n_outer).count());
  parallel_chunks(context, n_rows, rows_per_task(static_cast<int64_t>(length)),
                  [&](int64_t begin, int64_t end) {
                    RowReader<float> reader(in, p.n_outer);
                    RowWriter<float> writer(out, p.n_outer);
                    std::optional<RowSum> sums;
                    if (addend != nullptr) sums.emplace(*addend, sum, p.n_outer);
                    std::vector<float> own_weights, own_biases;
                    for (int64_t row = begin; row < end; ++row) {
                      const float *x = reader.row(row);
                      if (sums) x = sums->row(row, x, length);
                      const auto n = static_cast<double>(length);
                      const auto mean =
                          p.rms ? 0.0f : static_cast<float>(table().sum(x, length) / n);
                      // Two passes: the variance of numbers far from 0 keeps its digits.
                      const double variance = table().sum_squares(x, length, mean) / n;
                      const auto rstd = static_cast<float>(1 / std::sqrt(variance + p.epsilon));
                      const float *w = weights ? weights->row(row, length, &own_weights) : nullptr;
                      const float *b = biases ? biases->row(row, length, &own_biases) : nullptr;
                      table().normalise(writer.begin(row), x, length, mean, rstd, w, b);
                      writer.end();
                      if (mean_view != nullptr)
                        write_elements(means[row], mean_view->dtype, &mean, 1);
                      if (rstd_view != nullptr)
                        write_elements(rstds[row], rstd_view->dtype, &rstd, 1);
                    }
                  });
  return 0;
}

int cross_entropy_kernel(ExecContext &context, const void *args) {
  const auto &views = static_cast<const OpArgs *>(args)->views;
  const View &loss = views[0], &gradient = views[1], &logits = views[2], &labels = views[3];
  const RowPlaces losses(loss, 1);
  const auto length = static_cast<size_t>(row_part(logits, 1).count());
  parallel_chunks(
      context, logits.shape.dim[0], rows_per_task(static_cast<int64_t>(length)),
      [&](int64_t begin, int64_t end) {
        RowReader<float> inputs(logits, 1), targets(labels, 1);
        RowWriter<float> writer(gradient, 1);
        std::vector<float> logarithms(length), exponentials(length);
        float *l = logarithms.data(), *e = exponentials.data();
        for (int64_t row = begin; row < end; ++row) {
          const float *x = inputs.row(row), *t = targets.row(row);
          const float largest = table().max(x, length);
          const double sum = table().exp_shifted(e, x, length, largest);
          table().unary(UnaryOp::kShift, l, x, length, -largest, 0, 0);
          table().unary(UnaryOp::kShift, l, l, length, -static_cast<float>(std::log(sum)), 0, 0);
          table().binary(BinaryOp::kMul, l, l, t, length, 1);
          const auto total = static_cast<float>(-table().sum(l, length));
          table().unary(UnaryOp::kScale, e, e, length, static_cast<float>(1 / sum), 0, 0);
          table().binary(BinaryOp::kSub, writer.begin(row), e, t, length, 1);
          writer.end();
          write_elements(losses[row], loss.dtype, &total, 1);
        }
      });
  return 0;
}

int cumsum_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const auto &p = op.as<CumsumParams>();
  switch (domain_of(p.dtype)) {
    case Domain::kF32:
      if (!sum_down(context, op, p)) run_cumsum<float>(context, op, p);
      break;
    case Domain::kF64:
      run_cumsum<double>(context, op, p);
      break;
    case Domain::kI64:
      run_cumsum<int64_t>(context, op, p);
      break;
  }
  return 0;
}

}  // namespace aiocann::sim
