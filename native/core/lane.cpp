// lane.cpp: the thread of a lane: its inbox, its sleep, and the commands that belong to no stream.
#include "core/lane.hpp"

#include <algorithm>
#include <chrono>

#include "core/device.hpp"
#include "core/memory.hpp"
#include "core/reactor.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"

namespace aiocann::core {
namespace {

constexpr int64_t kWatchMs = 1000;
/// After the device has reported a failure: where that stops streams, nothing else will tell.
constexpr int64_t kAlarmMs = 10;
/// A lane that does nothing for so long, when it should have answered, is stuck in a call of the driver.
constexpr int64_t kStuckMs = 1000;
/// It may be at something long that was enqueued in time.
constexpr int64_t kStopMs = 4000;
/// Giving a device back may take the driver long.
constexpr int64_t kFinishMs = 30000;
/// While a reset waits for others.
constexpr int64_t kResetLookMs = 1;
/// For so many turns in a row commands may go without their markers while there is other work.
constexpr uint32_t kBusyTurns = 4;

}  // namespace

int64_t now_us() { return static_cast<int64_t>(now_ns() / 1000); }

int64_t now_ms() { return static_cast<int64_t>(now_ns() / 1000000); }

Lane::Lane(Device *device)
    : device_(device),
      runtime_(device->runtime),
      chunks_(this, Staging::kChunkBytes, 1, 8, 4, &Stream::chunks_held),
      slots_(this, Staging::kSlotBytes, 16, 128, 64, &Stream::slots_held) {}

Lane::~Lane() = default;

// ---- opener and closer -----------------------------------------------------------------------------------

void Lane::start() {
  api_ = &runtime_->api();
  thread_ = std::thread([this] {
    name_thread("aiocann-lane");
    try {
      run();
    } catch (const Left &) {
      // Others have taken care of everything.
    }
  });
}

void Lane::wait_open() {
  std::unique_lock<std::mutex> lock(gate_);
  gate_changed_.wait(lock, [this] { return opened_; });
}

void Lane::ask_to_close(int64_t deadline_ms) {
  deadline_ms_.store(deadline_ms, std::memory_order_relaxed);
  closing_.store(true, std::memory_order_seq_cst);
  nudge();
  std::lock_guard<std::mutex> lock(gate_);  // who waits for the deadline looks at it under the lock
  gate_changed_.notify_all();
}

bool Lane::reaches(const bool *what, const std::atomic<int64_t> &deadline_ms) {
  if (left_behind()) return false;
  std::unique_lock<std::mutex> lock(gate_);
  for (uint64_t seen = steps_.load(std::memory_order_acquire);;) {
    const int64_t deadline = deadline_ms.load(std::memory_order_relaxed);
    const auto hastened = [&] { return deadline_ms.load(std::memory_order_relaxed) < deadline; };
    const std::chrono::milliseconds patience(std::max<int64_t>(0, deadline - now_ms()) + kStuckMs);
    gate_changed_.wait_for(lock, patience, [&] { return *what || hastened(); });
    if (*what) return true;
    if (hastened()) continue;
    const uint64_t now = steps_.load(std::memory_order_acquire);
    if (now == seen) break;
    seen = now;
  }
  Hands lent = Hands::kLent;
  hands_.compare_exchange_strong(lent, Hands::kTaken, std::memory_order_acq_rel);
  left_.store(true, std::memory_order_release);
  return false;
}

bool Lane::wait_drained(uint64_t *aborted, uint64_t *stuck) {
  if (!reaches(&drained_, deadline_ms_)) return false;
  std::lock_guard<std::mutex> lock(gate_);
  *aborted += aborted_streams_;
  *stuck += stuck_streams_;
  return true;
}

void Lane::stop() {
  stop_asked_.store(true, std::memory_order_seq_cst);
  nudge();
}

bool Lane::wait_stopped() {
  const std::atomic<int64_t> deadline_ms{now_ms() + kStopMs};
  return reaches(&stopped_, deadline_ms);
}

void Lane::finish(bool leak) {
  {
    std::lock_guard<std::mutex> lock(gate_);
    leak_ = leak;
    finishing_ = true;
  }
  gate_changed_.notify_all();
}

bool Lane::join() {
  const std::atomic<int64_t> deadline_ms{now_ms() + kFinishMs};
  if (device_->is_open() && !reaches(&ended_, deadline_ms)) {
    thread_.detach();
    return false;
  }
  thread_.join();
  return true;
}

// ---- any thread ------------------------------------------------------------------------------------------

bool Lane::push(Command *command) { return inbox_.push(command); }

void Lane::push_or_drop(Op *part) {
  if (!push(&part->command)) drop_part(part);
}

void Lane::nudge() { inbox_.nudge(); }

Status Lane::driver_error(int32_t code, const char *call) const {
  Status status = runtime_->driver_error(code, call);
  status.mutate().device = device_->index;
  return status;
}

// ---- the thread ------------------------------------------------------------------------------------------

void Lane::run() {
  const Status status = open_device();
  {
    std::lock_guard<std::mutex> lock(gate_);
    device_->open_error = status;
    opened_ = true;
    drained_ = !status.is_ok();
  }
  gate_changed_.notify_all();
  if (!status.is_ok()) {
    inbox_.close();  // nobody has been told of this lane yet
    return;
  }
  bool told_drained = false;
  for (uint32_t busy = 0;;) {
    steps_.fetch_add(1, std::memory_order_acq_rel);
    bool worked = dispatch_inbox();
    worked |= run_ready();
    worked |= step_reset();
    worked |= retry_creating();
    settler_.run();
    if (left_behind()) return end_late();
    busy = worked ? busy + 1 : 0;
    if (worked) {
      const bool long_busy = busy % kBusyTurns == 0;
      look(long_busy);
      if (long_busy) watch();  // who is never idle must not miss a lost callback for that
    }
    if (closing_.load(std::memory_order_acquire) && !told_drained) {
      // What was enqueued before the closing may have come since the inbox was looked at.
      const bool drained = inbox_.empty() && all_drained();
      if (drained || now_ms() >= deadline_ms_.load(std::memory_order_relaxed)) {
        told_drained = true;
        uint64_t aborted = 0, stuck = 0;
        if (!drained) {
          gave_up_ = true;
          abort_stuck(&aborted, &stuck);
        }
        std::lock_guard<std::mutex> lock(gate_);
        aborted_streams_ = aborted;
        stuck_streams_ = stuck;
        drained_ = true;
        gate_changed_.notify_all();
      }
    }
    if (stop_asked_.load(std::memory_order_acquire)) break;
    if (!worked) wait_for_work();
  }
  dispatch_inbox();  // what came before the end is told that it was in flight
  look(true);
  {
    std::unique_lock<std::mutex> lock(gate_);
    if (left_behind()) {
      lock.unlock();
      return end_late();
    }
    stopped_ = true;
    gate_changed_.notify_all();
    gate_changed_.wait(lock, [this] { return finishing_; });
  }
  close_device();
  std::lock_guard<std::mutex> lock(gate_);
  ended_ = true;
  gate_changed_.notify_all();
}

bool Lane::dispatch_inbox() {
  if (inbox_.take_nudge()) {
    chunks_.wake_waiters();
    slots_.wake_waiters();
    for (Stream *stream : without_event_) {
      make_ready(stream);
      stream->release();
    }
    without_event_.clear();
    // Whoever finds none left sets it again, before looking once more.
    device_->events.clear_starved();
  }
  rest_ = inbox_.take();
  if (rest_ == nullptr) return false;
  while (Command *command = rest_) {
    rest_ = command->next;
    dispatch(command);
  }
  return true;
}

void Lane::dispatch(Command *command) {
  switch (command->kind) {
    case CommandKind::kOp:
      return enqueue(static_cast<Op *>(command->owner));
    case CommandKind::kStep:
      return step(static_cast<Op *>(command->owner));
    case CommandKind::kRequest:
      return answer_request(static_cast<Op *>(command->owner));
    case CommandKind::kStreamPoke: {
      auto *stream = static_cast<Stream *>(command->owner);
      stream->poke_queued.store(false, std::memory_order_seq_cst);
      make_ready(stream);
      return stream->release();
    }
    case CommandKind::kStreamRelease:
      return release_stream(static_cast<Stream *>(command->owner));
    case CommandKind::kMemDropped:
      return drop_mem(static_cast<Mem *>(command->owner));
    case CommandKind::kMemUnused:
      return free_mem(static_cast<Mem *>(command->owner));
  }
}

void Lane::make_ready(Stream *stream) {
  if (stream->is_ready || stream->fifo_first == nullptr) return;
  stream->is_ready = true;
  stream->retain();
  ready_.push_back(stream);
}

bool Lane::run_ready() {
  // One round: each stream that can go gets its share, then the inbox is looked at again.
  for (size_t left = ready_.size(); left > 0; --left) {
    Stream *stream = ready_.front();
    ready_.pop_front();
    stream->is_ready = false;
    run_stream(stream);
    stream->release();
  }
  return !ready_.empty();
}

void Lane::wait_for_work() {
  // The next command often follows at once, as does the end of the last.
  if (spin_.wait([this] { return inbox_.has_news() || look(false); })) return;
  look(true);
  probe_unmarked();
  settler_.run();
  if (!ready_.empty()) return;

  int64_t timeout = watch();
  if (timeout == 0) return;
  if (closing_.load(std::memory_order_acquire)) {
    const int64_t left =
        std::max<int64_t>(1, deadline_ms_.load(std::memory_order_relaxed) - now_ms());
    timeout = timeout < 0 ? left : std::min(timeout, left);
  }
  if (reset_.op != nullptr) timeout = timeout < 0 ? kResetLookMs : std::min(timeout, kResetLookMs);
  inbox_.sleep_us(timeout < 0 ? -1 : timeout * 1000);
}

int64_t Lane::watch() {
  if (device_->markers_in_flight.load(std::memory_order_relaxed) == 0) {
    next_watch_ms_ = 0;
    return -1;
  }
  const int64_t now = now_ms();
  if (device_->take_alarm()) next_watch_ms_ = now + kAlarmMs;
  if (next_watch_ms_ == 0) next_watch_ms_ = now + kWatchMs;
  if (now < next_watch_ms_) return next_watch_ms_ - now;
  next_watch_ms_ = now + (watchdog() ? kAlarmMs : kWatchMs);
  return 0;
}

bool Lane::watchdog() {
  device_->apply_faults();
  if (reset_.op != nullptr) return false;  // the handles may be gone
  bool untold = false;
  auto check = [&](Stream *stream) {
    Op *op = stream->oldest_marker();
    if (op == nullptr) {
      stream->watched = 0;
      return;
    }
    const Answer answer = ask_driver(stream, op, true);
    const bool reached = answer == Answer::kReached;
    if (answer == Answer::kRunning && stream->waits_in_vain()) unstick(stream);
    const bool is_untold = !op->awaits_callback && stream->looked_at != op;
    untold |= is_untold && !reached;
    // Once may be a callback under way.
    if (reached && (is_untold || stream->watched == op->id)) {
      device_->apply_faults();
      stream->callback_missing(op, settler_);
    }
    stream->watched = reached ? op->id : 0;
    op->release();
  };
  for (Stream *stream : streams_) check(stream);
  check(internal_);
  return untold;
}

Answer Lane::ask_driver(Stream *stream, Op *op, bool thorough) {
  return lent([&] {
    Settler settler;
    return inquire(stream, op, thorough, settler);
  });
}

void Lane::unstick(Stream *stream) {
  // It was to go on after something that failed: there is nothing of its own to be saved.
  int32_t code = ACL_ERROR_API_NOT_SUPPORT;
  if (!stream->adopted() && api_->aclrtStreamAbort != nullptr)
    code = lent([&] { return api_->aclrtStreamAbort(stream->raw); });
  if (code == 0) return stream->work_dropped(0, settler_);
  stream->stalled = true;
  uint64_t n_ops = 0;
  stream->give_up(Status::error(AIOCANN_E_PREDECESSOR,
                                "The stream waits for an event of a device that has stopped, and "
                                "cannot be aborted (%d): what its commands use is leaked.",
                                code),
                  false, settler_, &n_ops);
}

bool Lane::all_drained() {
  bool all = ready_.empty() && reset_.op == nullptr;
  for (Stream *stream : streams_) {
    if (stream->unmarked > 0 && !stream->aborted) place_probe(stream);
    // Asked of each, so that each tells us when it is.
    if (!stream->drained() || stream->fifo_first != nullptr) all = false;
  }
  return internal_->drained() && all;
}

void Lane::abort_stuck(uint64_t *aborted, uint64_t *stuck) {
  look(true);
  const auto abort = [&](Stream *stream) {
    // Not what another library has on its stream.
    const bool well = !stream->adopted() && api_->aclrtStreamAbort != nullptr &&
                      lent([&] { return api_->aclrtStreamAbort(stream->raw); }) == 0;
    if (well) stream->aborted = true;
    ++*(well ? aborted : stuck);
  };
  for (Stream *stream : streams_) {
    if (stream->fifo_first != nullptr || !stream->drained()) abort(stream);
  }
  // On a device that is stuck, it too will not get on.
  if (*aborted + *stuck > 0 || !internal_->drained()) abort(internal_);
}

// ---- commands --------------------------------------------------------------------------------------------

void Lane::enqueue(Op *op) {
  if (Stream *stream = op->stream) {
    if (stream->destroyed) {
      if (op->kind == OpKind::kStreamClose) return settle(op, Status::ok());
      return settle(
          op, Status::error(AIOCANN_E_CLOSED, "The stream was closed before this %s reached it.",
                            op->name()));
    }
    op->fifo_next = nullptr;
    (stream->fifo_first != nullptr ? stream->fifo_last->fifo_next : stream->fifo_first) = op;
    stream->fifo_last = op;
    return make_ready(stream);
  }
  device_op_ = op;
  begin(op);
  device_op_ = nullptr;
}

void Lane::begin(Op *op) {
  switch (op->kind) {
    case OpKind::kStreamCreate:
      return create_stream(op);
    case OpKind::kPinned:
      return allocate_pinned(op);
    case OpKind::kMemoryInfo:
      return memory_info(op);
    case OpKind::kReset:
      return begin_reset(op);
    case OpKind::kAllocate: {
      Mem *mem = op->dst.mem;
      return settle(op, mem->address.load() != 0
                            ? Status::ok()
                            : allocate(mem, mem->wanted_by_stream, Pool::By::kUser));
    }
    default:
      return settle(op, Status::error(AIOCANN_E_INTERNAL, "A lane got a %s.", op->name()));
  }
}

void Lane::create_stream(Op *op) {
  if (Status status = device_->out_of_use(); !status.is_ok()) return settle(op, status);
  void *const foreign = reinterpret_cast<void *>(op->values[0]);
  for (const Stream *known : streams_) {
    if (foreign != nullptr && known->raw == foreign) {
      return settle(op, Status::error(AIOCANN_E_USAGE,
                                      "This stream of device %d is in use here already, as a "
                                      "stream of ours or adopted before.",
                                      device_->index));
    }
  }
  void *raw = nullptr;
  const auto priority = static_cast<uint32_t>(op->value);
  const bool by_default = op->value < 0;
  const int32_t code = lent([&] {
    return by_default ? api_->aclrtCreateStream(&raw)
                      : api_->aclrtCreateStreamWithConfig(&raw, priority, 0);
  });
  if (code != 0) {
    const bool more_to_come = std::any_of(streams_.begin(), streams_.end(), [](Stream *stream) {
      return stream->closing.load(std::memory_order_acquire);
    });
    if (is_exhaustion_code(code) && more_to_come) return creating_.push_back(op);
    return settle(
        op, driver_error(code, by_default ? "aclrtCreateStream" : "aclrtCreateStreamWithConfig"));
  }
  int32_t id = -1;
  Status status;
  if (int32_t failed = api_->aclrtStreamGetId(foreign != nullptr ? foreign : raw, &id);
      failed != 0) {
    status = driver_error(failed, "aclrtStreamGetId");
  } else {
    const char *call = "";
    failed = device_->reactor->completion().subscribe(raw, &call);
    if (failed != 0) status = driver_error(failed, call);
  }
  if (!status.is_ok()) {
    api_->aclrtDestroyStream(raw);
    return settle(op, status);
  }
  auto *stream = foreign != nullptr ? new Stream(device_, foreign, id, false, raw)
                                    : new Stream(device_, raw, id, false);
  device_->register_stream(stream);
  streams_.push_back(stream);  // takes over the constructor's reference
  add(runtime_->counters.live_streams);
  stream->retain();  // the user's
  op->result.store(stream, std::memory_order_release);
  op->discard_result = [](void *left) { aiocann_stream_release(static_cast<Stream *>(left)); };
  settle(op, Status::ok());
}

bool Lane::retry_creating() {
  if (!has_room_) return false;
  has_room_ = false;
  for (size_t left = creating_.size(); left > 0; --left) {
    device_op_ = creating_.front();
    creating_.pop_front();
    create_stream(device_op_);
    device_op_ = nullptr;
  }
  return true;
}

void Lane::fail_creating(const Status &why) {
  for (Op *op : creating_) settle(op, why);
  creating_.clear();
}

void Lane::release_stream(Stream *stream) {
  if (!stream->closing.exchange(true, std::memory_order_acq_rel)) {
    enqueue(new Op(OpKind::kStreamClose, runtime_, stream, nullptr, false));
  }
  stream->release();
}

void Lane::destroy_raw(Stream *stream, Status *status) {
  device_->reactor->completion().unsubscribe(stream->marker_raw);
  // An aborted stream has nothing left to wait for; where the driver can, we do not even ask.
  const bool force =
      (stream->aborted || stream->stalled) && api_->aclrtDestroyStreamForce != nullptr;
  const int32_t code = force ? api_->aclrtDestroyStreamForce(stream->marker_raw)
                             : api_->aclrtDestroyStream(stream->marker_raw);
  if (code != 0)
    *status = driver_error(code, force ? "aclrtDestroyStreamForce" : "aclrtDestroyStream");
}

void Lane::destroy_stream(Stream *stream, Status *status) {
  stream->destroyed = true;
  device_->unregister_stream(stream);
  if (stream->workspace != nullptr) stream->workspace->release_handle();
  stream->workspace = nullptr;
  stream->constants.clear();
  if (!stream->gone) destroy_raw(stream, status);
  device_->reactor->completion().forget(stream);
  subtract(runtime_->counters.live_streams);
  auto found = std::find(streams_.begin(), streams_.end(), stream);
  if (found == streams_.end()) return;
  *found = streams_.back();
  streams_.pop_back();
  stream->release();
  has_room_ = !creating_.empty();
}

void Lane::allocate_pinned(Op *op) {
  Block *block = nullptr;
  Status status = pinned_block(op->nbytes, &block);
  if (!status.is_ok()) {
    status.mutate().requested = op->nbytes;
    // Staging memory that is idle is given up by the lane that has it: each does so, and tries.
    for (size_t next = static_cast<size_t>(device_->position) + 1; next < runtime_->devices.size();
         ++next) {
      const Device &other = *runtime_->devices[next];
      if (other.is_open() && other.lane->push(&op->command)) return;
    }
  } else {
    auto *mem = new Mem(MemKind::kPinned, runtime_, nullptr, op->nbytes);
    mem->block = block;
    mem->address.store(block->address(), std::memory_order_release);
    add(runtime_->counters.pinned_bytes, op->nbytes);
    runtime_->pinned.add(mem);
    op->result.store(mem, std::memory_order_release);
    op->discard_result = [](void *left) { aiocann_mem_release(static_cast<Mem *>(left)); };
  }
  settle(op, status);
}

void Lane::memory_info(Op *op) {
  size_t free_bytes = 0, total = 0;
  const int32_t code = lent([&] { return api_->aclrtGetMemInfo(kHbmMemory, &free_bytes, &total); });
  op->values[0] = free_bytes;
  op->values[1] = total;
  settle(op, code == 0 ? Status::ok() : driver_error(code, "aclrtGetMemInfo"));
}

}  // namespace aiocann::core
