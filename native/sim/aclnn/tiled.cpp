#include "sim/aclnn/tiled.hpp"

#include <utility>

#include "sim/aclnn/check.hpp"

namespace aiocann::sim {

namespace {

constexpr int64_t kBytesOfRow = 32;

int64_t up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

Tiling tiling_of(aclDataType dtype, int64_t rows) {
  Tiling tiling;
  tiling.columns = kBytesOfRow / static_cast<int64_t>(size_of(dtype));
  tiling.rows = up(rows, Tiling::kRowsOfTile);
  return tiling;
}

View tiles_of(aclDataType dtype, const Shape &shape) {
  const Tiling tiling = tiling_of(dtype, shape.dim[shape.rank - 2]);
  View view;
  view.dtype = dtype;
  view.shape = shape;
  view.shape.rank += 1;
  const int at = shape.rank - 2;
  view.shape.dim[at] = up(shape.dim[shape.rank - 1], tiling.columns) / tiling.columns;
  view.shape.dim[at + 1] = tiling.rows;
  view.shape.dim[at + 2] = tiling.columns;
  int64_t stride = 1;
  for (int d = view.shape.rank - 1; d >= 0; --d) {
    view.stride[d] = stride;
    stride *= view.shape.dim[d];
  }
  return view;
}

TiledTensor::TiledTensor(const aclTensor *tensor) : matrix(view_of(tensor)) {
  const int rank = matrix.shape.rank;
  int64_t *dim = matrix.shape.dim + rank - 2;
  const int64_t *stride = matrix.stride + rank - 2;
  const bool straight = (stride[1] == 1 || dim[1] == 1) && (stride[0] == dim[1] || dim[0] == 1);
  const bool turned = (stride[0] == 1 || dim[0] == 1) && (stride[1] == dim[0] || dim[1] == 1);
  sound = straight || turned;
  Shape stored = matrix.shape;
  if (!straight) std::swap(stored.dim[rank - 2], stored.dim[rank - 1]);
  tiling = tiling_of(tensor->dtype, stored.dim[rank - 2]);
  tiling.turned = !straight;
  tiles = tiles_of(tensor->dtype, stored);
  for (int d = 0; d < rank - 2; ++d) matrix.stride[d] = tiles.stride[d];
}

}  // namespace aiocann::sim
