// gather.hpp: the engine of operators that pick slices by index.
#pragma once
#include <cstdint>

#include "sim/task.hpp"

namespace aiocann::sim {

struct GatherParams {
  int32_t axis = 0;  ///< of the indexed tensor
  int32_t index_rank =
      0;  ///< axes of the index, which stand in place of `axis` in the other tensor
};

/// Views: out, self, index. out[a.., i.., b..] = self[a.., index[i..], b..]
int gather_kernel(ExecContext &context, const void *args);
/// Views: self, source, index. self[a.., index[i..], b..] = source[a.., i.., b..]; of equal indices the last wins.
int index_copy_kernel(ExecContext &context, const void *args);

/// Nearest neighbours: place i of n in an axis takes place i * m / n of the m there are. Views: out, in, both of
/// four axes, of which the last two differ.
int resize_kernel(ExecContext &context, const void *args);

}  // namespace aiocann::sim
