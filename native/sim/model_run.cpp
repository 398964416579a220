// model_run.cpp: replaying a captured graph as one task of a stream. Thread: a worker.
#include "sim/capture.hpp"
#include "sim/faults.hpp"
#include "sim/machine.hpp"
#include "sim/stream.hpp"

namespace aiocann::sim {

ModelRun::ModelRun(const Model &model) : next(model.order.size()), recorded(model.nodes.size()) {}

/// Of tasks that wait: whether they may pass now (a notify is taken then). Others: nothing.
std::optional<bool> Stream::try_wait(const Payload &payload) {
  if (const auto *wait = std::get_if<WaitFlagTask>(&payload)) return wait->event->flag.is_open();
  if (const auto *wait = std::get_if<WaitPointTask>(&payload)) return wait->point->is_complete();
  if (const auto *wait = std::get_if<WaitNotifyTask>(&payload)) return wait->notify->take();
  if (const auto *wait = std::get_if<ValueWaitTask>(&payload)) return value_has_come(*wait);
  if (const auto *wait = std::get_if<WaitExternalTask>(&payload)) {
    const Ref<RecordPoint> point = wait->event->latest_point();
    return !point || point->is_complete();
  }
  return std::nullopt;
}

Stream::Outcome Stream::step_branch(const Model &model, uint32_t branch, bool *moved) {
  ModelRun &run = *run_;
  while (run.next[branch] < model.order[branch].size()) {
    if (must_discard()) return Outcome::kAgain;
    const uint32_t index = model.order[branch][run.next[branch]];
    std::shared_ptr<const Task> task;
    ModelNode::Kind kind;
    uint32_t record;
    {
      std::lock_guard<std::mutex> lock(model.mutex);
      const ModelNode &node = model.nodes[index];
      kind = node.kind;
      record = node.record;
      task = node.task;
    }
    if (kind == ModelNode::Kind::kRecord) {
      run.recorded[index] = true;
    } else if (kind == ModelNode::Kind::kWait) {
      if (!run.recorded[record]) return Outcome::kDone;
    } else if (const auto passes = try_wait(task->payload)) {
      if (!*passes) return Outcome::kDone;
    } else {
      run.current = branch;
      const Outcome outcome = execute(*task);
      if (outcome != Outcome::kDone) return outcome;
      if (run.has_failed) return Outcome::kDone;
    }
    ++run.next[branch];
    *moved = true;
  }
  return Outcome::kDone;
}

/// Goes along each branch as far as it gets; waits only where no branch can go on.
Stream::Outcome Stream::execute_model(const Task &task, const RunModelTask &run_task) {
  Model &model = static_cast<Model &>(*run_task.model);
  if (run_ == nullptr) {
    run_ = std::make_unique<ModelRun>(model);
    run_task_ = &task;
  }
  const auto n_branches = static_cast<uint32_t>(model.order.size());
  while (true) {
    bool moved = false, is_done = true;
    for (uint32_t i = 0; i < n_branches; ++i) {
      const uint32_t branch = (run_->current + i) % n_branches;
      const Outcome outcome = step_branch(model, branch, &moved);
      if (outcome != Outcome::kDone) return outcome;
      if (run_->has_failed) break;
    }
    for (uint32_t branch = 0; branch < n_branches; ++branch)
      is_done = is_done && run_->next[branch] == model.order[branch].size();
    if (is_done || run_->has_failed) {
      end_model_run(run_task);
      return Outcome::kDone;
    }
    if (!moved) return wait_polling(task, 0);
  }
}

void Stream::end_model_run(const RunModelTask &run_task) {
  run_.reset();
  run_task_ = nullptr;
  static_cast<Model &>(*run_task.model).running.fetch_sub(1);
}

}  // namespace aiocann::sim
