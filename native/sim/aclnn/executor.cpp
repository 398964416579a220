#include "sim/aclnn/executor.hpp"

#include <new>
#include <string>
#include <utility>

#include "sim/entry.hpp"
#include "sim/faults.hpp"
#include "sim/kernels/dtype.hpp"

namespace aiocann::sim {
namespace {

/// A tensor of the operator's signature.
struct Slot {
  void *address = nullptr;
  int64_t offset_bytes = 0;
  bool present = false;
  int input = -1,
      output = -1;    ///< numbers among inputs and outputs, members of lists counted one by one
  int param = -1;     ///< number of the parameter among the operator's tensor parameters
  int relative = -1;  ///< place in its list; -1 outside lists
};

/// Which slot a kernel's view follows.
struct Binding {
  int slot = 0;
  int64_t byte_shift = 0;
  bool written = false;
};

/// The bytes that a view can touch.
Operand extent(const View &view, bool written) {
  Operand operand;
  operand.written = written;
  const auto item = static_cast<int64_t>(size_of(view.dtype));
  int64_t low = 0, high = item;
  for (int d = 0; d < view.shape.rank; ++d) {
    if (view.shape.dim[d] == 0) return operand;
    const int64_t reach = (view.shape.dim[d] - 1) * view.stride[d] * item;
    (reach < 0 ? low : high) += reach;
  }
  operand.begin = reinterpret_cast<const void *>(reinterpret_cast<uintptr_t>(view.data) + low);
  operand.bytes = static_cast<uint64_t>(high - low);
  operand.dense = operand.bytes == static_cast<uint64_t>(view.shape.count() * item);
  return operand;
}

}  // namespace
}  // namespace aiocann::sim

struct aclOpExecutor : aiocann::sim::Counted<&aiocann::sim::LiveObjects::executors> {
  const char *name = "";
  aiocann::sim::KernelFn kernel = nullptr;
  std::shared_ptr<aiocann::sim::OpArgs> args = std::make_shared<aiocann::sim::OpArgs>();
  std::vector<aiocann::sim::Slot> slots;
  std::vector<aiocann::sim::Binding> bindings;  ///< one for each view of args
  uint64_t workspace = 0;
  int n_params = 0;
  bool repeatable = false;
  bool submitted = false;  ///< args is shared with a task: copy before writing

  void bind_addresses();
  aclnnStatus set_address(const char *function, aiocann::sim::Slot *slot, void *address);
};

namespace aiocann::sim {

Planner::Planner(const char *name, uint64_t *workspace, aclOpExecutor **executor)
    : workspace_(workspace), executor_(executor), plan_(new aclOpExecutor) {
  plan_->name = name;
}

Planner::~Planner() = default;

OpArgs &Planner::args() { return *plan_->args; }

int Planner::declare(const aclTensor *tensor, bool is_output, int param, int relative) {
  Slot slot;
  slot.param = param;
  slot.relative = relative;
  (is_output ? slot.output : slot.input) = is_output ? n_outputs_++ : n_inputs_++;
  if (tensor != nullptr) {
    slot.present = true;
    slot.address = tensor->data;
    slot.offset_bytes = tensor->offset * static_cast<int64_t>(size_of(tensor->dtype));
  }
  plan_->slots.push_back(slot);
  return static_cast<int>(plan_->slots.size()) - 1;
}

int Planner::input(const aclTensor *tensor) {
  return declare(tensor, false, plan_->n_params++, -1);
}

int Planner::output(const aclTensor *tensor) {
  return declare(tensor, true, plan_->n_params++, -1);
}

int Planner::in_place(const aclTensor *tensor) {
  const int slot = declare(tensor, false, plan_->n_params++, -1);
  plan_->slots[static_cast<size_t>(slot)].output = n_outputs_++;
  return slot;
}

int Planner::input_list(const aclTensorList *list) {
  const auto first = static_cast<int>(plan_->slots.size());
  const int param = plan_->n_params++;
  for (size_t i = 0; i < list->members.size(); ++i) {
    declare(list->members[i], false, param, static_cast<int>(i));
  }
  return first;
}

void Planner::read(int slot, const View &view, int64_t byte_shift) {
  bind(slot, view, byte_shift, false);
}

void Planner::write(int slot, const View &view, int64_t byte_shift) {
  bind(slot, view, byte_shift, true);
}

void Planner::bind(int slot, View view, int64_t byte_shift, bool written) {
  args().views.push_back(view);
  plan_->bindings.push_back({slot, byte_shift, written});
}

void Planner::need_workspace(uint64_t bytes) {
  constexpr uint64_t kGranule = 512;  // what aclnn workspaces are rounded to
  plan_->workspace += (bytes + kGranule - 1) / kGranule * kGranule;
}

aclnnStatus Planner::finish(KernelFn kernel) {
  if (faults_armed()) {
    const std::string function = std::string(plan_->name) + "GetWorkspaceSize";
    if (const int code = injected_call_fault(function.c_str())) {
      return fail(code, "%s failed: fault injected by a test", function.c_str());
    }
  }
  plan_->kernel = kernel;
  if (kernel == nullptr) plan_->workspace = 0;
  plan_->bind_addresses();
  *workspace_ = plan_->workspace;
  *executor_ = plan_.release();
  return ACLNN_SUCCESS;
}

aclnnStatus run_executor(const char *name, void *workspace, uint64_t workspace_size,
                         aclOpExecutor *executor, aclrtStream stream) {
  if (executor == nullptr) return fail(ACLNN_ERR_PARAM_NULLPTR, "%s: the executor is NULL", name);
  // One-shot: from here on the executor is gone, whatever happens.
  std::unique_ptr<aclOpExecutor> owner(executor->repeatable ? nullptr : executor);
  if (faults_armed()) {
    if (const int code = injected_call_fault(name)) {
      return fail(code, "%s failed: fault injected by a test", name);
    }
  }
  if (workspace == nullptr && workspace_size != 0) {
    return fail(ACLNN_ERR_PARAM_NULLPTR, "%s: the workspace is NULL but its size is %llu", name,
                static_cast<unsigned long long>(workspace_size));
  }
  if (executor->kernel == nullptr) return ACLNN_SUCCESS;

  KernelTask task;
  task.name = executor->name;
  task.fn = executor->kernel;
  const auto &views = executor->args->views;
  task.operands.reserve(views.size() + 1);
  for (size_t i = 0; i < views.size(); ++i) {
    Operand operand = extent(views[i], executor->bindings[i].written);
    if (operand.bytes != 0) task.operands.push_back(operand);
  }
  if (executor->workspace != 0) task.operands.push_back({workspace, executor->workspace, true});
  executor->submitted = true;
  task.args = executor->args;
  return submit_kernel(stream, std::move(task));
}

}  // namespace aiocann::sim

void aclOpExecutor::bind_addresses() {
  for (size_t i = 0; i < bindings.size(); ++i) {
    const aiocann::sim::Slot &slot = slots[static_cast<size_t>(bindings[i].slot)];
    // As numbers: the address may be NULL until it is set before the first run.
    const uintptr_t address = reinterpret_cast<uintptr_t>(slot.address) +
                              static_cast<uintptr_t>(slot.offset_bytes + bindings[i].byte_shift);
    args->views[i].data = reinterpret_cast<char *>(address);
  }
}

aclnnStatus aclOpExecutor::set_address(const char *function, aiocann::sim::Slot *slot,
                                       void *address) {
  if (!slot->present) {
    return aiocann::sim::fail(ACLNN_ERR_PARAM_INVALID, "%s: the tensor was NULL in the first phase",
                              function);
  }
  slot->address = address;
  if (submitted) {
    // Tasks that are queued keep the addresses they were queued with.
    args = std::make_shared<aiocann::sim::OpArgs>(*args);
    submitted = false;
  }
  bind_addresses();
  return ACLNN_SUCCESS;
}

namespace {

using aiocann::sim::fail;
using aiocann::sim::Slot;

template <class Match>
aclnnStatus set_tensor(const char *function, aclOpExecutor *executor, aclTensor *tensor,
                       void *address, Match match) {
  if (executor == nullptr || tensor == nullptr) {
    return fail(ACLNN_ERR_INNER_NULLPTR, "%s: the executor or the tensor is NULL", function);
  }
  for (Slot &slot : executor->slots) {
    if (!match(slot)) continue;
    const aclnnStatus status = executor->set_address(function, &slot, address);
    if (status == ACLNN_SUCCESS) tensor->data = address;
    return status;
  }
  return fail(ACLNN_ERR_PARAM_INVALID, "%s: the index is out of range for %s", function,
              executor->name);
}

template <class Match>
aclnnStatus set_member(const char *function, aclOpExecutor *executor, size_t relative,
                       aclTensorList *list, void *address, Match match) {
  if (executor == nullptr || list == nullptr) {
    return fail(ACLNN_ERR_INNER_NULLPTR, "%s: the executor or the list is NULL", function);
  }
  if (relative >= list->members.size()) {
    return fail(ACLNN_ERR_PARAM_INVALID, "%s: the list has %zu tensors, there is no number %zu",
                function, list->members.size(), relative);
  }
  return set_tensor(function, executor, const_cast<aclTensor *>(list->members[relative]), address,
                    match);
}

}  // namespace

extern "C" {

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor) {
  ACL_ENTRY();
  if (executor == nullptr) {
    return fail(ACLNN_ERR_INNER_NULLPTR, "aclSetAclOpExecutorRepeatable: the executor is NULL");
  }
  executor->repeatable = true;
  return ACLNN_SUCCESS;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor) {
  ACL_ENTRY();
  if (executor == nullptr) {
    return fail(ACLNN_ERR_INNER_NULLPTR, "aclDestroyAclOpExecutor: the executor is NULL");
  }
  delete executor;
  return ACLNN_SUCCESS;
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor,
                                  void *addr) {
  ACL_ENTRY();
  return set_tensor("aclSetInputTensorAddr", executor, tensor, addr, [index](const Slot &slot) {
    return slot.input >= 0 && static_cast<size_t>(slot.input) == index;
  });
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor,
                                   void *addr) {
  ACL_ENTRY();
  return set_tensor("aclSetOutputTensorAddr", executor, tensor, addr, [index](const Slot &slot) {
    return slot.output >= 0 && static_cast<size_t>(slot.output) == index;
  });
}

aclnnStatus aclSetTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor,
                             void *addr) {
  ACL_ENTRY();
  // Inputs are numbered first, outputs after them.
  size_t n_inputs = 0;
  if (executor != nullptr) {
    for (const Slot &slot : executor->slots) n_inputs += slot.input >= 0;
  }
  return set_tensor(
      "aclSetTensorAddr", executor, tensor, addr, [index, n_inputs](const Slot &slot) {
        if (index < n_inputs) return slot.input >= 0 && static_cast<size_t>(slot.input) == index;
        return slot.output >= 0 && static_cast<size_t>(slot.output) == index - n_inputs;
      });
}

aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor *executor, size_t irIndex,
                                         const size_t relativeIndex, aclTensorList *tensors,
                                         void *addr) {
  ACL_ENTRY();
  return set_member("aclSetDynamicInputTensorAddr", executor, relativeIndex, tensors, addr,
                    [=](const Slot &slot) {
                      return slot.input >= 0 && static_cast<size_t>(slot.param) == irIndex &&
                             slot.relative >= 0 &&
                             static_cast<size_t>(slot.relative) == relativeIndex;
                    });
}

aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor *executor, size_t irIndex,
                                          const size_t relativeIndex, aclTensorList *tensors,
                                          void *addr) {
  ACL_ENTRY();
  // Outputs are numbered among themselves. No operator here has a list of outputs yet.
  return set_member("aclSetDynamicOutputTensorAddr", executor, relativeIndex, tensors, addr,
                    [=](const Slot &slot) {
                      return slot.output >= 0 && slot.relative >= 0 &&
                             static_cast<size_t>(slot.param) == irIndex &&
                             static_cast<size_t>(slot.relative) == relativeIndex;
                    });
}

aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor *executor, size_t irIndex,
                                    const size_t relativeIndex, aclTensorList *tensors,
                                    void *addr) {
  ACL_ENTRY();
  return set_member("aclSetDynamicTensorAddr", executor, relativeIndex, tensors, addr,
                    [=](const Slot &slot) {
                      return static_cast<size_t>(slot.param) == irIndex && slot.relative >= 0 &&
                             static_cast<size_t>(slot.relative) == relativeIndex;
                    });
}

// Nothing to prepare: both only have to be there, beside aclInit and aclFinalize.
aclnnStatus aclnnInit(const char *configPath) {
  (void)configPath;
  return ACLNN_SUCCESS;
}

aclnnStatus aclnnFinalize(void) { return ACLNN_SUCCESS; }

}  // extern "C"
