// model_run.cpp: replaying a graph as one task of a stream. Thread: a worker.
#include <algorithm>

#include "sim/capture.hpp"
#include "sim/faults.hpp"
#include "sim/machine.hpp"
#include "sim/moving.hpp"
#include "sim/stream.hpp"
#include "sim/strict.hpp"

namespace aiocann::sim {
namespace {

bool holds(aclrtCondition condition, int64_t left, int64_t right) {
  switch (condition) {
    case ACL_RT_EQUAL:
      return left == right;
    case ACL_RT_NOT_EQUAL:
      return left != right;
    case ACL_RT_GREATER:
      return left > right;
    case ACL_RT_GREATER_OR_EQUAL:
      return left >= right;
    case ACL_RT_LESS:
      return left < right;
    default:  // ACL_RT_LESS_OR_EQUAL
      return left <= right;
  }
}

template <class T>
T look_at(const void *address) {
  return __atomic_load_n(static_cast<const T *>(address), __ATOMIC_ACQUIRE);
}

/// Conditions that have a default start with it, in every body too.
void assign_defaults(const Model &model) {
  for (const auto &conditional : model.conditionals) {
    if (conditional->has_default) {
      const WriteSection writes;
      __atomic_store_n(conditional->value, uint64_t{conditional->default_value}, __ATOMIC_RELEASE);
      if (strict::is_on()) strict::writes(conditional->value, sizeof *conditional->value);
    }
    for (const auto &body : conditional->bodies) assign_defaults(static_cast<const Model &>(*body));
  }
}

}  // namespace

const Model *Conditional::choose(uint64_t found) const {
  size_t chosen = bodies.size();
  switch (type) {
    case ACL_MODEL_RI_COND_TYPE_IF:
      chosen = found != 0 ? 0 : 1;
      break;
    case ACL_MODEL_RI_COND_TYPE_WHILE:
      if (found != 0) chosen = 0;
      break;
    default:  // ACL_MODEL_RI_COND_TYPE_SWITCH
      if (found < bodies.size()) chosen = static_cast<size_t>(found);
  }
  return chosen < bodies.size() ? static_cast<const Model *>(bodies[chosen].get()) : nullptr;
}

ModelRun::ModelRun(const Model &model)
    : model(model), branches(model.order.size()), recorded(model.nodes.size()) {
  for (size_t i = 0; i < branches.size(); ++i) branches[i].is_active = model.branches[i].is_head;
}

ModelRun::~ModelRun() {
  for (const Branch &branch : branches) {
    if (branch.pause) end_pause(branch.pause);
  }
}

void ModelRun::Branch::go_to(size_t where) {
  if (pause) end_pause(pause);
  *this = Branch{};
  is_active = true;
  next = where;
}

/// One look of a worker at a replay. What is half done is in the ModelRun.
class Replay {
 public:
  using Outcome = Stream::Outcome;

  explicit Replay(Stream *stream) : stream_(*stream) {}

  /// Goes along each branch as far as it gets.
  Outcome step(ModelRun &run, bool *moved, bool *is_over) {
    const auto n_branches = static_cast<uint32_t>(run.branches.size());
    const uint32_t first = run.current;
    for (uint32_t i = 0; i < n_branches; ++i) {
      run.current = (first + i) % n_branches;
      const Outcome outcome = step_branch(run, run.branches[run.current], moved);
      if (outcome != Outcome::kDone) return outcome;
      if (has_failed()) return Outcome::kDone;
    }
    *is_over = look_for_end(run);
    return Outcome::kDone;
  }

 private:
  bool has_failed() const { return stream_.run_->has_failed; }

  /// Built graphs end with their end task, others when every branch is done.
  bool look_for_end(ModelRun &run) {
    const auto &all = run.branches;
    const bool is_idle =
        std::none_of(all.begin(), all.end(), [](const auto &branch) { return branch.is_active; });
    if (run.model.kind != Model::Kind::kBuilt) return is_idle;
    if (!run.has_ended) {
      if (is_idle && !run.is_stuck) {
        run.is_stuck = true;
        misuse("model %u waits for its end for ever: no stream of it runs that gets there",
               run.model.id);
      }
      return false;
    }
    // Hardware tells of the end at once. What is not waited for goes on there; here it does so before that.
    const bool is_all_waiting = std::all_of(all.begin(), all.end(), [](const auto &branch) {
      return !branch.is_active || branch.is_waiting;
    });
    if (is_all_waiting && !is_idle)
      misuse("model %u has ended while a stream of it waits for something", run.model.id);
    return is_all_waiting;
  }

  Outcome step_branch(ModelRun &run, ModelRun::Branch &branch, bool *moved) {
    const uint32_t index = static_cast<uint32_t>(&branch - run.branches.data());
    const std::vector<uint32_t> &order = run.model.order[index];
    branch.is_waiting = false;
    while (branch.is_active) {
      if (branch.next == order.size()) {
        branch.is_active = false;
        break;
      }
      if (stream_.must_discard()) return Outcome::kAgain;
      bool goes_on = true;
      const Outcome outcome = step_node(run, branch, order[branch.next], moved, &goes_on);
      if (outcome != Outcome::kDone) return outcome;
      if (!goes_on || has_failed()) return Outcome::kDone;
      *moved = true;
    }
    return Outcome::kDone;
  }

  /// `goes_on`: false where the branch stays at the node for now. `moved`: something did, perhaps in a body.
  Outcome step_node(ModelRun &run, ModelRun::Branch &branch, uint32_t index, bool *moved,
                    bool *goes_on) {
    std::shared_ptr<const Task> task;
    ModelNode::Kind kind;
    uint32_t record;
    {
      std::lock_guard<std::mutex> lock(run.model.mutex);
      const ModelNode &node = run.model.nodes[index];
      kind = node.kind;
      record = node.record;
      task = node.task;
    }
    if (kind == ModelNode::Kind::kRecord) {
      run.recorded[index] = true;
    } else if (kind == ModelNode::Kind::kWait) {
      branch.is_waiting = !run.recorded[record];
    } else if (const auto *flow = std::get_if<FlowTask>(&task->payload)) {
      return step_flow(run, branch, *task, *flow->flow, moved, goes_on);
    } else if (const auto passes = try_wait(task->payload)) {
      branch.is_waiting = !*passes;
    } else if (is_held_back(branch, *task)) {
      *goes_on = false;
    } else if (const Outcome outcome = stream_.execute(*task); outcome != Outcome::kDone) {
      return outcome;
    }
    if (branch.is_waiting) *goes_on = false;
    if (*goes_on) advance(branch);
    return Outcome::kDone;
  }

  static void advance(ModelRun::Branch &branch) {
    ++branch.next;
    branch.is_examined = false;
  }

  /// Of tasks that wait: whether they may pass now (a notify is taken then). Others: nothing.
  std::optional<bool> try_wait(const Payload &payload) {
    if (const auto *wait = std::get_if<WaitFlagTask>(&payload)) return wait->event->flag.is_open();
    if (const auto *wait = std::get_if<WaitPointTask>(&payload)) return wait->point->is_complete();
    if (const auto *wait = std::get_if<WaitNotifyTask>(&payload)) return wait->notify->take();
    if (const auto *wait = std::get_if<ValueWaitTask>(&payload))
      return stream_.value_has_come(*wait);
    if (const auto *wait = std::get_if<WaitExternalTask>(&payload)) {
      const Ref<RecordPoint> point = wait->event->latest_point();
      return !point || point->is_complete();
    }
    return std::nullopt;
  }

  /// A fault holds back the branch alone, as on a stream of its own.
  bool is_held_back(ModelRun::Branch &branch, const Task &task) {
    if (!branch.is_examined) {
      branch.is_examined = true;
      if (faults_armed()) branch.pause = stream_.begin_pause_of_fault(task);
    }
    if (!branch.pause) return false;
    if (!branch.pause->gate.is_open()) return true;
    end_pause(branch.pause);
    branch.pause = Ref<Pause>();
    stream_.abort_refusal_.store(0);
    return false;
  }

  Outcome step_flow(ModelRun &run, ModelRun::Branch &branch, const Task &task, const Flow &flow,
                    bool *moved, bool *goes_on) {
    if (const auto *body = std::get_if<RunBody>(&flow.step))
      return step_body(branch, task, *body->conditional, moved, goes_on);
    advance(branch);
    if (std::holds_alternative<EndGraph>(flow.step)) {
      run.has_ended = true;
    } else if (const auto *begin = std::get_if<BeginBranch>(&flow.step)) {
      ModelRun::Branch &other = run.branches[begin->branch];
      if (other.is_active)
        misuse("a stream of model %u is activated while it runs", run.model.id);
      else
        other.go_to(0);
    } else if (const auto *to_branch = std::get_if<GoToBranch>(&flow.step)) {
      go_to_branch(run, branch, task, *to_branch);
    } else {
      go_to_label(run, branch, task, std::get<GoToLabel>(flow.step));
    }
    return Outcome::kDone;
  }

  bool is_readable(const Task &task, const void *address, uint64_t bytes) {
    if (!stream_.may_use(address, bytes, "a task that steers a graph")) {
      stream_.fail_task(task, ACL_ERROR_RT_AICORE_EXCEPTION);
      return false;
    }
    if (strict::is_on())
      strict::reads({"a task that steers a graph", &stream_, task.id}, address, bytes);
    return true;
  }

  void go_to_branch(ModelRun &run, ModelRun::Branch &branch, const Task &task,
                    const GoToBranch &step) {
    const bool is_wide = step.type == ACL_RT_SWITCH_INT64;
    const uint64_t bytes = is_wide ? sizeof(int64_t) : sizeof(int32_t);
    if (!is_readable(task, step.left, bytes) || !is_readable(task, step.right, bytes)) return;
    const bool is_true =
        is_wide ? holds(step.condition, look_at<int64_t>(step.left), look_at<int64_t>(step.right))
                : holds(step.condition, look_at<int32_t>(step.left), look_at<int32_t>(step.right));
    if (!is_true) return;
    branch.is_active = false;
    run.branches[step.branch].go_to(0);
  }

  void go_to_label(ModelRun &run, ModelRun::Branch &branch, const Task &task,
                   const GoToLabel &step) {
    if (!is_readable(task, step.index, sizeof *step.index)) return;
    const uint32_t number = std::min(look_at<uint32_t>(step.index), step.n_labels - 1);
    uint32_t to = 0, node = 0;
    if (!find_label(step, number, run.model, &to, &node)) {
      stream_.fail_task(task, ACL_ERROR_RT_MODEL_EXECUTE);
      return;
    }
    const std::vector<uint32_t> &order = run.model.order[to];
    branch.is_active = false;
    run.branches[to].go_to(
        static_cast<size_t>(std::lower_bound(order.begin(), order.end(), node) - order.begin()));
  }

  /// Runs the body that the value asks for; a loop looks at it again afterwards.
  Outcome step_body(ModelRun::Branch &branch, const Task &task, const Conditional &conditional,
                    bool *moved, bool *goes_on) {
    if (branch.inner == nullptr) {
      if (!is_readable(task, conditional.value, sizeof *conditional.value)) return Outcome::kDone;
      const Model *const body = conditional.choose(look_at<uint64_t>(conditional.value));
      // A body that nothing was captured into has nothing to run.
      if (body == nullptr || body->state.load() != Model::State::kReady) {
        advance(branch);
        return Outcome::kDone;
      }
      branch.inner = std::make_unique<ModelRun>(*body);
    }
    bool is_over = false;
    const Outcome outcome = step(*branch.inner, moved, &is_over);
    if (outcome != Outcome::kDone || has_failed()) return outcome;
    if (!is_over) {
      *goes_on = false;
      // Waiting is what all of it does.
      const auto &inner = branch.inner->branches;
      branch.is_waiting = std::all_of(inner.begin(), inner.end(), [](const auto &one) {
        return !one.is_active || one.is_waiting;
      });
      return Outcome::kDone;
    }
    branch.inner.reset();
    if (conditional.type != ACL_MODEL_RI_COND_TYPE_WHILE) advance(branch);
    return Outcome::kDone;
  }

  Stream &stream_;
};

/// Waits only where no branch can go on.
Stream::Outcome Stream::execute_model(const Task &task, const RunModelTask &run_task) {
  const Model &model = static_cast<const Model &>(*run_task.model);
  if (run_ == nullptr) {
    assign_defaults(model);
    run_ = std::make_unique<ModelRun>(model);
    run_task_ = &task;
  }
  while (true) {
    bool moved = false, is_over = false;
    const Outcome outcome = Replay(this).step(*run_, &moved, &is_over);
    if (outcome != Outcome::kDone) return outcome;
    if (is_over || run_->has_failed) {
      end_model_run(run_task);
      return Outcome::kDone;
    }
    if (!moved) return wait_polling(task, 0);
  }
}

void Stream::end_model_run(const RunModelTask &run_task) {
  run_.reset();
  run_task_ = nullptr;
  abort_refusal_.store(0);
  static_cast<Model &>(*run_task.model).running.fetch_sub(1);
}

}  // namespace aiocann::sim
