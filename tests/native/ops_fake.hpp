// ops_fake.hpp: a driver that records aclnn calls and fails where told, and a lane that submits to it. For tests of
// the dispatch: nothing is computed.
#pragma once
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "acl/api.hpp"
#include "aiocann.h"
#include "check.hpp"
#include "core/graph.hpp"
#include "core/ops/op_table.hpp"

namespace fake {

/// What the driver was told of a tensor.
struct Tensor {
  std::vector<int64_t> shape, strides;
  aclDataType dtype = ACL_FLOAT;
  int64_t offset = 0;
  uint64_t data = 0;
  int64_t storage = 0;
};

struct Call {
  std::string name;
  std::vector<Tensor> tensors;  ///< in the order of the arguments; left out ones are missing
};

struct Driver {
  std::vector<Call> calls;  ///< phase 1 of each
  std::set<void *> objects;
  std::set<aclOpExecutor *> executors;
  uint64_t workspace = 0;
  int made = 0;
  int fail_creation = -1;  ///< the nth descriptor comes out NULL
  int phases = 0;
  int fail_phase = -1;  ///< the nth phase, of either kind, answers 161002
  std::string failed;   ///< what that was
  std::map<std::string, int> count;
};

inline Driver *driver = nullptr;

template <typename T>
T *make_object(T *object) {
  if (driver->made++ == driver->fail_creation) return nullptr;
  driver->objects.insert(object);
  return object;
}

inline aclTensor *create_tensor(const int64_t *dims, uint64_t n, aclDataType dtype,
                                const int64_t *strides, int64_t offset, aclFormat format,
                                const int64_t *storage, uint64_t n_storage, void *data) {
  CHECK_EQ(format, ACL_FORMAT_ND);
  CHECK_EQ(n_storage, 1u);
  auto *made = new Tensor;
  made->shape.assign(dims, dims + n);
  made->strides.assign(strides, strides + n);
  made->dtype = dtype;
  made->offset = offset;
  made->data = reinterpret_cast<uint64_t>(data);
  made->storage = *storage;
  CHECK_EQ(made->data % 32, 0u);
  int64_t last = offset;
  for (uint64_t i = 0; i < n; ++i) {
    if (dims[i] > 0) last += (dims[i] - 1) * strides[i];
  }
  CHECK(last < *storage);
  aclTensor *handle = make_object(reinterpret_cast<aclTensor *>(made));
  if (handle == nullptr) delete made;
  return handle;
}
inline aclnnStatus destroy_tensor(const aclTensor *tensor) {
  CHECK_EQ(driver->objects.erase(const_cast<aclTensor *>(tensor)), 1u);
  delete reinterpret_cast<const Tensor *>(tensor);
  return 0;
}
inline aclScalar *create_scalar(void *value, aclDataType dtype) {
  CHECK_EQ(dtype, ACL_FLOAT);
  auto *made = new float(*static_cast<float *>(value));
  aclScalar *handle = make_object(reinterpret_cast<aclScalar *>(made));
  if (handle == nullptr) delete made;
  return handle;
}
inline aclnnStatus destroy_scalar(const aclScalar *scalar) {
  CHECK_EQ(driver->objects.erase(const_cast<aclScalar *>(scalar)), 1u);
  delete reinterpret_cast<const float *>(scalar);
  return 0;
}
inline aclIntArray *create_ints(const int64_t *values, uint64_t n) {
  auto *made = new std::vector<int64_t>(values, values + n);
  aclIntArray *handle = make_object(reinterpret_cast<aclIntArray *>(made));
  if (handle == nullptr) delete made;
  return handle;
}
inline aclnnStatus destroy_ints(const aclIntArray *ints) {
  CHECK_EQ(driver->objects.erase(const_cast<aclIntArray *>(ints)), 1u);
  delete reinterpret_cast<const std::vector<int64_t> *>(ints);
  return 0;
}
inline const char *recent_message() { return "the driver's own words"; }

inline bool fails(const char *name) {
  if (driver->phases++ != driver->fail_phase) return false;
  driver->failed = name;
  return true;
}

template <typename T>
void note(Call *call, T argument) {
  if constexpr (std::is_same_v<T, aclTensor *> || std::is_same_v<T, const aclTensor *>) {
    if (argument == nullptr) return;
    CHECK_EQ(driver->objects.count(const_cast<aclTensor *>(argument)), 1u);
    call->tensors.push_back(*reinterpret_cast<const Tensor *>(argument));
  } else {
    static_cast<void>(call);
    static_cast<void>(argument);
  }
}

/// One function for each aclnn symbol, told apart by `Name`.
template <typename Name, typename Signature>
struct Function;

template <typename Name, typename R, typename... Args>
struct Function<Name, R (*)(Args...)> {
  static R call(Args... args) {
    if constexpr (sizeof...(Args) == 4 &&
                  std::is_same_v<std::tuple_element_t<0, std::tuple<Args..., void>>, void *>) {
      return execute(args...);
    } else if constexpr (sizeof...(Args) >= 3) {
      return plan(args...);
    } else {
      return 0;
    }
  }
  static R execute(void *workspace, uint64_t bytes, aclOpExecutor *executor, aclrtStream) {
    CHECK_EQ(bytes, driver->workspace);
    CHECK((workspace != nullptr) == (bytes > 0));
    CHECK_EQ(driver->executors.erase(executor), 1u);
    delete reinterpret_cast<int *>(executor);
    return fails(Name::value) ? 161002 : 0;
  }
  static R plan(Args... args) {
    Call made{Name::value, {}};
    (note(&made, args), ...);
    if (fails(Name::value)) return 161002;
    auto out = std::forward_as_tuple(args...);
    using Last = std::tuple_element_t<sizeof...(Args) - 1, decltype(out)>;
    if constexpr (std::is_same_v<std::decay_t<Last>, aclOpExecutor **>) {
      driver->calls.push_back(made);
      *std::get<sizeof...(Args) - 2>(out) = driver->workspace;
      auto *executor = reinterpret_cast<aclOpExecutor *>(new int);
      driver->executors.insert(executor);
      *std::get<sizeof...(Args) - 1>(out) = executor;
    }
    return 0;
  }
};

inline aclnnStatus destroy_executor(aclOpExecutor *executor) {
  CHECK_EQ(driver->executors.erase(executor), 1u);
  delete reinterpret_cast<int *>(executor);
  return 0;
}

#define ACL_SYMBOL(name, since)
#define ACLNN_SYMBOL(name)                      \
  struct Name_##name {                          \
    static constexpr const char *value = #name; \
  };
#include "acl_symbols.inc"

inline aiocann::acl::Api make_api() {
  aiocann::acl::Api api;
#define ACL_SYMBOL(name, since)
#define ACLNN_SYMBOL(name) api.name = &Function<Name_##name, decltype(api.name)>::call;
#include "acl_symbols.inc"
  api.aclCreateTensor = create_tensor;
  api.aclDestroyTensor = destroy_tensor;
  api.aclCreateScalar = create_scalar;
  api.aclDestroyScalar = destroy_scalar;
  api.aclCreateIntArray = create_ints;
  api.aclDestroyIntArray = destroy_ints;
  api.aclDestroyAclOpExecutor = destroy_executor;
  api.aclGetRecentErrMsg = recent_message;
  return api;
}

/// Memory is a number: its address. Big enough for everything.
inline aiocann_mem *memory(uint64_t address) { return reinterpret_cast<aiocann_mem *>(address); }
inline uint64_t memory_bytes(const aiocann_mem *) { return 1 << 20; }

class Lane final : public aiocann::core::LaunchContext {
 public:
  explicit Lane(const aiocann::acl::Api &api) : api_(api) {}
  const aiocann::acl::Api &api() const override { return api_; }
  void *stream() const override { return nullptr; }
  uint64_t address(const aiocann_mem *mem) const override {
    return reinterpret_cast<uint64_t>(mem);
  }
  uint64_t scratch() const override { return kScratch; }
  aiocann::core::Status workspace(uint64_t, uint64_t *address) override {
    if (workspaces++ == fail_workspace) {
      return aiocann::core::Status::error(AIOCANN_E_NO_MEMORY, "no room");
    }
    *address = 0x7000000;
    return aiocann::core::Status::ok();
  }
  aiocann::core::Status constant(const aiocann::core::ConstantKey &key, uint64_t bytes,
                                 uint64_t *address, bool *is_new) override {
    if (constants_asked++ == fail_constant) {
      return aiocann::core::Status::error(AIOCANN_E_NO_MEMORY, "no room");
    }
    size_t at = 0;
    while (at < constants.size() && !(constants[at] == key)) ++at;
    *is_new = at == constants.size();
    if (*is_new) constants.push_back(key);
    CHECK(bytes <= kConstantBytes);
    *address = kConstants + at * kConstantBytes;
    return aiocann::core::Status::ok();
  }
  void forget_constant(const aiocann::core::ConstantKey &key) override {
    CHECK(constants.back() == key);
    constants.pop_back();
  }
  void launched(int32_t node) override { nodes.push_back(node); }
  void count_tensors(int64_t delta) override { tensors += delta; }
  void count_executors(int64_t delta) override { executors += delta; }

  static constexpr uint64_t kScratch = 0x9000000;
  static constexpr uint64_t kConstants = 0xa000000, kConstantBytes = 1 << 16;
  std::vector<aiocann::core::ConstantKey> constants;
  int constants_asked = 0;
  int fail_constant = -1;
  int workspaces = 0;
  int fail_workspace = -1;
  std::vector<int32_t> nodes;
  int64_t tensors = 0, executors = 0;

 private:
  const aiocann::acl::Api &api_;
};

/// Builds the C arrays of a graph; shapes in NumPy order.
class Builder {
 public:
  int32_t leaf(int32_t dtype, std::vector<int64_t> shape, uint64_t address) {
    aiocann_tensor made = contiguous(dtype, shape);
    made.mem = memory(address);
    return push(made);
  }
  int32_t value(int32_t dtype, std::vector<int64_t> shape) {
    return push(contiguous(dtype, shape));
  }
  int32_t view(int32_t of, std::vector<int64_t> shape, uint64_t offset) {
    aiocann_tensor made = contiguous(tensors[static_cast<size_t>(of)].dtype, shape);
    made.view_of = of;
    made.offset = offset;
    return push(made);
  }
  aiocann_tensor &at(int32_t index) { return tensors[static_cast<size_t>(index)]; }

  aiocann_node &node(const char *op, std::vector<int32_t> srcs, int32_t out) {
    aiocann_node made = {};
    made.op = aiocann::core::find_op(op);
    CHECK(made.op >= 0);
    made.n_src = static_cast<int32_t>(srcs.size());
    for (size_t i = 0; i < 4; ++i) made.src[i] = i < srcs.size() ? srcs[i] : -1;
    made.out = out;
    nodes.push_back(made);
    return nodes.back();
  }

  aiocann::core::Status create(std::unique_ptr<aiocann::core::Graph> *graph,
                               const char *soc = nullptr) {
    return aiocann::core::Graph::create(tensors.data(), static_cast<int32_t>(tensors.size()),
                                        nodes.data(), static_cast<int32_t>(nodes.size()), soc,
                                        graph, memory_bytes);
  }
  std::unique_ptr<aiocann::core::Graph> graph() {
    std::unique_ptr<aiocann::core::Graph> made;
    const aiocann::core::Status status = create(&made);
    CHECK_EQ(std::string(status.is_ok() ? "" : status.get()->detail), std::string());
    return made;
  }
  /// The graph must be refused: its code and text.
  std::string refusal(int32_t code, const char *soc = nullptr) {
    std::unique_ptr<aiocann::core::Graph> made;
    const aiocann::core::Status status = create(&made, soc);
    CHECK_EQ(status.code(), code);
    return status.get()->detail;
  }

  static aiocann_tensor contiguous(int32_t dtype, const std::vector<int64_t> &shape) {
    aiocann_tensor made = {};
    made.dtype = dtype;
    made.n_dims = static_cast<int32_t>(shape.size());
    int64_t stride = aiocann::core::dtype_size(dtype);
    for (size_t i = 0; i < 4; ++i) {
      made.ne[i] = i < shape.size() ? shape[shape.size() - 1 - i] : 1;
      made.nb[i] = stride;
      if (__builtin_mul_overflow(stride, made.ne[i], &stride)) stride = INT64_MAX - 3;
    }
    made.view_of = -1;
    return made;
  }

  std::vector<aiocann_tensor> tensors;
  std::vector<aiocann_node> nodes;

 private:
  int32_t push(const aiocann_tensor &tensor) {
    tensors.push_back(tensor);
    return static_cast<int32_t>(tensors.size()) - 1;
  }
};

}  // namespace fake
