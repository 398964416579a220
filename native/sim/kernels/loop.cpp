#include "sim/kernels/loop.hpp"

#include <algorithm>

namespace aiocann::sim {

void parallel_chunks(ExecContext &context, int64_t count, int64_t chunk,
                     const std::function<void(int64_t, int64_t)> &body) {
  if (count <= 0) return;
  const int64_t n = (count + chunk - 1) / chunk;
  if (n == 1) {
    body(0, count);
    return;
  }
  context.parallel_for(static_cast<size_t>(n), [&](size_t index) {
    const int64_t begin = static_cast<int64_t>(index) * chunk;
    body(begin, std::min(count, begin + chunk));
  });
}

Loop::Loop(const View *views, int n_views) { fill(views, n_views, true); }

Loop Loop::in_order(const View *views, int n_views) {
  Loop loop;
  loop.fill(views, n_views, false);
  return loop;
}

void Loop::fill(const View *views, int n_views, bool reorder) {
  const Shape &shape = views[0].shape;
  int axes[kMaxRank];
  int n_axes = 0;
  for (int d = 0; d < shape.rank; ++d) {
    count *= shape.dim[d];
    if (shape.dim[d] != 1) axes[n_axes++] = d;
  }
  if (reorder) {
    // Stable: axes that the first view does not tell apart keep their order.
    std::stable_sort(axes, axes + n_axes, [&](int a, int b) {
      return std::abs(views[0].stride[a]) > std::abs(views[0].stride[b]);
    });
  }
  for (int i = 0; i < n_axes; ++i) {
    const int axis = axes[i];
    bool merges = rank > 0;
    for (int v = 0; merges && v < n_views; ++v) {
      merges = stride[v][rank - 1] == views[v].stride[axis] * shape.dim[axis];
    }
    if (merges) {
      dim[rank - 1] *= shape.dim[axis];
    } else {
      dim[rank++] = shape.dim[axis];
    }
    for (int v = 0; v < n_views; ++v) stride[v][rank - 1] = views[v].stride[axis];
  }
}

bool Loop::is_row(int view) const {
  int64_t expected = 1;
  for (int d = rank - 1; d >= 0; --d) {
    if (stride[view][d] != expected) return false;
    expected *= dim[d];
  }
  return true;
}

bool Loop::is_single(int view) const {
  for (int d = 0; d < rank; ++d) {
    if (stride[view][d] != 0) return false;
  }
  return rank > 0;
}

}  // namespace aiocann::sim
