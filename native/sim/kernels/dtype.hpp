// dtype.hpp: what the element types are, and how they combine.
#pragma once
#include <cstddef>
#include <cstdint>

#include "acl_abi.h"

namespace aiocann::sim {

/// Bytes of one element; 0 for a type that the simulator does not hold.
size_t size_of(aclDataType dtype);
const char *name_of(aclDataType dtype);

bool is_float(aclDataType dtype);    ///< f16, bf16, f32, f64
bool is_integer(aclDataType dtype);  ///< signed and unsigned; not bool
bool is_complex(aclDataType dtype);

/// The type in which two tensors of these types are combined, ACL_DT_UNDEFINED when they cannot be. The table is
/// the published "deduction relationship" of tensors, which follows PyTorch.
aclDataType promote(aclDataType a, aclDataType b);
/// The same for a tensor and a scalar: a scalar changes the tensor's type only when it is of a higher category.
aclDataType promote_scalar(aclDataType tensor, aclDataType scalar);
/// The published "conversion relationship": whether a result of type `from` may be stored as `to`.
bool can_convert(aclDataType from, aclDataType to);

/// A set of element types, as support lists give them.
struct DTypeSet {
  uint64_t bits = 0;

  template <class... D>
  static constexpr DTypeSet of(D... dtypes) {
    return DTypeSet{((uint64_t{1} << static_cast<unsigned>(dtypes)) | ... | 0)};
  }
  constexpr bool has(aclDataType dtype) const {
    return dtype >= 0 && dtype < 64 && ((bits >> static_cast<unsigned>(dtype)) & 1) != 0;
  }
  constexpr DTypeSet operator|(DTypeSet other) const { return DTypeSet{bits | other.bits}; }
};

/// How numbers of a type are held while a kernel computes with them.
enum class Domain { kF32, kF64, kI64 };
Domain domain_of(aclDataType dtype);

}  // namespace aiocann::sim
