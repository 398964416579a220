#include "sim/kernels/order.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "sim/aclnn/executor.hpp"
#include "sim/kernels/row_access.hpp"

namespace aiocann::sim {
namespace {

template <class T>
int64_t position_of_max(const T *x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] != x[i]) return i;
    if (x[i] > x[best]) best = i;
  }
  return best;
}

/// Vectorised: the value first, then its place.
int64_t position_of_max(const float *x, int64_t n) {
  const float largest = table().max(x, static_cast<size_t>(n));
  if (largest != largest) return std::find_if(x, x + n, [](float v) { return v != v; }) - x;
  // Without a way out in the middle, a stretch is compared several numbers at a time.
  constexpr int64_t kStretch = 64;
  int64_t at = 0;
  for (; at + kStretch <= n; at += kStretch) {
    int found = 0;
    for (int64_t i = 0; i < kStretch; ++i) found |= static_cast<int>(x[at + i] == largest);
    if (found != 0) break;
  }
  return std::find(x + at, x + n, largest) - x;
}

template <class T>
void argmax_rows(ExecContext &context, const OpArgs &op) {
  const View &out = op.views[0], &in = op.views[1];
  const int n_outer = in.shape.rank - 1;
  const int64_t n = in.shape.dim[n_outer];
  parallel_chunks(context, out.count(), rows_per_task(n), [&](int64_t begin, int64_t end) {
    RowReader<T> reader(in, n_outer);
    const RowPlaces places(out, n_outer);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t place = position_of_max(reader.row(row), n);
      write_elements(places[row], out.dtype, &place, 1);
    }
  });
}

/// Numbers as unsigned keys of the same order.
uint32_t key_of(float x) {
  if (x != x) return UINT32_MAX;
  x += 0.0f;  // -0 becomes 0
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
uint64_t key_of(double x) {
  if (x != x) return UINT64_MAX;
  x += 0.0;
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits >> 63 != 0 ? ~bits : bits | uint64_t{1} << 63;
}
uint64_t key_of(int64_t x) {
  return static_cast<uint64_t>(x) ^ uint64_t { 1 } << 63;
}

/// Sorts by radix, 11 bits at a time; digits that are the same everywhere are skipped.
template <class Key>
class Sorter {
 public:
  /// keys are used up; places[i] becomes the index of the i-th smallest.
  void run(std::vector<Key> *keys, std::vector<int64_t> *places) {
    const size_t n = keys->size();
    places->resize(n);
    std::iota(places->begin(), places->end(), int64_t{0});
    if (n < kSmall) {
      std::stable_sort(places->begin(), places->end(), [keys](int64_t a, int64_t b) {
        return (*keys)[static_cast<size_t>(a)] < (*keys)[static_cast<size_t>(b)];
      });
      return;
    }
    items_.resize(n);
    other_.resize(n);
    for (size_t i = 0; i < n; ++i) items_[i] = {(*keys)[i], static_cast<uint32_t>(i)};
    for (unsigned shift = 0; shift < sizeof(Key) * 8; shift += kBits) pass(shift);
    for (size_t i = 0; i < n; ++i) (*places)[i] = items_[i].place;
  }

 private:
  static constexpr unsigned kBits = 11;
  static constexpr size_t kBuckets = size_t{1} << kBits;
  static constexpr size_t kSmall = 400;

  struct Item {
    Key key;
    uint32_t place;
  };

  void pass(unsigned shift) {
    size_t starts[kBuckets] = {};
    const auto digit = [shift](Key key) {
      return static_cast<size_t>(key >> shift) & (kBuckets - 1);
    };
    for (const Item &item : items_) ++starts[digit(item.key)];
    if (starts[digit(items_[0].key)] == items_.size()) return;
    size_t sum = 0;
    for (size_t &start : starts) {
      const size_t count = start;
      start = sum;
      sum += count;
    }
    for (const Item &item : items_) other_[starts[digit(item.key)]++] = item;
    items_.swap(other_);
  }

  std::vector<Item> items_, other_;
};

template <class T>
void argsort_rows(ExecContext &context, const OpArgs &op) {
  using Key = decltype(key_of(T{}));
  const View &out = op.views[0], &in = op.views[1];
  const bool descending = op.as<ArgsortParams>().descending;
  // A number of 64 unsigned bits is not an int64_t: its sign bit is what key_of would turn.
  const Key turn = in.dtype == ACL_UINT64 ? static_cast<Key>(Key{1} << (sizeof(Key) * 8 - 1)) : 0;
  const int n_outer = in.shape.rank - 1;
  const int64_t n = in.shape.dim[n_outer];
  const int64_t n_rows = outer_part(in, n_outer).count();
  parallel_chunks(context, n_rows, rows_per_task(n), [&](int64_t begin, int64_t end) {
    RowReader<T> reader(in, n_outer);
    RowWriter<int64_t> writer(out, n_outer);
    Sorter<Key> sorter;
    std::vector<Key> keys(static_cast<size_t>(n));
    std::vector<int64_t> places;
    for (int64_t row = begin; row < end; ++row) {
      const T *x = reader.row(row);
      for (size_t i = 0; i < keys.size(); ++i) {
        const Key key = key_of(x[i]) ^ turn;
        keys[i] = descending ? static_cast<Key>(~key) : key;
      }
      sorter.run(&keys, &places);
      std::copy(places.begin(), places.end(), writer.begin(row));
      writer.end();
    }
  });
}

}  // namespace

int argmax_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  switch (domain_of(op.views[1].dtype)) {
    case Domain::kF32:
      argmax_rows<float>(context, op);
      break;
    case Domain::kF64:
      argmax_rows<double>(context, op);
      break;
    case Domain::kI64:
      argmax_rows<int64_t>(context, op);
      break;
  }
  return 0;
}

int argsort_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  switch (domain_of(op.views[1].dtype)) {
    case Domain::kF32:
      argsort_rows<float>(context, op);
      break;
    case Domain::kF64:
      argsort_rows<double>(context, op);
      break;
    case Domain::kI64:
      argsort_rows<int64_t>(context, op);
      break;
  }
  return 0;
}

}  // namespace aiocann::sim
