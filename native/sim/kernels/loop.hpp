// loop.hpp: walking over views of one shape, a block at a time.
//
// Every kernel that takes arbitrary strides goes through here: a Reader turns a part of a view into numbers in a
// row, a Writer takes numbers in a row back. Both are free where the view already is such a row.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include "sim/kernels/convert.hpp"
#include "sim/kernels/table.hpp"
#include "sim/kernels/view.hpp"
#include "sim/task.hpp"

namespace aiocann::sim {

/// Elements per parallel task. Fixed: how work is cut depends on shapes alone.
constexpr int64_t kChunk = 32768;

/// Cuts [0, count) into pieces of `chunk` and runs body(begin, end) on each.
void parallel_chunks(ExecContext &context, int64_t count, int64_t chunk,
                     const std::function<void(int64_t, int64_t)> &body);

/// For loops within a task: they stay on its thread.
class Inline : public ExecContext {
 public:
  void parallel_for(size_t n, const std::function<void(size_t)> &body) override {
    for (size_t i = 0; i < n; ++i) body(i);
  }
};

/// The axes that some views of one shape share: axes of length 1 dropped, the largest stride of the first view
/// first, and axes that lie one after the other in every view merged into one.
struct Loop {
  static constexpr int kMaxViews = 4;

  Loop(const View *views, int n_views);
  /// Without reordering: for kernels whose axes mean something.
  static Loop in_order(const View *views, int n_views);

  int rank = 0;
  int64_t dim[kMaxRank] = {};
  int64_t stride[kMaxViews][kMaxRank] = {};
  int64_t count = 1;

  bool is_row(int view) const;     ///< element i lies i elements after element 0
  bool is_single(int view) const;  ///< every element is element 0

 private:
  Loop() = default;
  void fill(const View *views, int n_views, bool reorder);
};

/// Where element `index` of a view lies, in elements.
inline int64_t offset_at(const Loop &loop, int view, int64_t index) {
  int64_t offset = 0;
  for (int d = loop.rank - 1; d > 0; --d) {
    const int64_t above = index / loop.dim[d];
    offset += (index - above * loop.dim[d]) * loop.stride[view][d];
    index = above;
  }
  return loop.rank == 0 ? 0 : offset + index * loop.stride[view][0];
}

/// Calls run(offset, stride, length) for the pieces of [position, position + n) that have one stride.
template <class Run>
void for_runs(const Loop &loop, int view, int64_t position, size_t n, Run run) {
  if (loop.rank == 0) {
    run(int64_t{0}, int64_t{0}, n);
    return;
  }
  int64_t at[kMaxRank];
  int64_t offset = 0;
  const int last = loop.rank - 1;
  const int64_t *stride = loop.stride[view];
  for (int d = last; d >= 0; --d) {
    at[d] = position % loop.dim[d];
    position /= loop.dim[d];
    offset += at[d] * stride[d];
  }
  while (n != 0) {
    const auto left = static_cast<size_t>(loop.dim[last] - at[last]);
    const size_t length = n < left ? n : left;
    run(offset, stride[last], length);
    n -= length;
    if (n == 0) return;
    offset -= at[last] * stride[last];
    at[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      offset += stride[d];
      if (++at[d] < loop.dim[d]) break;
      offset -= loop.dim[d] * stride[d];
      at[d] = 0;
    }
  }
}

/// The same for two views at once: run(first_offset, second_offset, length), with the strides of the last axis.
template <class Run>
void for_paired_runs(const Loop &loop, int64_t position, int64_t n, Run run) {
  int64_t at[kMaxRank];
  int64_t first = 0, second = 0;
  const int last = loop.rank - 1;
  for (int d = last; d >= 0; --d) {
    at[d] = position % loop.dim[d];
    position /= loop.dim[d];
    first += at[d] * loop.stride[0][d];
    second += at[d] * loop.stride[1][d];
  }
  while (n > 0) {
    const int64_t left = loop.dim[last] - at[last];
    const int64_t length = n < left ? n : left;
    run(first, second, length);
    n -= length;
    first -= at[last] * loop.stride[0][last];
    second -= at[last] * loop.stride[1][last];
    at[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      first += loop.stride[0][d];
      second += loop.stride[1][d];
      if (++at[d] < loop.dim[d]) break;
      first -= loop.dim[d] * loop.stride[0][d];
      second -= loop.dim[d] * loop.stride[1][d];
      at[d] = 0;
    }
  }
}

/// One block's worth of numbers, and of raw elements.
template <class T>
struct Staging {
  alignas(64) T numbers[kBlock];
  alignas(64) unsigned char raw[kBlock * 8];
};

template <class T>
class Reader {
 public:
  /// Values are rounded to `as` when the view's own type is another one; ACL_DT_UNDEFINED: they are not.
  Reader(const Loop &loop, int index, const View &view, aclDataType as = ACL_DT_UNDEFINED)
      : loop_(loop),
        index_(index),
        data_(view.data),
        dtype_(view.dtype),
        item_(size_of(view.dtype)),
        as_(as == ACL_DT_UNDEFINED || as == view.dtype ? native_dtype<T>() : as) {
    row_ = loop.is_row(index);
    single_ = loop.is_single(index);
    move_to(view.data);
  }

  /// The same view at another place.
  void move_to(const char *data) {
    data_ = data;
    const bool native = dtype_ == native_dtype<T>() && as_ == native_dtype<T>();
    direct_ = row_ && native && reinterpret_cast<uintptr_t>(data_) % alignof(T) == 0;
    if (single_) {
      read_elements(staging_.numbers, data_, dtype_, 1);
      requantise(staging_.numbers, as_, 1);
      for (size_t i = 1; i < kBlock; ++i) staging_.numbers[i] = staging_.numbers[0];
    }
  }

  /// Whether fetch answers a pointer into the view, good for any length.
  bool is_direct() const { return direct_; }

  /// n numbers from `position` on, n <= kBlock. Valid until the next call.
  const T *fetch(int64_t position, size_t n) {
    if (single_) return staging_.numbers;
    if (direct_) return reinterpret_cast<const T *>(data_) + position;
    const auto item = static_cast<int64_t>(item_);
    if (row_) {
      read_elements(staging_.numbers, data_ + position * item, dtype_, n);
    } else {
      // Native elements are gathered to where they are wanted, others to be converted.
      const bool native = dtype_ == native_dtype<T>();
      auto *to = native ? reinterpret_cast<char *>(staging_.numbers)
                        : reinterpret_cast<char *>(staging_.raw);
      for_runs(loop_, index_, position, n, [&](int64_t offset, int64_t stride, size_t length) {
        gather_row(to, data_ + offset * item, item_, stride, length);
        to += length * item_;
      });
      if (!native) read_elements(staging_.numbers, staging_.raw, dtype_, n);
    }
    requantise(staging_.numbers, as_, n);
    return staging_.numbers;
  }

 private:
  const Loop &loop_;
  int index_;
  const char *data_;
  aclDataType dtype_;
  size_t item_;
  aclDataType as_;
  bool row_ = false, direct_ = false, single_ = false;
  Staging<T> staging_;
};

template <class T>
class Writer {
 public:
  /// Results are rounded to `via` before they become elements of the view.
  Writer(const Loop &loop, int index, const View &view, aclDataType via = ACL_DT_UNDEFINED)
      : loop_(loop),
        index_(index),
        data_(view.data),
        dtype_(view.dtype),
        item_(size_of(view.dtype)),
        via_(via == ACL_DT_UNDEFINED || via == view.dtype ? native_dtype<T>() : via) {
    row_ = loop.is_row(index);
    move_to(view.data);
  }

  void move_to(char *data) {
    data_ = data;
    direct_ =
        row_ && dtype_ == native_dtype<T>() && reinterpret_cast<uintptr_t>(data_) % alignof(T) == 0;
  }

  bool is_direct() const { return direct_; }

  /// Where to put up to kBlock numbers that belong at `position`.
  T *begin(int64_t position) {
    return direct_ ? reinterpret_cast<T *>(data_) + position : staging_.numbers;
  }

  /// Takes the n numbers that are there now.
  void end(int64_t position, size_t n) {
    requantise(begin(position), via_, n);
    if (direct_) return;
    const auto item = static_cast<int64_t>(item_);
    if (row_) {
      write_elements(data_ + position * item, dtype_, staging_.numbers, n);
      return;
    }
    const bool native = dtype_ == native_dtype<T>();
    if (!native) write_elements(staging_.raw, dtype_, staging_.numbers, n);
    const auto *from = native ? reinterpret_cast<const char *>(staging_.numbers)
                              : reinterpret_cast<const char *>(staging_.raw);
    for_runs(loop_, index_, position, n, [&](int64_t offset, int64_t stride, size_t length) {
      scatter_row(data_ + offset * item, from, item_, stride, length);
      from += length * item_;
    });
  }

 private:
  const Loop &loop_;
  int index_;
  char *data_;
  aclDataType dtype_;
  size_t item_;
  aclDataType via_;
  bool row_ = false, direct_ = false;
  Staging<T> staging_;
};

}  // namespace aiocann::sim
