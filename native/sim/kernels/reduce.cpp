#include "sim/kernels/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sim/aclnn/executor.hpp"
#include "sim/kernels/loop.hpp"

namespace aiocann::sim {
namespace {

/// Rows that are added up as float32 before the sums move to double.
constexpr int64_t kRowsPerSum = 16;

double identity(ReduceOp op) {
  if (op == ReduceOp::kMaxAbs) return -std::numeric_limits<double>::infinity();
  if (op == ReduceOp::kMinAbs) return std::numeric_limits<double>::infinity();
  return 0;
}

double combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kMaxAbs:
      return b > a || b != b ? b : a;
    case ReduceOp::kMinAbs:
      return b < a || b != b ? b : a;
    default:
      return a + b;
  }
}

/// Of one block.
double total(const ReduceParams &p, const float *x, size_t n) {
  float buffer[kBlock];
  switch (p.op) {
    case ReduceOp::kSum:
      return table().sum(x, n);
    case ReduceOp::kSquares:
      return table().sum_squares(x, n, 0);
    case ReduceOp::kAbs:
      return table().sum_abs(x, n);
    case ReduceOp::kMaxAbs:
      table().unary(UnaryOp::kAbs, buffer, x, n, 0, 0, 0);
      return table().max(buffer, n);
    case ReduceOp::kMinAbs:
      table().unary(UnaryOp::kAbs, buffer, x, n, 0, 0, 0);
      table().unary(UnaryOp::kNeg, buffer, buffer, n, 0, 0, 0);
      return -table().max(buffer, n);
    case ReduceOp::kNonZero: {
      size_t count = 0;
      for (size_t i = 0; i < n; ++i) count += x[i] != 0;
      return static_cast<double>(count);
    }
    case ReduceOp::kPower: {
      double sum = 0;
      for (size_t i = 0; i < n; ++i) sum += std::pow(std::fabs(static_cast<double>(x[i])), p.power);
      return sum;
    }
  }
  return 0;
}

double total(const ReduceParams &p, const double *x, size_t n) {
  double sum = identity(p.op);
  for (size_t i = 0; i < n; ++i) {
    const double magnitude = std::fabs(x[i]);
    const double term = p.op == ReduceOp::kSum       ? x[i]
                        : p.op == ReduceOp::kSquares ? x[i] * x[i]
                        : p.op == ReduceOp::kNonZero ? static_cast<double>(x[i] != 0)
                        : p.op == ReduceOp::kPower   ? std::pow(magnitude, p.power)
                                                     : magnitude;
    sum = combine(p.op, sum, term);
  }
  return sum;
}

double finish(const ReduceParams &p, double sum) {
  const double scaled = p.divisor == 1 ? sum : sum / p.divisor;
  switch (p.end) {
    case ReduceEnd::kSqrt:
      return std::sqrt(scaled);
    case ReduceEnd::kRoot:
      return std::pow(scaled, 1 / p.power);
    case ReduceEnd::kNone:
      return scaled;
  }
  return scaled;
}

/// The kept and the reduced axes of the input, each as a view.
struct Parts {
  View kept, reduced;
  int64_t n_kept = 1, n_reduced = 1;
};

Parts split(const View &in, int n_kept) {
  Parts parts;
  parts.kept = parts.reduced = in;
  parts.kept.shape.rank = n_kept;
  parts.reduced.shape.rank = in.shape.rank - n_kept;
  for (int d = 0; d < parts.reduced.shape.rank; ++d) {
    parts.reduced.shape.dim[d] = in.shape.dim[n_kept + d];
    parts.reduced.stride[d] = in.stride[n_kept + d];
  }
  parts.n_kept = parts.kept.count();
  parts.n_reduced = parts.reduced.count();
  return parts;
}

/// Stores one result of a floating reduction.
void put(const View &out, int64_t offset, aclDataType via, double value) {
  double number = value;
  if (via != ACL_DT_UNDEFINED && via != out.dtype) requantise(&number, via, 1);
  write_elements(out.data + offset * static_cast<int64_t>(size_of(out.dtype)), out.dtype, &number,
                 1);
}

/// Every result from its own elements. Few results of many elements are cut along the reduced axes as well.
template <class T>
void reduce_rows(ExecContext &context, const View &out, const Parts &parts, const ReduceParams &p) {
  const View kept_views[] = {out, parts.kept};
  const Loop kept(kept_views, 2), reduced(&parts.reduced, 1);
  const auto item = static_cast<int64_t>(size_of(parts.kept.dtype));
  const int64_t pieces = (parts.n_reduced + kChunk - 1) / kChunk;
  std::vector<double> partial(static_cast<size_t>(parts.n_kept * pieces));
  const int64_t per_task = std::max<int64_t>(1, kChunk / std::max<int64_t>(1, parts.n_reduced));
  parallel_chunks(context, parts.n_kept * pieces, per_task, [&](int64_t begin, int64_t end) {
    View view = parts.reduced;
    Reader<T> reader(reduced, 0, view, p.as);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t row = task / pieces, piece = task % pieces;
      reader.move_to(parts.kept.data + offset_at(kept, 1, row) * item);
      const int64_t stop = std::min(parts.n_reduced, (piece + 1) * kChunk);
      double sum = identity(p.op);
      for (int64_t at = piece * kChunk; at < stop; at += static_cast<int64_t>(kBlock)) {
        const auto n = static_cast<size_t>(std::min<int64_t>(stop - at, kBlock));
        sum = combine(p.op, sum, total(p, reader.fetch(at, n), n));
      }
      partial[static_cast<size_t>(task)] = sum;
    }
  });
  for (int64_t row = 0; row < parts.n_kept; ++row) {
    double sum = identity(p.op);
    for (int64_t piece = 0; piece < pieces; ++piece) {
      sum = combine(p.op, sum, partial[static_cast<size_t>(row * pieces + piece)]);
    }
    put(out, offset_at(kept, 0, row), p.via, finish(p, sum));
  }
}

/// Results whose elements lie side by side: whole rows of them are added up at once.
void reduce_columns(ExecContext &context, const View &out, const Parts &parts,
                    const ReduceParams &p) {
  const View kept_views[] = {parts.kept, out};
  const Loop kept(kept_views, 2), reduced(&parts.reduced, 1);
  const int last = kept.rank - 1;
  const int64_t width = kept.dim[last];
  const auto item = static_cast<int64_t>(size_of(parts.kept.dtype));
  const auto block = static_cast<int64_t>(kBlock);
  const int64_t strips = (width + block - 1) / block;
  const int64_t per_task =
      std::max<int64_t>(1, kChunk / std::max<int64_t>(1, parts.n_reduced * std::min(width, block)));
  parallel_chunks(
      context, parts.n_kept / width * strips, per_task, [&](int64_t begin, int64_t end) {
        std::vector<double> sums(kBlock);
        alignas(64) float partial[kBlock], staged[kBlock];
        for (int64_t task = begin; task < end; ++task) {
          const int64_t column = task % strips * block;
          const auto n = static_cast<size_t>(std::min(block, width - column));
          const int64_t first = task / strips * width + column;
          const char *base = parts.kept.data + offset_at(kept, 0, first) * item;
          std::fill(sums.begin(), sums.end(), identity(p.op));
          for (int64_t row = 0; row < parts.n_reduced; row += kRowsPerSum) {
            std::fill_n(partial, n, static_cast<float>(identity(p.op)));
            for (int64_t r = row; r < std::min(parts.n_reduced, row + kRowsPerSum); ++r) {
              read_elements(staged, base + offset_at(reduced, 0, r) * item, parts.kept.dtype, n);
              if (p.as != ACL_DT_UNDEFINED && p.as != parts.kept.dtype) requantise(staged, p.as, n);
              table().accumulate(p.op, partial, staged, n);
            }
            if (p.op == ReduceOp::kMaxAbs || p.op == ReduceOp::kMinAbs) {
              for (size_t i = 0; i < n; ++i) sums[i] = combine(p.op, sums[i], partial[i]);
            } else {
              for (size_t i = 0; i < n; ++i) sums[i] += partial[i];
            }
          }
          for (size_t i = 0; i < n; ++i) {
            put(out, offset_at(kept, 1, first + static_cast<int64_t>(i)), p.via,
                finish(p, sums[i]));
          }
        }
      });
}

/// At most kChunk bytes that lie in a row, as they are: what comparisons leave.
template <class Byte>
int64_t sum_of_bytes(const char *data, int64_t n) {
  const auto *bytes = reinterpret_cast<const Byte *>(data);
  int32_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += bytes[i];
  return sum;
}

/// Integer sums wrap, so it does not matter how they are cut.
void reduce_integers(ExecContext &context, const View &out, const Parts &parts,
                     const ReduceParams &p) {
  const View kept_views[] = {out, parts.kept};
  const Loop kept(kept_views, 2), reduced(&parts.reduced, 1);
  const aclDataType dtype = parts.kept.dtype;
  const auto item = static_cast<int64_t>(size_of(dtype));
  const bool as_it_is = p.as == ACL_DT_UNDEFINED || p.as == dtype || p.as == ACL_INT64;
  const auto sum_bytes = !as_it_is || !reduced.is_row(0) ? nullptr
                         : dtype == ACL_INT8             ? sum_of_bytes<int8_t>
                         : dtype == ACL_UINT8            ? sum_of_bytes<uint8_t>
                                                         : nullptr;
  const int64_t pieces = (parts.n_reduced + kChunk - 1) / kChunk;
  std::vector<uint64_t> partial(static_cast<size_t>(parts.n_kept * pieces));
  const int64_t per_task = std::max<int64_t>(1, kChunk / std::max<int64_t>(1, parts.n_reduced));
  parallel_chunks(context, parts.n_kept * pieces, per_task, [&](int64_t begin, int64_t end) {
    Reader<int64_t> reader(reduced, 0, parts.reduced, p.as);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t from = task % pieces * kChunk;
      const int64_t stop = std::min(parts.n_reduced, from + kChunk);
      char *data = parts.kept.data + offset_at(kept, 1, task / pieces) * item;
      uint64_t &sum = partial[static_cast<size_t>(task)];
      if (sum_bytes != nullptr) {
        sum = static_cast<uint64_t>(sum_bytes(data + from, stop - from));
        continue;
      }
      reader.move_to(data);
      for (int64_t at = from; at < stop; at += static_cast<int64_t>(kBlock)) {
        const auto n = static_cast<size_t>(std::min<int64_t>(stop - at, kBlock));
        const int64_t *x = reader.fetch(at, n);
        for (size_t i = 0; i < n; ++i) sum += static_cast<uint64_t>(x[i]);
      }
    }
  });
  for (int64_t row = 0; row < parts.n_kept; ++row) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < pieces; ++i) sum += partial[static_cast<size_t>(row * pieces + i)];
    auto result = static_cast<int64_t>(sum);
    if (p.via != ACL_DT_UNDEFINED && p.via != out.dtype) requantise(&result, p.via, 1);
    if (p.divisor != 1) result = p.divisor == 0 ? 0 : result / static_cast<int64_t>(p.divisor);
    write_elements(out.data + offset_at(kept, 0, row) * static_cast<int64_t>(size_of(out.dtype)),
                   out.dtype, &result, 1);
  }
}

bool by_columns(const Parts &parts, const ReduceParams &p) {
  if (p.op == ReduceOp::kNonZero || p.op == ReduceOp::kPower || parts.n_reduced < 2) return false;
  const Loop kept(&parts.kept, 1), reduced(&parts.reduced, 1);
  return kept.rank > 0 && kept.stride[0][kept.rank - 1] == 1 && kept.dim[kept.rank - 1] >= 16 &&
         reduced.rank > 0 && reduced.stride[0][reduced.rank - 1] != 1;
}

}  // namespace

int reduce_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const auto &p = op.as<ReduceParams>();
  const View &out = op.views[0];
  const Parts parts = split(op.views[1], p.n_kept);
  if (parts.n_kept == 0) return 0;
  if (parts.n_reduced == 0) {
    // Nothing to add up: sums are 0, a mean of nothing is NaN.
    const View kept_views[] = {out, parts.kept};
    const Loop kept(kept_views, 2);
    const double value = p.divisor == 0 && p.domain != Domain::kI64 ? std::nan("") : 0;
    for (int64_t i = 0; i < parts.n_kept; ++i) put(out, offset_at(kept, 0, i), p.via, value);
    return 0;
  }
  switch (p.domain) {
    case Domain::kF32:
      if (by_columns(parts, p)) {
        reduce_columns(context, out, parts, p);
      } else {
        reduce_rows<float>(context, out, parts, p);
      }
      break;
    case Domain::kF64:
      reduce_rows<double>(context, out, parts, p);
      break;
    case Domain::kI64:
      reduce_integers(context, out, parts, p);
      break;
  }
  return 0;
}

}  // namespace aiocann::sim
