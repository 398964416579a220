// convert.hpp: elements of any type to and from the three types that kernels compute in.
#pragma once
#include <cstddef>
#include <cstdint>

#include "acl_abi.h"
#include "sim/kernels/dtype.hpp"

namespace aiocann::sim {

/// Reads n elements that lie in a row. `in` need not be aligned.
void read_elements(float *out, const void *in, aclDataType dtype, size_t n);
void read_elements(double *out, const void *in, aclDataType dtype, size_t n);
void read_elements(int64_t *out, const void *in, aclDataType dtype, size_t n);

/// Writes n elements in a row, rounding to nearest even. Floating values become integers by truncation; they
/// saturate, and NaN becomes 0. Integers wrap. Booleans are "not zero".
void write_elements(void *out, aclDataType dtype, const float *in, size_t n);
void write_elements(void *out, aclDataType dtype, const double *in, size_t n);
void write_elements(void *out, aclDataType dtype, const int64_t *in, size_t n);

/// Makes values what they would be after a round trip through `dtype`.
void requantise(float *data, aclDataType dtype, size_t n);
void requantise(double *data, aclDataType dtype, size_t n);
void requantise(int64_t *data, aclDataType dtype, size_t n);

/// Copies n elements of `item` bytes that lie `stride` elements apart into a row, and back. Stride 0 repeats.
void gather_row(void *out, const void *in, size_t item, ptrdiff_t stride, size_t n);
void scatter_row(void *out, const void *in, size_t item, ptrdiff_t stride, size_t n);
/// Element i of `out`, `stride` elements after the one before, becomes the one `places[i]` elements into `in`.
void pick_row(void *out, ptrdiff_t stride, const void *in, const int64_t *places, size_t item,
              size_t n);

/// The type whose values a computing type holds exactly: no conversion is needed.
template <class T>
constexpr aclDataType native_dtype();
template <>
constexpr aclDataType native_dtype<float>() {
  return ACL_FLOAT;
}
template <>
constexpr aclDataType native_dtype<double>() {
  return ACL_DOUBLE;
}
template <>
constexpr aclDataType native_dtype<int64_t>() {
  return ACL_INT64;
}

}  // namespace aiocann::sim
