// row_access.hpp: whole rows of views of any strides, for operators that look at a row at a time.
#pragma once
#include <algorithm>
#include <vector>

#include "sim/kernels/loop.hpp"

namespace aiocann::sim {

/// The leading axes of a view, and the others.
inline View outer_part(const View &view, int n_outer) {
  View part = view;
  part.shape.rank = n_outer;
  return part;
}

inline View row_part(const View &view, int n_outer) {
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
  RowReader(const View &view, int n_outer, aclDataType as = ACL_DT_UNDEFINED)
      : places_(view, n_outer),
        row_(row_part(view, n_outer)),
        loop_(Loop::in_order(&row_, 1)),
        reader_(loop_, 0, row_, as),
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
inline int64_t rows_per_task(int64_t length) {
  return std::max<int64_t>(1, kChunk / std::max<int64_t>(1, length));
}

}  // namespace aiocann::sim
