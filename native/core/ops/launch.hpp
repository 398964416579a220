// launch.hpp: making the aclnn calls of one node. Descriptors are owned here and destroyed when the
// node is done, on every path; a descriptor that could not be made fails the call that it was for.
//
// Thread: the lane's, all of it.
#pragma once
#include <cstring>
#include <initializer_list>
#include <utility>
#include <vector>

#include "acl/api.hpp"
#include "core/graph.hpp"
#include "core/ops/op_table.hpp"

namespace aiocann::core {

/// A node of a planned graph, with the addresses of this submission.
struct BoundNode {
  NodeView view;
  const Layout *out = nullptr;
  uint64_t src_address[AIOCANN_MAX_SRC] = {};
  uint64_t out_address = 0;
  const uint64_t *temps = nullptr;  ///< offsets from scratch
};

class Launch {
 public:
  explicit Launch(LaunchContext &context);
  ~Launch() { release(); }
  Launch(const Launch &) = delete;
  Launch &operator=(const Launch &) = delete;

  /// Runs the row's launch function for `node` and destroys its descriptors.
  Status run(const BoundNode &node);

  const NodeView &node() const { return node_->view; }
  bool has(int i) const { return node().has(i); }
  const Layout &src(int i) const { return *node().src[i]; }
  const Layout &out() const { return *node_->out; }
  uint64_t src_address(int i) const { return node_->src_address[i]; }
  uint64_t out_address() const { return node_->out_address; }
  uint64_t temp(int i) const { return scratch_ + node_->temps[i]; }
  double number(int i) const { return node().params[i].f; }
  int64_t integer(int i) const { return node().params[i].i; }

  /// Descriptors: nullptr when one could not be made, and then the next call() fails.
  aclTensor *tensor(const View &view, aclFormat format = ACL_FORMAT_ND);
  aclTensor *tensor(uint64_t address, const Layout &layout) {
    return tensor(View(address, layout));
  }
  /// The quants of n rows of k: as the matrix (k, n) that products take.
  aclTensor *quants(uint64_t address, int32_t dtype, int64_t n, int64_t k);
  aclTensor *src_tensor(int i) { return tensor(src_address(i), src(i)); }
  aclTensor *out_tensor() { return tensor(out_address(), out()); }
  aclScalar *scalar(double value);  ///< float32
  aclScalar *scalar(const void *value, aclDataType dtype);
  /// It takes the descriptors over.
  aclTensorList *list(aclTensor *const *members, size_t count);
  aclTensorList *list(aclTensor *tensor) { return list(&tensor, 1); }
  aclIntArray *ints(std::initializer_list<int64_t> values) {
    return ints(values.begin(), values.size());
  }
  aclIntArray *ints(const int64_t *values, size_t count);
  aclFloatArray *floats(const float *values, size_t count);
  aclBoolArray *bools(const bool *values, size_t count);

  /// Device memory whose content depends on `key` alone; `fill` makes it, where nobody has on this stream.
  template <typename Fill>
  Status constant(const ConstantKey &key, uint64_t bytes, uint64_t *address, Fill fill) {
    bool is_new = false;
    Status status = context_.constant(key, bytes, address, &is_new);
    if (!status.is_ok() || !is_new) return status;
    status = fill(*address);
    if (!status.is_ok()) context_.forget_constant(key);
    return status;
  }

  /// Both phases of an aclnn function: use with ACLNN(aclnnAdd), then the arguments before the
  /// workspace size.
  template <typename Phase1, typename Phase2, typename... Args>
  Status call(const char *name, Phase1 acl::Api::*phase1, Phase2 acl::Api::*phase2, Args... args) {
    if (!failed_.is_ok()) return failed_;
    const Phase1 get_size = api_.*phase1;
    const Phase2 execute = api_.*phase2;
    if (get_size == nullptr || execute == nullptr) return missing(name);
    uint64_t bytes = 0;
    aclOpExecutor *executor = nullptr;
    return run_phases(
        name, [&] { return get_size(args..., &bytes, &executor); }, execute, bytes, executor);
  }
  /// The same of functions that are known by their addresses: `get_size` makes the first call, and fills the two.
  template <typename GetSize>
  Status call(const char *name, GetSize get_size, void *phase2, const uint64_t &bytes,
              aclOpExecutor *const &executor) {
    Execute execute = nullptr;
    std::memcpy(&execute, &phase2, sizeof(execute));
    return failed_.is_ok() ? run_phases(name, get_size, execute, bytes, executor) : failed_;
  }

 private:
  using Execute = aclnnStatus (*)(void *, uint64_t, aclOpExecutor *, aclrtStream);
  template <typename GetSize>
  Status run_phases(const char *name, GetSize get_size, Execute execute, const uint64_t &bytes,
                    aclOpExecutor *const &executor) {
    count_made();
    const aclnnStatus code = get_size();
    return code == 0 ? finish(name, execute, bytes, executor)
                     : refused(name, "GetWorkspaceSize", code);
  }
  Status finish(const char *name, Execute execute, uint64_t bytes, aclOpExecutor *executor);
  Status missing(const char *name) const;
  Status refused(const char *name, const char *phase, aclnnStatus code) const;
  aclTensor *make_tensor(const int64_t *shape, const int64_t *strides, int32_t n_axes,
                         aclDataType dtype, int64_t offset, int64_t length, aclFormat format,
                         uint64_t address);
  enum class Kind : uint8_t { kTensor, kList, kScalar, kInts, kFloats, kBools };
  struct Kept {
    const void *object;
    Kind kind;
  };
  template <typename T>
  T *keep(T *made, const char *call, Kind kind);
  void destroy(const Kept &kept) const;
  void count_made();
  void fail_to_create(const char *call);
  void release();

  LaunchContext &context_;
  const acl::Api &api_;
  const uint64_t scratch_;
  const BoundNode *node_ = nullptr;
  Status failed_;
  std::vector<Kept> kept_;  ///< made for this node; keeps its room from node to node
  size_t counted_ = 0;      ///< of kept_, in the statistics
};

#define ACLNN(op) #op, &::aiocann::acl::Api::op##GetWorkspaceSize, &::aiocann::acl::Api::op

/// The first aclnn function of the row that this driver does not have; nullptr when it has them
/// all.
const char *missing_function(const acl::Api &api, const OpRow &row);

}  // namespace aiocann::core
