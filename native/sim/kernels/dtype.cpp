#include "sim/kernels/dtype.hpp"

namespace aiocann::sim {

size_t size_of(aclDataType dtype) {
  switch (dtype) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
      return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
      return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
      return 4;
    case ACL_DOUBLE:
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_COMPLEX64:
      return 8;
    case ACL_COMPLEX128:
      return 16;
    default:
      return 0;
  }
}

const char *name_of(aclDataType dtype) {
  switch (dtype) {
    case ACL_FLOAT:
      return "FLOAT";
    case ACL_FLOAT16:
      return "FLOAT16";
    case ACL_BF16:
      return "BF16";
    case ACL_DOUBLE:
      return "DOUBLE";
    case ACL_INT8:
      return "INT8";
    case ACL_UINT8:
      return "UINT8";
    case ACL_INT16:
      return "INT16";
    case ACL_UINT16:
      return "UINT16";
    case ACL_INT32:
      return "INT32";
    case ACL_UINT32:
      return "UINT32";
    case ACL_INT64:
      return "INT64";
    case ACL_UINT64:
      return "UINT64";
    case ACL_BOOL:
      return "BOOL";
    case ACL_INT4:
      return "INT4";
    case ACL_COMPLEX64:
      return "COMPLEX64";
    case ACL_COMPLEX128:
      return "COMPLEX128";
    default:
      return "an unknown type";
  }
}

bool is_float(aclDataType dtype) {
  return dtype == ACL_FLOAT || dtype == ACL_FLOAT16 || dtype == ACL_BF16 || dtype == ACL_DOUBLE;
}

bool is_integer(aclDataType dtype) {
  switch (dtype) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_INT16:
    case ACL_UINT16:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_INT64:
    case ACL_UINT64:
      return true;
    default:
      return false;
  }
}

bool is_complex(aclDataType dtype) { return dtype == ACL_COMPLEX64 || dtype == ACL_COMPLEX128; }

namespace {

bool is_wide_unsigned(aclDataType dtype) {
  return dtype == ACL_UINT16 || dtype == ACL_UINT32 || dtype == ACL_UINT64;
}

/// 0 bool, 1 integer, 2 floating, 3 complex, -1 unknown.
int category(aclDataType dtype) {
  if (dtype == ACL_BOOL) return 0;
  if (is_integer(dtype)) return 1;
  if (is_float(dtype)) return 2;
  if (is_complex(dtype)) return 3;
  return -1;
}

}  // namespace

aclDataType promote(aclDataType a, aclDataType b) {
  const int ca = category(a), cb = category(b);
  if (ca < 0 || cb < 0) return ACL_DT_UNDEFINED;
  if (a == b) return a;
  if (is_wide_unsigned(a) || is_wide_unsigned(b)) return ACL_DT_UNDEFINED;
  if (ca != cb) {
    const aclDataType high = ca > cb ? a : b, low = ca > cb ? b : a;
    if (high == ACL_COMPLEX64 && low == ACL_DOUBLE) return ACL_COMPLEX128;
    return high;
  }
  if (ca == 3) return ACL_COMPLEX128;
  if (ca == 2) {
    if (a == ACL_DOUBLE || b == ACL_DOUBLE) return ACL_DOUBLE;
    return ACL_FLOAT;  // f16 with bf16, or either with f32
  }
  if (size_of(a) == size_of(b)) return ACL_INT16;  // int8 with uint8
  const aclDataType wide = size_of(a) > size_of(b) ? a : b;
  return wide;  // the wider one is signed here
}

aclDataType promote_scalar(aclDataType tensor, aclDataType scalar) {
  const int ct = category(tensor), cs = category(scalar);
  if (ct < 0 || cs < 0) return ACL_DT_UNDEFINED;
  if (ct >= cs) return tensor;
  if (is_wide_unsigned(tensor) || (tensor == ACL_BOOL && is_wide_unsigned(scalar))) {
    return cs == 3 ? ACL_COMPLEX64 : ACL_DT_UNDEFINED;
  }
  if (cs == 3) return tensor == ACL_DOUBLE ? ACL_COMPLEX128 : ACL_COMPLEX64;
  if (cs == 2) return ACL_FLOAT;
  return scalar;  // a bool tensor with an integer scalar
}

bool can_convert(aclDataType from, aclDataType to) {
  const int cf = category(from), ct = category(to);
  if (cf < 0 || ct < 0) return false;
  if (ct == 0) return cf == 0;
  if (cf == 3) return ct == 3 || ct == 2;
  return true;
}

Domain domain_of(aclDataType dtype) {
  if (dtype == ACL_DOUBLE) return Domain::kF64;
  return is_float(dtype) ? Domain::kF32 : Domain::kI64;
}

}  // namespace aiocann::sim
