// ops_matmul.cpp: matrix products.
#include "sim/aclnn/check.hpp"
#include "sim/aclnn/executor.hpp"
#include "sim/aclnn/tiled.hpp"
#include "sim/kernels/matmul.hpp"

namespace aiocann::sim {
namespace {

/// Longer axes would not fit BLAS's integers.
constexpr int64_t kLongest = INT32_MAX;

struct Product {
  const char *name;
  int8_t highest_math_type;
  int min_rank, max_rank;
};

/// Element types and cubeMathType; leaves the type of the result in `type` and the rounding in `params`.
void check_types(Check *check, const aclTensor *self, const aclTensor *mat2, const aclTensor *out,
                 int8_t cube_math_type, int8_t highest, aclDataType *type, MatmulParams *params) {
  if (check->failed()) return;
  check->that(cube_math_type >= 0 && cube_math_type <= highest, "cubeMathType is %d, not 0 to %d",
              static_cast<int>(cube_math_type), static_cast<int>(highest));
  *type = promote(self->dtype, mat2->dtype);
  const bool mixed_bf16 =
      self->dtype != mat2->dtype && (self->dtype == ACL_BF16 || mat2->dtype == ACL_BF16);
  check->that(!mixed_bf16, "%s and %s cannot be combined", name_of(self->dtype),
              name_of(mat2->dtype));
  check->that(can_convert(*type, out->dtype), "the result is %s and cannot be stored as %s",
              name_of(*type), name_of(out->dtype));
  if (check->failed()) return;
  params->via =
      *type == out->dtype || size_of(*type) < size_of(out->dtype) ? ACL_DT_UNDEFINED : *type;
  if (*type == ACL_FLOAT) {
    // 1: "may lose precision" means HFLOAT32 on the chips that the simulator stands for.
    if (cube_math_type == 2) params->rounding = MatmulRounding::kF16;
    if (cube_math_type == 1 || cube_math_type == 3) params->rounding = MatmulRounding::kHf32;
  }
}

uint64_t workspace_for(const View &view, aclDataType type) {
  // A transposed matrix is read where it is.
  View turned = view;
  const int rank = view.shape.rank;
  if (rank >= 2) {
    std::swap(turned.shape.dim[rank - 1], turned.shape.dim[rank - 2]);
    std::swap(turned.stride[rank - 1], turned.stride[rank - 2]);
  }
  if (view.dtype == type && (is_contiguous(view) || is_contiguous(turned))) return 0;
  return static_cast<uint64_t>(view.count()) * size_of(type);
}

aclnnStatus plan_product(const Product &op, const aclTensor *self, const aclTensor *mat2,
                         const aclTensor *out, int8_t cube_math_type, uint64_t *workspace,
                         aclOpExecutor **executor) {
  Check check(op.name);
  check.not_null(self, "self")
      .not_null(mat2, "mat2")
      .not_null(out, "out")
      .results(workspace, executor);
  check.tensor(self, "self", kHalfAndFloat, op.max_rank, op.min_rank);
  check.weight(mat2, "mat2", kHalfAndFloat, op.max_rank, op.min_rank);
  check.tensor(out, "out", kHalfAndFloat, op.max_rank);
  aclDataType type = ACL_DT_UNDEFINED;
  MatmulParams params;
  check_types(&check, self, mat2, out, cube_math_type, op.highest_math_type, &type, &params);
  if (check.failed()) return check.status();

  View a = view_of(self), b = view_of(mat2);
  const bool tiled = mat2->format == ACL_FORMAT_FRACTAL_NZ;
  View tiles;
  if (tiled) {
    check.that(b.shape.rank >= 2, "a vector cannot be in FRACTAL_NZ");
    if (check.failed()) return check.status();
    const TiledTensor tensor(mat2);
    check.that(tensor.sound, "mat2 has strides that FRACTAL_NZ cannot have");
    b = tensor.matrix;
    tiles = tensor.tiles;
    params.tiling = tensor.tiling;
  }
  const bool vector_a = a.shape.rank == 1, vector_b = b.shape.rank == 1;
  if (vector_a) {  // (k) stands for (1, k)
    a.shape.dim[1] = a.shape.dim[0];
    a.stride[1] = a.stride[0];
    a.shape.dim[0] = 1;
    a.stride[0] = 0;
    a.shape.rank = 2;
  }
  if (vector_b) {  // (k) stands for (k, 1)
    b.shape.dim[1] = 1;
    b.stride[1] = 0;
    b.shape.rank = 2;
  }
  const int ra = a.shape.rank, rb = b.shape.rank;
  const int64_t m = a.shape.dim[ra - 2], k = a.shape.dim[ra - 1], n = b.shape.dim[rb - 1];
  check.that(k == b.shape.dim[rb - 2], "self has %lld columns but mat2 %lld rows",
             static_cast<long long>(k), static_cast<long long>(b.shape.dim[rb - 2]));
  check.that(m <= kLongest && k <= kLongest && n <= kLongest, "an axis is longer than %lld",
             static_cast<long long>(kLongest));
  Shape batch_a = a.shape, batch_b = b.shape, shape;
  batch_a.rank -= 2;
  batch_b.rank -= 2;
  check.that(broadcast_shapes(batch_a, batch_b, &shape),
             "the batch axes %s and %s cannot be broadcast", ShapeText(batch_a).text,
             ShapeText(batch_b).text);
  if (check.failed()) return check.status();
  const int n_batch = shape.rank;
  Shape result = shape;
  if (!vector_a) result.dim[result.rank++] = m;
  if (!vector_b) result.dim[result.rank++] = n;
  check.has_shape(out, "out", result);
  if (check.failed()) return check.status();

  View c = view_of(out);
  if (vector_b) {
    c.shape.dim[c.shape.rank] = 1;
    c.stride[c.shape.rank++] = vector_a ? 1 : 0;
  }
  if (vector_a) {
    c.shape.dim[n_batch + 1] = c.shape.dim[n_batch];
    c.stride[n_batch + 1] = c.stride[n_batch];
    c.shape.dim[n_batch] = 1;
    c.stride[n_batch] = 0;
    c.shape.rank = n_batch + 2;
  }
  Shape wide_a = shape, wide_b = shape;
  wide_a.dim[wide_a.rank++] = m;
  wide_a.dim[wide_a.rank++] = k;
  wide_b.dim[wide_b.rank++] = k;
  wide_b.dim[wide_b.rank++] = n;

  Planner plan(op.name, workspace, executor);
  const int x = plan.input(self), y = plan.input(mat2), to = plan.output(out);
  plan.write(to, c);
  plan.read(x, broadcast(a, wide_a));
  plan.read(y, broadcast(b, wide_b));
  if (tiled) plan.read(y, tiles);
  plan.need_workspace(workspace_for(a, type) + workspace_for(b, type));
  return plan.finish(c.count() == 0 ? nullptr : matmul_kernel, params);
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;  // NOLINT: the entry points are this file's whole business

extern "C" {

aclnnStatus aclnnMmGetWorkspaceSize(const aclTensor *self, const aclTensor *mat2, aclTensor *out,
                                    int8_t cubeMathType, uint64_t *workspaceSize,
                                    aclOpExecutor **executor) {
  static constexpr Product op{"aclnnMm", 4, 2, 2};
  return plan_product(op, self, mat2, out, cubeMathType, workspaceSize, executor);
}
ACLNN_RUN(aclnnMm)

aclnnStatus aclnnMatmulGetWorkspaceSize(const aclTensor *self, const aclTensor *mat2,
                                        aclTensor *out, int8_t cubeMathType,
                                        uint64_t *workspaceSize, aclOpExecutor **executor) {
  static constexpr Product op{"aclnnMatmul", 4, 1, 6};
  return plan_product(op, self, mat2, out, cubeMathType, workspaceSize, executor);
}
ACLNN_RUN(aclnnMatmul)

aclnnStatus aclnnBatchMatMulGetWorkspaceSize(const aclTensor *self, const aclTensor *mat2,
                                             aclTensor *out, int8_t cubeMathType,
                                             uint64_t *workspaceSize, aclOpExecutor **executor) {
  static constexpr Product op{"aclnnBatchMatMul", 3, 3, 3};
  return plan_product(op, self, mat2, out, cubeMathType, workspaceSize, executor);
}
ACLNN_RUN(aclnnBatchMatMul)

aclnnStatus aclnnMvGetWorkspaceSize(const aclTensor *self, const aclTensor *vec, aclTensor *out,
                                    int8_t cubeMathType, uint64_t *workspaceSize,
                                    aclOpExecutor **executor) {
  static constexpr Product op{"aclnnMv", 3, 1, 2};
  Check check("aclnnMv");
  check.not_null(self, "self").not_null(vec, "vec").not_null(out, "out");
  check.tensor(self, "self", kHalfAndFloat, 2, 2).tensor(vec, "vec", kHalfAndFloat, 1, 1);
  check.same_dtype(self, vec).tensor(out, "out", kHalfAndFloat, 1, 1).same_dtype(self, out);
  if (check.failed()) return check.status();
  return plan_product(op, self, vec, out, cubeMathType, workspaceSize, executor);
}
ACLNN_RUN(aclnnMv)

}  // extern "C"
