// layout.hpp: shapes, strides and dtypes as the ops see them (ggml order: axis 0 is the contiguous
// one).
#pragma once
#include <cstdint>
#include <string>

#include "aiocann.h"

namespace aiocann::core {

constexpr int kAxes = 4;
constexpr int kMaxViewAxes = 8;  ///< an aclTensor takes up to eight

/// Bytes of one element; 0 for dtypes that have no whole bytes (quantized blocks).
int64_t dtype_size(int32_t dtype);
/// What is stored together: one element, or a quantized block; and its bytes.
int64_t dtype_block(int32_t dtype);
int64_t dtype_block_bytes(int32_t dtype);
/// "f32", "i64", ...
const char *dtype_name(int32_t dtype);
/// The aclDataType with the same meaning.
int32_t acl_dtype(int32_t dtype);

/// Where and how a tensor lies, without the address.
struct Layout {
  int32_t dtype = AIOCANN_F32;
  int32_t n_dims = 1;
  int64_t ne[kAxes] = {1, 1, 1, 1};
  int64_t nb[kAxes] = {0, 0, 0, 0};

  Layout() = default;
  explicit Layout(const aiocann_tensor &tensor);
  /// Contiguous, with the shape of `shape` and another dtype.
  static Layout contiguous(const Layout &shape, int32_t dtype);

  int64_t elements() const;  ///< INT64_MAX when there are more
  int64_t rows() const;      ///< the same without the last axis
  bool is_empty() const { return elements() == 0; }
  bool is_contiguous() const;
  bool same_shape(const Layout &other) const;
  bool same_strides(const Layout &other) const;
  /// Bytes from the first byte of the first element to the end of the last; 0 when empty,
  /// UINT64_MAX when beyond any memory.
  uint64_t extent() const;
  /// "f32 (4, 7, 384)": NumPy order, as many axes as the user sees.
  std::string describe() const;
};

/// A layout of up to eight axes at an address: what becomes an aclTensor.
struct View {
  uint64_t address = 0;
  int32_t dtype = AIOCANN_F32;
  int32_t n = 0;
  int64_t ne[kMaxViewAxes] = {};
  int64_t nb[kMaxViewAxes] = {};

  View() = default;
  View(uint64_t where, const Layout &layout);
  /// Adds an outermost axis.
  View &push(int64_t extent, int64_t stride);
};

/// The shape of `layout` in NumPy order: "(4, 7, 384)".
std::string shape_text(const Layout &layout);

/// Does `small` repeat a whole number of times into `big` along every axis?
bool repeats_into(const Layout &small, const Layout &big);

/// Views of an element-wise operation of `big` (and its like-shaped result) with `small`, which
/// repeats into it: where an axis repeats more than once but has more than one element it is split
/// in two, so that aclnn's own broadcasting of one-element axes does the rest.
struct Broadcast {
  Broadcast(const Layout &big, const Layout &small);
  View of_big(uint64_t address,
              const Layout &layout) const;  ///< `layout` has big's shape
  View of_small(uint64_t address,
                const Layout &layout) const;  ///< `layout` has small's shape

 private:
  bool split_[kAxes];
  int64_t small_ne_[kAxes];
};

}  // namespace aiocann::core
