// lane_reset.cpp: starting a device anew.
//
// All handles of the device were closed, by its epoch, when the reset was asked for. Then, a step whenever the one
// before is over, with the lane at work as always in between:
//   stop     no command is submitted any more; what the driver can abort has failed, what is not yet submitted
//            too, and with it what waits for it on other devices. Until no other device works with this one's memory.
//   reset    the driver resets the device, so nothing of it runs any more: what is left fails
//   flush    every command of its streams settles; copiers finish what they are at
//   reopen   a new context, internal stream and reactor
#include <algorithm>

#include "core/device.hpp"
#include "core/lane.hpp"
#include "core/memory.hpp"
#include "core/reactor.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"

namespace aiocann::core {
namespace {

/// How long other devices may go on working with the memory that is to go.
constexpr int64_t kOthersMs = 10000;

}  // namespace

void Lane::begin_reset(Op *op) {
  look(true);
  reset_.op = op;
  reset_.step = ResetStep::kStop;
  reset_.deadline_ms = now_ms() + kOthersMs;
  reset_.is_lost = false;
  reset_.why = Status::error(AIOCANN_E_CLOSED,
                             "Device %d was reset, which closed all its streams and buffers.",
                             device_->index);
  reset_.why.mutate().device = device_->index;
  std::vector<Stream *> all = streams_;
  if (internal_ != nullptr && !device_->lost()) all.push_back(internal_);
  for (Stream *stream : all) {
    stream->closing.store(true, std::memory_order_release);
    stream->unmarked = 0;
    stream->aborted = true;  // nothing is submitted to it any more
    stream->refuse_pins();
    stream->stopped = false;
    if (!stream->adopted() && api_->aclrtStreamAbort != nullptr) {
      const int32_t code = api_->aclrtStreamAbort(stream->raw);
      stream->stopped = code == 0;
      reset_.is_lost = reset_.is_lost || code == ACL_ERROR_RT_LOST_HEARTBEAT;
    }
    if (stream->stopped) stream->work_lost(reset_.why, settler_);
    if (stream->fifo_first != nullptr) stream->fail(stream->fifo_first, reset_.why);
    make_ready(stream);
  }
}

bool Lane::step_reset() {
  switch (reset_.step) {
    case ResetStep::kNone:
      return false;
    case ResetStep::kStop: {
      bool quiet = !internal_->pinned();
      bool all_stopped = device_->lost() || internal_->stopped;
      for (Stream *stream : streams_) {
        quiet = quiet && !stream->pinned();
        all_stopped = all_stopped && stream->stopped;
      }
      const bool used = device_->foreign_uses.load(std::memory_order_acquire) > 0;
      const bool late = now_ms() >= reset_.deadline_ms;
      // Nobody works with the memory of a lost device, and what they wait for there will not come.
      const bool waits = !quiet || (used && !reset_.is_lost);
      if (waits && !late) return false;
      // What could not be stopped may be what the others wait for: they do not work with the memory then.
      if (used && all_stopped) {
        end_reset(Status::error(AIOCANN_E_TIMEOUT,
                                "Device %d was not reset: other devices still copy from or to it. "
                                "Its streams are closed; reset it again when they are done.",
                                device_->index));
        return true;
      }
      reset_device();
      return true;
    }
    case ResetStep::kFlush:
      return flush_reset();
  }
  return false;
}

void Lane::reset_device() {
  Completion &completion = device_->reactor->completion();
  if (!device_->lost()) {
    // What has been called back is taken first, where a last callback can follow it.
    if (internal_->stopped) {
      device_->reactor->stop(internal_->raw);
      api_->aclrtStreamAbort(internal_->raw);  // should it not have come
    }
    for (Stream *stream : streams_) completion.unsubscribe(stream->marker_raw);
    completion.unsubscribe(internal_->raw);
    device_->reactor->stop(nullptr);
  }
  Status failed;
  if (api_->aclrtResetDeviceForce == nullptr) {
    failed = Status::error(AIOCANN_E_UNSUPPORTED, "aclrtResetDeviceForce is not in this CANN.");
  } else if (const int32_t code = api_->aclrtResetDeviceForce(device_->index); code != 0) {
    // An earlier reset got as far as this, but could not open the device again: it is closed already.
    if (code != ACL_ERROR_RT_CONTEXT_RELEASE_ERROR || !device_->lost()) {
      failed = driver_error(code, "aclrtResetDeviceForce");
    }
  }
  // From here on nothing of the device runs, if the driver could; else nothing is known of it.
  device_->apply_faults();
  std::vector<Stream *> all = streams_;
  if (!device_->lost()) all.push_back(internal_);
  for (Stream *stream : all) {
    stream->gone = true;
    stream->aborted = false;
    if (failed.is_ok() || stream->stopped) {
      stream->work_lost(reset_.why, settler_);
    } else {
      uint64_t n_ops = 0;
      stream->give_up(reset_.why, false, settler_, &n_ops);
    }
    make_ready(stream);
  }
  internal_->aborted = true;  // parts of others' copies are refused until it is there again
  settler_.run();
  device_->events.forget_all();
  device_->pool.condemn();
  for (const auto &other : runtime_->devices) {
    device_->peer_state(other->position).store(0, std::memory_order_release);
    if (other->is_open()) other->peer_state(device_->position).store(0, std::memory_order_release);
  }
  reset_.failed = failed;
  reset_.step = ResetStep::kFlush;
}

bool Lane::flush_reset() {
  bool drained = internal_->drained() && ready_.empty();
  for (Stream *stream : streams_) {
    if (!stream->drained() || stream->fifo_first != nullptr) drained = false;
  }
  if (!drained) return false;
  const std::vector<Stream *> streams = streams_;
  Status ignored;
  for (Stream *stream : streams) destroy_stream(stream, &ignored);
  device_->unregister_stream(internal_);
  device_->reactor->completion().forget(internal_);
  if (reset_.failed.is_ok()) reset_.failed = reopen_device();
  end_reset(reset_.failed);
  return true;
}

Status Lane::reopen_device() {
  const acl::Api &api = *api_;
  if (const int32_t code = api.aclrtSetDevice(device_->index); code != 0)
    return driver_error(code, "aclrtSetDevice");
  device_->reactor->start();
  if (Status status = open_internal(); !status.is_ok()) {
    device_->reactor->stop(nullptr);
    api.aclrtResetDevice(device_->index);
    return status;
  }
  internal_->aborted = internal_->gone = false;
  device_->register_stream(internal_);
  return Status::ok();
}

void Lane::end_reset(const Status &status) {
  Op *op = reset_.op;
  const bool undone = reset_.step == ResetStep::kStop;
  reset_.step = ResetStep::kNone;
  reset_.op = nullptr;
  Status told = status;
  if (status.is_ok()) {
    device_->recovered();
  } else if (!undone) {
    told.mutate().device = device_->index;
    device_->lose(Status::error(AIOCANN_E_CLOSED,
                                "Device %d could not be reset and is out of use: %s Reset it "
                                "again, or start a new process.",
                                device_->index, status.get()->detail));
  }
  if (undone && !device_->lost()) {
    internal_->aborted = internal_->stopped = false;
    internal_->begin_anew(internal_->raw, internal_->driver_id);
  }
  for (Stream *stream : streams_) make_ready(stream);  // to be closed, where it was undone
  device_->resetting.store(false, std::memory_order_release);
  settle(op, told);
}

}  // namespace aiocann::core
