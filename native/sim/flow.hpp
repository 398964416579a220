// flow.hpp: what steers a graph: labels to go to, streams to begin with or to go over to, graphs run on a condition.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "acl_abi.h"
#include "sim/model_base.hpp"
#include "sim/ref.hpp"

namespace aiocann::sim {

class Arena;
struct Context;
struct Model;

/// A place in a graph that is built: before `node` of the branch. Guarded by the labels' lock.
struct Label {
  Context *context = nullptr;
  bool is_listed = false;
  uint32_t model_id = 0;  ///< 0: it is not set
  uint32_t branch = 0, node = 0;
};

struct LabelList {
  std::vector<std::shared_ptr<Label>> labels;
};

/// Goes to the label with the number at `index`, the last one where there are not so many.
struct GoToLabel {
  const uint32_t *index;
  uint32_t n_labels;
  std::shared_ptr<const LabelList> list;
};

/// Goes over to the beginning of another branch, if the condition holds.
struct GoToBranch {
  const void *left, *right;
  aclrtCondition condition;
  aclrtCompareDataType type;
  uint32_t branch;
};

/// Another branch begins.
struct BeginBranch {
  uint32_t branch;
};

struct EndGraph {};

/// An aclmdlRICondHandle, and the task that it is used for. The graph that it was made in keeps it.
struct Conditional {
  uint64_t *value = nullptr;  ///< on the device
  Arena *memory = nullptr;
  bool has_default = false;
  uint32_t default_value = 0;
  // Once a task was made of it:
  aclmdlRICondTaskType type = ACL_MODEL_RI_COND_TYPE_IF;
  std::vector<Ref<ModelBase>> bodies;

  /// Which body a look at the value asks for; nullptr: none.
  const Model *choose(uint64_t found) const;
};

struct RunBody {
  std::shared_ptr<const Conditional> conditional;
};

struct Flow {
  template <class Step>
  explicit Flow(Step made) : step(std::move(made)) {}
  std::variant<GoToLabel, GoToBranch, BeginBranch, EndGraph, RunBody> step;
};

/// Where the label with this number is in the graph; false: nowhere.
bool find_label(const GoToLabel &step, uint32_t number, const Model &model, uint32_t *branch,
                uint32_t *node);

}  // namespace aiocann::sim
