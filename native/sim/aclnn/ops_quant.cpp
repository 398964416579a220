// ops_quant.cpp: products with quantised weights, and weights in the cube unit's own format.
#include "sim/aclnn/check.hpp"
#include "sim/aclnn/executor.hpp"
#include "sim/aclnn/tiled.hpp"
#include "sim/error.hpp"
#include "sim/kernels/matmul.hpp"
#include "sim/kernels/quant.hpp"

namespace aiocann::sim {
namespace {

constexpr DTypeSet kHalves = DTypeSet::of(ACL_FLOAT16, ACL_BF16);
/// Axes of a weight.
constexpr int64_t kLongestWeight = 65535;

struct NoParams {};

/// A weight as rows of bytes.
struct WeightBytes {
  View view;
  int bits = 8;
  bool rows_along_k = true;
  int64_t k = 0, n = 0, byte_shift = 0;
};

/// Where the bytes of a weight are; false when neither of its axes lies in memory as a row.
bool bytes_of(const aclTensor *weight, WeightBytes *bytes) {
  View view = view_of(weight);
  bytes->bits = weight->dtype == ACL_INT8 ? 8 : 4;
  // Eight numbers of 4 bits fill an element of 32.
  const int64_t per_element = weight->dtype == ACL_INT32 ? 8 : 1;
  const bool by_rows = view.stride[1] == 1 || view.shape.dim[1] == 1;
  const bool by_columns = view.stride[0] == 1 || view.shape.dim[0] == 1;
  if (!by_rows && !by_columns) return false;
  // Of an axis of length 1 the stride says nothing: the other axis decides.
  const bool along_k = by_columns && !(view.stride[1] == 1 && view.shape.dim[1] != 1);
  bytes->rows_along_k = along_k;
  const int inner = along_k ? 0 : 1, outer = 1 - inner;
  int64_t length = view.shape.dim[inner] * per_element;
  int64_t step = view.stride[outer] * per_element;
  bytes->k = along_k ? length : view.shape.dim[0];
  bytes->n = along_k ? view.shape.dim[1] : length;
  const int64_t offset = weight->dtype == ACL_INT4 ? weight->offset : 0;
  if (bytes->bits == 4) {
    if (length % 2 != 0 || offset % 2 != 0 || (step % 2 != 0 && view.shape.dim[outer] != 1))
      return false;
    length /= 2;
    step /= 2;
    bytes->byte_shift = offset / 2;
  }
  bytes->view.dtype = ACL_INT8;
  bytes->view.shape.rank = 2;
  bytes->view.shape.dim[0] = view.shape.dim[outer];
  bytes->view.shape.dim[1] = length;
  bytes->view.stride[0] = view.shape.dim[outer] == 1 ? length : step;
  bytes->view.stride[1] = 1;
  return true;
}

/// A parameter for the whole weight, for its columns or for groups of rows, as [groups, n].
bool factors_of(const aclTensor *tensor, int64_t groups, int64_t n, View *view) {
  const View own = view_of(tensor);
  Shape wide;
  wide.rank = 2;
  wide.dim[0] = groups;
  wide.dim[1] = n;
  const int rank = own.shape.rank;
  if (rank < 1 || rank > 2) return false;
  const int64_t columns = own.shape.dim[rank - 1], rows = rank == 2 ? own.shape.dim[0] : 1;
  if (!(rows == groups && (columns == n || (columns == 1 && groups == 1)))) return false;
  *view = broadcast(own, wide);
  return true;
}

/// Likewise of the result, as [n].
bool columns_of(const aclTensor *tensor, int64_t n, bool whole, View *view) {
  View wide;
  if (!factors_of(tensor, 1, n, &wide)) return false;
  if (!whole && shape_of(tensor).dim[tensor->shape.size() - 1] != n) return false;
  *view = wide;
  view->shape.rank = 1;
  view->shape.dim[0] = n;
  view->stride[0] = wide.stride[1];
  return true;
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;  // NOLINT: the entry points are this file's whole business

extern "C" {

aclnnStatus aclnnWeightQuantBatchMatmulV2GetWorkspaceSize(
    const aclTensor *x, const aclTensor *weight, const aclTensor *antiquantScale,
    const aclTensor *antiquantOffsetOptional, const aclTensor *quantScaleOptional,
    const aclTensor *quantOffsetOptional, const aclTensor *biasOptional, int antiquantGroupSize,
    const aclTensor *y, uint64_t *workspaceSize, aclOpExecutor **executor) {
  Check check("aclnnWeightQuantBatchMatmulV2");
  check.not_null(x, "x")
      .not_null(weight, "weight")
      .not_null(antiquantScale, "antiquantScale")
      .not_null(y, "y")
      .results(workspaceSize, executor);
  check.needs_hbm();
  constexpr DTypeSet kEncoded = DTypeSet::of(ACL_UINT64, ACL_INT64);
  check.tensor(x, "x", kHalves, 2, 2);
  check.weight(weight, "weight", DTypeSet::of(ACL_INT8, ACL_INT4, ACL_INT32), 2, 2);
  check.tensor(antiquantScale, "antiquantScale", kHalves | kEncoded, 2, 1);
  check.tensor(y, "y", kHalves | DTypeSet::of(ACL_INT8), 2, 2);
  if (check.failed()) return check.status();
  const bool encoded = kEncoded.has(antiquantScale->dtype);
  check.that(encoded || antiquantScale->dtype == x->dtype, "x is %s but antiquantScale %s",
             name_of(x->dtype), name_of(antiquantScale->dtype));
  check.that(!encoded || (x->dtype == ACL_FLOAT16 && weight->dtype == ACL_INT8 &&
                          quantScaleOptional == nullptr && antiquantGroupSize == 0),
             "an antiquantScale of %s is for FLOAT16 with INT8 alone",
             name_of(antiquantScale->dtype));
  if (antiquantOffsetOptional != nullptr) {
    check.tensor(antiquantOffsetOptional, "antiquantOffset", kHalves | DTypeSet::of(ACL_INT32), 2,
                 1);
    check.same_shape(antiquantOffsetOptional, antiquantScale);
    check.that(antiquantOffsetOptional->dtype == (encoded ? ACL_INT32 : x->dtype),
               "antiquantOffset is %s", name_of(antiquantOffsetOptional->dtype));
  }
  check.that(quantOffsetOptional == nullptr || quantScaleOptional != nullptr,
             "there is a quantOffset but no quantScale");
  if (quantScaleOptional != nullptr)
    check.tensor(quantScaleOptional, "quantScale", DTypeSet::of(ACL_UINT64), 2, 1);
  if (quantOffsetOptional != nullptr) {
    check.tensor(quantOffsetOptional, "quantOffset", DTypeSet::of(ACL_FLOAT), 2, 1);
    check.same_shape(quantOffsetOptional, quantScaleOptional);
  }
  if (biasOptional != nullptr) {
    check.tensor(biasOptional, "bias", DTypeSet::of(x->dtype == ACL_BF16 ? ACL_FLOAT : ACL_FLOAT16),
                 2, 1);
  }
  check.that(y->dtype == (quantScaleOptional != nullptr ? ACL_INT8 : x->dtype), "y is %s",
             name_of(y->dtype));
  if (check.failed()) return check.status();

  WeightBytes bytes;
  const bool tiled = weight->format == ACL_FORMAT_FRACTAL_NZ;
  QuantParams p;
  if (tiled) {
    check.that(weight->dtype == ACL_INT8 && antiquantGroupSize == 0 && y->dtype != ACL_INT8,
               "a weight in FRACTAL_NZ is INT8, without groups");
    if (check.failed()) return check.status();
    const TiledTensor tensor(weight);
    check.that(tensor.sound, "weight has strides that FRACTAL_NZ cannot have");
    bytes.k = tensor.matrix.shape.dim[0];
    bytes.n = tensor.matrix.shape.dim[1];
    bytes.view = tensor.tiles;
    p.tiling = tensor.tiling;
  } else {
    check.that(bytes_of(weight, &bytes), "weight is neither in a row nor transposed");
  }
  if (check.failed()) return check.status();
  const View left = view_of(x);
  const int64_t m = left.shape.dim[0], k = bytes.k, n = bytes.n;
  check.that(left.shape.dim[1] == k, "x has %lld columns but weight %lld rows",
             static_cast<long long>(left.shape.dim[1]), static_cast<long long>(k));
  check.that(
      m >= 1 && m <= INT32_MAX && k >= 1 && k <= kLongestWeight && n >= 1 && n <= kLongestWeight,
      "the product of %lld x %lld and %lld x %lld is not supported", static_cast<long long>(m),
      static_cast<long long>(k), static_cast<long long>(k), static_cast<long long>(n));
  check.that(antiquantGroupSize == 0 || (antiquantGroupSize >= 32 && antiquantGroupSize < k &&
                                         antiquantGroupSize % 32 == 0),
             "antiquantGroupSize is %d", antiquantGroupSize);
  if (check.failed()) return check.status();

  p.k = k;
  p.n = n;
  p.group = antiquantGroupSize == 0 ? k : antiquantGroupSize;
  p.bits = bytes.bits;
  p.rows_along_k = bytes.rows_along_k;
  p.encoded_scale = encoded;
  const int64_t groups = (k + p.group - 1) / p.group;
  View scale, offset, bias, out_scale, out_offset;
  check.that(factors_of(antiquantScale, groups, n, &scale), "antiquantScale has shape %s",
             ShapeText(shape_of(antiquantScale)).text);
  if (antiquantOffsetOptional != nullptr) factors_of(antiquantOffsetOptional, groups, n, &offset);
  if (biasOptional != nullptr) {
    check.that(columns_of(biasOptional, n, false, &bias), "bias has shape %s",
               ShapeText(shape_of(biasOptional)).text);
  }
  if (quantScaleOptional != nullptr) {
    check.that(columns_of(quantScaleOptional, n, true, &out_scale), "quantScale has shape %s",
               ShapeText(shape_of(quantScaleOptional)).text);
  }
  if (quantOffsetOptional != nullptr) columns_of(quantOffsetOptional, n, true, &out_offset);
  Shape expected;
  expected.rank = 2;
  expected.dim[0] = m;
  expected.dim[1] = n;
  check.has_shape(y, "y", expected);
  if (check.failed()) return check.status();

  Planner plan(check.op(), workspaceSize, executor);
  const int x_slot = plan.input(x), w = plan.input(weight), s = plan.input(antiquantScale);
  const int o = plan.input(antiquantOffsetOptional), qs = plan.input(quantScaleOptional);
  const int qo = plan.input(quantOffsetOptional), b = plan.input(biasOptional);
  const int to = plan.output(y);
  plan.write(to, view_of(y));
  plan.read(x_slot, left);
  plan.read(w, bytes.view, bytes.byte_shift);
  plan.read(s, scale);
  int16_t next = 4;
  const auto add = [&](const aclTensor *tensor, int slot, const View &view, int16_t *place) {
    if (tensor == nullptr) return;
    plan.read(slot, view);
    *place = next++;
  };
  add(antiquantOffsetOptional, o, offset, &p.offset);
  add(biasOptional, b, bias, &p.bias);
  add(quantScaleOptional, qs, out_scale, &p.out_scale);
  add(quantOffsetOptional, qo, out_offset, &p.out_offset);
  plan.need_workspace(static_cast<uint64_t>(m * n) * sizeof(float));
  return plan.finish(quant_matmul_kernel, p);
}
ACLNN_RUN(aclnnWeightQuantBatchMatmulV2)

aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray *tensorShape, aclDataType dataType,
                                             uint64_t *weightTensorSize) {
  Check check("aclnnCalculateMatmulWeightSizeV2");
  check.not_null(tensorShape, "tensorShape").not_null(weightTensorSize, "weightTensorSize");
  if (check.failed()) return check.status();
  const size_t rank = tensorShape->values.size();
  check.that((kHalves | DTypeSet::of(ACL_INT8)).has(dataType), "%s is not supported",
             name_of(dataType));
  check.that(rank >= 2 && rank <= 6, "tensorShape has %zu dimensions, not 2 to 6", rank);
  if (check.failed()) return check.status();
  Shape shape;
  int64_t count = 1;
  for (const int64_t dim : tensorShape->values) {
    check.that(dim > 0 && dim < INT32_MAX && !__builtin_mul_overflow(count, dim + 31, &count),
               "tensorShape has the dimension %lld", static_cast<long long>(dim));
    shape.dim[shape.rank++] = dim;
  }
  if (check.failed()) return check.status();
  *weightTensorSize = static_cast<uint64_t>(tiles_of(dataType, shape).count());
  return ACLNN_SUCCESS;
}

aclnnStatus aclnnTransMatmulWeightGetWorkspaceSize(aclTensor *mmWeightRef, uint64_t *workspaceSize,
                                                   aclOpExecutor **executor) {
  Check check("aclnnTransMatmulWeight");
  check.not_null(mmWeightRef, "mmWeightRef").results(workspaceSize, executor);
  if (check.failed()) return check.status();
  const int max_rank = mmWeightRef->dtype == ACL_INT8 ? 6 : 3;
  check.tensor(mmWeightRef, "mmWeightRef", kHalves | DTypeSet::of(ACL_INT8), max_rank, 2);
  if (check.failed()) return check.status();
  Planner plan(check.op(), workspaceSize, executor);
  const int slot = plan.in_place(mmWeightRef);
  const View from = view_of(mmWeightRef);
  if (from.count() == 0) return plan.finish(nullptr);
  const View tiles = tiles_of(from.dtype, from.shape);
  plan.write(slot, tiles);
  plan.read(slot, from);
  plan.need_workspace(static_cast<uint64_t>(tiles.count()) * size_of(tiles.dtype));
  const aclnnStatus status = plan.finish(tile_kernel, NoParams{});
  if (status != ACLNN_SUCCESS) return status;
  // From here on the tensor describes what will be there.
  const int rank = tiles.shape.rank;
  int64_t storage[kMaxRank] = {};
  for (int d = 0; d < rank; ++d) storage[d] = tiles.shape.dim[d];
  storage[rank] = storage[rank - 1];  // [..., blocks, tiles, rows of a tile, columns of a tile]
  storage[rank - 1] = Tiling::kRowsOfTile;
  storage[rank - 2] /= Tiling::kRowsOfTile;
  mmWeightRef->storage_shape.assign(storage, static_cast<uint64_t>(rank) + 1);
  mmWeightRef->strides.assign_contiguous(mmWeightRef->shape);
  mmWeightRef->format = ACL_FORMAT_FRACTAL_NZ;
  return status;
}
ACLNN_RUN(aclnnTransMatmulWeight)

}  // extern "C"
