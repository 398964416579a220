// stream.cpp: passing and settling. Every decision about an op's outcome is made here, under its stream's lock;
// never two such locks at once: what concerns other streams goes through the Settler.
#include "core/stream.hpp"

#include <cstdio>
#include <cstring>

#include "core/device.hpp"
#include "core/events.hpp"
#include "core/lane.hpp"
#include "core/memory.hpp"
#include "core/runtime.hpp"
#include "core/staging.hpp"

using namespace aiocann::core;

namespace {

std::atomic<uint64_t> next_stream_id{1};

/// Task ids count up and wrap around.
bool not_after(uint32_t task, uint32_t last) { return static_cast<int32_t>(last - task) >= 0; }

}  // namespace

Status aiocann::core::predecessor(const Status &fault, uint64_t cause_op, const char *cause_kind,
                                  const Op *op) {
  // What failed first, not the chain of those that failed because of it.
  const aiocann_error &known = *fault.get();
  const bool indirect = known.cause_code != 0;
  const char *root = known.detail + (indirect ? known.cause_at : 0);
  char because[160];
  const int length = snprintf(because, sizeof because,
                              "%s is void: %s before it failed: ", op->name(), cause_kind);
  Status status = Status::error(AIOCANN_E_PREDECESSOR, "%s%s", because, root);
  aiocann_error &error = status.mutate();
  error.cause_op = cause_op;
  error.cause_code = indirect ? known.cause_code : known.code;
  error.cause_is_fault = indirect ? known.cause_is_fault : known.is_fault;
  error.cause_at = length;
  error.device = op->stream->device->index;  // where op is; the text says where the cause was
  snprintf(error.cause_kind, sizeof error.cause_kind, "%s", cause_kind);
  return status;
}

aiocann_stream::aiocann_stream(Device *on, void *raw_stream, int32_t stream_id, bool is_internal,
                               void *marker_stream)
    : device(on),
      raw(raw_stream),
      marker_raw(marker_stream != nullptr ? marker_stream : raw_stream),
      driver_id(stream_id),
      id(next_stream_id.fetch_add(1, std::memory_order_relaxed)),
      internal(is_internal),
      epoch(on->epoch()) {
  poke_command.kind = CommandKind::kStreamPoke;
  poke_command.owner = this;
  release_command.kind = CommandKind::kStreamRelease;
  release_command.owner = this;
  device->runtime->retain();
}

aiocann_stream::~aiocann_stream() {
  if (workspace != nullptr) workspace->release_handle();
  device->runtime->release();
}

void aiocann_stream::release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void aiocann_stream::poke() {
  if (poke_queued.exchange(true, std::memory_order_acq_rel)) return;
  retain();
  if (!device->lane->push(&poke_command)) release();
}

void aiocann_stream::append(Op *op, Settler &settler) {
  std::lock_guard<std::mutex> guard(mutex_);
  op->sequence = ++next_sequence_;
  tasks_in_driver_ += op->tasks;
  if (op->has_marker) device->markers_in_flight.fetch_add(1, std::memory_order_relaxed);
  if (op->has_host_part) ++host_parts_;
  if (op->kind == OpKind::kMark) op->mark_needs_host = host_parts_ > 0;
  submitted_.push_back(op);
  if (op->has_tasks) {
    last_appended_task_ = op->last_task;
    knows_appended_task_ = true;
    for (size_t i = 0; i < early_faults_.size();) {
      if (not_after(early_faults_[i].task_id, op->last_task)) {
        blame_locked(op, early_faults_[i]);
        early_faults_.erase(early_faults_.begin() + static_cast<ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }
  if (!op->on_device) advance_locked(settler);
}

void aiocann_stream::note_time(Op *op) {
  if (op->kind != OpKind::kMark || op->mark_kind != AIOCANN_MARK_RECORD) return;
  // Pinned, as the lock is not held over the call.
  NativeEvent *event = pin_event(op);
  if (event == nullptr) return;
  uint64_t microseconds = 0;
  if (device->runtime->api().aclrtEventGetTimestamp(event->raw, &microseconds) == 0) {
    op->timestamp_us.store(microseconds, std::memory_order_relaxed);
  }
  unpin_event(op);
}

void aiocann_stream::marker_passed(Op *op, Settler &settler) {
  note_time(op);
  std::lock_guard<std::mutex> guard(mutex_);
  if (op->found_by_watchdog) {
    // Not lost, only late: a loaded machine.
    op->found_by_watchdog = false;
    subtract(device->runtime->counters.lost_callbacks);
  }
  if (op->is_passed || op->sequence <= passed_sequence_) return;
  passed_sequence_ = op->sequence;
  advance_locked(settler);
}

void aiocann_stream::callback_missing(Op *op, Settler &settler) {
  note_time(op);
  std::lock_guard<std::mutex> guard(mutex_);
  if (op->is_passed || op->sequence <= passed_sequence_) return;  // it came just now
  if (op->awaits_callback) {
    op->found_by_watchdog = true;
    add(device->runtime->counters.lost_callbacks);
  }
  passed_sequence_ = op->sequence;
  advance_locked(settler);
}

void aiocann_stream::advance(Settler &settler) {
  std::lock_guard<std::mutex> guard(mutex_);
  advance_locked(settler);
}

void aiocann_stream::host_part_done(Op *op, Settler &settler) {
  std::lock_guard<std::mutex> guard(mutex_);
  --op->host_left;
  settle_passed_locked(settler);
}

void aiocann_stream::advance_locked(Settler &settler) {
  while (Op *op = submitted_.front()) {
    if (op->on_device && op->sequence > passed_sequence_) break;
    // Whether a wait's mark failed is known once that has settled; it brings us back here.
    if (op->kind == OpKind::kWait && op->depends_registered && !work_dropped_ &&
        !op->mark_known.load(std::memory_order_acquire)) {
      break;
    }
    submitted_.remove(op);
    pass_locked(op, settler);
  }
  settle_passed_locked(settler);
  if (wants_credit_ && tasks_in_driver_ <= kStreamCredit / 2) {
    wants_credit_ = false;
    poke();
  }
}

void aiocann_stream::pass_locked(Op *op, Settler &settler) {
  op->is_passed = true;
  tasks_in_driver_ -= op->tasks;
  if (op->has_marker) device->markers_in_flight.fetch_sub(1, std::memory_order_relaxed);
  // The driver refused the wait: what follows would run without the order that it relies on.
  const bool order_lost = op->kind == OpKind::kWait && !op->status.is_ok();
  if (op->depends_registered && op->mark_known.load(std::memory_order_acquire) &&
      !op->mark->status.is_ok()) {
    const aiocann_error &error = *op->mark->status.get();
    const bool indirect = error.cause_code != 0;
    const char *kind = indirect ? error.cause_kind : op->mark->name();
    op->fail(predecessor(op->mark->status, indirect ? error.cause_op : op->mark->id, kind, op));
    // Order carries a device's failure: what follows this wait follows what failed, or what a reset took. (A mark
    // that was merely refused, its stream being closed, says nothing about this stream.)
    const Stream *source = op->mark->stream;
    const bool taken = source->epoch != source->device->epoch();
    if (error.is_fault || error.code == AIOCANN_E_PREDECESSOR || taken) {
      take_fault_locked(op->status, op->status.get()->cause_op, op->status.get()->cause_kind);
    }
  }
  const Op *owner = op->parent != nullptr ? op->parent : op;
  if (op->status.is_ok()) {
    if (!fault_.is_ok() && owner->id != fault_op_ && !(op->kind == OpKind::kStreamClose)) {
      op->status = predecessor(fault_, fault_op_, fault_kind_, op);
    }
  } else if (op->status.get()->is_fault || order_lost) {
    const aiocann_error &error = *op->status.get();
    const bool indirect = error.cause_code != 0;  // refused, because the device had failed before
    take_fault_locked(op->status, indirect ? error.cause_op : owner->id,
                      indirect ? error.cause_kind : owner->name());
  }
  if (op->event != nullptr && op->event_pins == 0) {
    device->events.let_go(op->event);
    op->event = nullptr;
  }
  if (op->waited_event != nullptr) {
    op->mark->stream->device->events.let_go(op->waited_event);
    op->waited_event = nullptr;
  }
  if (op->is_internal()) {
    if (op->parent != nullptr && op->parent->stream == this) op->parent->fail(op->status);
    settler.passed(op);
    return;
  }
  passed_.push_back(op);
  // A small copy to the host: its slot is emptied by this thread, once the lock is released.
  if (op->chunk != nullptr) settler.passed(op);
}

void aiocann_stream::settle_passed_locked(Settler &settler) {
  bool earlier_left = false;
  for (Op *op = passed_.front(); op != nullptr;) {
    Op *next = OpList::after(op);
    if (op->host_left > 0 || (op->is_mark() && earlier_left)) {
      earlier_left = true;
    } else {
      passed_.remove(op);
      if (op->has_host_part) --host_parts_;
      if (!op->notify && !op->status.is_ok() && op->status.code() != AIOCANN_E_PREDECESSOR &&
          unreported_.is_ok()) {
        unreported_ = predecessor(op->status, op->id, op->name(), op);
      }
      if (op->status.is_ok() && !unreported_.is_ok() && op->kind == OpKind::kMark &&
          op->mark_kind == AIOCANN_MARK_SYNCHRONIZE) {
        op->status = unreported_;
        unreported_ = Status();
      }
      op->publish();
      settler.settled(op);
    }
    op = next;
  }
  if (wants_drained_ && submitted_.empty() && passed_.empty()) {
    wants_drained_ = false;
    poke();
  }
}

void aiocann_stream::attach_fault(const FaultRecord &fault) {
  std::lock_guard<std::mutex> guard(mutex_);
  for (Op *op = submitted_.front(); op != nullptr; op = OpList::after(op)) {
    if (op->has_tasks && not_after(fault.task_id, op->last_task)) {
      blame_locked(op, fault);
      return;
    }
  }
  if (!knows_appended_task_ || !not_after(fault.task_id, last_appended_task_)) {
    early_faults_.push_back(fault);
    return;
  }
  // Its op has passed already, so it came late: at least nothing later is taken for good.
  blame_locked(nullptr, fault);
}

void aiocann_stream::blame_locked(Op *op, const FaultRecord &fault) {
  const char *what =
      op != nullptr ? (op->parent != nullptr ? op->parent : op)->name() : "an earlier command";
  Status status = Status::error(
      fault.code, "Device %d reports failure %d while running %s (task %u of stream %d).",
      device->index, fault.code, what, fault.task_id, driver_id);
  aiocann_error &error = status.mutate();
  error.is_fault = 1;
  error.device = device->index;
  if (op != nullptr) {
    for (const auto &[node, last] : op->node_tasks) {
      if (not_after(fault.task_id, last)) {
        error.node = node;
        break;
      }
    }
    op->fail(status);
    const Op *owner = op->parent != nullptr ? op->parent : op;
    device->note_first_fault(status, owner->id, owner->name());
  } else {
    take_fault_locked(status, 0, what);
    device->note_first_fault(status, 0, what);
  }
}

void aiocann_stream::take_fault_locked(const Status &fault, uint64_t op, const char *kind) {
  if (!fault_.is_ok() || internal) return;
  fault_ = fault;
  fault_op_ = op;
  fault_kind_ = kind;
  faulted_.store(true, std::memory_order_release);
}

bool aiocann_stream::fault_known_locked(const Op *up_to) const {
  if (!fault_.is_ok()) return true;
  for (const Op *op = submitted_.front(); op != nullptr; op = OpList::after(op)) {
    if (!op->status.is_ok() && op->status.get()->is_fault) return true;
    if (op == up_to) break;
  }
  return false;
}

void aiocann_stream::fault_seen(Op *op, int32_t code) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (op->is_passed || fault_known_locked(op)) return;
  const Op *owner = op->parent != nullptr ? op->parent : op;
  Status status = Status::error(
      code, "Device %d answers with failure %d when it is asked about %s (stream %d).",
      device->index, code, owner->name(), driver_id);
  status.mutate().is_fault = 1;
  status.mutate().device = device->index;
  op->fail(status);
  device->note_first_fault(status, owner->id, owner->name());
}

void aiocann_stream::work_dropped(int32_t code, Settler &settler) {
  std::lock_guard<std::mutex> guard(mutex_);
  Status status =
      Status::error(code, "Device %d has dropped the work of stream %d: it reports failure %d.",
                    device->index, driver_id, code);
  status.mutate().is_fault = 1;
  status.mutate().device = device->index;
  // A stream that was stopped because another one failed names that failure.
  Status first;
  uint64_t first_op = 0;
  const char *first_kind = "";
  // Where it is known whose the fault is, what was before has gone well, and what follows has it as its cause.
  const bool known = code == 0 || (fault_known_locked(nullptr) && !internal);
  const bool follows =
      !known && device->first_fault(&first, &first_op, &first_kind) && first.code() == code;
  for (Op *op = known ? nullptr : submitted_.front(); op != nullptr; op = OpList::after(op)) {
    if (!op->status.is_ok()) continue;
    op->status = follows ? predecessor(first, first_op, first_kind, op) : status;
    if (internal) continue;
    const Op *owner = op->parent != nullptr ? op->parent : op;
    if (follows) {
      take_fault_locked(op->status, first_op, first_kind);
    } else {
      device->note_first_fault(status, owner->id, owner->name());
      take_fault_locked(status, owner->id, owner->name());
    }
    break;
  }
  for (Op *op = submitted_.front(); op != nullptr; op = OpList::after(op)) op->event_dropped = true;
  work_dropped_ = true;
  passed_sequence_ = next_sequence_;
  advance_locked(settler);
  work_dropped_ = false;
}

void aiocann_stream::work_lost(const Status &why, Settler &settler) {
  std::lock_guard<std::mutex> guard(mutex_);
  for (Op *op = submitted_.front(); op != nullptr; op = OpList::after(op)) {
    if (fault_.is_ok()) op->fail(why);
    op->event_dropped = true;
  }
  work_dropped_ = true;
  passed_sequence_ = next_sequence_;
  advance_locked(settler);
  work_dropped_ = false;
}

void aiocann_stream::refuse_pins() {
  std::lock_guard<std::mutex> guard(mutex_);
  pins_refused_ = true;
}

bool aiocann_stream::pinned() {
  std::lock_guard<std::mutex> guard(mutex_);
  return pins_ > 0;
}

bool aiocann_stream::has_passed(const Op *op) {
  std::lock_guard<std::mutex> guard(mutex_);
  return op->is_passed || op->sequence <= passed_sequence_;
}

void aiocann_stream::begin_anew(void *raw_stream, int32_t stream_id) {
  std::lock_guard<std::mutex> guard(mutex_);
  raw = marker_raw = raw_stream;
  driver_id = stream_id;
  pins_refused_ = false;
  early_faults_.clear();
  knows_appended_task_ = false;
}

void aiocann_stream::add_host_part(Op *op) {
  std::lock_guard<std::mutex> guard(mutex_);
  ++op->host_left;
}

NativeEvent *aiocann_stream::pin_event(Op *op) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (op->event == nullptr || op->is_passed || pins_refused_) return nullptr;
  ++op->event_pins;
  ++pins_;
  return op->event;
}

void aiocann_stream::unpin_event(Op *op) {
  std::lock_guard<std::mutex> guard(mutex_);
  --pins_;
  if (--op->event_pins > 0 || !op->is_passed) return;
  device->events.let_go(op->event);
  op->event = nullptr;
}

void aiocann_stream::fail(Op *op, const Status &why) {
  std::lock_guard<std::mutex> guard(mutex_);
  op->fail(why);
}

bool aiocann_stream::failed(Op *op) {
  std::lock_guard<std::mutex> guard(mutex_);
  return !op->status.is_ok();
}

bool aiocann_stream::drained() {
  std::lock_guard<std::mutex> guard(mutex_);
  wants_drained_ = !(submitted_.empty() && passed_.empty());
  return !wants_drained_;
}

bool aiocann_stream::has_credit() {
  std::lock_guard<std::mutex> guard(mutex_);
  wants_credit_ = tasks_in_driver_ >= kStreamCredit;
  return !wants_credit_;
}

Op *aiocann_stream::oldest_marker() {
  std::lock_guard<std::mutex> guard(mutex_);
  for (Op *op = submitted_.front(); op != nullptr; op = OpList::after(op)) {
    if (op->has_marker && op->sequence > passed_sequence_) {
      op->retain();
      return op;
    }
  }
  return nullptr;
}

bool aiocann_stream::waits_in_vain() {
  std::lock_guard<std::mutex> guard(mutex_);
  for (Op *op = submitted_.front(); op != nullptr; op = OpList::after(op)) {
    if (op->sequence <= passed_sequence_) continue;
    if (op->kind == OpKind::kWait && op->on_device &&
        op->mark_known.load(std::memory_order_acquire) && op->mark->event_dropped) {
      return true;
    }
    if (op->has_marker) return false;
  }
  return false;
}

Status aiocann_stream::take_unreported() {
  std::lock_guard<std::mutex> guard(mutex_);
  Status status = unreported_;
  unreported_ = Status();
  return status;
}

void aiocann_stream::give_up(const Status &why, bool device_has_stopped, Settler &settler,
                             uint64_t *n_ops) {
  std::lock_guard<std::mutex> guard(mutex_);
  for (OpList *list : {&submitted_, &passed_}) {
    while (Op *op = list->pop_front()) {
      op->is_passed = true;
      if (!device_has_stopped) bury(op);
      if (op->is_internal()) {
        if (device_has_stopped) settler.dropped(op);
        continue;
      }
      if (device_has_stopped && op->chunk != nullptr) {
        op->chunk->release();
        op->chunk = nullptr;
      }
      op->fail(why);
      op->publish();
      ++*n_ops;
      settler.settled(op);
    }
  }
}
