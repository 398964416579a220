// view.hpp: the one tensor type that kernels see: an address, a type, a shape, strides.
#pragma once
#include <cstddef>
#include <cstdint>

#include "acl_abi.h"

namespace aiocann::sim {

/// Axes of a tensor that an operator accepts.
constexpr int kMaxTensorRank = 8;
/// Axes of a view: twice as many, because repeating splits an axis in two.
constexpr int kMaxRank = 2 * kMaxTensorRank;

struct Shape {
  int rank = 0;
  int64_t dim[kMaxRank] = {};

  int64_t count() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= dim[d];
    return n;
  }
  bool operator==(const Shape &other) const {
    if (rank != other.rank) return false;
    for (int d = 0; d < rank; ++d) {
      if (dim[d] != other.dim[d]) return false;
    }
    return true;
  }
  bool operator!=(const Shape &other) const { return !(*this == other); }
};

/// Borrows memory. Strides are in elements and may be 0 (broadcast).
struct View {
  char *data = nullptr;
  aclDataType dtype = ACL_DT_UNDEFINED;
  Shape shape;
  int64_t stride[kMaxRank] = {};

  int64_t count() const { return shape.count(); }
};

}  // namespace aiocann::sim
