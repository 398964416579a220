#include "sim/kernels/quant.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "sim/aclnn/executor.hpp"
#include "sim/kernels/copy.hpp"
#include "sim/kernels/matmul.hpp"
#include "sim/kernels/row_access.hpp"

namespace aiocann::sim {
namespace {

/// Products with fewer rows are dot products of whole columns; others go through float32 panels.
constexpr int64_t kFewRows = 9;
constexpr int64_t kPanelColumns = 256, kPanelRows = 1024;
/// Multiplications per task.
constexpr int64_t kWork = int64_t{1} << 20;

View packed_view(float *data, int64_t rows, int64_t columns) {
  View view;
  view.data = reinterpret_cast<char *>(data);
  view.dtype = ACL_FLOAT;
  view.shape.rank = 2;
  view.shape.dim[0] = rows;
  view.shape.dim[1] = columns;
  view.stride[0] = columns;
  view.stride[1] = 1;
  return view;
}

/// Rows and columns of a matrix.
View block(const View &view, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  View part = view;
  part.data +=
      (row * view.stride[0] + column * view.stride[1]) * static_cast<int64_t>(size_of(view.dtype));
  part.shape.dim[0] = rows;
  part.shape.dim[1] = columns;
  return part;
}

/// The float32 whose upper bits a quantisation parameter of 64 bits has.
float decoded(int64_t code) {
  const auto bits = static_cast<uint32_t>(code);
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Its offset: 9 bits, signed, from bit 37 on.
float decoded_offset(int64_t code) {
  const auto bits = static_cast<int32_t>(static_cast<uint64_t>(code) >> 37 & 0x1ff);
  return static_cast<float>(bits >= 256 ? bits - 512 : bits);
}

class Product {
 public:
  explicit Product(const OpArgs &op)
      : op_(op),
        p_(op.as<QuantParams>()),
        m_(op.views[0].shape.dim[0]),
        groups_((p_.k + p_.group - 1) / p_.group) {}

  void run(ExecContext &context) {
    if (m_ < kFewRows && p_.rows_along_k && p_.tiling.columns == 0) {
      arrange();
      const int64_t per_task = std::max<int64_t>(1, kWork / std::max<int64_t>(1, p_.k * m_));
      parallel_chunks(context, p_.n, per_task, [&](int64_t begin, int64_t end) {
        std::vector<float> result(static_cast<size_t>(m_ * (end - begin)));
        dots(begin, end - begin, result.data());
        finish(0, m_, begin, end - begin, result.data());
      });
      return;
    }
    const int64_t tiles = (p_.n + kPanelColumns - 1) / kPanelColumns;
    parallel_chunks(context, tiles, 1, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t column = tile * kPanelColumns;
        panel(column, std::min(kPanelColumns, p_.n - column));
      }
    });
  }

 private:
  const View &view(int index) const { return op_.views[static_cast<size_t>(index)]; }

  void load(float *to, const View &from) const {
    Inline here;
    copy_view(here, packed_view(to, from.shape.dim[0], from.shape.dim[1]), from);
  }

  /// Scales or offsets of some columns, [columns, groups].
  void load_factors(std::vector<float> *to, const View &from, int64_t column, int64_t columns,
                    bool encoded) const {
    to->resize(static_cast<size_t>(columns * groups_));
    View part = block(from, 0, groups_, column, columns);
    std::swap(part.shape.dim[0], part.shape.dim[1]);
    std::swap(part.stride[0], part.stride[1]);
    if (!encoded) {
      load(to->data(), part);
      return;
    }
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t g = 0; g < groups_; ++g) {
        int64_t code;
        std::memcpy(&code, part.data + (c * part.stride[0] + g * part.stride[1]) * 8, 8);
        (*to)[static_cast<size_t>(c * groups_ + g)] = decoded(code);
      }
    }
  }

  /// All rows of x as quant_dot wants them, and the sums that offsets are multiplied with.
  void arrange() {
    std::vector<float> plain(static_cast<size_t>(m_ * p_.k));
    load(plain.data(), view(1));
    x_.resize(plain.size());
    sums_.resize(static_cast<size_t>(m_ * groups_));
    for (int64_t r = 0; r < m_; ++r) {
      table().quant_arrange(x_.data() + r * p_.k, plain.data() + r * p_.k, p_.bits,
                            static_cast<size_t>(p_.k));
      for (int64_t g = 0; g < groups_; ++g) {
        const int64_t from = g * p_.group, n = std::min(p_.group, p_.k - from);
        sums_[static_cast<size_t>(r * groups_ + g)] =
            static_cast<float>(table().sum(plain.data() + r * p_.k + from, static_cast<size_t>(n)));
      }
    }
  }

  void dots(int64_t column, int64_t columns, float *result) const {
    std::vector<float> scales, offsets;
    load_factors(&scales, view(3), column, columns, p_.encoded_scale);
    if (p_.offset >= 0) load_factors(&offsets, view(p_.offset), column, columns, false);
    const View &weight = view(2);
    for (int64_t c = 0; c < columns; ++c) {
      const float *scale = scales.data() + c * groups_;
      for (int64_t r = 0; r < m_; ++r) {
        float value = table().quant_dot(weight.data + (column + c) * weight.stride[0], p_.bits,
                                        x_.data() + r * p_.k, scale, static_cast<size_t>(p_.k),
                                        static_cast<size_t>(p_.group));
        for (int64_t g = 0; p_.offset >= 0 && g < groups_; ++g) {
          value += sums_[static_cast<size_t>(r * groups_ + g)] * scale[g] *
                   offsets[static_cast<size_t>(c * groups_ + g)];
        }
        result[r * columns + c] = value;
      }
    }
  }

  /// Elements [from, from + n) of a row of the weight as it lies in memory.
  void widen_row(int64_t row, int64_t from, int64_t n, float *to) const {
    const View &bytes = view(2);
    const Tiling &t = p_.tiling;
    if (t.columns == 0) {
      table().widen(to, bytes.data + row * bytes.stride[0] + from * p_.bits / 8, p_.bits,
                    static_cast<size_t>(n));
      return;
    }
    for (int64_t c = from; c < from + n;) {
      const int64_t run = std::min(from + n - c, t.columns - c % t.columns);
      table().widen(to + c - from,
                    bytes.data + (c / t.columns * t.rows + row) * t.columns + c % t.columns, 8,
                    static_cast<size_t>(run));
      c += run;
    }
  }

  /// Columns of the weight as numbers, multiplied with all rows of x.
  void panel(int64_t column, int64_t columns) const {
    std::vector<float> scales, offsets, weight(static_cast<size_t>(columns * p_.k));
    load_factors(&scales, view(3), column, columns, p_.encoded_scale);
    if (p_.offset >= 0) load_factors(&offsets, view(p_.offset), column, columns, false);
    if (p_.offset < 0) offsets.assign(scales.size(), 0.0f);
    // [columns, k] or [k, columns]
    const bool along_k = p_.tiling.columns == 0 ? p_.rows_along_k : p_.tiling.turned;
    const int64_t outer = along_k ? columns : p_.k, inner = along_k ? p_.k : columns;
    for (int64_t i = 0; i < outer; ++i) {
      float *row = weight.data() + i * inner;
      widen_row(along_k ? column + i : i, along_k ? 0 : column, inner, row);
      if (along_k) {
        for (int64_t g = 0; g < groups_; ++g) {
          const auto at = static_cast<size_t>(i * groups_ + g);
          const float scale = scales[at], offset = offsets[at];
          const int64_t end = std::min(p_.k, (g + 1) * p_.group);
          for (int64_t j = g * p_.group; j < end; ++j) row[j] = (row[j] + offset) * scale;
        }
      } else {
        const int64_t g = i / p_.group;
        for (int64_t j = 0; j < columns; ++j) {
          const auto at = static_cast<size_t>(j * groups_ + g);
          row[j] = (row[j] + offsets[at]) * scales[at];
        }
      }
    }
    std::vector<float> x, result;
    for (int64_t row = 0; row < m_; row += kPanelRows) {
      const int64_t rows = std::min(kPanelRows, m_ - row);
      x.resize(static_cast<size_t>(rows * p_.k));
      result.resize(static_cast<size_t>(rows * columns));
      load(x.data(), block(view(1), row, rows, 0, p_.k));
      run_gemm({rows, columns, p_.k, x.data(), p_.k, 1, weight.data(), along_k ? 1 : columns,
                along_k ? p_.k : 1, result.data(), columns});
      finish(row, rows, column, columns, result.data());
    }
  }

  /// Bias and quantisation, then the result in its own type and place.
  void finish(int64_t row, int64_t rows, int64_t column, int64_t columns, float *result) const {
    const auto at = [&](int index, int64_t c) {
      return view(index).data + (column + c) * view(index).stride[0] *
                                    static_cast<int64_t>(size_of(view(index).dtype));
    };
    for (int64_t c = 0; c < columns; ++c) {
      float bias = 0, factor = 1, shift = 0;
      if (p_.bias >= 0) read_elements(&bias, at(p_.bias, c), view(p_.bias).dtype, 1);
      if (p_.out_scale >= 0) {
        int64_t code;
        std::memcpy(&code, at(p_.out_scale, c), sizeof code);
        factor = decoded(code);
        shift = decoded_offset(code);
        if (p_.out_offset >= 0)
          read_elements(&shift, at(p_.out_offset, c), view(p_.out_offset).dtype, 1);
      }
      for (int64_t r = 0; r < rows; ++r) {
        float &value = result[r * columns + c];
        value += bias;
        if (p_.out_scale >= 0) {
          value = std::nearbyint(std::min(127.0f, std::max(-128.0f, value * factor + shift)));
        }
      }
    }
    Inline here;
    copy_view(here, block(view(0), row, rows, column, columns), packed_view(result, rows, columns));
  }

  const OpArgs &op_;
  const QuantParams &p_;
  int64_t m_, groups_;
  std::vector<float> x_, sums_;
};

}  // namespace

int quant_matmul_kernel(ExecContext &context, const void *args) {
  Product(*static_cast<const OpArgs *>(args)).run(context);
  return 0;
}

}  // namespace aiocann::sim
