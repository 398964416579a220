#include "sim/kernels/rows.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/aclnn/executor.hpp"
#include "sim/kernels/loop.hpp"

namespace aiocann::sim {
namespace {

View outer_part(const View &view, int n_outer) {
  View part = view;
  part.shape.rank = n_outer;
  return part;
}

View row_part(const View &view, int n_outer) {
  View part = view;
  part.shape.rank = view.shape.rank - n_outer;
  for (int d = 0; d < part.shape.rank; ++d) {
    part.shape.dim[d] = view.shape.dim[n_outer + d];
    part.stride[d] = view.stride[n_outer + d];
  }
  return part;
}

/// Where the rows of a view begin.
class RowPlaces {
 public:
  RowPlaces(const View &view, int n_outer)
      : data_(view.data),
        item_(static_cast<int64_t>(size_of(view.dtype))),
        loop_(outer_loop(view, n_outer)) {}

  char *operator[](int64_t index) const { return data_ + offset_at(loop_, 0, index) * item_; }

 private:
  static Loop outer_loop(const View &view, int n_outer) {
    const View outer = outer_part(view, n_outer);
    return Loop::in_order(&outer, 1);
  }

  char *data_;
  int64_t item_;
  Loop loop_;
};

/// Rows of a view, whole: in place where they lie in memory as numbers, otherwise in a buffer.
template <class T>
class RowReader {
 public:
  RowReader(const View &view, int n_outer)
      : places_(view, n_outer),
        row_(row_part(view, n_outer)),
        loop_(Loop::in_order(&row_, 1)),
        reader_(loop_, 0, row_),
        length_(loop_.count) {}

  const T *row(int64_t index) {
    reader_.move_to(places_[index]);
    if (reader_.is_direct()) return reader_.fetch(0, 0);
    buffer_.resize(static_cast<size_t>(length_));
    for (int64_t at = 0; at < length_; at += static_cast<int64_t>(kBlock)) {
      const auto n = static_cast<size_t>(std::min<int64_t>(length_ - at, kBlock));
      std::copy_n(reader_.fetch(at, n), n, buffer_.data() + at);
    }
    return buffer_.data();
  }

 private:
  RowPlaces places_;
  View row_;
  Loop loop_;
  Reader<T> reader_;
  int64_t length_;
  std::vector<T> buffer_;
};

template <class T>
class RowWriter {
 public:
  RowWriter(const View &view, int n_outer)
      : places_(view, n_outer),
        row_(row_part(view, n_outer)),
        loop_(Loop::in_order(&row_, 1)),
        writer_(loop_, 0, row_),
        length_(loop_.count) {}

  T *begin(int64_t index) {
    writer_.move_to(places_[index]);
    if (writer_.is_direct()) return writer_.begin(0);
    buffer_.resize(static_cast<size_t>(length_));
    return buffer_.data();
  }

  void end() {
    if (writer_.is_direct()) return;
    for (int64_t at = 0; at < length_; at += static_cast<int64_t>(kBlock)) {
      const auto n = static_cast<size_t>(std::min<int64_t>(length_ - at, kBlock));
      std::copy_n(buffer_.data() + at, n, writer_.begin(at));
      writer_.end(at, n);
    }
  }

 private:
  RowPlaces places_;
  View row_;
  Loop loop_;
  Writer<T> writer_;
  int64_t length_;
  std::vector<T> buffer_;
};

/// Rows per task.
int64_t rows_per_task(int64_t length) {
  return std::max<int64_t>(1, kChunk / std::max<int64_t>(1, length));
}

std::vector<float> whole(const View &view) {
  RowReader<float> reader(view, 0);
  const float *numbers = reader.row(0);
  return std::vector<float>(numbers, numbers + view.count());
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
                      table().unary(UnaryOp::kScale, y, y, length, static_cast<float>(1 / sum), 0);
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
  std::vector<float> weight, bias;
  if (p.has_weight) weight = whole(op.views[next++]);
  if (p.has_bias) bias = whole(op.views[next++]);
  const View *mean_view = p.has_mean ? &op.views[next++] : nullptr;
  const View *rstd_view = p.has_rstd ? &op.views[next++] : nullptr;
  const RowPlaces means(p.has_mean ? *mean_view : in, p.n_outer),
      rstds(p.has_rstd ? *rstd_view : in, p.n_outer);
  const int64_t n_rows = outer_part(in, p.n_outer).count();
  const auto length = static_cast<size_t>(row_part(in, p.n_outer).count());
  parallel_chunks(
      context, n_rows, rows_per_task(static_cast<int64_t>(length)),
      [&](int64_t begin, int64_t end) {
        RowReader<float> reader(in, p.n_outer);
        RowWriter<float> writer(out, p.n_outer);
        for (int64_t row = begin; row < end; ++row) {
          const float *x = reader.row(row);
          const auto n = static_cast<double>(length);
          const auto mean = p.rms ? 0.0f : static_cast<float>(table().sum(x, length) / n);
          // Two passes: the variance of numbers far from 0 keeps its digits.
          const double variance = table().sum_squares(x, length, mean) / n;
          const auto rstd = static_cast<float>(1 / std::sqrt(variance + p.epsilon));
          float *y = writer.begin(row);
          table().normalise(y, x, length, mean, rstd, p.has_weight ? weight.data() : nullptr,
                            p.has_bias ? bias.data() : nullptr);
          writer.end();
          if (mean_view != nullptr) write_elements(means[row], mean_view->dtype, &mean, 1);
          if (rstd_view != nullptr) write_elements(rstds[row], rstd_view->dtype, &rstd, 1);
        }
      });
  return 0;
}

}  // namespace aiocann::sim
