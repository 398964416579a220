// objects.hpp: what the opaque pointers of the aclnn interface point to.
//
// An object may be destroyed as soon as the second phase has returned: plans copy what they need. Only the data
// of a tensor is borrowed, and must outlive execution.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "acl_abi.h"
#include "sim/aclnn/live.hpp"

namespace aiocann::sim {

/// A list of dimensions. Tensors of up to eight axes, nearly all of them, need no allocation.
class Dims {
 public:
  void assign(const int64_t *values, uint64_t count) {
    if (count > kInline) {
      heap_.reset(new int64_t[count]);
    } else {
      heap_.reset();
    }
    if (count != 0) std::memcpy(data(), values, count * sizeof(int64_t));
    size_ = count;
  }
  /// Row-major strides of `shape`.
  void assign_contiguous(const Dims &shape) {
    assign(shape.data(), shape.size());
    // Unsigned: dimensions come unchecked from the program, and their product may not fit.
    uint64_t stride = 1;
    for (uint64_t d = size_; d-- > 0;) {
      data()[d] = static_cast<int64_t>(stride);
      stride *= static_cast<uint64_t>(shape[d]);
    }
  }
  uint64_t size() const { return size_; }
  const int64_t *data() const { return heap_ ? heap_.get() : inline_; }
  int64_t operator[](uint64_t index) const { return data()[index]; }

 private:
  static constexpr uint64_t kInline = 8;

  int64_t *data() { return heap_ ? heap_.get() : inline_; }

  uint64_t size_ = 0;
  int64_t inline_[kInline] = {};
  std::unique_ptr<int64_t[]> heap_;
};

}  // namespace aiocann::sim

struct aclTensor : aiocann::sim::Counted<&aiocann::sim::LiveObjects::tensors> {
  void init(const int64_t *view_dims, uint64_t n_view, aclDataType type,
            const int64_t *view_strides, int64_t view_offset, aclFormat layout,
            const int64_t *storage_dims, uint64_t n_storage, void *address);

  aiocann::sim::Dims shape, strides, storage_shape;
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_ND;
  int64_t offset = 0;  ///< elements between `data` and the first element of the view
  void *data = nullptr;
};

struct aclScalar : aiocann::sim::Counted<&aiocann::sim::LiveObjects::scalars> {
  aclDataType dtype = ACL_DT_UNDEFINED;
  unsigned char bytes[16] = {};

  double as_double() const;  ///< of a complex number the real part
  int64_t as_int() const;    ///< floating values are truncated and saturate
};

struct aclIntArray : aiocann::sim::Counted<&aiocann::sim::LiveObjects::arrays> {
  std::vector<int64_t> values;
};

struct aclFloatArray : aiocann::sim::Counted<&aiocann::sim::LiveObjects::arrays> {
  std::vector<float> values;
};

struct aclBoolArray : aiocann::sim::Counted<&aiocann::sim::LiveObjects::arrays> {
  std::vector<unsigned char> values;
};

/// Owns its members from creation on.
struct aclTensorList : aiocann::sim::Counted<&aiocann::sim::LiveObjects::lists> {
  std::vector<const aclTensor *> members;
};

/// Owns its members from creation on.
struct aclScalarList : aiocann::sim::Counted<&aiocann::sim::LiveObjects::lists> {
  std::vector<const aclScalar *> members;
};
