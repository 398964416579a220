// tiled.hpp: tensors in FRACTAL_NZ.
#pragma once
#include "sim/aclnn/objects.hpp"
#include "sim/kernels/matmul.hpp"
#include "sim/kernels/view.hpp"

namespace aiocann::sim {

/// The tiles of a matrix of `rows` x `columns`.
Tiling tiling_of(aclDataType dtype, int64_t rows);
/// [batch..., blocks, rows of a block, columns of a block]: all that a tiled tensor of this shape holds.
View tiles_of(aclDataType dtype, const Shape &shape);

/// How a tensor in FRACTAL_NZ is read. Its strides tell whether it is the tiled matrix or the transpose of it; where
/// they say neither, `sound` is false.
struct TiledTensor {
  explicit TiledTensor(const aclTensor *tensor);

  bool sound = true;
  Tiling tiling;
  View matrix;  ///< the tensor's shape; only the strides of batch axes mean anything
  View tiles;
};

}  // namespace aiocann::sim
