// execute.cpp: what each kind of task does when its stream gets to it. Thread: a worker.
#include <string.h>

#include "sim/callback.hpp"
#include "sim/capture.hpp"
#include "sim/copy.hpp"
#include "sim/event.hpp"
#include "sim/faults.hpp"
#include "sim/late.hpp"
#include "sim/machine.hpp"
#include "sim/moving.hpp"
#include "sim/stream.hpp"
#include "sim/strict.hpp"

namespace aiocann::sim {
namespace {

/// The memory was live when the copy was enqueued and is not any more: the engine's own fault code.
constexpr aclError kCopyFault = ACL_ERROR_RT_DEVICE_MEM_ERROR;
constexpr aclError kKernelFault = ACL_ERROR_RT_AICORE_EXCEPTION;

/// Can the engine of `device` use these bytes now? Pageable memory is not the engine's business.
bool is_usable(const Device *device, const void *begin, uint64_t bytes, const char *user) {
  if (bytes == 0) return true;
  const Location where = machine().locate(begin);
  if (where.kind == Location::kPageable) return false;
  if (where.arena == nullptr) return true;  // registered host memory
  if (where.device != nullptr && !machine().has_access(device, where.device) &&
      !machine().virtual_memory().is_granted(begin, device)) {
    return false;
  }
  if (where.device != nullptr && where.device->lost.load() != 0) return false;
  switch (where.arena->check(begin, bytes)) {
    case Arena::Check::kInside:
      return true;
    case Arena::Check::kPadding:
      misuse("%s reaches beyond the size that its memory was allocated with (%p, %llu bytes)", user,
             begin, static_cast<unsigned long long>(bytes));
      return true;
    default:
      misuse(
          "%s uses memory that is not allocated (%p, %llu bytes): freed too early, or out of "
          "bounds",
          user, begin, static_cast<unsigned long long>(bytes));
      return false;
  }
}

/// Strict mode. Of operands with gaps nobody knows what is between, so only dense ones are looked at.
void check_reads(const Where &where, const KernelTask &kernel) {
  for (const Operand &operand : kernel.operands) {
    if (operand.dense && !operand.written) strict::reads(where, operand.begin, operand.bytes);
  }
}

void note_writes(const KernelTask &kernel) {
  for (const Operand &operand : kernel.operands) {
    if (operand.written) strict::writes(operand.begin, operand.bytes);
  }
}

/// What was to be written by a task that has failed: the failure is told, and not once more by each reader.
void forgive_reads_of(const Payload &payload) {
  if (const auto *kernel = std::get_if<KernelTask>(&payload)) note_writes(*kernel);
  if (const auto *copy = std::get_if<CopyTask>(&payload)) strict::writes(copy->dst, copy->bytes);
  if (const auto *copy = std::get_if<BufferCopyTask>(&payload))
    strict::writes(copy->dst, copy->n_bytes);
  if (const auto *fill = std::get_if<MemsetTask>(&payload)) strict::writes(fill->dst, fill->bytes);
  if (const auto *copy = std::get_if<Copy2dTask>(&payload))
    strict::writes(copy->dst, copy->dst_pitch * (copy->height - 1) + copy->width);
}

/// What a fault does to a callback of this family.
struct Lateness {
  bool is_dropped = false;
  bool blocks = false;  ///< dropped, and the stream waits for it all the same
  std::optional<int64_t> ms;
};

Lateness lateness(const char *family) {
  Lateness late;
  if (!faults_armed()) return late;
  if (const auto blocks = strike(FaultKind::kCallbackDrop, family)) {
    count(g_counters.dropped_callbacks);
    late.is_dropped = true;
    late.blocks = *blocks != 0;
  } else if (const auto ms = strike(FaultKind::kCallbackDelay, family)) {
    late.ms = *ms;
  }
  return late;
}

}  // namespace

bool Stream::may_use(const void *begin, uint64_t bytes, const char *user) const {
  return is_usable(device_, begin, bytes, user);
}

Stream::Outcome Stream::execute(const Task &task) {
  count(g_counters.tasks);
  struct Visitor {
    Stream *stream;
    const Task &task;
    Outcome operator()(const CopyTask &copy) { return stream->execute_copy(task, copy); }
    Outcome operator()(const Copy2dTask &copy) { return stream->execute_copy2d(task, copy); }
    Outcome operator()(const BufferCopyTask &copy) {
      return stream->execute_buffer_copy(task, copy);
    }
    Outcome operator()(const MemsetTask &fill) { return stream->execute_memset(task, fill); }
    Outcome operator()(const RecordTask &record) { return stream->execute_record(record); }
    Outcome operator()(const WaitPointTask &wait) {
      return counted(wait.event, stream->wait_at(task, wait.point->gate, wait.timeout_s));
    }
    Outcome operator()(const WaitFlagTask &wait) {
      return counted(wait.event, stream->wait_at(task, wait.event->flag, wait.timeout_s));
    }
    Outcome operator()(const WaitSharedTask &wait) {
      if (wait.event->shared->completed() >= wait.number)
        return counted(wait.event, Outcome::kDone);
      return counted(wait.event, stream->wait_polling(task, wait.timeout_s));
    }
    Outcome counted(const Ref<Event> &event, Outcome outcome) {
      if (outcome == Outcome::kDone) event->pending_waits.fetch_sub(1);
      return outcome;
    }
    Outcome operator()(const RecordExternalTask &record) {
      auto point = Ref<RecordPoint>::adopt(new RecordPoint(stream->uid()));
      point->complete();
      std::lock_guard<SpinLock> guard(record.event->lock);
      std::swap(record.event->latest, point);
      return Outcome::kDone;
    }
    /// Graphs look at it by themselves.
    Outcome operator()(const WaitExternalTask &) { return Outcome::kDone; }
    Outcome operator()(const FlowTask &) { return Outcome::kDone; }
    Outcome operator()(const RunModelTask &run) { return stream->execute_model(task, run); }
    Outcome operator()(const UpdateModelTask &update) {
      Model &model = static_cast<Model &>(*update.model);
      std::lock_guard<std::mutex> lock(model.mutex);
      ModelNode &node = model.nodes[update.node];
      node.task = std::make_shared<const Task>(
          Task{node.task->id, node.task->tid, Payload(KernelTask(*update.kernel))});
      return Outcome::kDone;
    }
    Outcome operator()(const RecordSharedTask &record) {
      record.event->shared->complete(record.number);
      return Outcome::kDone;
    }
    Outcome operator()(const RecordNotifyTask &record) {
      record.notify->set();
      return Outcome::kDone;
    }
    Outcome operator()(const WaitNotifyTask &wait) {
      return stream->execute_wait_notify(task, wait);
    }
    Outcome operator()(const ValueWriteTask &write) {
      return stream->execute_value_write(task, write);
    }
    Outcome operator()(const ValueWaitTask &wait) { return stream->execute_value_wait(task, wait); }
    Outcome operator()(const ResetFlagTask &reset) {
      reset.event->flag.close();
      return Outcome::kDone;
    }
    Outcome operator()(const CallbackTask &callback) { return stream->execute_callback(callback); }
    Outcome operator()(const HostFuncTask &host) { return stream->execute_host_func(host); }
    Outcome operator()(const KernelTask &kernel) { return stream->execute_kernel(task, kernel); }
  };
  return std::visit(Visitor{this, task}, task.payload);
}

void Stream::discard_task(Task &task) {
  aclError code = discard_code_.load();
  if (const aclError stopped = context_->stop_error.load()) code = stopped;
  if (const aclError lost = device_->lost.load()) {
    code = lost;
    // The task that the device was at has failed; those behind it never start.
    if (!loss_is_reported_) fail_task(task, code);
    loss_is_reported_ = true;
  }
  if (auto *record = std::get_if<RecordTask>(&task.payload)) record->point->abort(code);
  if (auto *wait = std::get_if<WaitPointTask>(&task.payload))
    wait->event->pending_waits.fetch_sub(1);
  if (auto *wait = std::get_if<WaitFlagTask>(&task.payload))
    wait->event->pending_waits.fetch_sub(1);
  if (auto *wait = std::get_if<WaitSharedTask>(&task.payload))
    wait->event->pending_waits.fetch_sub(1);
  if (auto *run = std::get_if<RunModelTask>(&task.payload)) end_model_run(*run);
  callback_phase_.store(Phase::kFresh);
}

void Stream::fail_task(const Task &failed, aclError code) {
  const Task &task = run_task_ != nullptr ? *run_task_ : failed;
  if (run_ != nullptr) run_->has_failed = true;  // the rest of the graph is not run
  count(g_counters.faults);
  if (strict::is_on()) forgive_reads_of(task.payload);
  error_.store(code);
  // Before the next task of the stream, and before a synchronisation can return.
  report_exception(task.id, id(), task.tid, machine().user_id(device_), code,
                   std::get_if<KernelTask>(&failed.payload));
  if (context_->stop_on_failure.load()) context_->stop(code);
}

Stream::Outcome Stream::execute_copy(const Task &task, const CopyTask &copy) {
  aclError code = faults_armed() ? injected_fault(FaultKind::kCopy, "memcpy") : 0;
  if (code == 0 && !(is_usable(device_, copy.dst, copy.bytes, "a copy") &&
                     is_usable(device_, copy.src, copy.bytes, "a copy"))) {
    code = kCopyFault;
  }
  if (code != 0) {
    fail_task(task, code);
    return Outcome::kDone;
  }
  copy_bytes({"memcpy", this, task.id}, copy.dst, copy.src, copy.bytes);
  count_copy(copy.dst, copy.src, copy.bytes);
  return Outcome::kDone;
}

Stream::Outcome Stream::execute_copy2d(const Task &task, const Copy2dTask &copy) {
  aclError code = faults_armed() ? injected_fault(FaultKind::kCopy, "memcpy") : 0;
  const uint64_t dst_bytes = copy.dst_pitch * (copy.height - 1) + copy.width;
  const uint64_t src_bytes = copy.src_pitch * (copy.height - 1) + copy.width;
  if (code == 0 && !(is_usable(device_, copy.dst, dst_bytes, "a 2-D copy") &&
                     is_usable(device_, copy.src, src_bytes, "a 2-D copy"))) {
    code = kCopyFault;
  }
  if (code != 0) {
    fail_task(task, code);
    return Outcome::kDone;
  }
  copy_rows({"2-D memcpy", this, task.id}, copy.dst, copy.dst_pitch, copy.src, copy.src_pitch,
            copy.width, copy.height);
  count_copy(copy.dst, copy.src, copy.width * copy.height);
  return Outcome::kDone;
}

Stream::Outcome Stream::execute_buffer_copy(const Task &task, const BufferCopyTask &copy) {
  aclError code = faults_armed() ? injected_fault(FaultKind::kCopy, "memcpy") : 0;
  if (code == 0 && !is_usable(device_, copy.dst, copy.n_bytes, "a copy")) code = kCopyFault;
  if (code != 0) {
    fail_task(task, code);
    return Outcome::kDone;
  }
  copy_bytes({"memcpy", this, task.id}, copy.dst, copy.bytes.get(), copy.n_bytes);
  count_copy(copy.dst, copy.bytes.get(), copy.n_bytes);
  return Outcome::kDone;
}

Stream::Outcome Stream::execute_memset(const Task &task, const MemsetTask &fill) {
  aclError code = faults_armed() ? injected_fault(FaultKind::kCopy, "memset") : 0;
  if (code == 0 && !is_usable(device_, fill.dst, fill.bytes, "a memset")) code = kCopyFault;
  if (code != 0) {
    fail_task(task, code);
    return Outcome::kDone;
  }
  fill_bytes({"memset", this, task.id}, fill.dst, fill.value, fill.bytes);
  count(g_counters.memsets);
  return Outcome::kDone;
}

Stream::Outcome Stream::execute_record(const RecordTask &record) {
  record.event->flag.open();
  record.point->complete();
  return Outcome::kDone;
}

Stream::Outcome Stream::execute_callback(const CallbackTask &callback) {
  if (callback_phase_.load(std::memory_order_acquire) == Phase::kReturned) {
    callback_phase_.store(Phase::kFresh);
    return Outcome::kDone;
  }
  const char *family = callback.block ? "block" : "no_block";
  const Lateness late = lateness(family);
  if (!callback.block) {
    if (!late.is_dropped) post_callback(this, callback, nullptr, late.ms);
    return Outcome::kDone;
  }
  if (late.is_dropped && !late.blocks) return Outcome::kDone;
  // Both before the callback can run: its thread resumes the stream, perhaps before this function returns.
  callback_phase_.store(Phase::kWaiting);
  state_.store(kBlocked, std::memory_order_seq_cst);
  if (late.is_dropped) {
    post_lost(PendingCallback{callback.fn, callback.data, this});
    return Outcome::kBlocked;
  }
  if (post_callback(this, callback, this, late.ms)) return Outcome::kBlocked;
  state_.store(kRunning, std::memory_order_seq_cst);
  callback_phase_.store(Phase::kFresh);
  return Outcome::kDone;
}

Stream::Outcome Stream::execute_host_func(const HostFuncTask &host) {
  if (callback_phase_.load(std::memory_order_acquire) == Phase::kReturned) {
    callback_phase_.store(Phase::kFresh);
    return Outcome::kDone;
  }
  const Lateness late = lateness("host_func");
  if (late.is_dropped && !late.blocks) return Outcome::kDone;
  callback_phase_.store(Phase::kWaiting);
  state_.store(kBlocked, std::memory_order_seq_cst);
  if (late.is_dropped)
    post_lost(PendingCallback{host.fn, host.data, this});
  else
    post_host_func(this, host, late.ms);
  return Outcome::kBlocked;
}

Stream::Outcome Stream::execute_wait_notify(const Task &task, const WaitNotifyTask &wait) {
  Notify &notify = *wait.notify;
  if (notify.take()) return Outcome::kDone;
  if (notify.is_shared()) return wait_polling(task, wait.timeout_s);
  // Closed before the last look: a set after it opens the gate. Another stream may take what it set.
  notify.gate.close();
  if (notify.take()) return Outcome::kDone;
  if (wait_has_expired(wait.timeout_s)) {
    fail_task(task, ACL_ERROR_RT_WAIT_TIMEOUT);
    return Outcome::kDone;
  }
  return notify.gate.enter(this) ? Outcome::kAgain : Outcome::kBlocked;
}

Stream::Outcome Stream::execute_value_write(const Task &task, const ValueWriteTask &write) {
  if (is_usable(device_, write.address, sizeof *write.address, "a value write")) {
    const WriteSection writes;
    __atomic_store_n(write.address, write.value, __ATOMIC_RELEASE);
  } else {
    fail_task(task, kKernelFault);
  }
  if (strict::is_on()) strict::writes(write.address, sizeof *write.address);
  return Outcome::kDone;
}

bool Stream::value_has_come(const ValueWaitTask &wait) {
  const uint64_t found = __atomic_load_n(wait.address, __ATOMIC_ACQUIRE);
  switch (wait.condition) {
    case ACL_STREAM_WAIT_VALUE_GEQ:
      return static_cast<int64_t>(found - wait.value) >= 0;
    case ACL_STREAM_WAIT_VALUE_EQ:
      return found == wait.value;
    case ACL_STREAM_WAIT_VALUE_AND:
      return (found & wait.value) != 0;
    default:  // ACL_STREAM_WAIT_VALUE_NOR
      return ~(found | wait.value) != 0;
  }
}

Stream::Outcome Stream::execute_value_wait(const Task &task, const ValueWaitTask &wait) {
  if (!is_usable(device_, wait.address, sizeof *wait.address, "a value wait")) {
    fail_task(task, kKernelFault);
    return Outcome::kDone;
  }
  return value_has_come(wait) ? Outcome::kDone : wait_polling(task, 0);
}

Stream::Outcome Stream::execute_kernel(const Task &task, const KernelTask &kernel) {
  int code = 0;
  if (faults_armed()) code = injected_fault(FaultKind::kKernel, kernel.name);
  for (const Operand &operand : kernel.operands) {
    if (code != 0) break;
    const bool on_device = machine().locate(operand.begin).kind == Location::kDevice;
    const bool usable = (operand.bytes == 0 || on_device) &&
                        is_usable(device_, operand.begin, operand.bytes, kernel.name);
    if (!usable) code = kKernelFault;
  }
  if (code == 0) {
    if (strict::is_on()) check_reads({kernel.name, this, task.id}, kernel);
    PoolContext context;
    {
      const WriteSection writes;
      code = kernel.fn(context, kernel.args.get());
    }
    count(g_counters.kernels);
    if (strict::is_on()) note_writes(kernel);
  }
  if (code != 0) fail_task(task, code);
  return Outcome::kDone;
}

}  // namespace aiocann::sim
