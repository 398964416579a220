// stream.hpp: a stream is a FIFO of tasks and a state; whichever worker takes it from the ready list runs it.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "acl_abi.h"
#include "sim/device.hpp"
#include "sim/error.hpp"
#include "sim/futex.hpp"
#include "sim/gate.hpp"
#include "sim/late.hpp"
#include "sim/pool.hpp"
#include "sim/queue.hpp"
#include "sim/strict.hpp"
#include "sim/thread_state.hpp"

namespace aiocann::sim {

struct Context;
struct Device;
struct Model;
struct ModelRun;
struct TaskGroup;
class Subscriber;

class Stream {
  friend class Replay;

 public:
  Stream();
  ~Stream();

  /// Owned by: idle: nobody (the next submission queues it); queued: the ready list, or its device's list of held
  /// streams; running: one worker; blocked: the gate or callback that it waits for.
  enum State : uint32_t { kIdle, kQueued, kRunning, kBlocked };

  /// Makes a slot that was acquired from the device's table into a living stream.
  void open(Device *device, Context *context, uint32_t priority, uint32_t flags);

  /// Enqueues a task. Fails only where the context has stopped after a failure. Thread: any.
  template <class T>
  aclError submit(T &&payload) {
    ThreadState &thread = thread_state();
    std::shared_ptr<const strict::Uses> uses;
    if (strict::is_on()) uses = strict::uses_of(payload, this);
    {
      std::lock_guard<std::mutex> lock(submit_mutex_);
      if (const aclError code = refusal()) return code;
      if (capture_.load(std::memory_order_relaxed) != nullptr ||
          bound_.load(std::memory_order_relaxed) != nullptr || update_ != nullptr)
        return divert(Payload(std::forward<T>(payload)), thread);
      thread.last_task_id = next_task_id_;
      queue_.push(next_task_id_++, thread.tid, std::forward<T>(payload), std::move(uses));
      submitted_.store(submitted_.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
    }
    uint32_t idle = kIdle;
    if (state_.load(std::memory_order_seq_cst) == kIdle &&
        state_.compare_exchange_strong(idle, kQueued, std::memory_order_seq_cst)) {
      Pool::instance().schedule(this);
    }
    return ACL_SUCCESS;
  }

  /// Runs tasks until there are none, one blocks, or another stream deserves the worker. Thread: a worker.
  void run();

  /// Waits until what is enqueued now is done: 0 or ACL_ERROR_RT_STREAM_SYNC_TIMEOUT.
  aclError wait_for_all(const Deadline &deadline);
  /// The failure to report at a synchronisation; forgotten afterwards unless failures stop the context.
  aclError take_error();
  bool is_idle() const {
    return completed_.load(std::memory_order_acquire) == submitted_.load(std::memory_order_acquire);
  }
  void set_error(aclError code) { error_.store(code); }

  /// Drops everything that is enqueued now, waits for the task that is running. `code`: what those that wait for
  /// the dropped work get.
  void discard(aclError code);
  /// Waits until no worker holds the stream; nothing may be submitted any more.
  void close();
  /// The next task is to be dropped: it was aborted, or the context has stopped.
  bool must_discard() const;
  /// Wakes the stream if it is blocked, so that it notices that its tasks are to be discarded.
  void kick();

  // For the gate or callback that a blocked stream waits for.
  void set_blocked(Gate *gate) {
    blocked_on_ = gate;
    state_.store(kBlocked, std::memory_order_seq_cst);
  }
  void unblock();
  void resume_after_callback();
  void requeue();

  /// Where tasks go instead of the queue; changed under the context's capture lock.
  Model *capture() const { return capture_.load(std::memory_order_acquire); }
  void set_capture(Model *model);
  /// The model that is built of what the stream is given; likewise.
  Model *bound() const { return bound_.load(std::memory_order_acquire); }
  void set_bound(Model *model);
  /// Kernels that are submitted from now on take the place of those of the group; nullptr: no more. Answers whether
  /// all were replaced.
  bool set_update(TaskGroup *group);
  TaskGroup *update() const { return update_; }

  /// Ends the task that is running, if it waits for something; what is enqueued behind it goes on.
  void stop_running();

  /// What aborting the stream answers, without doing anything; 0: it can be aborted. See FaultKind::kKernelStall.
  aclError abort_refusal() const { return abort_refusal_.load(); }

  Device *device() const { return device_; }
  Context *context() const { return context_; }
  int32_t id() const { return static_cast<int32_t>(slot_index); }
  uint64_t uid() const { return uid_; }
  uint32_t priority() const { return priority_.load(std::memory_order_relaxed); }
  uint32_t flags() const { return flags_; }

  /// Between two of its tasks.
  void set_priority(uint32_t priority) { priority_.store(priority); }

  uint32_t slot_index = 0;
  std::atomic<bool> alive{false};
  // Attributes that the program sets and asks for; nothing here depends on them.
  std::atomic<uint32_t> user_tag{0};
  std::atomic<bool> checks_overflow{false}, caches_op_info{false};
  std::atomic<bool> held{false};  ///< by aiocann_sim_hold
  /// Whom callbacks and host functions go to; set and cleared under the callback registry's lock.
  std::atomic<Subscriber *> subscriber{nullptr}, host_subscriber{nullptr};
  std::atomic<bool> has_host_func{
      false};                     ///< a host function was ever launched: no subscription then
  Stream *next_ready = nullptr;   ///< ready list or list of held streams
  Stream *next_waiter = nullptr;  ///< a gate's list
  SpinLock wait_lock;             ///< guards blocked_on_

 private:
  enum class Outcome {
    kDone,
    kBlocked,  ///< somebody else goes on with the stream, perhaps already
    kAgain,    ///< look at the task once more
  };

  void set_model(std::atomic<Model *> *member, Model *model);
  aclError refusal() const;
  aclError divert(Payload payload, ThreadState &thread);
  aclError enqueue_update(KernelTask kernel, ThreadState &thread);
  void finish_task();
  bool hold_if_gated();
  Pause *pause_of_fault(const Task &task);
  Ref<Pause> begin_pause_of_fault(const Task &task);
  void end_pause_of_fault();

  // Waits of the task at the front.
  bool wait_has_expired(uint32_t timeout_s);
  void expire(uint64_t number);
  Outcome wait_at(const Task &task, Gate &gate, uint32_t timeout_s);
  Outcome wait_polling(const Task &task, uint32_t timeout_s);

  // execute.cpp
  Outcome execute(const Task &task);
  bool may_use(const void *begin, uint64_t bytes, const char *user) const;
  void discard_task(Task &task);
  Outcome execute_copy(const Task &task, const CopyTask &copy);
  Outcome execute_copy2d(const Task &task, const Copy2dTask &copy);
  Outcome execute_buffer_copy(const Task &task, const BufferCopyTask &copy);
  Outcome execute_memset(const Task &task, const MemsetTask &fill);
  Outcome execute_record(const RecordTask &record);
  Outcome execute_callback(const CallbackTask &callback);
  Outcome execute_host_func(const HostFuncTask &host);
  Outcome execute_kernel(const Task &task, const KernelTask &kernel);
  Outcome execute_wait_notify(const Task &task, const WaitNotifyTask &wait);
  Outcome execute_value_write(const Task &task, const ValueWriteTask &write);
  Outcome execute_value_wait(const Task &task, const ValueWaitTask &wait);
  bool value_has_come(const ValueWaitTask &wait);

  // model_run.cpp; class Replay goes along the graph
  Outcome execute_model(const Task &task, const RunModelTask &run_task);
  void end_model_run(const RunModelTask &run_task);
  void fail_task(const Task &failed, aclError code);

  Device *device_ = nullptr;
  Context *context_ = nullptr;
  uint64_t uid_ = 0;  ///< never used twice in a process
  std::atomic<uint32_t> priority_{0};
  uint32_t flags_ = 0;

  std::mutex submit_mutex_;
  uint32_t next_task_id_ = 0;
  TaskQueue queue_;
  std::atomic<Model *> capture_{nullptr}, bound_{nullptr};  ///< written with the submission lock
  TaskGroup *update_ = nullptr;                             ///< likewise
  size_t updated_ = 0;                                      ///< kernels of it that were replaced
  Gate *blocked_on_ = nullptr;
  /// Of the task at the front, when it is a blocking callback.
  enum class Phase : uint8_t { kFresh, kWaiting, kReturned };
  std::atomic<Phase> callback_phase_{Phase::kFresh};
  uint64_t examined_ = UINT64_MAX;  ///< count of the task that faults were looked up for
  Ref<Pause> pause_;                ///< of that task, when a fault holds it back
  std::atomic<aclError> abort_refusal_{0};
  bool loss_is_reported_ = false;

  uint64_t waiting_for_ = UINT64_MAX;  ///< count of the task that the three below are of
  uint64_t wait_until_ns_ = UINT64_MAX;
  uint64_t wait_timer_ = 0;
  uint32_t polls_ = 0;
  std::unique_ptr<ModelRun> run_;   ///< of the task at the front, when it replays a graph
  const Task *run_task_ = nullptr;  ///< that task: faults of the graph are faults of it
  Gate poll_gate_;                  ///< opened by the timer, for what nobody tells about

  alignas(64) std::atomic<uint64_t> submitted_{0};
  std::atomic<uint32_t> state_{kIdle};
  /// Tasks up to this count are discarded instead of run, giving `discard_code_` to those who wait.
  std::atomic<uint64_t> discard_until_{0};
  std::atomic<aclError> discard_code_{0};
  std::atomic<aclError> error_{0};
  alignas(64) std::atomic<uint64_t> completed_{0};
  std::atomic<uint64_t> wake_at_{UINT64_MAX};  ///< a thread sleeps until so many are completed
  std::atomic<uint32_t> wake_word_{0};
};

}  // namespace aiocann::sim
