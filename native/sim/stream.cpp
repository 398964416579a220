// stream.cpp: the life of a stream, and the loop that runs its tasks.
#include "sim/stream.hpp"

#include <sched.h>
#include <string.h>

#include <algorithm>
#include <utility>

#include "sim/callback.hpp"
#include "sim/capture.hpp"
#include "sim/faults.hpp"
#include "sim/lookup.hpp"
#include "sim/timer.hpp"

namespace aiocann::sim {
namespace {

/// How long a stream keeps its worker while others are ready.
constexpr uint64_t kSliceNs = 200000;

constexpr uint64_t kShortestPollNs = 20000;
constexpr uint64_t kLongestPollNs = 1000000;

std::atomic<uint64_t> g_next_uid{1};

}  // namespace

Stream::Stream() = default;
Stream::~Stream() = default;

void Stream::open(Device *device, Context *context, uint32_t priority, uint32_t flags) {
  device_ = device;
  context_ = context;
  priority_ = priority;
  flags_ = flags;
  uid_ = g_next_uid.fetch_add(1);
  next_task_id_ = 0;
  // The counts of tasks go on from the slot's last life: nothing compares them across lives.
  error_.store(0);
  discard_until_.store(0);
  callback_phase_.store(Phase::kFresh);
  held.store(false);
  has_host_func.store(false);
  subscriber.store(nullptr);
  host_subscriber.store(nullptr);
  user_tag.store(0);
  checks_overflow.store(false);
  caches_op_info.store(false);
  loss_is_reported_ = false;
  capture_.store(nullptr);
  bound_.store(nullptr);
  update_ = nullptr;
  alive.store(true, std::memory_order_release);
}

aclError Stream::refusal() const {
  if (const aclError code = refuse_lost(device_)) return code;
  const aclError stopped = context_->stop_error.load(std::memory_order_acquire);
  if (stopped == 0) return ACL_SUCCESS;
  return fail(stopped,
              "stream %d of device %d takes no more work: its context stopped on a failure", id(),
              device_->index);
}

void Stream::set_capture(Model *model) { set_model(&capture_, model); }
void Stream::set_bound(Model *model) { set_model(&bound_, model); }

void Stream::set_model(std::atomic<Model *> *member, Model *model) {
  std::lock_guard<std::mutex> lock(submit_mutex_);
  if (model != nullptr) model->retain();
  Model *const before = member->exchange(model, std::memory_order_acq_rel);
  if (before != nullptr) before->release();
}

bool Stream::set_update(TaskGroup *group) {
  std::lock_guard<std::mutex> lock(submit_mutex_);
  const bool all = update_ == nullptr || updated_ == update_->nodes.size();
  update_ = group;
  updated_ = 0;
  return all;
}

/// With the submission lock, which submit() has.
aclError Stream::divert(Payload payload, ThreadState &thread) {
  Model *const captured_in = capture_.load();
  if (Model *const model = captured_in != nullptr ? captured_in : bound_.load()) {
    thread.last_task_id = next_task_id_;
    return model->append(this, Task{next_task_id_++, thread.tid, std::move(payload)});
  }
  auto *kernel = std::get_if<KernelTask>(&payload);
  if (kernel == nullptr)
    return fail(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT,
                "an update of a task group takes kernels alone");
  return enqueue_update(std::move(*kernel), thread);
}

aclError Stream::enqueue_update(KernelTask kernel, ThreadState &thread) {
  TaskGroup &group = *update_;
  if (updated_ == group.nodes.size())
    return fail(ACL_ERROR_RT_MODEL_UPDATE_FAILED, "the task group has no more than %zu kernels",
                group.nodes.size());
  const uint32_t node = group.nodes[updated_];
  {
    std::lock_guard<std::mutex> lock(group.model->mutex);
    const auto &before = std::get<KernelTask>(group.model->nodes[node].task->payload);
    if (strcmp(before.name, kernel.name) != 0)
      return fail(ACL_ERROR_RT_MODEL_UPDATE_FAILED, "%s cannot take the place of %s", kernel.name,
                  before.name);
  }
  ++updated_;
  thread.last_task_id = next_task_id_;
  queue_.push(next_task_id_++, thread.tid,
              UpdateModelTask{Ref<ModelBase>(group.model), node,
                              std::make_shared<const KernelTask>(std::move(kernel))});
  submitted_.store(submitted_.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  uint32_t idle = kIdle;
  if (state_.load(std::memory_order_seq_cst) == kIdle &&
      state_.compare_exchange_strong(idle, kQueued, std::memory_order_seq_cst)) {
    Pool::instance().schedule(this);
  }
  return ACL_SUCCESS;
}

bool Stream::must_discard() const {
  return completed_.load(std::memory_order_relaxed) <
             discard_until_.load(std::memory_order_acquire) ||
         context_->stop_error.load(std::memory_order_acquire) != 0 ||
         device_->lost.load(std::memory_order_acquire) != 0;
}

void Stream::run() {
  state_.store(kRunning, std::memory_order_relaxed);
  uint64_t slice_end = 0;
  while (true) {
    if (completed_.load(std::memory_order_relaxed) == submitted_.load(std::memory_order_acquire)) {
      // seq_cst with submit(): either we see its task, or it sees us idle.
      state_.store(kIdle, std::memory_order_seq_cst);
      if (submitted_.load(std::memory_order_seq_cst) == completed_.load(std::memory_order_relaxed))
        return;
      uint32_t idle = kIdle;
      if (!state_.compare_exchange_strong(idle, kRunning, std::memory_order_seq_cst)) return;
      continue;
    }
    Task &task = queue_.front();
    if (must_discard()) {
      discard_task(task);
    } else {
      if (hold_if_gated()) return;
      if (Pause *pause = pause_of_fault(task)) {
        if (!pause->gate.enter(this)) return;
        continue;
      }
      const Outcome outcome = execute(task);
      if (outcome == Outcome::kBlocked) return;
      if (outcome == Outcome::kAgain) continue;
    }
    queue_.pop();
    if (pause_) end_pause_of_fault();
    if (wait_timer_ != 0) Timer::instance().cancel(std::exchange(wait_timer_, 0));
    finish_task();
    if (Pool::instance().is_stopping()) return;
    if (!Pool::instance().has_ready()) continue;
    const uint64_t now = now_ns();
    if (slice_end == 0) slice_end = now + kSliceNs;
    if (now >= slice_end || Pool::instance().has_better(priority_)) {
      requeue();
      return;
    }
  }
}

void Stream::requeue() {
  state_.store(kQueued, std::memory_order_seq_cst);
  Pool::instance().schedule(this);
}

void Stream::finish_task() {
  // seq_cst with wait_for_all(): either we see where to wake, or the waiting thread sees the new count.
  const uint64_t done = completed_.fetch_add(1, std::memory_order_seq_cst) + 1;
  if (done < wake_at_.load(std::memory_order_seq_cst)) return;
  wake_at_.store(UINT64_MAX, std::memory_order_seq_cst);
  wake_word_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(wake_word_);
}

aclError Stream::wait_for_all(const Deadline &deadline) {
  const uint64_t target = submitted_.load(std::memory_order_acquire);
  const auto reached = [this, target] {
    return completed_.load(std::memory_order_seq_cst) >= target;
  };
  if (reached() || spin_for(kHostSpinNs, reached)) return ACL_SUCCESS;
  while (true) {
    // The word is read before registering: a worker that clears wake_at_ after that changes the word too.
    const uint32_t seen = wake_word_.load(std::memory_order_seq_cst);
    uint64_t at = wake_at_.load(std::memory_order_seq_cst);
    while (target < at && !wake_at_.compare_exchange_weak(at, target, std::memory_order_seq_cst)) {
    }
    if (reached()) return ACL_SUCCESS;
    if (machine_is_stopping()) return ACL_ERROR_RT_INTERNAL_ERROR;
    if (!futex_wait(wake_word_, seen, deadline)) {
      return reached() ? ACL_SUCCESS : ACL_ERROR_RT_STREAM_SYNC_TIMEOUT;
    }
  }
}

Pause *Stream::pause_of_fault(const Task &task) {
  const uint64_t number = completed_.load(std::memory_order_relaxed);
  if (!faults_armed() || examined_ == number) return nullptr;
  examined_ = number;
  pause_ = begin_pause_of_fault(task);
  return pause_.get();
}

/// Empty: no fault holds the task back.
Ref<Pause> Stream::begin_pause_of_fault(const Task &task) {
  FaultKind delay = FaultKind::kCopyDelay, stall = FaultKind::kCopyStall;
  const char *name = "memcpy";
  if (const auto *kernel = std::get_if<KernelTask>(&task.payload)) {
    delay = FaultKind::kKernelDelay;
    stall = FaultKind::kKernelStall;
    name = kernel->name;
  } else if (std::holds_alternative<MemsetTask>(task.payload)) {
    name = "memset";
  } else if (!is_copy(task.payload)) {
    return {};
  }
  if (const auto code = strike(stall, name)) {
    abort_refusal_.store(*code);
    return begin_pause(0);
  }
  if (const auto ms = strike(delay, name)) return begin_pause(static_cast<uint64_t>(*ms));
  return {};
}

void Stream::end_pause_of_fault() {
  end_pause(pause_);
  pause_ = Ref<Pause>();
  abort_refusal_.store(0);
}

bool Stream::wait_has_expired(uint32_t timeout_s) {
  const uint64_t number = completed_.load(std::memory_order_relaxed);
  if (waiting_for_ != number) {
    waiting_for_ = number;
    polls_ = 0;
    wait_until_ns_ = UINT64_MAX;
    if (timeout_s != 0) {
      const uint64_t ns = timeout_s * uint64_t{1000000000};
      wait_until_ns_ = now_ns() + ns;
      wait_timer_ = Timer::instance().after_ns(ns, [this, number] { expire(number); });
    }
  }
  return wait_until_ns_ != UINT64_MAX && now_ns() >= wait_until_ns_;
}

/// Thread: the timer's. The slot may have begun another life, but counts are never used twice.
void Stream::expire(uint64_t number) {
  bool ours = false;
  {
    std::lock_guard<SpinLock> guard(wait_lock);
    if (completed_.load() == number && blocked_on_ != nullptr && blocked_on_->remove(this)) {
      blocked_on_ = nullptr;
      ours = true;
    }
  }
  if (ours)
    requeue();
  else if (completed_.load() == number)  // it is on its way to the gate, or looks at it once more
    Timer::instance().after_ms(1, [this, number] { expire(number); });
}

Stream::Outcome Stream::wait_at(const Task &task, Gate &gate, uint32_t timeout_s) {
  if (gate.is_open()) return Outcome::kDone;
  if (timeout_s != 0 && wait_has_expired(timeout_s)) {
    fail_task(task, ACL_ERROR_RT_WAIT_TIMEOUT);
    return Outcome::kDone;
  }
  return gate.enter(this) ? Outcome::kAgain : Outcome::kBlocked;
}

Stream::Outcome Stream::wait_polling(const Task &task, uint32_t timeout_s) {
  if (wait_has_expired(timeout_s)) {
    fail_task(task, ACL_ERROR_RT_WAIT_TIMEOUT);
    return Outcome::kDone;
  }
  // A timer of an earlier wait may open the gate, too: that is one look more.
  poll_gate_.close();
  const uint64_t ns = std::min(kShortestPollNs << std::min(polls_++, 16u), kLongestPollNs);
  Timer::instance().after_ns(ns, [this] { poll_gate_.open(); });
  return poll_gate_.enter(this) ? Outcome::kAgain : Outcome::kBlocked;
}

aclError Stream::take_error() {
  if (const aclError lost = device_->lost.load()) return lost;
  const aclError stopped = context_->stop_error.load();
  if (stopped != 0) return stopped;
  return error_.exchange(0);
}

void Stream::unblock() {
  {
    std::lock_guard<SpinLock> guard(wait_lock);
    blocked_on_ = nullptr;
  }
  requeue();
}

void Stream::resume_after_callback() {
  callback_phase_.store(Phase::kReturned, std::memory_order_release);
  requeue();
}

void Stream::kick() {
  release_held(device_, this);
  bool ours = false;
  {
    std::lock_guard<SpinLock> guard(wait_lock);
    // The gate is alive: it is kept by the task at the front, which cannot go before unblock() took wait_lock.
    if (blocked_on_ != nullptr && blocked_on_->remove(this)) {
      blocked_on_ = nullptr;
      ours = true;
    }
  }
  if (ours) requeue();
  if (callback_phase_.load(std::memory_order_acquire) == Phase::kWaiting) withdraw_callback(this);
}

bool Stream::hold_if_gated() {
  if (!device_->held.load(std::memory_order_acquire) && !held.load(std::memory_order_acquire))
    return false;
  std::lock_guard<std::mutex> lock(device_->held_mutex);
  if (!device_->held.load() && !held.load()) return false;
  if (must_discard()) return false;
  state_.store(kQueued, std::memory_order_seq_cst);
  next_ready = device_->held_streams;
  device_->held_streams = this;
  return true;
}

void Stream::discard(aclError code) {
  discard_code_.store(code);
  uint64_t target = 0;
  {
    std::lock_guard<std::mutex> lock(submit_mutex_);
    target = submitted_.load();
    discard_until_.store(target, std::memory_order_seq_cst);
  }
  // Not "until idle": other threads may go on submitting.
  const auto reached = [this, target] {
    return completed_.load(std::memory_order_seq_cst) >= target;
  };
  while (!reached() && !machine_is_stopping()) {
    kick();
    // A copy that is running stops at its next chunk, a kernel runs to its end; a stream that is about to block is
    // caught by the next kick.
    if (!spin_for(kHostSpinNs, reached)) sched_yield();
  }
}

void Stream::stop_running() {
  const uint64_t number = completed_.load(std::memory_order_seq_cst);
  const auto is_running = [this, number] {
    const uint32_t state = state_.load(std::memory_order_seq_cst);
    return completed_.load(std::memory_order_seq_cst) == number &&
           (state == kRunning || state == kBlocked);
  };
  while (is_running() && !machine_is_stopping()) {
    // A task that is computing ends by itself; between two looks of one that polls it seems to compute, too.
    if (state_.load(std::memory_order_seq_cst) == kBlocked) {
      std::lock_guard<std::mutex> lock(submit_mutex_);
      if (discard_until_.load() <= number) discard_until_.store(number + 1);
    }
    kick();
    sched_yield();
  }
  const auto is_over = [this, number] {
    return completed_.load() != number || discard_until_.load() <= number;
  };
  while (!is_over() && !machine_is_stopping()) sched_yield();
}

void Stream::close() {
  while (state_.load(std::memory_order_acquire) != kIdle) {
    if (machine_is_stopping()) return;
    sched_yield();
  }
  // Its slot may not be taken again for long.
  std::lock_guard<std::mutex> lock(submit_mutex_);
  queue_.clear();
}

}  // namespace aiocann::sim
