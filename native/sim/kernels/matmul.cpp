#include "sim/kernels/matmul.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>
#include <vector>

#include "sim/aclnn/executor.hpp"
#include "sim/kernels/convert.hpp"
#include "sim/kernels/copy.hpp"
#include "sim/kernels/loop.hpp"
#include "sim/kernels/table.hpp"

namespace aiocann::sim {
namespace {

/// Tiles are cut by shape alone. Large enough that packing inside BLAS is a small part, small enough that two
/// cores share the products of a small model.
constexpr int64_t kTileM = 256, kTileN = 512;
/// Multiplications per task: smaller products are put together.
constexpr int64_t kWork = int64_t{1} << 20;

/// The last two axes of a view, at one position of the others.
struct Matrix {
  const char *data;
  int64_t rows, cols, row_stride, col_stride;
  aclDataType dtype;
  Tiling tiling = {};
  int64_t first_row = 0,
          first_col = 0;  ///< of what is tiled: `data` is where the whole matrix begins
};

Matrix matrix_at(const View &view, int64_t batch) {
  const int rank = view.shape.rank;
  int64_t offset = 0;
  for (int d = rank - 3; d >= 0; --d) {
    offset += batch % view.shape.dim[d] * view.stride[d];
    batch /= view.shape.dim[d];
  }
  return {view.data + offset * static_cast<int64_t>(size_of(view.dtype)),
          view.shape.dim[rank - 2],
          view.shape.dim[rank - 1],
          view.stride[rank - 2],
          view.stride[rank - 1],
          view.dtype,
          {},
          0,
          0};
}

Matrix part(const Matrix &m, int64_t row, int64_t col, int64_t rows, int64_t cols) {
  Matrix p = m;
  if (m.tiling.columns != 0) {
    p.first_row += row;
    p.first_col += col;
    p.rows = rows;
    p.cols = cols;
    return p;
  }
  p.data += (row * m.row_stride + col * m.col_stride) * static_cast<int64_t>(size_of(m.dtype));
  p.rows = rows;
  p.cols = cols;
  return p;
}

/// Whether BLAS can read the matrix where it is.
bool is_plain(const Matrix &m, MatmulRounding rounding) {
  if (m.tiling.columns != 0) return false;
  if (m.dtype != ACL_FLOAT || rounding != MatmulRounding::kNone) return false;
  if (reinterpret_cast<uintptr_t>(m.data) % sizeof(float) != 0) return false;
  const bool by_rows =
      m.col_stride == 1 && (m.row_stride >= m.cols || m.rows == 1) && m.row_stride <= INT_MAX;
  const bool by_cols =
      m.row_stride == 1 && (m.col_stride >= m.rows || m.cols == 1) && m.col_stride <= INT_MAX;
  return by_rows || by_cols;
}

/// Memory that a thread keeps from tile to tile: fresh pages would cost more than the conversion that fills them.
class Scratch {
 public:
  float *get(size_t count) {
    if (count > size_) {
      memory_.reset();
      memory_.reset(new float[count]);
      size_ = count;
    }
    return memory_.get();
  }

 private:
  std::unique_ptr<float[]> memory_;
  size_t size_ = 0;
};
thread_local Scratch left_scratch, right_scratch, result_scratch;

/// A float32 matrix for BLAS: the operand itself, or a packed copy of it.
class Operand2d {
 public:
  Operand2d(const Matrix &m, MatmulRounding rounding, Scratch *scratch) {
    if (is_plain(m, rounding)) {
      data = reinterpret_cast<const float *>(m.data);
      row = m.row_stride;
      col = m.col_stride;
      // An axis of length 1 has no stride worth the name.
      if (m.rows == 1 && col == 1) row = m.cols;
      if (m.cols == 1 && row == 1) col = m.rows;
      return;
    }
    if (m.tiling.columns != 0) {
      unpack(m, rounding, scratch);
      return;
    }
    // Keep the direction that lies in memory, so that packing reads in order.
    const bool by_cols = m.row_stride == 1 && m.col_stride != 1;
    const int64_t outer = by_cols ? m.cols : m.rows, inner = by_cols ? m.rows : m.cols;
    const int64_t outer_stride = by_cols ? m.col_stride : m.row_stride;
    const int64_t inner_stride = by_cols ? m.row_stride : m.col_stride;
    float *copy = scratch->get(static_cast<size_t>(outer * inner));
    const size_t item = size_of(m.dtype);
    unsigned char raw[kBlock * 4];
    for (int64_t i = 0; i < outer; ++i) {
      const char *from = m.data + i * outer_stride * static_cast<int64_t>(item);
      float *to = copy + i * inner;
      if (inner_stride == 1) {
        read_elements(to, from, m.dtype, static_cast<size_t>(inner));
        continue;
      }
      for (int64_t j = 0; j < inner; j += static_cast<int64_t>(kBlock)) {
        const auto n = static_cast<size_t>(std::min<int64_t>(inner - j, kBlock));
        gather_row(raw, from + j * inner_stride * static_cast<int64_t>(item), item, inner_stride,
                   n);
        read_elements(to + j, raw, m.dtype, n);
      }
    }
    take(copy, m, rounding, by_cols, inner);
  }

  const float *data;
  int64_t row, col;

 private:
  /// Columns of the tiled matrix lie in runs.
  void unpack(const Matrix &m, MatmulRounding rounding, Scratch *scratch) {
    const Tiling &t = m.tiling;
    const int64_t outer = t.turned ? m.cols : m.rows, inner = t.turned ? m.rows : m.cols;
    const int64_t first = t.turned ? m.first_col : m.first_row;
    const int64_t from = t.turned ? m.first_row : m.first_col;
    float *copy = scratch->get(static_cast<size_t>(outer * inner));
    for (int64_t i = 0; i < outer; ++i) {
      for (int64_t c = from; c < from + inner;) {
        const int64_t n = std::min(from + inner - c, t.columns - c % t.columns);
        const int64_t at = (c / t.columns * t.rows + first + i) * t.columns + c % t.columns;
        read_elements(copy + i * inner + c - from,
                      m.data + at * static_cast<int64_t>(size_of(m.dtype)), m.dtype,
                      static_cast<size_t>(n));
        c += n;
      }
    }
    take(copy, m, rounding, t.turned, inner);
  }

  void take(float *copy, const Matrix &m, MatmulRounding rounding, bool by_cols, int64_t inner) {
    const auto count = static_cast<size_t>(m.rows * m.cols);
    if (m.dtype == ACL_FLOAT && rounding == MatmulRounding::kF16)
      requantise(copy, ACL_FLOAT16, count);
    if (m.dtype == ACL_FLOAT && rounding == MatmulRounding::kHf32) table().round_hf32(copy, count);
    data = copy;
    row = by_cols ? 1 : inner;
    col = by_cols ? inner : 1;
  }
};

void multiply(const Matrix &out, const Matrix &a, const Matrix &b, const MatmulParams &p) {
  const Operand2d left(a, p.rounding, &left_scratch), right(b, p.rounding, &right_scratch);
  Gemm gemm;
  gemm.k = a.cols;
  const bool native = out.dtype == ACL_FLOAT && (p.via == ACL_DT_UNDEFINED || p.via == ACL_FLOAT) &&
                      reinterpret_cast<uintptr_t>(out.data) % sizeof(float) == 0;
  if (native && out.row_stride == 1 && out.col_stride >= out.rows && out.cols > 1) {
    // The result lies by columns: compute its transpose.
    gemm = {out.cols,      out.rows,
            a.cols,        right.data,
            right.col,     right.row,
            left.data,     left.col,
            left.row,      reinterpret_cast<float *>(const_cast<char *>(out.data)),
            out.col_stride};
    run_gemm(gemm);
    return;
  }
  gemm = {out.rows,   out.cols,  a.cols,    left.data, left.row, left.col,
          right.data, right.row, right.col, nullptr,   out.cols};
  if (native && (out.col_stride == 1 || out.cols == 1) &&
      (out.row_stride >= out.cols || out.rows == 1)) {
    gemm.c = reinterpret_cast<float *>(const_cast<char *>(out.data));
    gemm.ldc = std::max(out.cols, out.rows == 1 ? out.cols : out.row_stride);
    run_gemm(gemm);
    return;
  }
  const auto count = static_cast<size_t>(out.rows * out.cols);
  float *result = result_scratch.get(count);
  gemm.c = result;
  run_gemm(gemm);
  if (p.via != ACL_DT_UNDEFINED && p.via != out.dtype) requantise(result, p.via, count);
  View to, from;
  to.data = const_cast<char *>(out.data);
  to.dtype = out.dtype;
  to.shape.rank = from.shape.rank = 2;
  to.shape.dim[0] = from.shape.dim[0] = out.rows;
  to.shape.dim[1] = from.shape.dim[1] = out.cols;
  to.stride[0] = out.row_stride;
  to.stride[1] = out.col_stride;
  from.data = reinterpret_cast<char *>(result);
  from.dtype = ACL_FLOAT;
  from.stride[0] = out.cols;
  from.stride[1] = 1;
  Inline here;
  copy_view(here, to, from);
}

}  // namespace

int matmul_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const auto &p = op.as<MatmulParams>();
  const View &out = op.views[0];
  const int rank = out.shape.rank;
  const int64_t m = out.shape.dim[rank - 2], n = out.shape.dim[rank - 1],
                k = op.views[1].shape.dim[rank - 1];
  const int64_t batches = m == 0 || n == 0 ? 0 : out.count() / (m * n);
  const int64_t m_tiles = (m + kTileM - 1) / kTileM, n_tiles = (n + kTileN - 1) / kTileN;
  const int64_t tiles = batches * m_tiles * n_tiles;
  if (tiles == 0) return 0;
  const int64_t work =
      std::max<int64_t>(1, std::min(m, kTileM) * std::min(n, kTileN) * std::max<int64_t>(1, k));
  const int64_t per_task = std::max<int64_t>(1, kWork / work);
  const auto n_tasks = static_cast<size_t>((tiles + per_task - 1) / per_task);
  const auto body = [&](size_t task) {
    const int64_t first = static_cast<int64_t>(task) * per_task;
    for (int64_t tile = first; tile < std::min(tiles, first + per_task); ++tile) {
      const int64_t batch = tile / (m_tiles * n_tiles);
      const int64_t row = tile / n_tiles % m_tiles * kTileM, col = tile % n_tiles * kTileN;
      const int64_t rows = std::min(kTileM, m - row), cols = std::min(kTileN, n - col);
      Matrix right = matrix_at(op.views[2], batch);
      right.tiling = p.tiling;
      multiply(part(matrix_at(out, batch), row, col, rows, cols),
               part(matrix_at(op.views[1], batch), row, 0, rows, k), part(right, 0, col, k, cols),
               p);
    }
  };
  if (n_tasks == 1) {
    body(0);
  } else {
    context.parallel_for(n_tasks, body);
  }
  return 0;
}

int tile_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const View &to = op.views[0], &from = op.views[1];
  const auto item = static_cast<int64_t>(size_of(to.dtype));
  const int rank = from.shape.rank, batch_rank = rank - 2;
  const int64_t rows = from.shape.dim[batch_rank], columns = from.shape.dim[batch_rank + 1];
  const int64_t blocks = to.shape.dim[batch_rank], padded = to.shape.dim[batch_rank + 1];
  const int64_t width = to.shape.dim[batch_rank + 2];
  // The result lies where the input does: that one is put aside first.
  std::vector<char> copy(static_cast<size_t>(from.count() * item));
  View aside = from;
  aside.data = copy.data();
  for (int64_t d = rank - 1, step = 1; d >= 0; step *= from.shape.dim[d], --d)
    aside.stride[d] = step;
  copy_view(context, aside, from);
  const int64_t matrices = from.count() / (rows * columns);
  const auto block = [&](size_t index) {
    const auto at = static_cast<int64_t>(index);
    const int64_t matrix = at / blocks, column = at % blocks * width;
    char *out = to.data + at * padded * width * item;
    const char *in = copy.data() + (matrix * rows * columns + column) * item;
    const int64_t n = std::min(width, columns - column);
    std::memset(out, 0, static_cast<size_t>(padded * width * item));
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(out + r * width * item, in + r * columns * item, static_cast<size_t>(n * item));
    }
  };
  context.parallel_for(static_cast<size_t>(matrices * blocks), block);
  return 0;
}

}  // namespace aiocann::sim
