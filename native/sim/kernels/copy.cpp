#include "sim/kernels/copy.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

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
        char *target = to.data + out * bytes;
        const char *source = from.data + in * bytes;
        if (out_step == 1) {
          gather_row(target, source, item, in_step, static_cast<size_t>(n));
        } else if (in_step == 1) {
          scatter_row(target, source, item, out_step, static_cast<size_t>(n));
        } else {
          for (int64_t i = 0; i < n; ++i) {
            std::memcpy(target + i * out_step * bytes, source + i * in_step * bytes, item);
          }
        }
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

int copy_kernel(ExecContext &context, const void *args) {
  const auto &views = static_cast<const OpArgs *>(args)->views;
  for (size_t i = 0; i + 1 < views.size(); i += 2) copy_view(context, views[i], views[i + 1]);
  return 0;
}

}  // namespace aiocann::sim
