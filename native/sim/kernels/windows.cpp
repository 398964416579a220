#include "sim/kernels/windows.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "sim/aclnn/executor.hpp"
#include "sim/kernels/copy.hpp"
#include "sim/kernels/row_access.hpp"

namespace aiocann::sim {

void Window::valid(int64_t tap, int64_t length, int64_t n_out, int64_t *first,
                   int64_t *last) const {
  const int64_t shift = tap * dilation - before;  // element = out * stride + shift
  *first = std::min<int64_t>(n_out, shift >= 0 ? 0 : (-shift + stride - 1) / stride);
  const int64_t left = length - shift;
  *last = left <= 0 ? 0 : std::min<int64_t>(n_out, (left + stride - 1) / stride);
  *last = std::max(*first, *last);
}

namespace {

char *element(const View &view, const int64_t *index) {
  int64_t offset = 0;
  for (int d = 0; d < view.shape.rank; ++d) offset += index[d] * view.stride[d];
  return view.data + offset * static_cast<int64_t>(size_of(view.dtype));
}

/// Moves n elements of `item` bytes between rows of any stride (in bytes).
void move_row(char *to, int64_t to_step, const char *from, int64_t from_step, size_t item,
              int64_t n) {
  const auto bytes = static_cast<int64_t>(item);
  if (to_step == bytes) {
    gather_row(to, from, item, from_step / bytes, static_cast<size_t>(n));
    return;
  }
  for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * to_step, from + i * from_step, item);
}

void clear_row(char *to, int64_t step, size_t item, int64_t n) {
  if (n <= 0) return;
  if (step == static_cast<int64_t>(item)) {
    std::memset(to, 0, static_cast<size_t>(n) * item);
    return;
  }
  for (int64_t i = 0; i < n; ++i) std::memset(to + i * step, 0, item);
}

/// Writes tap after tap: each is a plane of the result.
void im2col_by_taps(ExecContext &context, const OpArgs &op) {
  const auto &p = op.as<Im2colParams>();
  const View &out = op.views[0], &in = op.views[1];
  const int64_t kernel_h = p.rows.size, kernel_w = p.columns.size;
  const int64_t height = in.shape.dim[2], width = in.shape.dim[3];
  const int64_t taps = out.shape.dim[0] * out.shape.dim[1] * kernel_h * kernel_w;
  const size_t item = size_of(in.dtype);
  const int64_t out_step = out.stride[5] * static_cast<int64_t>(item);
  const int64_t in_step = in.stride[3] * p.columns.stride * static_cast<int64_t>(item);
  const int64_t plane = std::max<int64_t>(1, int64_t{p.out_height} * p.out_width);
  parallel_chunks(context, taps, std::max<int64_t>(1, kChunk * 2 / plane),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      const int64_t kw = i % kernel_w, kh = i / kernel_w % kernel_h;
                      const int64_t c = i / (kernel_w * kernel_h) % out.shape.dim[1];
                      const int64_t n = i / (kernel_w * kernel_h * out.shape.dim[1]);
                      int64_t row_first, row_last, first, last;
                      p.rows.valid(kh, height, p.out_height, &row_first, &row_last);
                      p.columns.valid(kw, width, p.out_width, &first, &last);
                      for (int64_t row = 0; row < p.out_height; ++row) {
                        const int64_t to_index[] = {n, c, kh, kw, row, 0};
                        char *to = element(out, to_index);
                        if (row < row_first || row >= row_last || first == last) {
                          clear_row(to, out_step, item, p.out_width);
                          continue;
                        }
                        const int64_t from_index[] = {
                            n, c, row * p.rows.stride + kh * p.rows.dilation - p.rows.before,
                            first * p.columns.stride + kw * p.columns.dilation - p.columns.before};
                        clear_row(to, out_step, item, first);
                        move_row(to + first * out_step, out_step, element(in, from_index), in_step,
                                 item, last - first);
                        clear_row(to + last * out_step, out_step, item, p.out_width - last);
                      }
                    }
                  });
}

/// Writes place after place, where its taps lie together: rows of a matrix, as products want them. T has the
/// elements' size.
template <class T>
void im2col_by_places(ExecContext &context, const OpArgs &op) {
  const auto &p = op.as<Im2colParams>();
  const View &out = op.views[0], &in = op.views[1];
  const int64_t channels = out.shape.dim[1], width = in.shape.dim[3], size = p.columns.size;
  const int64_t step = in.stride[3] * p.columns.dilation;
  const int64_t lines = out.shape.dim[0] * p.out_height;
  const int64_t line_size = std::max<int64_t>(1, p.out_width * channels * p.rows.size * size);
  const auto one_line = [&](int64_t n, int64_t row, int64_t c, int64_t kh) {
    const int64_t from_row = row * p.rows.stride + kh * p.rows.dilation - p.rows.before;
    const bool is_inside = from_row >= 0 && from_row < in.shape.dim[2];
    const int64_t to_index[] = {n, c, kh, 0, row, 0};
    const int64_t from_index[] = {n, c, is_inside ? from_row : 0, 0};
    auto *to = reinterpret_cast<T *>(element(out, to_index));
    const auto *from = reinterpret_cast<const T *>(element(in, from_index));
    for (int64_t column = 0; column < p.out_width; ++column, to += out.stride[5]) {
      const int64_t first = column * p.columns.stride - p.columns.before;
      const int64_t last = first + (size - 1) * p.columns.dilation;
      if (is_inside && first >= 0 && last < width) {
        const T *start = from + first * in.stride[3];
        for (int64_t kw = 0; kw < size; ++kw) to[kw] = start[kw * step];
        continue;
      }
      for (int64_t kw = 0; kw < size; ++kw) {
        const int64_t at = first + kw * p.columns.dilation;
        to[kw] = is_inside && at >= 0 && at < width ? from[at * in.stride[3]] : T{0};
      }
    }
  };
  parallel_chunks(context, lines, std::max<int64_t>(1, kChunk * 2 / line_size),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t line = begin; line < end; ++line) {
                      for (int64_t c = 0; c < channels; ++c) {
                        for (int64_t kh = 0; kh < p.rows.size; ++kh)
                          one_line(line / p.out_height, line % p.out_height, c, kh);
                      }
                    }
                  });
}

}  // namespace

int im2col_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const View &out = op.views[0];
  const bool by_places = out.stride[3] == 1 && out.stride[5] != 1;
  if (by_places && size_of(out.dtype) == sizeof(uint32_t)) {
    im2col_by_places<uint32_t>(context, op);
  } else if (by_places && size_of(out.dtype) == sizeof(uint16_t)) {
    im2col_by_places<uint16_t>(context, op);
  } else {
    im2col_by_taps(context, op);
  }
  return 0;
}

namespace {

/// How many elements a window at `out` has: within [-before, length + after) and within [0, length).
void window_extent(const Window &window, int64_t out, int64_t length, int64_t after,
                   int64_t *padded, int64_t *inside) {
  const int64_t begin = out * window.stride - window.before;
  const int64_t end = std::min<int64_t>(begin + window.size, length + after);
  *padded = end - begin;
  *inside = std::min(end, length) - std::max<int64_t>(begin, 0);
}

/// Combines the taps of all windows of a plane. `out` is preset.
template <class Combine>
void pool_plane(float *out, const float *in, int64_t height, int64_t width, int64_t out_height,
                int64_t out_width, const PoolParams &p, Combine combine) {
  for (int64_t kh = 0; kh < p.rows.size; ++kh) {
    int64_t row_first, row_last;
    p.rows.valid(kh, height, out_height, &row_first, &row_last);
    for (int64_t row = row_first; row < row_last; ++row) {
      const float *line = in + (row * p.rows.stride + kh - p.rows.before) * width;
      float *to = out + row * out_width;
      for (int64_t kw = 0; kw < p.columns.size; ++kw) {
        int64_t first, last;
        p.columns.valid(kw, width, out_width, &first, &last);
        const int64_t step = p.columns.stride, shift = kw - p.columns.before;
        for (int64_t c = first; c < last; ++c) to[c] = combine(to[c], line[c * step + shift]);
      }
    }
  }
}

void divide_plane(float *out, int64_t height, int64_t width, int64_t out_height, int64_t out_width,
                  const PoolParams &p) {
  for (int64_t row = 0; row < out_height; ++row) {
    int64_t padded_rows, inside_rows;
    window_extent(p.rows, row, height, p.after_rows, &padded_rows, &inside_rows);
    for (int64_t column = 0; column < out_width; ++column) {
      int64_t padded, inside;
      window_extent(p.columns, column, width, p.after_columns, &padded, &inside);
      const int64_t counted = p.count_padding ? padded_rows * padded : inside_rows * inside;
      const auto divisor = static_cast<float>(p.divisor != 0 ? p.divisor : counted);
      out[row * out_width + column] /= divisor;
    }
  }
}

}  // namespace

int pool_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const auto &p = op.as<PoolParams>();
  const View &out = op.views[0], &in = op.views[1];
  constexpr int kOuter = 2;
  const int64_t height = in.shape.dim[2], width = in.shape.dim[3];
  const int64_t out_height = out.shape.dim[2], out_width = out.shape.dim[3];
  const int64_t n_planes = out.shape.dim[0] * out.shape.dim[1];
  const int64_t work = std::max<int64_t>(
      1, std::max(height * width, out_height * out_width * p.rows.size * p.columns.size));
  parallel_chunks(
      context, n_planes, std::max<int64_t>(1, kChunk / work), [&](int64_t begin, int64_t end) {
        RowReader<float> reader(in, kOuter);
        RowWriter<float> writer(out, kOuter);
        for (int64_t i = begin; i < end; ++i) {
          const float *from = reader.row(i);
          float *to = writer.begin(i);
          const float start = p.average ? 0 : -std::numeric_limits<float>::infinity();
          std::fill_n(to, out_height * out_width, start);
          if (p.average) {
            pool_plane(to, from, height, width, out_height, out_width, p,
                       [](float sum, float x) { return sum + x; });
            divide_plane(to, height, width, out_height, out_width, p);
          } else {
            pool_plane(to, from, height, width, out_height, out_width, p,
                       [](float best, float x) { return x > best || x != x ? x : best; });
          }
          writer.end();
        }
      });
  return 0;
}

}  // namespace aiocann::sim
