#include "sim/kernels/gather.hpp"

#include <algorithm>
#include <vector>

#include "sim/aclnn/executor.hpp"
#include "sim/kernels/copy.hpp"
#include "sim/kernels/loop.hpp"

namespace aiocann::sim {
namespace {

constexpr int kAicoreException = 507015;

/// Reads all indices, in order. False when one is outside [0, bound): a device reads or writes foreign memory
/// then, or traps; the simulator always traps, before it has written anything.
bool read_indices(const View &index, int64_t bound, std::vector<int64_t> *indices) {
  const Loop loop = Loop::in_order(&index, 1);
  indices->resize(static_cast<size_t>(loop.count));
  Reader<int64_t> reader(loop, 0, index);
  for (int64_t at = 0; at < loop.count; at += static_cast<int64_t>(kBlock)) {
    const auto n = static_cast<size_t>(std::min<int64_t>(loop.count - at, kBlock));
    const int64_t *values = reader.fetch(at, n);
    for (size_t i = 0; i < n; ++i) {
      if (values[i] < 0 || values[i] >= bound) return false;
      (*indices)[static_cast<size_t>(at) + i] = values[i];
    }
  }
  return true;
}

/// Some axes of a view.
View axes_of(const View &view, int first, int count) {
  View part = view;
  part.shape.rank = count;
  for (int d = 0; d < count; ++d) {
    part.shape.dim[d] = view.shape.dim[first + d];
    part.stride[d] = view.stride[first + d];
  }
  return part;
}

int64_t offset_in(const View &view, int64_t index) {
  int64_t offset = 0;
  for (int d = view.shape.rank - 1; d >= 0; --d) {
    offset += index % view.shape.dim[d] * view.stride[d];
    index /= view.shape.dim[d];
  }
  return offset;
}

/// `indexed` has the axis, `listed` the axes of the index in its place.
int move_slices(ExecContext &context, const View &indexed, const View &listed, const View &index,
                const GatherParams &p, bool to_listed) {
  std::vector<int64_t> indices;
  if (!read_indices(index, indexed.shape.dim[p.axis], &indices)) return kAicoreException;
  const View before_i = axes_of(indexed, 0, p.axis), before_l = axes_of(listed, 0, p.axis);
  const View places = axes_of(listed, p.axis, p.index_rank);
  const int after = indexed.shape.rank - p.axis - 1;
  const View slice_i = axes_of(indexed, p.axis + 1, after);
  const View slice_l = axes_of(listed, p.axis + p.index_rank, after);
  const auto item = static_cast<int64_t>(size_of(indexed.dtype));
  const auto n_indices = static_cast<int64_t>(indices.size());
  const int64_t n_before = before_i.count(), slice = slice_i.count();
  if (n_before * n_indices * slice == 0) return 0;
  const View slices[] = {slice_i, slice_l};
  const Loop loop(slices, 2);
  const bool in_row = loop.is_row(0) && loop.is_row(1);
  const auto move = [&](int64_t begin, int64_t end) {
    Inline here;
    View to = to_listed ? slice_l : slice_i, from = to_listed ? slice_i : slice_l;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t outer = i / n_indices, place = i % n_indices;
      char *indexed_at =
          indexed.data + (offset_in(before_i, outer) +
                          indices[static_cast<size_t>(place)] * indexed.stride[p.axis]) *
                             item;
      char *listed_at =
          listed.data + (offset_in(before_l, outer) + offset_in(places, place)) * item;
      to.data = to_listed ? listed_at : indexed_at;
      from.data = to_listed ? indexed_at : listed_at;
      if (in_row) {
        std::memcpy(to.data, from.data, static_cast<size_t>(slice * item));
      } else {
        copy_view(here, to, from);
      }
    }
  };
  if (to_listed) {
    parallel_chunks(context, n_before * n_indices, std::max<int64_t>(1, kChunk / slice), move);
  } else {
    move(0, n_before * n_indices);  // in order: equal indices write the same place
  }
  return 0;
}

}  // namespace

int gather_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  return move_slices(context, op.views[1], op.views[0], op.views[2], op.as<GatherParams>(), true);
}

int index_copy_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  return move_slices(context, op.views[0], op.views[1], op.views[2], op.as<GatherParams>(), false);
}

int resize_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const View &out = op.views[0], &in = op.views[1];
  const int64_t height = out.shape.dim[2], width = out.shape.dim[3];
  const auto item = static_cast<int64_t>(size_of(out.dtype));
  const auto nearest = [&](int axis, int64_t place) {
    return place * in.shape.dim[axis] / out.shape.dim[axis] * in.stride[axis];
  };
  std::vector<int64_t> columns(static_cast<size_t>(width));
  for (int64_t x = 0; x < width; ++x) columns[static_cast<size_t>(x)] = nearest(3, x);
  const View outer = axes_of(out, 0, 2), inner = axes_of(in, 0, 2);
  parallel_chunks(context, outer.count() * height, std::max<int64_t>(1, kChunk / width),
                  [&](int64_t begin, int64_t end) {
                    const char *source = nullptr, *image = nullptr;
                    for (int64_t row = begin; row < end; ++row) {
                      const int64_t plane = row / height, y = row % height;
                      char *to = out.data + (offset_in(outer, plane) + y * out.stride[2]) * item;
                      const char *from = in.data + (offset_in(inner, plane) + nearest(2, y)) * item;
                      if (from == source && out.stride[3] == 1) {
                        std::memcpy(to, image, static_cast<size_t>(width * item));
                      } else {
                        pick_row(to, out.stride[3], from, columns.data(), static_cast<size_t>(item),
                                 static_cast<size_t>(width));
                      }
                      source = from;
                      image = to;
                    }
                  });
  return 0;
}

}  // namespace aiocann::sim
