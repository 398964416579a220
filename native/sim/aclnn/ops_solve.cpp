// ops_solve.cpp: systems of linear equations.
#include "sim/aclnn/check.hpp"
#include "sim/aclnn/executor.hpp"
#include "sim/kernels/solve.hpp"

using namespace aiocann::sim;  // NOLINT: the entry points are this file's whole business

extern "C" {

aclnnStatus aclnnTriangularSolveGetWorkspaceSize(const aclTensor *self, const aclTensor *A,
                                                 bool upper, bool transpose, bool unitriangular,
                                                 aclTensor *xOut, aclTensor *mOut,
                                                 uint64_t *workspaceSize,
                                                 aclOpExecutor **executor) {
  Check check("aclnnTriangularSolve");
  check.not_null(self, "self")
      .not_null(A, "A")
      .not_null(xOut, "xOut")
      .not_null(mOut, "mOut")
      .results(workspaceSize, executor);
  constexpr DTypeSet types = DTypeSet::of(ACL_FLOAT, ACL_DOUBLE);
  check.tensor(self, "self", types, kMaxTensorRank, 2).tensor(A, "A", types, kMaxTensorRank, 2);
  check.tensor(xOut, "xOut", types).tensor(mOut, "mOut", types);
  check.same_dtype(self, A).same_dtype(self, xOut).same_dtype(self, mOut);
  if (check.failed()) return check.status();
  check.that(!unitriangular || self->dtype == ACL_FLOAT, "unitriangular is for FLOAT alone");
  const View b = view_of(self), a = view_of(A);
  const int64_t n = a.shape.dim[a.shape.rank - 1], m = b.shape.dim[b.shape.rank - 1];
  check.that(a.shape.dim[a.shape.rank - 2] == n, "A is not square: %s", ShapeText(a.shape).text);
  check.that(b.shape.dim[b.shape.rank - 2] == n, "self has %lld rows, A %lld",
             static_cast<long long>(b.shape.dim[b.shape.rank - 2]), static_cast<long long>(n));
  Shape batch_a = a.shape, batch_b = b.shape, batch;
  batch_a.rank -= 2;
  batch_b.rank -= 2;
  check.that(broadcast_shapes(batch_a, batch_b, &batch),
             "the batch axes %s and %s cannot be broadcast", ShapeText(batch_a).text,
             ShapeText(batch_b).text);
  if (check.failed()) return check.status();
  Shape solution = batch, square = batch;
  solution.dim[solution.rank++] = n;
  solution.dim[solution.rank++] = m;
  square.dim[square.rank++] = n;
  square.dim[square.rank++] = n;
  check.has_shape(xOut, "xOut", solution).has_shape(mOut, "mOut", square);
  if (check.failed()) return check.status();
  Planner plan(check.op(), workspaceSize, executor);
  const int right = plan.input(self), left = plan.input(A);
  const int x = plan.output(xOut), copy = plan.output(mOut);
  plan.write(x, view_of(xOut));
  plan.write(copy, view_of(mOut));
  plan.read(right, broadcast(b, solution));
  plan.read(left, broadcast(a, square));
  plan.need_workspace(static_cast<uint64_t>(solution.count() + square.count()) *
                      size_of(self->dtype));
  return plan.finish(square.count() == 0 ? nullptr : triangular_solve_kernel,
                     SolveParams{upper, transpose, unitriangular});
}
ACLNN_RUN(aclnnTriangularSolve)

}  // extern "C"
