// copy.hpp: the engine that moves elements between views, converting them where the types differ.
#pragma once
#include <cstdint>

#include "sim/kernels/view.hpp"
#include "sim/task.hpp"

namespace aiocann::sim {

/// to = from, both of one shape. They may not overlap unless they are the same view.
void copy_view(ExecContext &context, const View &to, const View &from);

/// Every element of `to` becomes the one given, which is of its type.
void fill_view(ExecContext &context, const View &to, const void *element);

/// Views: to, from, to, from, ... (each pair of one shape).
int copy_kernel(ExecContext &context, const void *args);

struct PadParams {
  alignas(8) unsigned char value[16] = {};  ///< one element of the views' type
};

/// Views: to, from (of one shape), then those that are filled with the value.
int pad_kernel(ExecContext &context, const void *args);

struct TriangleParams {
  int64_t diagonal = 0;
  bool upper = false;  ///< keeps columns from row + diagonal on; otherwise those up to there
};

/// The rest of the last two axes becomes 0. Views: out, in; of one that works in place only the one.
int triangle_kernel(ExecContext &context, const void *args);

}  // namespace aiocann::sim
