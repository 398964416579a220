// windows.hpp: operators that slide a window over planes: im2col and pooling.
#pragma once
#include <cstdint>

#include "sim/kernels/view.hpp"
#include "sim/task.hpp"

namespace aiocann::sim {

/// How windows lie on one axis. Position `out` of the result sees the elements out * stride - before + i * dilation.
struct Window {
  int32_t size = 1, stride = 1, dilation = 1, before = 0;

  /// The results [*first, *last) whose element `tap` of the window lies within an axis of `length`.
  void valid(int64_t tap, int64_t length, int64_t n_out, int64_t *first, int64_t *last) const;
};

struct Im2colParams {
  Window rows, columns;
  int32_t out_height = 0, out_width = 0;
};

/// Views: out [n, c, kernel height, kernel width, height, width], in [n, c, height, width]. Elements are moved.
int im2col_kernel(ExecContext &context, const void *args);

struct PoolParams {
  Window rows, columns;
  bool average = false;                       ///< else the maximum
  bool count_padding = true;                  ///< padding counts as elements of the window
  int32_t after_rows = 0, after_columns = 0;  ///< padding behind the last element
  int64_t divisor = 0;                        ///< of averages, where not 0
};

/// Views: out [n, c, height, width], in likewise.
int pool_kernel(ExecContext &context, const void *args);

}  // namespace aiocann::sim
