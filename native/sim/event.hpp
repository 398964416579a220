// event.hpp: events. An event is a handle; what streams and threads wait for is one recording of it.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "acl_abi.h"
#include "sim/futex.hpp"
#include "sim/gate.hpp"
#include "sim/model_base.hpp"
#include "sim/ref.hpp"
#include "sim/shared.hpp"

namespace aiocann::sim {

struct Device;
class Stream;

/// One recording, made when aclrtRecordEvent is called and completed when its stream gets there. Waits queued
/// meanwhile keep referring to it, whatever happens to the event afterwards.
struct RecordPoint {
  enum State : uint32_t { kPending, kComplete, kAborted };

  explicit RecordPoint(uint64_t stream) : stream_uid(stream) {}
  void retain() { refs.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  bool is_complete() const { return state.load(std::memory_order_acquire) == kComplete; }
  /// Thread: the worker that runs the recording stream.
  void complete();
  /// The record task was discarded: threads that wait get `code`; streams go on waiting, as on hardware.
  void abort(aclError code);
  /// 0, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, or the code of abort().
  aclError wait(const Deadline &deadline);

  std::atomic<uint32_t> refs{1};
  std::atomic<uint32_t> state{kPending};
  std::atomic<uint32_t> host_waiters{0};
  std::atomic<aclError> abort_code{0};
  uint64_t timestamp_ns = 0;  ///< of the device clock; valid once complete
  const uint64_t stream_uid;  ///< of the recording stream
  Gate gate;

 private:
  void settle(State outcome);
};

/// How an event was made decides what it can do; see the table of events in the ACL manual.
enum class EventKind : uint8_t {
  kDefault,  ///< aclrtCreateEvent: waits snapshot the latest recording; none yet is an error
  kFlag,  ///< aclrtCreateEventWithFlag: with SYNC a flag that really holds waiters until it is recorded
  kEx,  ///< aclrtCreateEventExWithFlag: waits snapshot the latest recording; none yet is no wait
};

/// A slot of the device's event table. The handle dies with aclrtDestroyEvent; the slot lives until the last task
/// that refers to it has gone.
struct Event {
  void retain() { refs.fetch_add(1, std::memory_order_relaxed); }
  void release();

  uint32_t slot_index = 0;
  std::atomic<bool> alive{false};
  std::atomic<uint32_t> refs{0};
  Device *device = nullptr;
  EventKind kind = EventKind::kEx;
  uint32_t flags = 0;

  SpinLock lock;            ///< guards `latest` and the two below
  Ref<RecordPoint> latest;  ///< empty: never recorded
  Ref<ModelBase>
      captured_in;  ///< the capture that recorded it last; it matters while that is going on
  uint32_t captured_node = 0;
  Gate flag;  ///< kFlag: raised by record, lowered by reset, when the stream gets there
  std::atomic<uint32_t> pending_waits{0};
  std::shared_ptr<SharedEvent> shared;  ///< made with IPC: takes the place of `latest`
  /// Used with the EXTERNAL flag in a capture; per direction.
  std::atomic<bool> is_external_record{false}, is_external_wait{false};

  Ref<RecordPoint> latest_point() {
    std::lock_guard<SpinLock> guard(lock);
    return latest;
  }
  bool can_be_waited_for() const;
  /// The capture that the event is recorded in, and the node; empty when there is none or it has ended.
  Ref<ModelBase> capture(uint32_t *node = nullptr);
  void forget_capture() {
    Ref<ModelBase> forgotten;
    std::lock_guard<SpinLock> guard(lock);
    std::swap(captured_in, forgotten);
  }
};

}  // namespace aiocann::sim
