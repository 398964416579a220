// nn_fixture.hpp: tensors for the operator tests. A Tensor knows its values as double, in the order of its shape;
// on the device it lies in a layout of the test's choosing, in a buffer whose other bytes must stay as they are.
// Everything goes through the public C ABI.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "acl_abi.h"
#include "check.hpp"

namespace nn {

using Dims = std::vector<int64_t>;

inline std::mt19937_64 &rng() {
  static std::mt19937_64 generator(20240607);
  return generator;
}
inline int64_t pick(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(rng());
}
inline double uniform(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(rng());
}

/// Where element `flat` of a tensor of this shape lies along each axis.
inline Dims index_of(const Dims &shape, int64_t flat) {
  Dims index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return index;
}

inline int64_t count(const Dims &dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<int64_t>());
}

inline size_t size_of(aclDataType dtype) {
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
    default:
      return 8;
  }
}

inline bool is_floating(aclDataType dtype) {
  return dtype == ACL_FLOAT || dtype == ACL_FLOAT16 || dtype == ACL_BF16 || dtype == ACL_DOUBLE;
}

/// The nearest number with `digits` bits of mantissa and exponents from `lowest` on, ties to even: written for
/// the tests alone, from the definition.
inline double round_to(double x, int digits, int lowest, double largest) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent;
  std::frexp(x, &exponent);
  const int unit = std::max(exponent - digits, lowest);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  return std::fabs(rounded) > largest ? std::copysign(INFINITY, x) : rounded;
}

/// What a value becomes as an element.
inline double rounded(double x, aclDataType dtype) {
  switch (dtype) {
    case ACL_FLOAT16:
      return round_to(x, 11, -24, 65504.0);
    case ACL_BF16:
      return round_to(x, 8, -133, 3.3895313892515355e38);
    case ACL_FLOAT:
      return static_cast<double>(static_cast<float>(x));
    case ACL_DOUBLE:
      return x;
    case ACL_BOOL:
      return x != 0;
    default:
      return std::trunc(x);
  }
}

inline void encode(double x, aclDataType dtype, void *to) {
  const auto put = [to](auto value) { std::memcpy(to, &value, sizeof value); };
  switch (dtype) {
    case ACL_FLOAT:
      return put(static_cast<float>(x));
    case ACL_DOUBLE:
      return put(x);
    case ACL_BF16: {
      const auto f = static_cast<float>(rounded(x, dtype));
      uint32_t bits;
      std::memcpy(&bits, &f, 4);
      return put(static_cast<uint16_t>(bits >> 16));
    }
    case ACL_FLOAT16: {
      const double r = rounded(x, dtype);
      const uint16_t sign = std::signbit(r) ? 0x8000 : 0;
      const double m = std::fabs(r);
      if (std::isnan(r)) return put(static_cast<uint16_t>(0x7e00));
      if (std::isinf(r)) return put(static_cast<uint16_t>(sign | 0x7c00));
      if (m < std::ldexp(1, -14))
        return put(static_cast<uint16_t>(sign | static_cast<uint16_t>(std::ldexp(m, 24))));
      int exponent;
      const double fraction = std::frexp(m, &exponent);
      const auto mantissa = static_cast<uint16_t>(std::ldexp(fraction, 11) - 1024);
      return put(
          static_cast<uint16_t>(sign | static_cast<uint16_t>((exponent + 14) << 10) | mantissa));
    }
    case ACL_INT8:
      return put(static_cast<int8_t>(x));
    case ACL_UINT8:
      return put(static_cast<uint8_t>(x));
    case ACL_BOOL:
      return put(static_cast<uint8_t>(x != 0));
    case ACL_INT16:
      return put(static_cast<int16_t>(x));
    case ACL_UINT16:
      return put(static_cast<uint16_t>(x));
    case ACL_INT32:
      return put(static_cast<int32_t>(x));
    case ACL_UINT32:
      return put(static_cast<uint32_t>(x));
    case ACL_UINT64:
      return put(static_cast<uint64_t>(x));
    default:
      return put(static_cast<int64_t>(x));
  }
}

inline double decode(const void *from, aclDataType dtype) {
  const auto get = [from](auto value) {
    std::memcpy(&value, from, sizeof value);
    return static_cast<double>(value);
  };
  switch (dtype) {
    case ACL_FLOAT:
      return get(float{});
    case ACL_DOUBLE:
      return get(double{});
    case ACL_BF16: {
      uint16_t bits;
      std::memcpy(&bits, from, 2);
      const uint32_t wide = static_cast<uint32_t>(bits) << 16;
      float f;
      std::memcpy(&f, &wide, 4);
      return f;
    }
    case ACL_FLOAT16: {
      uint16_t bits;
      std::memcpy(&bits, from, 2);
      const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
      const double sign = bits & 0x8000 ? -1 : 1;
      if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
      if (exponent == 0) return sign * std::ldexp(mantissa, -24);
      return sign * std::ldexp(1024 + mantissa, exponent - 25);
    }
    case ACL_INT8:
      return get(int8_t{});
    case ACL_UINT8:
    case ACL_BOOL:
      return get(uint8_t{});
    case ACL_INT16:
      return get(int16_t{});
    case ACL_UINT16:
      return get(uint16_t{});
    case ACL_INT32:
      return get(int32_t{});
    case ACL_UINT32:
      return get(uint32_t{});
    case ACL_UINT64:
      return get(uint64_t{});
    default:
      return get(int64_t{});
  }
}

/// One device and one stream for the whole program.
struct Session {
  Session() {
    const aclError status = aclInit(nullptr);
    CHECK(status == ACL_SUCCESS || status == ACL_ERROR_REPEAT_INITIALIZE);
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
  }
  ~Session() {
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
  }
  aclrtStream stream = nullptr;
};

inline Session &session() {
  static Session one;
  return one;
}

enum class Layout { kRow, kRandom };

class Tensor {
 public:
  Tensor(Dims shape, aclDataType dtype, Layout layout = Layout::kRow,
         aclFormat format = ACL_FORMAT_ND)
      : shape_(std::move(shape)), dtype_(dtype), format_(format) {
    session();
    lay_out(layout);
    values_.assign(static_cast<size_t>(nn::count(shape_)), 0.0);
    create();
  }
  ~Tensor() {
    if (!released_) CHECK_OK(aclDestroyTensor(tensor_));
    if (buffer_ != nullptr) CHECK_OK(aclrtFree(buffer_));
  }
  Tensor(const Tensor &) = delete;
  Tensor &operator=(const Tensor &) = delete;

  /// Values are rounded to the element type and uploaded.
  Tensor &fill(const std::function<double(int64_t)> &value) {
    for (int64_t i = 0; i < count(); ++i) {
      unsigned char element[8];
      encode(value(i), dtype_, element);
      values_[static_cast<size_t>(i)] = decode(element, dtype_);
      if (!host_.empty()) std::memcpy(host_.data() + byte_of(i), element, size_of(dtype_));
    }
    upload();
    return *this;
  }
  Tensor &random(double low = -1, double high = 1) {
    const bool whole = !is_floating(dtype_);
    return fill([&](int64_t) {
      return whole
                 ? static_cast<double>(pick(static_cast<int64_t>(low), static_cast<int64_t>(high)))
                 : uniform(low, high);
    });
  }

  /// What the device holds now. Bytes outside the elements must be as they were uploaded.
  std::vector<double> read() {
    std::vector<double> result(static_cast<size_t>(count()));
    if (host_.empty()) return result;
    std::vector<unsigned char> now(host_.size());
    CHECK_OK(aclrtMemcpy(now.data(), now.size(), buffer_, now.size(), ACL_MEMCPY_DEVICE_TO_HOST));
    for (int64_t i = 0; i < count(); ++i) {
      const size_t at = byte_of(i);
      result[static_cast<size_t>(i)] = decode(now.data() + at, dtype_);
      std::memcpy(now.data() + at, host_.data() + at, size_of(dtype_));
    }
    CHECK(std::memcmp(now.data(), host_.data(), now.size()) == 0);
    return result;
  }

  aclTensor *get() const { return tensor_; }
  operator aclTensor *() const { return tensor_; }
  /// A list has taken the aclTensor over.
  aclTensor *release() {
    released_ = true;
    return tensor_;
  }
  int64_t count() const { return nn::count(shape_); }
  const Dims &shape() const { return shape_; }
  const Dims &strides() const { return strides_; }
  aclDataType dtype() const { return dtype_; }
  void *address() const { return buffer_; }
  double operator[](int64_t i) const { return values_[static_cast<size_t>(i)]; }
  double at(const Dims &index) const {
    int64_t flat = 0;
    for (size_t d = 0; d < shape_.size(); ++d) flat = flat * shape_[d] + index[d];
    return values_[static_cast<size_t>(flat)];
  }

 private:
  /// Row-major, or: axes in any order, gaps between rows, gaps before and after.
  void lay_out(Layout layout) {
    strides_.assign(shape_.size(), 1);
    std::vector<size_t> order(shape_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (layout == Layout::kRandom) {
      if (pick(0, 1) == 1) std::shuffle(order.begin(), order.end(), rng());
      offset_ = pick(0, 5);
    }
    int64_t stride = layout == Layout::kRandom && pick(0, 3) == 0 ? pick(1, 3) : 1;
    for (size_t i = order.size(); i-- > 0;) {
      strides_[order[i]] = stride;
      stride *= std::max<int64_t>(1, shape_[order[i]]);
      if (layout == Layout::kRandom && pick(0, 2) == 0) stride += pick(0, 4);
    }
    int64_t last = offset_;
    for (size_t d = 0; d < shape_.size(); ++d)
      last += std::max<int64_t>(0, shape_[d] - 1) * strides_[d];
    storage_ = last + 1;
  }

  void create() {
    constexpr size_t kGuard = 64;
    if (count() != 0) {
      const size_t bytes = static_cast<size_t>(storage_) * size_of(dtype_) + kGuard;
      CHECK_OK(aclrtMalloc(&buffer_, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
      host_.resize(bytes);
      for (unsigned char &byte : host_) byte = static_cast<unsigned char>(pick(0, 255));
      upload();
    }
    tensor_ = aclCreateTensor(shape_.data(), shape_.size(), dtype_, strides_.data(), offset_,
                              format_, &storage_, 1, buffer_);
    CHECK(tensor_ != nullptr);
  }

  void upload() {
    if (host_.empty()) return;
    CHECK_OK(
        aclrtMemcpy(buffer_, host_.size(), host_.data(), host_.size(), ACL_MEMCPY_HOST_TO_DEVICE));
  }

  size_t byte_of(int64_t flat) const {
    int64_t at = offset_;
    for (size_t d = shape_.size(); d-- > 0;) {
      at += flat % shape_[d] * strides_[d];
      flat /= shape_[d];
    }
    return static_cast<size_t>(at) * size_of(dtype_);
  }

  Dims shape_, strides_;
  aclDataType dtype_;
  aclFormat format_;
  int64_t offset_ = 0, storage_ = 0;
  std::vector<double> values_;
  std::vector<unsigned char> host_;
  void *buffer_ = nullptr;
  aclTensor *tensor_ = nullptr;
  bool released_ = false;
};

/// A scalar argument.
class Scalar {
 public:
  Scalar(double value, aclDataType dtype) {
    unsigned char element[8];
    encode(value, dtype, element);
    scalar_ = aclCreateScalar(element, dtype);
    CHECK(scalar_ != nullptr);
  }
  ~Scalar() { CHECK_OK(aclDestroyScalar(scalar_)); }
  Scalar(const Scalar &) = delete;
  Scalar &operator=(const Scalar &) = delete;
  operator aclScalar *() const { return scalar_; }

 private:
  aclScalar *scalar_;
};

class Ints {
 public:
  explicit Ints(const Dims &values) : array_(aclCreateIntArray(values.data(), values.size())) {
    CHECK(array_ != nullptr);
  }
  ~Ints() { CHECK_OK(aclDestroyIntArray(array_)); }
  Ints(const Ints &) = delete;
  Ints &operator=(const Ints &) = delete;
  operator aclIntArray *() const { return array_; }

 private:
  aclIntArray *array_;
};

using Plan = std::function<aclnnStatus(uint64_t *, aclOpExecutor **)>;
using Run = aclnnStatus (*)(void *, uint64_t, aclOpExecutor *, aclrtStream);

/// Both phases and the wait for the result; returns the stream's status.
inline aclError launch(const Plan &plan, Run run) {
  uint64_t size = 0;
  aclOpExecutor *executor = nullptr;
  const aclnnStatus planned = plan(&size, &executor);
  if (planned != ACLNN_SUCCESS) {
    const char *message = aclGetRecentErrMsg();
    std::fprintf(stderr, "first phase: %d: %s\n", planned, message == nullptr ? "" : message);
  }
  CHECK_OK(planned);
  CHECK(executor != nullptr);
  void *workspace = nullptr;
  if (size != 0) CHECK_OK(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(run(workspace, size, executor, session().stream));
  const aclError status = aclrtSynchronizeStream(session().stream);
  if (workspace != nullptr) CHECK_OK(aclrtFree(workspace));
  return status;
}

inline void execute(const Plan &plan, Run run) { CHECK_OK(launch(plan, run)); }

/// The first phase must refuse with this code, with a message that names the operator, and no executor.
inline void refuse(aclnnStatus code, const char *op, const Plan &plan) {
  uint64_t size = 0;
  aclOpExecutor *executor = nullptr;
  aclGetRecentErrMsg();
  CHECK_EQ(plan(&size, &executor), code);
  CHECK(executor == nullptr);
  const char *message = aclGetRecentErrMsg();
  CHECK(message != nullptr);
  CHECK_CONTAINS(std::string(message), op);
}

/// One number: equal infinities, both NaN, or close.
inline bool close(double got, double want, double relative, double absolute) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::fabs(got - want) <= absolute + relative * std::fabs(want);
}

/// The spacing of a type's numbers, relative.
inline double unit(aclDataType dtype) {
  switch (dtype) {
    case ACL_FLOAT16:
      return std::ldexp(1, -10);
    case ACL_BF16:
      return std::ldexp(1, -7);
    case ACL_FLOAT:
      return std::ldexp(1, -23);
    default:
      return std::ldexp(1, -52);
  }
}

/// Whether a result is the exact one, up to `units` of float32 (or double) arithmetic and the rounding to its type.
inline bool is_right(double value, double exact, aclDataType dtype, double units, double absolute) {
  if (!is_floating(dtype)) return value == exact;
  if (close(value, rounded(exact, dtype), 0, 0)) return true;
  const bool narrow = dtype == ACL_FLOAT16 || dtype == ACL_BF16;
  const double last_place = narrow ? 0.5 * unit(dtype) : 0;
  const double smallest = dtype == ACL_FLOAT16 ? std::ldexp(1, -25) : 0;
  return close(value, exact, last_place + units * unit(narrow ? ACL_FLOAT : dtype),
               smallest + absolute);
}

inline void check_values(Tensor &out, const std::function<double(int64_t)> &want, double units = 2,
                         double absolute = 1e-37) {
  const std::vector<double> got = out.read();
  for (int64_t i = 0; i < out.count(); ++i) {
    const double exact = want(i), value = got[static_cast<size_t>(i)];
    const bool good = is_right(value, exact, out.dtype(), units, absolute);
    if (!good) {
      std::fprintf(stderr, "element %lld of type %d: %.17g, not %.17g\n", static_cast<long long>(i),
                   out.dtype(), value, exact);
    }
    CHECK(good);
  }
}

}  // namespace nn
