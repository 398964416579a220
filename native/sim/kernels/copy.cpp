#include "sim/kernels/copy.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "sim/aclnn/executor.hpp"
#include "sim/kernels/loop.hpp"

namespace aiocann::sim {
namespace {

/// Rows and columns of a tile that is transposed at once: the tile and its image fit the second-level cache.
constexpr int64_t kTileRows = 64, kTileCols = 256;

template <class T>
void convert(ExecContext &context, const View &to, const View &from) {
  const View views[] = {to, from};
  const Loop loop(views, 2);
  parallel_chunks(context, loop.count, kChunk, [&](int64_t begin, int64_t end) {
    Reader<T> in(loop, 1, from);
    Writer<T> out(loop, 0, to);
    for (int64_t at = begin; at < end; at += static_cast<int64_t>(kBlock)) {
      const auto n = static_cast<size_t>(std::min<int64_t>(end - at, kBlock));
      const T *numbers = in.fetch(at, n);
      T *place = out.begin(at);
      if (place != numbers) std::memcpy(place, numbers, n * sizeof(T));
      out.end(at, n);
    }
  });
}

/// Whether going through T changes no value that the target type can tell apart.
bool through_double(aclDataType to, aclDataType from) {
  if (to == ACL_DOUBLE || from == ACL_DOUBLE) return true;
  return from == ACL_UINT64 && is_float(to);  // not an int64_t
}

/// Copies n elements of `item` bytes that lie some elements apart.
void copy_run(char *to, int64_t to_step, const char *from, int64_t from_step, size_t item,
              int64_t n) {
  const auto bytes = static_cast<int64_t>(item);
  if (to_step == 1) {
    gather_row(to, from, item, from_step, static_cast<size_t>(n));
  } else if (from_step == 1) {
    scatter_row(to, from, item, to_step, static_cast<size_t>(n));
  } else {
    for (int64_t i = 0; i < n; ++i) {
      std::memcpy(to + i * to_step * bytes, from + i * from_step * bytes, item);
    }
  }
}

void zero_run(char *to, int64_t step, size_t item, int64_t n) {
  const auto bytes = static_cast<int64_t>(item);
  if (step == 1) {
    std::memset(to, 0, static_cast<size_t>(n * bytes));
  } else {
    for (int64_t i = 0; i < n; ++i) std::memset(to + i * step * bytes, 0, item);
  }
}

/// Moves elements of one type. Where both views have rows that lie in memory as rows, rows are copied; where one
/// runs across the other, tiles are transposed.
void move(ExecContext &context, const View &to, const View &from) {
  const View views[] = {to, from};
  const Loop loop(views, 2);
  const size_t item = size_of(to.dtype);
  const auto bytes = static_cast<int64_t>(item);
  if (loop.rank == 0) {
    std::memmove(to.data, from.data, item);
    return;
  }
  const int last = loop.rank - 1;
  int along = -1;  // the axis along which `from` lies in memory
  for (int d = 0; d < last; ++d) {
    if (loop.stride[1][d] == 1) along = d;
  }
  const bool crossed = along >= 0 && loop.stride[0][last] == 1 && loop.stride[1][last] != 1 &&
                       loop.stride[1][last] != 0 && item <= 8 && loop.dim[along] >= 4 &&
                       loop.dim[last] >= 4;
  if (!crossed) {
    const int64_t out_step = loop.stride[0][last], in_step = loop.stride[1][last];
    // Copying is cheap: larger pieces than elsewhere.
    parallel_chunks(context, loop.count, kChunk * 2, [&](int64_t begin, int64_t end) {
      for_paired_runs(loop, begin, end - begin, [&](int64_t out, int64_t in, int64_t n) {
        copy_run(to.data + out * bytes, out_step, from.data + in * bytes, in_step, item, n);
      });
    });
    return;
  }
  // Tiles of (along, last), for every position of the other axes.
  const int64_t rows = loop.dim[last], cols = loop.dim[along];
  const int64_t row_tiles = (rows + kTileRows - 1) / kTileRows;
  const int64_t col_tiles = (cols + kTileCols - 1) / kTileCols;
  const int64_t tiles = loop.count / (rows * cols) * row_tiles * col_tiles;
  const int64_t per_task =
      std::max<int64_t>(1, kChunk * 2 / (std::min(rows, kTileRows) * std::min(cols, kTileCols)));
  parallel_chunks(context, tiles, per_task, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      int64_t rest = tile;
      const int64_t c = rest % col_tiles * kTileCols;
      rest /= col_tiles;
      const int64_t r = rest % row_tiles * kTileRows;
      rest /= row_tiles;
      int64_t out = r * loop.stride[0][last] + c * loop.stride[0][along];
      int64_t in = r * loop.stride[1][last] + c * loop.stride[1][along];
      for (int d = last - 1; d >= 0; --d) {
        if (d == along) continue;
        const int64_t index = rest % loop.dim[d];
        rest /= loop.dim[d];
        out += index * loop.stride[0][d];
        in += index * loop.stride[1][d];
      }
      table().transpose(to.data + out * bytes, from.data + in * bytes,
                        static_cast<size_t>(std::min(kTileRows, rows - r)),
                        static_cast<size_t>(std::min(kTileCols, cols - c)), loop.stride[0][along],
                        loop.stride[1][last], item);
    }
  });
}

}  // namespace

void copy_view(ExecContext &context, const View &to, const View &from) {
  if (to.count() == 0) return;
  if (to.dtype == from.dtype) {
    move(context, to, from);
  } else if (through_double(to.dtype, from.dtype)) {
    convert<double>(context, to, from);
  } else if (is_float(from.dtype)) {
    convert<float>(context, to, from);
  } else {
    convert<int64_t>(context, to, from);
  }
}

void fill_view(ExecContext &context, const View &to, const void *element) {
  alignas(8) char value[16];
  std::memcpy(value, element, size_of(to.dtype));
  View everywhere = to;
  everywhere.data = value;
  std::fill_n(everywhere.stride, kMaxRank, int64_t{0});
  copy_view(context, to, everywhere);
}

int copy_kernel(ExecContext &context, const void *args) {
  const auto &views = static_cast<const OpArgs *>(args)->views;
  for (size_t i = 0; i + 1 < views.size(); i += 2) copy_view(context, views[i], views[i + 1]);
  return 0;
}

int pad_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  copy_view(context, op.views[0], op.views[1]);
  for (size_t i = 2; i < op.views.size(); ++i) {
    fill_view(context, op.views[i], op.as<PadParams>().value);
  }
  return 0;
}

int triangle_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const auto &p = op.as<TriangleParams>();
  View out = op.views[0];
  const bool in_place = op.views.size() == 1;
  View in = in_place ? out : op.views[1];
  const int row_axis = out.shape.rank - 2, column_axis = out.shape.rank - 1;
  bool upper = p.upper;
  // Far beyond the matrix is as good as just beyond it, and safe to calculate with.
  const int64_t reach = out.shape.dim[row_axis] + out.shape.dim[column_axis];
  int64_t diagonal = std::clamp(p.diagonal, -reach, reach);
  if (std::abs(out.stride[column_axis]) > std::abs(out.stride[row_axis])) {
    // Along memory: the upper triangle of a matrix is the lower one of its transpose.
    for (View *view : {&out, &in}) {
      std::swap(view->shape.dim[row_axis], view->shape.dim[column_axis]);
      std::swap(view->stride[row_axis], view->stride[column_axis]);
    }
    upper = !upper;
    diagonal = -diagonal;
  }
  const int64_t n_rows = out.shape.dim[row_axis], n = out.shape.dim[column_axis];
  const int64_t to_step = out.stride[column_axis], from_step = in.stride[column_axis];
  View rows[] = {out, in};
  for (View &view : rows) view.shape.rank = column_axis;
  const Loop loop = Loop::in_order(rows, 2);
  const size_t item = size_of(out.dtype);
  const auto bytes = static_cast<int64_t>(item);
  parallel_chunks(context, loop.count, std::max<int64_t>(1, kChunk / n),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      char *to = out.data + offset_at(loop, 0, i) * bytes;
                      const char *from = in.data + offset_at(loop, 1, i) * bytes;
                      const int64_t cut = i % n_rows + diagonal + (upper ? 0 : 1);
                      const int64_t middle = std::clamp<int64_t>(cut, 0, n);
                      const int64_t kept = upper ? middle : 0, zeros = upper ? 0 : middle;
                      const int64_t n_zeros = upper ? middle : n - middle;
                      if (!in_place) {
                        copy_run(to + kept * to_step * bytes, to_step,
                                 from + kept * from_step * bytes, from_step, item, n - n_zeros);
                      }
                      zero_run(to + zeros * to_step * bytes, to_step, item, n_zeros);
                    }
                  });
  return 0;
}

}  // namespace aiocann::sim
