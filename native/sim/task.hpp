// task.hpp: what a kernel is to the simulated machine. The seam between the runtime half of the simulator
// (streams, memory, faults) and the operator half (aclnn): operators build a KernelTask, the machine runs it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "acl_abi.h"

namespace aiocann::sim {

/// Bytes that a kernel reads or writes: checked for bounds and liveness before the kernel runs.
struct Operand {
  const void *begin = nullptr;
  uint64_t bytes = 0;
  bool written = false;
  bool dense = false;  ///< every byte of it is read or written
};

/// What a running kernel may use of the machine.
class ExecContext {
 public:
  virtual ~ExecContext() = default;
  /// Runs body(0) .. body(n-1), some of them at once on other threads; returns when all are done. The split
  /// into n must depend on shapes alone: results never depend on the number of threads.
  virtual void parallel_for(size_t n, const std::function<void(size_t)> &body) = 0;
};

/// 0, or the ACL code with which the device faults (507015, ...).
using KernelFn = int (*)(ExecContext &, const void *args);

/// Data, not a closure, so that a captured stream can replay it: `args` is immutable once submitted.
struct KernelTask {
  const char *name = "";  ///< static storage, e.g. "aclnnAdd": faults are injected by it
  KernelFn fn = nullptr;
  std::shared_ptr<const void> args;
  std::vector<Operand> operands;
};

/// Queues a kernel on a stream (nullptr: the default stream of the current context), with the checks of every
/// launch: 107002 without a context, 107003 for a stream of another context, and so on.
aclError submit_kernel(aclrtStream stream, KernelTask task);

}  // namespace aiocann::sim
