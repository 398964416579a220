#include "sim/kernels/solve.hpp"

#include <algorithm>

#include "sim/aclnn/executor.hpp"
#include "sim/kernels/row_access.hpp"

namespace aiocann::sim {
namespace {

/// Columns of b that are solved for at once: rows of them stay in the first-level cache.
constexpr int64_t kColumns = 64;

void read_all(const View &view, double *to) {
  const Loop loop = Loop::in_order(&view, 1);
  Reader<double> reader(loop, 0, view);
  for (int64_t at = 0; at < loop.count; at += static_cast<int64_t>(kBlock)) {
    const auto n = static_cast<size_t>(std::min<int64_t>(loop.count - at, kBlock));
    std::copy_n(reader.fetch(at, n), n, to + at);
  }
}

void write_all(const View &view, const double *from) {
  const Loop loop = Loop::in_order(&view, 1);
  Writer<double> writer(loop, 0, view);
  for (int64_t at = 0; at < loop.count; at += static_cast<int64_t>(kBlock)) {
    const auto n = static_cast<size_t>(std::min<int64_t>(loop.count - at, kBlock));
    std::copy_n(from + at, n, writer.begin(at));
    writer.end(at, n);
  }
}

/// Some columns of the matrix of one batch.
View columns(const View &view, int64_t batch, int64_t first, int64_t count) {
  const int n_outer = view.shape.rank - 2;
  View part = row_part(view, n_outer);
  part.data = RowPlaces(view, n_outer)[batch] +
              first * part.stride[1] * static_cast<int64_t>(size_of(view.dtype));
  part.shape.dim[1] = count;
  return part;
}

/// x (n x m) becomes the solution; a is n x n.
void solve(double *x, const double *a, int64_t n, int64_t m, const SolveParams &p) {
  const bool backwards = p.upper != p.transpose;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = backwards ? n - 1 - step : step;
    double *row = x + i * m;
    for (int64_t done = 0; done < step; ++done) {
      const int64_t j = backwards ? n - 1 - done : done;
      const double factor = p.transpose ? a[j * n + i] : a[i * n + j];
      const double *other = x + j * m;
      for (int64_t c = 0; c < m; ++c) row[c] -= factor * other[c];
    }
    if (p.unit) continue;
    const double pivot = a[i * n + i];
    for (int64_t c = 0; c < m; ++c) row[c] /= pivot;
  }
}

}  // namespace

int triangular_solve_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const auto &p = op.as<SolveParams>();
  const View &x = op.views[0], &copy = op.views[1], &b = op.views[2], &a = op.views[3];
  const int n_outer = a.shape.rank - 2;
  const int64_t n = a.shape.dim[n_outer], m = b.shape.dim[n_outer + 1];
  const int64_t n_batch = outer_part(a, n_outer).count();
  // The first part of each batch also writes the triangle.
  const int64_t parts = std::max<int64_t>(1, (m + kColumns - 1) / kColumns);
  const int64_t work = std::max<int64_t>(1, n * n * std::min(m, kColumns));
  parallel_chunks(context, n_batch * parts, std::max<int64_t>(1, kChunk * 8 / work),
                  [&](int64_t begin, int64_t end) {
                    std::vector<double> matrix(static_cast<size_t>(n * n)), rows;
                    for (int64_t i = begin; i < end; ++i) {
                      const int64_t batch = i / parts, first = i % parts * kColumns;
                      const int64_t count = std::min(kColumns, m - first);
                      read_all(columns(a, batch, 0, n), matrix.data());
                      if (count > 0) {
                        rows.resize(static_cast<size_t>(n * count));
                        read_all(columns(b, batch, first, count), rows.data());
                        solve(rows.data(), matrix.data(), n, count, p);
                        write_all(columns(x, batch, first, count), rows.data());
                      }
                      if (first != 0) continue;
                      for (int64_t r = 0; r < n; ++r) {
                        double *row = matrix.data() + r * n;
                        if (p.upper) {
                          std::fill(row, row + r, 0.0);
                        } else {
                          std::fill(row + r + 1, row + n, 0.0);
                        }
                      }
                      write_all(columns(copy, batch, 0, n), matrix.data());
                    }
                  });
  return 0;
}

}  // namespace aiocann::sim
