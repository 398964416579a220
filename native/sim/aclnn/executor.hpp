// executor.hpp: phase 1 writes a plan, phase 2 queues it.
//
// A plan is data: one kernel, the views it works on, a block of plain parameters. It borrows nothing from the
// program's tensors but their addresses, and those can be replaced between runs of a repeatable executor.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/aclnn/objects.hpp"
#include "sim/kernels/view.hpp"
#include "sim/task.hpp"

namespace aiocann::sim {

/// What an operator's kernel gets: `args` of its KernelTask.
struct OpArgs {
  std::vector<View> views;
  std::vector<int64_t> numbers;  ///< lists of any length: lengths of sequences, ...
  alignas(8) unsigned char params[192] = {};

  template <class P>
  void set(const P &value) {
    static_assert(std::is_trivially_copyable_v<P> && sizeof(P) <= sizeof(params) &&
                  alignof(P) <= 8);
    std::memcpy(params, &value, sizeof(P));
  }
  template <class P>
  const P &as() const {
    return *reinterpret_cast<const P *>(params);
  }
};

/// Phase 1 of one operator. Usage: declare the tensors in the order of the operator's signature, add the views
/// that the kernel works on, finish.
class Planner {
 public:
  Planner(const char *name, uint64_t *workspace, aclOpExecutor **executor);
  ~Planner();
  Planner(const Planner &) = delete;
  Planner &operator=(const Planner &) = delete;

  /// Declares tensors of the signature (NULL: an optional one that is absent). Returns a slot for `view`.
  int input(const aclTensor *tensor);
  int output(const aclTensor *tensor);
  int in_place(const aclTensor *tensor);
  /// Slots first .. first+size-1.
  int input_list(const aclTensorList *list);

  /// Adds an operand of the kernel; `byte_shift` moves it from the tensor's first element.
  void read(int slot, const View &view, int64_t byte_shift = 0);
  void write(int slot, const View &view, int64_t byte_shift = 0);
  /// Lists that the kernel gets.
  void give_numbers(std::vector<int64_t> numbers) { args().numbers = std::move(numbers); }
  /// Scratch bytes that the device would need, on top of what was asked for before.
  void need_workspace(uint64_t bytes);

  template <class P>
  aclnnStatus finish(KernelFn kernel, const P &params) {
    args().set(params);
    return finish(kernel);
  }
  /// NULL: there is nothing to compute (empty tensors).
  aclnnStatus finish(KernelFn kernel);

 private:
  OpArgs &args();
  int declare(const aclTensor *tensor, bool is_output, int param, int relative);
  void bind(int slot, View view, int64_t byte_shift, bool written);

  uint64_t *workspace_;
  aclOpExecutor **executor_;
  std::unique_ptr<aclOpExecutor> plan_;
  int n_inputs_ = 0, n_outputs_ = 0;
};

/// Phase 2 of every operator.
aclnnStatus run_executor(const char *name, void *workspace, uint64_t workspace_size,
                         aclOpExecutor *executor, aclrtStream stream);

}  // namespace aiocann::sim

/// Defines phase 2 of an operator.
#define ACLNN_RUN(name)                                                                           \
  aclnnStatus name(void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream) { \
    return aiocann::sim::run_executor(#name, workspace, size, executor, stream);                  \
  }
