// copy.hpp: the engine that moves elements between views, converting them where the types differ.
#pragma once
#include "sim/kernels/view.hpp"
#include "sim/task.hpp"

namespace aiocann::sim {

/// to = from, both of one shape. They may not overlap unless they are the same view.
void copy_view(ExecContext &context, const View &to, const View &from);

/// Views: to, from, to, from, ... (each pair of one shape).
int copy_kernel(ExecContext &context, const void *args);

}  // namespace aiocann::sim
