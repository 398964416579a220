// solve.hpp: systems of linear equations with triangular matrices.
#pragma once
#include <cstdint>

#include "sim/task.hpp"

namespace aiocann::sim {

struct SolveParams {
  bool upper = true;
  bool transpose = false;
  bool unit = false;  ///< the diagonal counts as 1
};

/// Views: x [batch..., n, m], copy [batch..., n, n], b [batch..., n, m], a [batch..., n, n]. x solves a x = b (or
/// the transpose of a), copy is the triangle of a with zeros elsewhere. Computed in double.
int triangular_solve_kernel(ExecContext &context, const void *args);

}  // namespace aiocann::sim
