// graph.hpp: a checked, planned list of op nodes, and its submission to a stream. The seam between the core's
// lanes (who own threads, streams and memory) and its op dispatch (which only makes aclnn calls).
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "aiocann.h"
#include "core/status.hpp"

namespace aiocann::acl {
struct Api;
}

namespace aiocann::core {

/// All that a constant on the device depends on: two keys with the same bytes mean the same numbers.
struct ConstantKey {
  enum Kind : int32_t {
    kOnes,         ///< n of dtype
    kRopeFactors,  ///< how far each of n pairs turns from one position to the next, by the params of rope
    kSlopes        ///< ALiBi's, of n heads, for params[0]
  };
  ConstantKey(Kind of, int32_t as, int64_t count) : kind(of), dtype(as), n(count) {}
  bool operator==(const ConstantKey &other) const {
    return std::memcmp(this, &other, sizeof(*this)) == 0;
  }

  int32_t kind, dtype;
  int64_t n;
  aiocann_param params[AIOCANN_MAX_PARAMS] = {};
};
static_assert(sizeof(ConstantKey) == 16 + sizeof(aiocann_param) * AIOCANN_MAX_PARAMS, "no gaps");

/// What dispatch needs of the lane while it submits one graph. All calls happen on the lane's thread.
class LaunchContext {
 public:
  virtual ~LaunchContext() = default;
  virtual const acl::Api &api() const = 0;
  virtual void *stream() const = 0;  ///< aclrtStream
  virtual uint64_t address(
      const aiocann_mem *mem) const = 0;  ///< of a tensor's memory, lazy ones resolved
  virtual uint64_t scratch() const = 0;   ///< base of the graph's intermediates
  /// At least `bytes` of workspace, valid for work enqueued on the stream before the next call.
  virtual Status workspace(uint64_t bytes, uint64_t *address) = 0;
  /// The memory of a constant, for work that is enqueued on the stream from now on. *is_new: the caller must enqueue
  /// what fills it, or else forget it.
  virtual Status constant(const ConstantKey &key, uint64_t bytes, uint64_t *address,
                          bool *is_new) = 0;
  virtual void forget_constant(const ConstantKey &key) = 0;
  /// Called after each node: the tasks launched since the previous call belong to it.
  virtual void launched(int32_t node) = 0;
  /// Counts live native objects for the statistics: +1 on creation, -1 on destruction.
  virtual void count_tensors(int64_t delta) = 0;
  virtual void count_executors(int64_t delta) = 0;
};

/// How many bytes a tensor's memory has: aiocann_mem_nbytes, or what a test has in its place.
using MemBytes = uint64_t (*)(const aiocann_mem *);

class Graph {
 public:
  /// Checks and plans. Keeps no reference to memory: the caller (aiocann_graph) holds those.
  static Status create(const aiocann_tensor *tensors, int32_t n_tensors, const aiocann_node *nodes,
                       int32_t n_nodes, const char *soc_name, std::unique_ptr<Graph> *out,
                       MemBytes mem_bytes = &aiocann_mem_nbytes);
  virtual ~Graph() = default;
  virtual uint64_t scratch_bytes() const = 0;
  virtual int32_t n_nodes() const = 0;
  /// "mul_mat(f16 (384, 384), f32 (4, 7, 384))": for errors.
  virtual std::string describe(int32_t node) const = 0;
  /// Makes every aclnn call of the graph. On failure the status names the call and the node. Changes nothing in
  /// the graph: any number of lanes and streams may submit it, each with its own scratch.
  virtual Status submit(LaunchContext &context) const = 0;
};

}  // namespace aiocann::core
