// lane_device.cpp: a lane's first and last acts.
#include "core/device.hpp"
#include "core/lane.hpp"
#include "core/memory.hpp"
#include "core/reactor.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"

namespace aiocann::core {
namespace {

constexpr int32_t kTrialMs = 100;
constexpr int32_t kSyncTimeout = 507046;

Status stuck_in_driver(const Device *device) {
  return Status::error(AIOCANN_E_CLOSED,
                       "The runtime was closed, and a call of the driver for device %d does not "
                       "return: what was in flight there is leaked.",
                       device->index);
}

Status closed_before() {
  return Status::error(AIOCANN_E_CLOSED, "The runtime was closed before this reached the device.");
}

}  // namespace

Status Lane::open_internal() {
  const acl::Api &api = *api_;
  Status status;
  void *raw = nullptr;
  int32_t id = -1;
  auto check = [&](int32_t code, const char *call) {
    if (status.is_ok() && code != 0) status = driver_error(code, call);
    return status.is_ok();
  };
  check(api.aclrtGetCurrentContext(&device_->context), "aclrtGetCurrentContext");
  if (status.is_ok()) status = device_->reactor->bind();
  const bool well = status.is_ok() && check(api.aclrtCreateStream(&raw), "aclrtCreateStream") &&
                    check(api.aclrtStreamGetId(raw, &id), "aclrtStreamGetId");
  if (well) status = device_->reactor->choose(runtime_->family, raw);
  if (status.is_ok()) {
    device_->reactor->go();
    // What it was tried with is over before anything else begins; or the device is held up.
    const int32_t code = api.aclrtSynchronizeStreamWithTimeout(raw, kTrialMs);
    if (code != kSyncTimeout) check(code, "aclrtSynchronizeStreamWithTimeout");
  }
  if (!status.is_ok()) {
    if (raw != nullptr) api.aclrtDestroyStream(raw);
    return status;
  }
  if (internal_ == nullptr) {
    internal_ = new Stream(device_, raw, id, true);
  } else {
    internal_->begin_anew(raw, id);
  }
  return status;
}

Status Lane::open_device() {
  const acl::Api &api = *api_;
  if (const int32_t code = api.aclrtSetDevice(device_->index); code != 0)
    return driver_error(code, "aclrtSetDevice");
  device_->events.choose(runtime_->event_maker);
  device_->reactor = std::make_unique<Reactor>(device_);
  device_->reactor->start();
  if (Status status = open_internal(); !status.is_ok()) {
    device_->reactor->stop(nullptr);
    api.aclrtResetDevice(device_->index);
    return status;
  }
  device_->register_stream(internal_);
  if (const char *name = api.aclrtGetSocName()) device_->soc_name = name;
  if (api.aclrtGetPhyDevIdByUserDevId != nullptr) {
    int32_t physical = -1;
    if (api.aclrtGetPhyDevIdByUserDevId(device_->index, &physical) == 0)
      device_->physical_id = physical;
  }
  for (const auto &other : runtime_->devices) {
    int32_t can = 0;
    if (other.get() == device_) continue;
    if (api.aclrtDeviceCanAccessPeer(&can, device_->index, other->index) == 0 && can != 0) {
      device_->peer_matrix[static_cast<size_t>(other->position)] = 1;
    }
  }
  route_faults(api, device_);
  free_left_pinned();
  return Status::ok();
}

void Lane::close_device() {
  const acl::Api &api = *api_;
  bool leak = false;
  {
    std::lock_guard<std::mutex> lock(gate_);
    leak = leak_;
  }
  may_lend_ = false;  // should the thread come back late, it has more to settle
  // First the reactor: when it has ended, nobody but us touches what is left.
  Reactor *reactor = device_->reactor.get();
  if (reset_.op != nullptr) {
    settle(reset_.op, Status::error(AIOCANN_E_CLOSED, "The runtime was closed during the reset."));
    reset_.op = nullptr;
  }
  reactor->stop(internal_->raw, internal_->aborted);
  device_->apply_faults();
  unroute_faults(device_);

  drop_looks();
  fail_creating(closed_before());
  const std::vector<Stream *> streams = streams_;
  for (Stream *stream : streams) close_stream(stream, leak);
  if (!internal_->drained()) {
    uint64_t parts = 0;
    internal_->give_up(Status::error(AIOCANN_E_CLOSED, "The runtime was closed."),
                       internal_->aborted, settler_, &parts);
  }
  settler_.run();
  device_->unregister_stream(internal_);
  abandon(inbox_.close(), false);
  forget_waiting();
  if (!internal_->gone) reactor->completion().unsubscribe(internal_->raw);
  reactor->completion().forget(internal_);
  reactor->completion().close();
  if (leak) return;

  chunks_.close();
  slots_.close();
  if (this == runtime_->any_lane()) {
    // What users still hold is freed by a later runtime of the driver, if there is one.
    for (uint64_t address : runtime_->pinned_pool.remove_segments(false)) {
      unpin(reinterpret_cast<void *>(address));
    }
  }
  auto check = [&](int32_t code, const char *call) {
    if (code != 0 && close_status_.is_ok()) close_status_ = driver_error(code, call);
  };
  if (internal_->gone) {
    // With everything else of a device that could not be reset.
  } else if (internal_->aborted && api.aclrtDestroyStreamForce != nullptr) {
    check(api.aclrtDestroyStreamForce(internal_->raw), "aclrtDestroyStreamForce");
  } else {
    check(api.aclrtDestroyStream(internal_->raw), "aclrtDestroyStream");
  }
  if (const Status failed = device_->events.destroy_all(); close_status_.is_ok()) {
    close_status_ = failed;
  }
  for (uint64_t address : device_->pool.remove_segments(true)) {
    check(api.aclrtFree(reinterpret_cast<void *>(address)), "aclrtFree");
  }
  if (!device_->lost()) check(api.aclrtResetDevice(device_->index), "aclrtResetDevice");
  internal_->release();
}

/// Streams that were to be looked at again: nobody will.
void Lane::forget_waiting() {
  for (Stream *stream : ready_) stream->release();
  ready_.clear();
  for (std::vector<Stream *> *waiting : {&unmarked_, &without_event_}) {
    for (Stream *stream : *waiting) stream->release();
    waiting->clear();
  }
}

void Lane::close_stream(Stream *stream, bool leak) {
  stream->closing.store(true, std::memory_order_release);
  const bool drained = stream->drained();
  const Status why = Status::error(
      AIOCANN_E_CLOSED,
      "The runtime was closed while this was in flight, and it did not end in time. %s",
      stream->aborted || drained ? "It was aborted."
                                 : "Its memory on the device and in pinned blocks is leaked.");
  if (!drained) stream->give_up(why, stream->aborted, settler_, &ops_given_up_);
  fail_fifo(stream, why, leak, &ops_given_up_);
  if (!drained && !stream->aborted) {
    stream->destroyed = true;
    // The stream is leaked, its subscription is not: the system gives the id of a thread to another one.
    device_->reactor->completion().unsubscribe(stream->marker_raw);
    device_->reactor->completion().forget(stream);
    return;
  }
  Status status;
  destroy_stream(stream, &status);
  if (close_status_.is_ok()) close_status_ = status;
}

void Lane::fail_fifo(Stream *stream, const Status &why, bool leak, uint64_t *given_up) {
  while (Op *op = stream->fifo_first) {
    stream->fifo_first = op->fifo_next;
    if (op->kind == OpKind::kStreamClose) {
      settle(op, Status::ok());  // closed it is
      continue;
    }
    if (op->sequence != 0)
      continue;  // submitted while the lane was in a call: settled with the others
    ++*given_up;
    // Parts of it may be on a device, or all of it in the hands of the driver.
    if ((op->assigned > 0 || op == head_) && leak) bury(op);
    settle(op, why);
  }
}

void Lane::leave_behind(uint64_t *given_up) {
  thread_.detach();
  unroute_faults(device_);
  // Settling frees host memory, which the reactor may be writing to as long as it has not ended.
  if (device_->reactor->leave()) {
    Settler settler;
    for (Stream *stream : device_->streams()) {
      stream->closing.store(true, std::memory_order_release);
      stream->give_up(stuck_in_driver(device_), false, settler, given_up);
      stream->release();
    }
  }
  if (hands_.load(std::memory_order_acquire) == Hands::kTaken) {
    settler_.run();
    for (Op *op : {device_op_, reset_.op}) {
      if (op == nullptr) continue;
      ++*given_up;
      settle(op, stuck_in_driver(device_));
    }
    fail_creating(stuck_in_driver(device_));
    for (Stream *stream : streams_) fail_fifo(stream, stuck_in_driver(device_), true, given_up);
    abandon(rest_, true);
  }
  abandon(inbox_.close(), true);
}

void Lane::end_late() {
  uint64_t given_up = 0;
  fail_creating(stuck_in_driver(device_));
  for (Stream *stream : streams_) {
    if (device_->reactor->ended()) {
      stream->give_up(stuck_in_driver(device_), false, settler_, &given_up);
    }
    fail_fifo(stream, stuck_in_driver(device_), true, &given_up);
  }
  settler_.run();
}

void Lane::abandon(Command *first, bool leak) {
  const Status why = closed_before();
  for (Command *command = first; command != nullptr;) {
    Command *next = command->next;
    switch (command->kind) {
      case CommandKind::kOp: {
        Op *op = static_cast<Op *>(command->owner);
        settle(op, op->kind == OpKind::kStreamClose ? Status::ok() : why);
        break;
      }
      case CommandKind::kStep: {
        drop_part(static_cast<Op *>(command->owner));
        break;
      }
      case CommandKind::kRequest:
        static_cast<Op *>(command->owner)->release();
        break;
      case CommandKind::kStreamPoke:
      case CommandKind::kStreamRelease:
        static_cast<Stream *>(command->owner)->release();
        break;
      case CommandKind::kMemDropped:
        leak ? static_cast<Mem *>(command->owner)->release()
             : drop_mem(static_cast<Mem *>(command->owner));
        break;
      case CommandKind::kMemUnused: {
        auto *mem = static_cast<Mem *>(command->owner);
        if (!leak) {
          free_mem(mem);
          break;
        }
        if (mem->kind == MemKind::kPinned) runtime_->pinned.remove(mem);
        mem->uncount();
        delete mem;
        break;
      }
    }
    command = next;
  }
}

}  // namespace aiocann::core
