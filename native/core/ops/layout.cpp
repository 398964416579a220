#include "core/ops/layout.hpp"

#include "acl_abi.h"
#include "core/blocks.hpp"

namespace aiocann::core {
namespace {

struct DtypeRow {
  const char *name;
  int64_t size;
  int32_t acl;
};

// Indexed by AIOCANN_F32 .. AIOCANN_Q8_0.
constexpr DtypeRow kDtypes[] = {
    {"f32", 4, ACL_FLOAT}, {"f16", 2, ACL_FLOAT16}, {"bf16", 2, ACL_BF16},
    {"i8", 1, ACL_INT8},   {"i16", 2, ACL_INT16},   {"i32", 4, ACL_INT32},
    {"i64", 8, ACL_INT64}, {"q4_0", 0, ACL_INT4},   {"q8_0", 0, ACL_INT8},
};

/// Shapes come from outside: what is larger than any memory stays that.
int64_t times(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

}  // namespace

int64_t dtype_size(int32_t dtype) {
  return dtype >= 0 && dtype <= AIOCANN_Q8_0 ? kDtypes[dtype].size : 0;
}

int64_t dtype_block(int32_t dtype) { return block_form(dtype).block == 0 ? 1 : kBlock; }

int64_t dtype_block_bytes(int32_t dtype) {
  const uint64_t block = block_form(dtype).block;
  return block == 0 ? dtype_size(dtype) : static_cast<int64_t>(block);
}

const char *dtype_name(int32_t dtype) {
  return dtype >= 0 && dtype <= AIOCANN_Q8_0 ? kDtypes[dtype].name : "?";
}

int32_t acl_dtype(int32_t dtype) { return kDtypes[dtype].acl; }

Layout::Layout(const aiocann_tensor &tensor) : dtype(tensor.dtype), n_dims(tensor.n_dims) {
  for (int i = 0; i < kAxes; ++i) {
    ne[i] = tensor.ne[i];
    nb[i] = tensor.nb[i];
  }
}

Layout Layout::contiguous(const Layout &shape, int32_t dtype) {
  Layout out;
  out.dtype = dtype;
  out.n_dims = shape.n_dims;
  int64_t stride = dtype_block_bytes(dtype);
  for (int i = 0; i < kAxes; ++i) {
    out.ne[i] = shape.ne[i];
    out.nb[i] = stride;
    stride = times(stride, i == 0 ? shape.ne[0] / dtype_block(dtype) : shape.ne[i]);
  }
  return out;
}

int64_t Layout::elements() const { return ne[0] == 0 ? 0 : times(ne[0], rows()); }

int64_t Layout::rows() const {
  for (int i = 1; i < kAxes; ++i) {
    if (ne[i] == 0) return 0;
  }
  return times(times(ne[1], ne[2]), ne[3]);
}

bool Layout::is_contiguous() const {
  int64_t stride = dtype_block_bytes(dtype);
  for (int i = 0; i < kAxes; ++i) {
    if (ne[i] != 1 && nb[i] != stride)
      return false;  // the stride of a one-element axis is never used
    stride = times(stride, i == 0 ? ne[0] / dtype_block(dtype) : ne[i]);
  }
  return true;
}

bool Layout::same_shape(const Layout &other) const {
  for (int i = 0; i < kAxes; ++i) {
    if (ne[i] != other.ne[i]) return false;
  }
  return true;
}

bool Layout::same_strides(const Layout &other) const {
  for (int i = 0; i < kAxes; ++i) {
    if (nb[i] != other.nb[i] && ne[i] != 1) return false;
  }
  return true;
}

uint64_t Layout::extent() const {
  if (is_empty()) return 0;
  int64_t bytes = dtype_block_bytes(dtype);
  for (int i = 0; i < kAxes; ++i) {
    const int64_t steps = (i == 0 ? ne[0] / dtype_block(dtype) : ne[i]) - 1;
    int64_t span = 0;
    if (__builtin_mul_overflow(steps, nb[i], &span) ||
        __builtin_add_overflow(bytes, span, &bytes)) {
      return UINT64_MAX;
    }
  }
  return static_cast<uint64_t>(bytes);
}

std::string shape_text(const Layout &layout) {
  std::string text = "(";
  for (int i = layout.n_dims - 1; i >= 0; --i) {
    text += std::to_string(layout.ne[i]);
    if (i > 0) text += ", ";
  }
  return text + (layout.n_dims == 1 ? ",)" : ")");
}

std::string Layout::describe() const {
  return std::string(dtype_name(dtype)) + " " + shape_text(*this);
}

View::View(uint64_t where, const Layout &layout) : address(where), dtype(layout.dtype) {
  for (int i = 0; i < kAxes; ++i) push(layout.ne[i], layout.nb[i]);
}

View &View::push(int64_t extent, int64_t stride) {
  ne[n] = extent;
  nb[n] = stride;
  ++n;
  return *this;
}

bool repeats_into(const Layout &small, const Layout &big) {
  for (int i = 0; i < kAxes; ++i) {
    if (small.ne[i] == 0 ? big.ne[i] != 0 : big.ne[i] % small.ne[i] != 0) return false;
  }
  return true;
}

Broadcast::Broadcast(const Layout &big, const Layout &small) {
  for (int i = 0; i < kAxes; ++i) {
    split_[i] = small.ne[i] > 1 && big.ne[i] != small.ne[i];
    small_ne_[i] = small.ne[i];
  }
}

View Broadcast::of_big(uint64_t address, const Layout &layout) const {
  View view;
  view.address = address;
  view.dtype = layout.dtype;
  for (int i = 0; i < kAxes; ++i) {
    if (split_[i]) {
      view.push(small_ne_[i], layout.nb[i]);
      view.push(layout.ne[i] / small_ne_[i], layout.nb[i] * small_ne_[i]);
    } else {
      view.push(layout.ne[i], layout.nb[i]);
    }
  }
  return view;
}

View Broadcast::of_small(uint64_t address, const Layout &layout) const {
  View view;
  view.address = address;
  view.dtype = layout.dtype;
  for (int i = 0; i < kAxes; ++i) {
    view.push(layout.ne[i], layout.nb[i]);
    if (split_[i]) view.push(1, layout.nb[i] * layout.ne[i]);
  }
  return view;
}

}  // namespace aiocann::core
