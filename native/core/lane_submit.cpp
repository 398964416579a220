// lane_submit.cpp: the head of a stream's FIFO: may it go, and what it is to the driver.
#include <algorithm>

#include "core/device.hpp"
#include "core/graph_op.hpp"
#include "core/lane.hpp"
#include "core/memory.hpp"
#include "core/reactor.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"

namespace aiocann::core {
namespace {

/// Commands of one stream in one turn of the lane.
constexpr int kTurn = 32;
/// Commands without a marker, at most.
constexpr uint32_t kMaxUnmarked = 64;
/// How long to wait here for a stream that nothing will tell of; then the watchdog asks.
constexpr int32_t kRescueMs = 100;
constexpr int32_t kSyncTimeout = 507046;

/// What needs neither an event to wait for nor a time passes when its predecessors have, if those have markers.
/// (Others enqueue on a stream that was adopted too.)
bool passes_behind(const Stream *stream, const Op *op) {
  return op->kind == OpKind::kMark && op->mark_kind != AIOCANN_MARK_RECORD &&
         stream->unmarked == 0 && !stream->adopted();
}

void *at(const Side &side, uint64_t offset = 0) {
  if (side.host != nullptr) return side.host + offset;
  return reinterpret_cast<void *>(side.mem->address.load(std::memory_order_acquire) + side.offset +
                                  offset);
}

}  // namespace

void Lane::run_stream(Stream *stream) {
  for (int i = 0; i < kTurn; ++i) {
    Op *op = stream->fifo_first;
    if (op == nullptr) return;
    Op *next = op->fifo_next;  // the op may be gone before try_head returns
    if (try_head(stream, op) == Verdict::kHeld) return;
    stream->fifo_first = next;
    if (next == nullptr) stream->fifo_last = nullptr;
  }
  make_ready(stream);
}

Lane::Verdict Lane::try_head(Stream *stream, Op *op) {
  head_ = op;
  if (stream->destroyed) {
    settle(op, op->kind == OpKind::kStreamClose
                   ? Status::ok()
                   : Status::error(AIOCANN_E_CLOSED,
                                   "The stream was closed before this %s reached it.", op->name()));
    return Verdict::kGone;
  }
  if (gave_up_ || left_behind()) return Verdict::kHeld;
  // A reset fails what it finds here at once: others may hold on to memory of this device until it has settled.
  const bool taken = stream->gone || (reset_.op != nullptr ? stream->aborted : stream->stopped);
  const bool begun = op->assigned > 0;
  if (taken && op->kind != OpKind::kStreamClose && !begun &&
      !op->requested.load(std::memory_order_acquire)) {
    return fail_head(stream, op, reset_.why);
  }
  const bool is_end = op->kind == OpKind::kStreamClose && reset_.op != nullptr;
  if (stream->aborted && (!taken || is_end)) return Verdict::kHeld;
  if (op->kind == OpKind::kStreamClose) return submit_close(stream, op);
  // Another lane is at its operands: it pokes the stream when it has answered.
  if (op->requested.load(std::memory_order_acquire)) return Verdict::kHeld;
  if (stream->faulted() && !begun) return not_on_device(stream, op);
  // It has failed, but fails what follows only when it passes: until then nothing may run past it.
  if (stream->wait_refused && held_until_drained(stream)) return Verdict::kHeld;
  if (!stream->has_credit()) return Verdict::kHeld;
  Verdict verdict = Verdict::kHeld;
  if (!taken && !ready_event(stream, op, &verdict)) return verdict;
  if (!begun && !ready_memory(stream, op, &verdict)) return verdict;
  if (stream->looked_at != nullptr && !passes_behind(stream, op)) end_look(stream);
  switch (op->kind) {
    case OpKind::kMemcpy:
      return submit_copy(stream, op);
    case OpKind::kMemset:
      return submit_memset(stream, op);
    case OpKind::kMark:
      return submit_mark(stream, op);
    case OpKind::kWait:
      return submit_wait(stream, op);
    case OpKind::kGraph:
      return submit_graph(stream, op);
    default:
      return fail_head(stream, op,
                       Status::error(AIOCANN_E_INTERNAL, "A stream got a %s.", op->name()));
  }
}

// ---- what an op may lack ---------------------------------------------------------------------------------

bool Lane::ready_memory(Stream *stream, Op *op, Verdict *verdict) {
  if (op->graph != nullptr) {
    for (Mem *mem : op->graph->mems) {
      if (!ready_mem(stream, op, mem, verdict)) return false;
    }
  }
  for (Side *side : {&op->dst, &op->src}) {
    if (side->mem != nullptr && !ready_mem(stream, op, side->mem, verdict)) return false;
  }
  return op->plan != CopyPlan::kPeer || ready_peer(stream, op, verdict);
}

bool Lane::ready_mem(Stream *stream, Op *op, Mem *mem, Verdict *verdict) {
  if (Status status = mem->gone(); !status.is_ok()) {
    *verdict = fail_head(stream, op, status);
    return false;
  }
  if (mem->address.load(std::memory_order_acquire) != 0) return true;
  if (mem->device == device_) {
    const Status status = allocate(mem, 0, Pool::By::kLane);
    if (status.is_ok()) return true;
    *verdict = fail_head(stream, op, status);
    return false;
  }
  *verdict = Verdict::kHeld;
  if (op->requested.load(std::memory_order_acquire)) return false;
  if (!op->request_status.is_ok()) {
    *verdict = fail_head(stream, op, op->request_status);
  } else if (!ask(mem->device, op)) {
    *verdict = fail_head(
        stream, op, Status::error(AIOCANN_E_CLOSED, "Device %d is closed.", mem->device->index));
  }
  return false;
}

bool Lane::ready_peer(Stream *stream, Op *op, Verdict *verdict) {
  Device *other = op->src.mem->device == device_ ? op->dst.mem->device : op->src.mem->device;
  uint8_t there = other->peer_state(device_->position).load(std::memory_order_acquire);
  const Status here = enable_peer(other);
  if (here.is_ok() && there == 1) return true;
  if (!here.is_ok() || there == 2) {
    // The driver said that they could, and now says that they cannot: by way of the host, then.
    op->plan = CopyPlan::kCross;
    op->path.store(AIOCANN_PATH_STAGED, std::memory_order_relaxed);
    return true;
  }
  *verdict = Verdict::kHeld;
  if (op->requested.load(std::memory_order_acquire)) return false;
  if (!ask(other, op)) {
    *verdict = fail_head(stream, op,
                         Status::error(AIOCANN_E_CLOSED, "Device %d is closed.", other->index));
  }
  return false;
}

bool Lane::ready_event(Stream *stream, Op *op, Verdict *verdict) {
  Status failure;
  if (device_->events.ready(&failure)) return true;
  if (!failure.is_ok()) {
    *verdict = fail_head(stream, op, failure);
    return false;
  }
  stream->retain();
  without_event_.push_back(stream);
  *verdict = Verdict::kHeld;
  return false;
}

bool Lane::held_until_drained(Stream *stream) {
  if (stream->unmarked > 0) place_probe(stream);
  return !stream->drained();
}

// ---- what becomes of it ----------------------------------------------------------------------------------

Lane::Verdict Lane::fail_head(Stream *stream, Op *op, const Status &why) {
  stream->fail(op, device_->explained(why, op));
  return not_on_device(stream, op);
}

Lane::Verdict Lane::not_on_device(Stream *stream, Op *op) {
  op->retain();
  op->on_device = false;
  stream->append(op, settler_);
  if (op->kind == OpKind::kMark) tell_submit_waiters(op);
  op->release();
  return Verdict::kGone;
}

void Lane::tell_submit_waiters(Op *mark) {
  mark->mark_submitted.store(true, std::memory_order_seq_cst);
  for (Delivery *node = mark->submit_waiters.close(); node != nullptr;) {
    Delivery *next = node->next;
    Op *waiter = node->dependent;
    waiter->stream->poke();
    waiter->release();
    node = next;
  }
}

void Lane::submitted(Stream *stream, Op *op, uint32_t n_tasks, bool wants_marker) {
  op->retain();  // once the callback is launched, the reactor may be quicker than we
  op->on_device = true;
  op->tasks = n_tasks;
  // The id is of the thread's last task, on whatever stream. A wait may have launched none (what it waits for is
  // over), so it claims none; a graph knows by its nodes.
  const bool launched = op->kind == OpKind::kGraph ? !op->node_tasks.empty()
                                                   : n_tasks > 0 && op->kind != OpKind::kWait;
  if (launched) op->has_tasks = api_->aclrtGetThreadLastTaskId(&op->last_task) == 0;
  Status trouble;
  if (wants_marker) {
    op->tasks += 2;
    op->has_marker = true;
    op->event = device_->events.take();
    // Parts of copies go without where there is none; on another library's stream nothing would tell of them.
    if (op->event == nullptr && stream->adopted() && device_->events.ready(&trouble)) {
      op->event = device_->events.take();
    }
    if (op->event != nullptr) {
      const int32_t code =
          lent([&] { return api_->aclrtRecordEvent(op->event->raw, stream->raw); });
      if (code != 0) {
        trouble = driver_error(code, "aclrtRecordEvent");
        device_->events.let_go(op->event);
        op->event = nullptr;
      }
    }
    if (stream->adopted() && trouble.is_ok()) trouble = follow(stream, op->event);
    stream->unmarked = 0;
  }
  const bool has_event = op->event != nullptr;
  stream->append(op, settler_);
  if (op->kind == OpKind::kMark) tell_submit_waiters(op);
  if (wants_marker) {
    if (has_event && trouble.is_ok() && !stream->adopted() && !op->is_internal() &&
        runtime_->family == Family::kAuto) {
      op->retain();
      stream->looked_at = op;
      stream->retain();
      looked_at_.push_back(stream);
    } else {
      place_marker(stream, op, has_event, trouble);
    }
  } else if (++stream->unmarked >= kMaxUnmarked) {
    place_probe(stream);
  } else if (!stream->wants_marker) {
    stream->wants_marker = true;
    stream->retain();
    unmarked_.push_back(stream);
  }
  op->release();
}

Status Lane::follow(Stream *stream, const NativeEvent *event) {
  if (event == nullptr)
    return driver_error(ACL_ERROR_RT_NO_EVENT_RESOURCE, "aclrtCreateEventExWithFlag");
  const int32_t code =
      lent([&] { return api_->aclrtStreamWaitEvent(stream->marker_raw, event->raw); });
  return code == 0 ? Status::ok() : driver_error(code, "aclrtStreamWaitEvent");
}

void Lane::place_marker(Stream *stream, Op *op, bool has_event, Status trouble) {
  Completion &completion = device_->reactor->completion();
  // Where nothing makes the marker wait for an adopted stream, it would come at once.
  const bool early = stream->adopted() && !trouble.is_ok();
  if (early || (!has_event && completion.needs_event())) return rescue(stream, op, trouble);
  // Before the marker, with which it may end at once.
  if (!trouble.is_ok()) stream->fail(op, device_->explained(trouble, op));
  op->retain();  // the marker's
  op->awaits_callback = true;
  if (const int32_t code = lent([&] { return completion.place(op); }); code != 0) {
    trouble = driver_error(code, completion.call());
    op->awaits_callback = false;
    op->release();
    // Refused this once: nothing is wrong with the work, and the watch asks for it.
    if (has_event && !stream->adopted() && is_refusal_code(code)) return device_->raise_alarm();
    rescue(stream, op, trouble);
  }
}

// Short work is over before a callback would have woken the reactor. So the last command of a stream is looked at
// for a moment, and gets its marker only when something is to follow it, or when the lane is about to sleep.
bool Lane::look_at(Stream *stream, bool last) {
  Op *op = stream->looked_at;
  const Answer answer = ask_driver(stream, op, false);
  if (answer == Answer::kRunning && !last) return false;
  stream->looked_at = nullptr;
  if (answer == Answer::kReached) {
    device_->apply_faults();
    stream->marker_passed(op, settler_);
  } else if (answer == Answer::kRunning) {
    place_marker(stream, op, true, Status());
  }
  op->release();
  return true;
}

void Lane::end_look(Stream *stream) {
  look_at(stream, true);
  looked_at_.erase(std::find(looked_at_.begin(), looked_at_.end(), stream));
  stream->release();
}

/// Work that was stuck is looked at no more: whoever gives it up settles it.
void Lane::drop_looks() {
  for (Stream *stream : looked_at_) {
    stream->looked_at->release();
    stream->looked_at = nullptr;
    stream->release();
  }
  looked_at_.clear();
}

bool Lane::look(bool last) {
  if (looked_at_.empty()) return false;
  size_t left = 0;
  for (Stream *stream : looked_at_) {
    if (look_at(stream, last)) {
      stream->release();
    } else {
      looked_at_[left++] = stream;
    }
  }
  const bool some = left < looked_at_.size();
  looked_at_.resize(left);
  if (some) settler_.run();
  return some;
}

void Lane::rescue(Stream *stream, Op *op, const Status &why) {
  // No marker, so nothing will tell when the device has passed. This is a driver in trouble: waiting here, for a
  // short time, is the price of knowing that memory is not taken away from a device that still uses it.
  stream->fail(op, device_->explained(why, op));
  const int32_t code =
      lent([&] { return api_->aclrtSynchronizeStreamWithTimeout(stream->raw, kRescueMs); });
  if (code == kSyncTimeout) return;
  device_->apply_faults();
  // Events that were recorded before may have been dropped with it: others must not wait for them.
  if (is_fault_code(code)) return stream->work_dropped(code, settler_);
  stream->marker_passed(op, settler_);
}

bool Lane::place_probe(Stream *stream) {
  Status failure;
  if (!device_->events.ready(&failure) && device_->reactor->completion().needs_event()) {
    // As soon as one comes back. (A failure is told to the next command that needs one.)
    stream->retain();
    without_event_.push_back(stream);
    return false;
  }
  submitted(stream, new Op(OpKind::kProbe, runtime_, stream, nullptr, false), 0, true);
  return true;
}

void Lane::probe_unmarked() {
  std::vector<Stream *> left;
  for (Stream *stream : unmarked_) {
    const bool wants = stream->unmarked > 0 && !stream->destroyed && !stream->aborted;
    if (wants && !place_probe(stream)) {
      left.push_back(stream);
      continue;
    }
    stream->wants_marker = false;
    stream->release();
  }
  unmarked_.swap(left);
}

// ---- the kinds -------------------------------------------------------------------------------------------

Lane::Verdict Lane::submit_copy(Stream *stream, Op *op) {
  aclrtMemcpyKind kind = ACL_MEMCPY_DEVICE_TO_DEVICE;
  switch (op->plan) {
    case CopyPlan::kDirect:
      if (op->src.host != nullptr) kind = ACL_MEMCPY_HOST_TO_DEVICE;
      if (op->dst.host != nullptr) kind = ACL_MEMCPY_DEVICE_TO_HOST;
      break;
    case CopyPlan::kPeer:
      break;
    case CopyPlan::kToDevice:
      return op->nbytes <= Staging::kSlotBytes ? small_to_device(stream, op)
                                               : staged_to_device(stream, op);
    case CopyPlan::kToHost:
      return op->nbytes <= Staging::kSlotBytes ? small_to_host(stream, op)
                                               : staged_to_host(stream, op);
    case CopyPlan::kCross:
      return staged_across(stream, op);
    case CopyPlan::kHost:
      return host_to_host(stream, op);
  }
  const int32_t code = lent([&] {
    return api_->aclrtMemcpyAsync(at(op->dst), op->nbytes, at(op->src), op->nbytes, kind,
                                  stream->raw);
  });
  if (code != 0) return fail_head(stream, op, driver_error(code, "aclrtMemcpyAsync"));
  submitted(stream, op, 1, op->notify);
  return Verdict::kGone;
}

Lane::Verdict Lane::submit_memset(Stream *stream, Op *op) {
  const int32_t code = lent([&] {
    return api_->aclrtMemsetAsync(at(op->dst), op->nbytes, op->value, op->nbytes, stream->raw);
  });
  if (code != 0) return fail_head(stream, op, driver_error(code, "aclrtMemsetAsync"));
  submitted(stream, op, 1, op->notify);
  return Verdict::kGone;
}

Lane::Verdict Lane::submit_mark(Stream *stream, Op *op) {
  if (passes_behind(stream, op)) return not_on_device(stream, op);
  submitted(stream, op, 0, true);
  return Verdict::kGone;
}

Lane::Verdict Lane::submit_wait(Stream *stream, Op *op) {
  Op *mark = op->mark;
  if (!mark->mark_submitted.load(std::memory_order_seq_cst) && !mark->settled()) {
    if (op->awaits_submission) return Verdict::kHeld;
    op->awaits_submission = true;
    op->submit_waiter.dependent = op;
    op->retain();
    if (mark->submit_waiters.push(&op->submit_waiter)) return Verdict::kHeld;
    op->release();  // it was submitted just now
  }
  if (!op->depends_registered) {
    op->depends_registered = true;
    op->settle_waiter.dependent = op;
    op->retain();
    if (!mark->watchers.push(&op->settle_waiter)) {
      op->mark_known.store(true, std::memory_order_release);
      op->release();
    }
  }
  const bool known = op->mark_known.load(std::memory_order_acquire);
  if (mark->mark_needs_host && !known) return Verdict::kHeld;
  if (known || mark->stream == stream) return not_on_device(stream, op);
  NativeEvent *event = mark->stream->pin_event(mark);
  // Passed, or without an event: it settles soon, and that pokes us.
  if (event == nullptr) return Verdict::kHeld;
  const int32_t code = lent([&] { return api_->aclrtStreamWaitEvent(stream->raw, event->raw); });
  const Status failure = code == 0 ? Status::ok() : driver_error(code, "aclrtStreamWaitEvent");
  if (code == 0 && mark->stream->device->events.hold_for_wait(event)) op->waited_event = event;
  mark->stream->unpin_event(mark);
  if (code != 0) {
    stream->wait_refused = true;
    return fail_head(stream, op, failure);
  }
  submitted(stream, op, 1, op->notify);
  return Verdict::kGone;
}

Lane::Verdict Lane::submit_close(Stream *stream, Op *op) {
  if (held_until_drained(stream)) return Verdict::kHeld;
  Status status = stream->take_unreported();
  Status destroyed;
  destroy_stream(stream, &destroyed);
  settle(op, status.is_ok() ? destroyed : status);
  return Verdict::kGone;
}

}  // namespace aiocann::core
