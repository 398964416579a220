#include "sim/kernels/convert.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "sim/kernels/table.hpp"

namespace aiocann::sim {
namespace {

template <class To, class From>
To number(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != 0;
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Limits = std::numeric_limits<To>;
    // The bounds as From may round up: compare so that what passes fits.
    if (!(value == value)) return 0;
    if (value >= -static_cast<From>(Limits::min()) && Limits::min() != 0) return Limits::max();
    if (Limits::min() == 0 && value >= std::ldexp(static_cast<From>(1), Limits::digits))
      return Limits::max();
    if (value <= static_cast<From>(Limits::min())) return Limits::min();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <class Element, class T>
void read_as(T *out, const void *in, size_t n) {
  const auto *bytes = static_cast<const char *>(in);
  for (size_t i = 0; i < n; ++i) {
    Element element;
    std::memcpy(&element, bytes + i * sizeof(Element), sizeof(Element));
    out[i] = number<T>(element);
  }
}

/// A bool's byte may hold anything.
template <class T>
void read_bool(T *out, const void *in, size_t n) {
  const auto *bytes = static_cast<const unsigned char *>(in);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<T>(bytes[i] != 0);
}

template <class Element, class T>
void write_as(void *out, const T *in, size_t n) {
  auto *bytes = static_cast<char *>(out);
  for (size_t i = 0; i < n; ++i) {
    const Element element = number<Element>(in[i]);
    std::memcpy(bytes + i * sizeof(Element), &element, sizeof(Element));
  }
}

/// The nearest float with the last bit set when inexact: rounding it once more to fewer bits rounds the double.
float round_to_odd(double x) {
  const auto nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || nearest != nearest) return nearest;
  uint32_t u;
  std::memcpy(&u, &nearest, sizeof u);
  if ((u & 1) == 0) {
    // Of the two neighbours the odd one: one step towards x.
    const bool up = static_cast<double>(nearest) < x;
    const bool positive = !std::signbit(nearest);
    if (nearest == 0) {
      u = std::signbit(x) ? 0x80000001u : 1u;
    } else {
      u = up == positive ? u + 1 : u - 1;
    }
  }
  float odd;
  std::memcpy(&odd, &u, sizeof odd);
  return odd;
}

/// Integers beyond 24 bits likewise.
float round_to_odd(int64_t x) {
  const uint64_t magnitude = x < 0 ? ~static_cast<uint64_t>(x) + 1 : static_cast<uint64_t>(x);
  if (magnitude < (uint64_t{1} << 24)) return static_cast<float>(x);
  const int shift = 64 - 24 - __builtin_clzll(magnitude);
  const uint64_t kept = magnitude >> shift;
  const bool inexact = (kept << shift) != magnitude;
  const float value = std::ldexp(static_cast<float>(kept | (inexact ? 1 : 0)), shift);
  return x < 0 ? -value : value;
}

float round_to_odd(float x) { return x; }

/// Half types are read and written through float32, a block at a time.
template <class T>
void read_half(T *out, const void *in, aclDataType dtype, size_t n) {
  uint16_t raw[kBlock];
  float values[kBlock];
  const auto *bytes = static_cast<const char *>(in);
  for (size_t i = 0; i < n; i += kBlock) {
    const size_t part = n - i < kBlock ? n - i : kBlock;
    std::memcpy(raw, bytes + 2 * i, 2 * part);
    (dtype == ACL_FLOAT16 ? table().f16_to_f32 : table().bf16_to_f32)(values, raw, part);
    for (size_t j = 0; j < part; ++j) out[i + j] = number<T>(values[j]);
  }
}

template <class T>
void write_half(void *out, aclDataType dtype, const T *in, size_t n) {
  uint16_t raw[kBlock];
  float values[kBlock];
  auto *bytes = static_cast<char *>(out);
  for (size_t i = 0; i < n; i += kBlock) {
    const size_t part = n - i < kBlock ? n - i : kBlock;
    for (size_t j = 0; j < part; ++j) values[j] = round_to_odd(in[i + j]);
    (dtype == ACL_FLOAT16 ? table().f32_to_f16 : table().f32_to_bf16)(raw, values, part);
    std::memcpy(bytes + 2 * i, raw, 2 * part);
  }
}

template <class T>
void read_any(T *out, const void *in, aclDataType dtype, size_t n) {
  switch (dtype) {
    case ACL_FLOAT:
      return read_as<float>(out, in, n);
    case ACL_DOUBLE:
      return read_as<double>(out, in, n);
    case ACL_INT8:
      return read_as<int8_t>(out, in, n);
    case ACL_UINT8:
      return read_as<uint8_t>(out, in, n);
    case ACL_INT16:
      return read_as<int16_t>(out, in, n);
    case ACL_UINT16:
      return read_as<uint16_t>(out, in, n);
    case ACL_INT32:
      return read_as<int32_t>(out, in, n);
    case ACL_UINT32:
      return read_as<uint32_t>(out, in, n);
    case ACL_INT64:
      return read_as<int64_t>(out, in, n);
    case ACL_UINT64:
      return read_as<uint64_t>(out, in, n);
    case ACL_BOOL:
      return read_bool(out, in, n);
    default:
      return read_half(out, in, dtype, n);
  }
}

template <class T>
void write_any(void *out, aclDataType dtype, const T *in, size_t n) {
  switch (dtype) {
    case ACL_FLOAT:
      return write_as<float>(out, in, n);
    case ACL_DOUBLE:
      return write_as<double>(out, in, n);
    case ACL_INT8:
      return write_as<int8_t>(out, in, n);
    case ACL_UINT8:
      return write_as<uint8_t>(out, in, n);
    case ACL_INT16:
      return write_as<int16_t>(out, in, n);
    case ACL_UINT16:
      return write_as<uint16_t>(out, in, n);
    case ACL_INT32:
      return write_as<int32_t>(out, in, n);
    case ACL_UINT32:
      return write_as<uint32_t>(out, in, n);
    case ACL_INT64:
      return write_as<int64_t>(out, in, n);
    case ACL_UINT64:
      return write_as<uint64_t>(out, in, n);
    case ACL_BOOL:
      return write_as<bool>(out, in, n);
    default:
      return write_half(out, dtype, in, n);
  }
}

bool aligned(const void *address, size_t size) {
  return reinterpret_cast<uintptr_t>(address) % size == 0;
}

template <class T>
void requantise_any(T *data, aclDataType dtype, size_t n) {
  if (dtype == native_dtype<T>()) return;
  alignas(64) unsigned char staged[kBlock * 8];
  for (size_t i = 0; i < n; i += kBlock) {
    const size_t part = n - i < kBlock ? n - i : kBlock;
    write_elements(staged, dtype, data + i, part);
    read_elements(data + i, staged, dtype, part);
  }
}

template <class Item>
void gather_items(char *out, const char *in, ptrdiff_t stride, size_t n) {
  if (stride == 0) {
    Item value;
    std::memcpy(&value, in, sizeof value);
    for (size_t i = 0; i < n; ++i) std::memcpy(out + i * sizeof(Item), &value, sizeof(Item));
    return;
  }
  const ptrdiff_t step = stride * static_cast<ptrdiff_t>(sizeof(Item));
  for (size_t i = 0; i < n; ++i, in += step) std::memcpy(out + i * sizeof(Item), in, sizeof(Item));
}

template <class Item>
void scatter_items(char *out, const char *in, ptrdiff_t stride, size_t n) {
  const ptrdiff_t step = stride * static_cast<ptrdiff_t>(sizeof(Item));
  for (size_t i = 0; i < n; ++i, out += step) std::memcpy(out, in + i * sizeof(Item), sizeof(Item));
}

struct Sixteen {
  unsigned char bytes[16];
};

/// Calls body with a value of a type of `item` bytes.
template <class Body>
void with_item(size_t item, const Body &body) {
  switch (item) {
    case 1:
      return body(uint8_t{});
    case 2:
      return body(uint16_t{});
    case 4:
      return body(uint32_t{});
    case 8:
      return body(uint64_t{});
    default:
      return body(Sixteen{});
  }
}

}  // namespace

void read_elements(float *out, const void *in, aclDataType dtype, size_t n) {
  if (dtype == ACL_FLOAT) {
    std::memcpy(out, in, n * sizeof(float));
  } else if (dtype == ACL_FLOAT16 && aligned(in, 2)) {
    table().f16_to_f32(out, static_cast<const uint16_t *>(in), n);
  } else if (dtype == ACL_BF16 && aligned(in, 2)) {
    table().bf16_to_f32(out, static_cast<const uint16_t *>(in), n);
  } else {
    read_any(out, in, dtype, n);
  }
}

void read_elements(double *out, const void *in, aclDataType dtype, size_t n) {
  read_any(out, in, dtype, n);
}

void read_elements(int64_t *out, const void *in, aclDataType dtype, size_t n) {
  read_any(out, in, dtype, n);
}

void write_elements(void *out, aclDataType dtype, const float *in, size_t n) {
  if (dtype == ACL_FLOAT) {
    std::memcpy(out, in, n * sizeof(float));
  } else if (dtype == ACL_FLOAT16 && aligned(out, 2)) {
    table().f32_to_f16(static_cast<uint16_t *>(out), in, n);
  } else if (dtype == ACL_BF16 && aligned(out, 2)) {
    table().f32_to_bf16(static_cast<uint16_t *>(out), in, n);
  } else {
    write_any(out, dtype, in, n);
  }
}

void write_elements(void *out, aclDataType dtype, const double *in, size_t n) {
  write_any(out, dtype, in, n);
}

void write_elements(void *out, aclDataType dtype, const int64_t *in, size_t n) {
  write_any(out, dtype, in, n);
}

void requantise(float *data, aclDataType dtype, size_t n) { requantise_any(data, dtype, n); }
void requantise(double *data, aclDataType dtype, size_t n) { requantise_any(data, dtype, n); }
void requantise(int64_t *data, aclDataType dtype, size_t n) { requantise_any(data, dtype, n); }

void gather_row(void *out, const void *in, size_t item, ptrdiff_t stride, size_t n) {
  auto *to = static_cast<char *>(out);
  const auto *from = static_cast<const char *>(in);
  if (stride == 1) {
    std::memcpy(to, from, n * item);
    return;
  }
  with_item(item, [&](auto value) { gather_items<decltype(value)>(to, from, stride, n); });
}

void scatter_row(void *out, const void *in, size_t item, ptrdiff_t stride, size_t n) {
  auto *to = static_cast<char *>(out);
  const auto *from = static_cast<const char *>(in);
  if (stride == 1) {
    std::memcpy(to, from, n * item);
    return;
  }
  with_item(item, [&](auto value) { scatter_items<decltype(value)>(to, from, stride, n); });
}

void pick_row(void *out, ptrdiff_t stride, const void *in, const int64_t *places, size_t item,
              size_t n) {
  auto *to = static_cast<char *>(out);
  const auto *from = static_cast<const char *>(in);
  with_item(item, [&](auto value) {
    constexpr auto kBytes = static_cast<ptrdiff_t>(sizeof value);
    for (size_t i = 0; i < n; ++i) {
      std::memcpy(to + static_cast<ptrdiff_t>(i) * stride * kBytes, from + places[i] * kBytes,
                  sizeof value);
    }
  });
}

}  // namespace aiocann::sim
