// stream.hpp: a stream as the lane sees it (a FIFO of commands not yet submitted) and as the reactor sees it
// (ops submitted, in order, not yet passed or not yet settled).
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/constants.hpp"
#include "core/op.hpp"

namespace aiocann::core {

/// Tasks of one stream that may be in the driver at once. Real queues hold 1024 or more; what is beyond waits
/// in our own FIFO, where it blocks nobody.
constexpr uint32_t kStreamCredit = 512;

/// A failure that the driver's exception callback told us.
struct FaultRecord {
  uint32_t stream_id, task_id;
  int32_t code;
};

/// The failure of op that follows from the failure of another one.
Status predecessor(const Status &fault, uint64_t cause_op, const char *cause_kind, const Op *op);

}  // namespace aiocann::core

struct aiocann_stream {
 public:
  using Op = aiocann_op;
  using Status = aiocann::core::Status;
  using Settler = aiocann::core::Settler;

  /// marker_stream: null for our own. Another library's stream gets no callbacks (it may have subscribed its own);
  /// one of ours waits for its events and has them instead.
  aiocann_stream(aiocann::core::Device *on, void *raw_stream, int32_t driver_id, bool is_internal,
                 void *marker_stream = nullptr);

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release();

  // ---- Thread: any ----

  /// The marker of op has been reached by the device: settles what that settles.
  void marker_passed(Op *op, Settler &settler);
  /// The same, found out by asking, when the callback should have come long ago.
  void callback_missing(Op *op, Settler &settler);
  /// Something that a passed op waited for has happened (a mark of another stream, a host part).
  void advance(Settler &settler);
  void host_part_done(Op *op, Settler &settler);
  /// The driver reports that a task of this stream failed on the device.
  void attach_fault(const aiocann::core::FaultRecord &fault);
  /// The driver answers a question about op with a fault: it is op's, unless somebody has been told of one.
  void fault_seen(Op *op, int32_t code);
  /// The device does nothing more of what has been submitted, because of code: all of it fails, and passes.
  /// code 0: it waits_in_vain, and so has a failure already.
  void work_dropped(int32_t code, Settler &settler);
  /// An op whose owner is not this stream's list (a staged copy being assembled) has failed.
  void fail(Op *op, const Status &why);
  bool failed(Op *op);
  void add_host_part(Op *op);
  /// The event of op, which stays its until unpinned; null: op has passed, there is nothing to wait for.
  aiocann::core::NativeEvent *pin_event(Op *op);
  void unpin_event(Op *op);
  bool faulted() const { return faulted_.load(std::memory_order_acquire); }
  bool adopted() const { return marker_raw != raw; }
  bool idle() const { return unsettled.load(std::memory_order_acquire) == 0; }
  /// Makes every op that is not settled fail: the runtime has given up on them. Unless the device has stopped
  /// working on this stream, what they use is never freed.
  void give_up(const Status &why, bool device_has_stopped, Settler &settler, uint64_t *n_ops);
  /// The reset of the device took all that has been submitted: it fails because of why, and passes.
  void work_lost(const Status &why, Settler &settler);
  /// From now on nobody gets hold of an event; pinned(): somebody still has one.
  void refuse_pins();
  bool pinned();
  bool has_passed(const Op *op);
  /// Of the internal stream, after a reset: another stream of the driver.
  void begin_anew(void *raw_stream, int32_t stream_id);
  /// Asks the lane to look at this stream's head.
  void poke();

  // ---- Thread: lane ----

  /// op is in the driver's queue, or (not on_device) will pass as soon as its predecessors have.
  void append(Op *op, Settler &settler);
  /// Nothing submitted is left unsettled. False: the lane will be poked when that is so.
  bool drained();
  /// False: too many tasks in the driver; the lane will be poked when some have passed.
  bool has_credit();
  /// Where a lost callback would show: the oldest op with a marker that has not passed. Owns: a reference.
  Op *oldest_marker();
  /// The device waits for what it will never reach, with nothing before it that could still be running.
  bool waits_in_vain();
  /// The failure that no op carried to its user, once.
  Status take_unreported();

  aiocann::core::Device *const device;
  void *raw;         ///< aclrtStream; as the next two, fixed but for begin_anew
  void *marker_raw;  ///< the stream that is subscribed, where callbacks are launched
  int32_t driver_id;
  const uint64_t id;  ///< unique in the process: a key that is never reused, unlike the address
  const bool internal;
  const uint32_t epoch;              ///< of the device when it was made
  std::atomic<bool> closing{false};  ///< no new commands
  std::atomic<uint64_t> unsettled{0};

  aiocann::core::Command poke_command, release_command;
  std::atomic<bool> poke_queued{false};

  // ---- Thread: lane only ----
  Op *fifo_first = nullptr, *fifo_last = nullptr;
  bool is_ready = false;  ///< in the lane's ready list
  bool destroyed = false;
  bool aborted = false;       ///< by us, when closing: the device has dropped its work
  bool stopped = false;       ///< by a reset: the device has dropped its work
  bool gone = false;          ///< the reset took it from the driver
  bool wait_refused = false;  ///< by the driver
  bool stalled = false;       ///< the device waits in vain, and could not be made to stop
  bool wants_marker = false;  ///< in the lane's list of streams with unmarked work
  uint32_t unmarked = 0;      ///< commands submitted since the last marker
  Op *looked_at =
      nullptr;  ///< the last one submitted, still without its callback. Owns: a reference
  uint32_t chunks_held = 0, slots_held = 0;
  aiocann::core::Mem *workspace = nullptr;
  aiocann::core::Constants constants;
  uint64_t watched =
      0;  ///< by the watchdog: id of the op whose event was seen complete once already

 private:
  ~aiocann_stream();
  void advance_locked(Settler &settler);
  void note_time(Op *op);
  void blame_locked(Op *op, const aiocann::core::FaultRecord &fault);
  bool fault_known_locked(const Op *up_to) const;
  void take_fault_locked(const Status &fault, uint64_t op, const char *kind);
  void pass_locked(Op *op, Settler &settler);
  void settle_passed_locked(Settler &settler);

  std::atomic<uint32_t> references_{1};
  std::atomic<bool> faulted_{false};

  std::mutex mutex_;                 // a leaf, but for pushes to lock-free lists
  aiocann::core::OpList submitted_;  ///< in order; not passed
  aiocann::core::OpList passed_;     ///< passed, not settled
  uint64_t next_sequence_ = 0;
  uint64_t passed_sequence_ = 0;
  uint32_t tasks_in_driver_ = 0;
  uint32_t host_parts_ = 0;
  bool wants_drained_ = false, wants_credit_ = false;
  bool pins_refused_ = false;
  uint32_t pins_ = 0;
  bool work_dropped_ = false;  ///< nothing submitted waits for anything any more
  Status fault_;  ///< of the first op that the device failed; later ones fail because of it
  uint64_t fault_op_ = 0;
  const char *fault_kind_ = "";
  Status unreported_;
  uint32_t last_appended_task_ = 0;
  bool knows_appended_task_ = false;
  /// Faults of tasks whose op is still being submitted. Tiny: one op is submitted at a time.
  std::vector<aiocann::core::FaultRecord> early_faults_;
};
