#include "core/ops/launch.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace aiocann::core {
namespace {

// Device data of an aclTensor must start at a multiple of this; views that do not are described by
// an offset from the multiple below (allocations start at larger multiples, so that stays inside).
constexpr uint64_t kDataAlignment = 32;

// More than most nodes need.
constexpr size_t kUsualObjects = 64;

/// What is a whole number of elements: sizes are powers of two, and division costs more than all else here.
int64_t elements_in(int64_t bytes, int64_t size) {
  return bytes >> __builtin_ctzll(static_cast<uint64_t>(size));
}

struct Symbol {
  const char *name;
  bool (*present)(const acl::Api &);
};

constexpr Symbol kSymbols[] = {
#define ACL_SYMBOL(name, since)
#define ACLNN_SYMBOL(name) {#name, [](const acl::Api &api) { return api.name != nullptr; }},
#include "acl_symbols.inc"
};

bool is_present(const acl::Api &api, const char *name, size_t length) {
  for (const Symbol &symbol : kSymbols) {
    if (std::strlen(symbol.name) == length && std::memcmp(symbol.name, name, length) == 0) {
      return symbol.present(api);
    }
  }
  return false;
}

}  // namespace

const char *missing_function(const acl::Api &api, const OpRow &row) {
  for (const char *name = row.aclnn; *name != '\0';) {
    const size_t length = std::strcspn(name, " ");
    if (!is_present(api, name, length)) return name;
    name += length;
    name += std::strspn(name, " ");
  }
  return nullptr;
}

Launch::Launch(LaunchContext &context)
    : context_(context), api_(context.api()), scratch_(context.scratch()) {
  kept_.reserve(kUsualObjects);
}

Status Launch::run(const BoundNode &node) {
  node_ = &node;
  Status status = node.view.row->launch(*this);
  release();
  return status;
}

aclTensor *Launch::tensor(const View &view, aclFormat format) {
  int64_t shape[kMaxViewAxes];
  int64_t strides[kMaxViewAxes];
  const int64_t size = dtype_size(view.dtype);
  const uint64_t below = view.address % kDataAlignment;
  const int64_t offset = elements_in(static_cast<int64_t>(below), size);
  int64_t length = 1 + offset;
  for (int32_t i = 0; i < view.n; ++i) {
    const int32_t reversed = view.n - 1 - i;
    shape[reversed] = view.ne[i];
    strides[reversed] = elements_in(view.nb[i], size);
    if (view.ne[i] > 0) length += (view.ne[i] - 1) * strides[reversed];
  }
  return make_tensor(shape, strides, view.n, static_cast<aclDataType>(acl_dtype(view.dtype)),
                     offset, length, format, view.address - below);
}

aclTensor *Launch::quants(uint64_t address, int32_t dtype, int64_t n, int64_t k) {
  const uint64_t below = address % kDataAlignment;
  const int64_t offset = static_cast<int64_t>(below) * (dtype == AIOCANN_Q4_0 ? 2 : 1);
  const int64_t shape[] = {k, n}, strides[] = {1, k};
  return make_tensor(shape, strides, 2, static_cast<aclDataType>(acl_dtype(dtype)), offset,
                     offset + n * k, ACL_FORMAT_ND, address - below);
}

aclTensor *Launch::make_tensor(const int64_t *shape, const int64_t *strides, int32_t n_axes,
                               aclDataType dtype, int64_t offset, int64_t length, aclFormat format,
                               uint64_t address) {
  return keep(api_.aclCreateTensor(shape, static_cast<uint64_t>(n_axes), dtype, strides, offset,
                                   format, &length, 1, reinterpret_cast<void *>(address)),
              "aclCreateTensor", Kind::kTensor);
}

aclScalar *Launch::scalar(double value) {
  const float narrowed = static_cast<float>(value);
  return scalar(&narrowed, ACL_FLOAT);
}

aclScalar *Launch::scalar(const void *value, aclDataType dtype) {
  // The function takes no const, but copies.
  return keep(api_.aclCreateScalar(const_cast<void *>(value), dtype), "aclCreateScalar",
              Kind::kScalar);
}

aclTensorList *Launch::list(aclTensor *const *members, size_t count) {
  if (std::find(members, members + count, nullptr) != members + count) return nullptr;
  aclTensorList *made =
      keep(api_.aclCreateTensorList(members, count), "aclCreateTensorList", Kind::kList);
  if (made == nullptr) return nullptr;
  // Destroyed with the list from here on.
  count_made();
  const auto is_member = [&](const Kept &kept) {
    return std::find(members, members + count, kept.object) != members + count;
  };
  kept_.erase(std::remove_if(kept_.begin(), kept_.end(), is_member), kept_.end());
  context_.count_tensors(-static_cast<int64_t>(counted_ - kept_.size()));
  counted_ = kept_.size();
  return made;
}

aclIntArray *Launch::ints(const int64_t *values, size_t count) {
  return keep(api_.aclCreateIntArray(values, count), "aclCreateIntArray", Kind::kInts);
}

aclFloatArray *Launch::floats(const float *values, size_t count) {
  return keep(api_.aclCreateFloatArray(values, count), "aclCreateFloatArray", Kind::kFloats);
}

aclBoolArray *Launch::bools(const bool *values, size_t count) {
  return keep(api_.aclCreateBoolArray(values, count), "aclCreateBoolArray", Kind::kBools);
}

template <typename T>
T *Launch::keep(T *made, const char *call, Kind kind) {
  if (made == nullptr) {
    fail_to_create(call);
    return nullptr;
  }
  kept_.push_back({made, kind});
  return made;
}

void Launch::count_made() {
  if (counted_ == kept_.size()) return;
  context_.count_tensors(static_cast<int64_t>(kept_.size() - counted_));
  counted_ = kept_.size();
}

Status Launch::finish(const char *name, Execute execute, uint64_t bytes, aclOpExecutor *executor) {
  context_.count_executors(1);
  uint64_t workspace = 0;
  if (bytes > 0) {
    Status status = context_.workspace(bytes, &workspace);
    if (!status.is_ok()) {
      api_.aclDestroyAclOpExecutor(executor);
      context_.count_executors(-1);
      return status;
    }
  }
  // Phase 2 takes the executor, whatever it answers.
  const aclnnStatus code =
      execute(reinterpret_cast<void *>(workspace), bytes, executor, context_.stream());
  context_.count_executors(-1);
  return code == 0 ? Status::ok() : refused(name, "", code);
}

Status Launch::missing(const char *name) const {
  return Status::error(AIOCANN_E_UNSUPPORTED, "%s: %s is not in this CANN", node().row->name, name);
}

Status Launch::refused(const char *name, const char *phase, aclnnStatus code) const {
  // Read at once: the driver keeps its text per thread, and the next call may replace it.
  const char *text = api_.aclGetRecentErrMsg != nullptr ? api_.aclGetRecentErrMsg() : nullptr;
  return Status::driver(code, (std::string(name) + phase).c_str(), text);
}

void Launch::fail_to_create(const char *call) {
  if (!failed_.is_ok()) return;
  const char *text = api_.aclGetRecentErrMsg != nullptr ? api_.aclGetRecentErrMsg() : nullptr;
  // What it is given is right, so that leaves memory of the host.
  failed_ = Status::error(AIOCANN_E_NO_MEMORY, "%s returned NULL%s%s", call, text ? ": " : "",
                          text ? text : "");
}

void Launch::destroy(const Kept &kept) const {
  switch (kept.kind) {
    case Kind::kTensor:
      api_.aclDestroyTensor(static_cast<const aclTensor *>(kept.object));
      break;
    case Kind::kList:
      api_.aclDestroyTensorList(static_cast<const aclTensorList *>(kept.object));
      break;
    case Kind::kScalar:
      api_.aclDestroyScalar(static_cast<const aclScalar *>(kept.object));
      break;
    case Kind::kInts:
      api_.aclDestroyIntArray(static_cast<const aclIntArray *>(kept.object));
      break;
    case Kind::kFloats:
      api_.aclDestroyFloatArray(static_cast<const aclFloatArray *>(kept.object));
      break;
    case Kind::kBools:
      api_.aclDestroyBoolArray(static_cast<const aclBoolArray *>(kept.object));
      break;
  }
}

void Launch::release() {
  for (const Kept &kept : kept_) destroy(kept);
  kept_.clear();
  if (counted_ > 0) context_.count_tensors(-static_cast<int64_t>(counted_));
  counted_ = 0;
  failed_ = Status::ok();
}

}  // namespace aiocann::core
