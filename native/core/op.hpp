// op.hpp: the record of one command, from enqueueing to settling.
//
// Who may touch what: the enqueueing thread fills the arguments; then the op travels through its lane's inbox
// and the lane owns it; from submission on, the part marked "stream" belongs to whoever holds the stream's lock;
// after publish() nothing but the references changes.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "aiocann.h"
#include "core/list.hpp"
#include "core/loop.hpp"
#include "core/stack.hpp"
#include "core/state_word.hpp"
#include "core/status.hpp"

namespace aiocann::core {

using Runtime = ::aiocann_runtime;
using Device = ::aiocann_device;
using Stream = ::aiocann_stream;
using Mem = ::aiocann_mem;
class Lane;
struct Chunk;
struct NativeEvent;

/// What lies in a lane's inbox. `owner` is what the kind says.
enum class CommandKind : uint8_t {
  kOp,             ///< Op: newly enqueued
  kStep,           ///< Op: a part of a staged or host copy that comes back to, or crosses, a lane
  kRequest,        ///< Op: its lane asks this lane for memory, or for peer access
  kStreamPoke,     ///< Stream: its head may be able to go now
  kStreamRelease,  ///< Stream: its user's reference has gone
  kMemDropped,     ///< Mem: no user refers to it any more, ops do
  kMemUnused       ///< Mem: nobody refers to it any more
};

struct Command {
  Command *next = nullptr;
  CommandKind kind = CommandKind::kOp;
  void *owner = nullptr;
};

enum class OpKind : uint8_t {
  // of a stream, in its order
  kMemcpy,
  kMemset,
  kMark,
  kWait,
  kGraph,
  kStreamClose,
  // of a device or runtime
  kOpen,
  kShutdown,
  kStreamCreate,
  kPinned,
  kAllocate,
  kMemoryInfo,
  kReset,
  // internal: never seen by users and not counted
  kProbe,  ///< nothing but a marker
  kChunkToDevice,
  kChunkToHost,  ///< one chunk of a staged copy
  kCrossRead,
  kCrossWrite,  ///< one chunk between devices that cannot reach each other
  kHostSlices   ///< a copier's share of a copy from host to host
};

/// How a copy is carried out.
enum class CopyPlan : uint8_t { kDirect, kPeer, kToDevice, kToHost, kCross, kHost };

/// One operand. Owns: a use of mem.
struct Side {
  Mem *mem = nullptr;
  uint64_t offset = 0;
  char *host = nullptr;  ///< ordinary or pinned host memory; null for device memory
};

}  // namespace aiocann::core

struct aiocann_op {
 public:
  using Op = aiocann_op;
  using OpKind = aiocann::core::OpKind;
  using Status = aiocann::core::Status;

  /// One reference, the core's, given up when the op has settled (or by who used an internal op last).
  aiocann_op(OpKind op_kind, aiocann::core::Runtime *rt, aiocann::core::Stream *on,
             aiocann_loop *home_loop, bool is_notified);

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release();

  bool is_internal() const { return kind >= OpKind::kProbe; }
  bool is_mark() const { return kind == OpKind::kMark || kind == OpKind::kStreamClose; }
  const char *name() const;

  /// Fixes the outcome: from here on aiocann_op_state answers. Delivery follows separately (Settler).
  void publish();
  bool settled() const { return state_.settled(); }
  int32_t state() const { return state_.outcome(); }
  void abandon();
  void fail(const Status &why) {
    if (status.is_ok()) status = why;
  }

  // ---- set at enqueueing ----
  aiocann::core::Command command;  ///< its place in an inbox: as new, and as a step
  const OpKind kind;
  uint8_t mark_kind = 0;
  aiocann::core::CopyPlan plan{};
  const bool notify;
  std::atomic<uint8_t> path{AIOCANN_PATH_NONE};
  int32_t value = 0;   ///< of memset; priority of a stream
  int32_t blocks = 0;  ///< of a copy: the quantized dtype whose form changes on the way; 0: none
  const uint64_t id;
  aiocann::core::Runtime *const runtime;  ///< Owns: one reference
  aiocann::core::Stream *const stream;    ///< Owns: one reference, where not null
  aiocann::core::Side dst, src;
  uint64_t nbytes = 0;
  aiocann::core::Device *foreign =
      nullptr;  ///< whose memory it uses, where that is not its stream's; counted there
  aiocann_op *mark = nullptr;      ///< of a wait. Owns: one reference
  aiocann_graph *graph = nullptr;  ///< Owns: one reference
  aiocann::core::Delivery home;
  aiocann::core::Stack<aiocann::core::Delivery> watchers;

  // ---- lane ----
  aiocann_op *fifo_next = nullptr;
  aiocann::core::Command request;  ///< to another lane, while the op is held at its stream's head
  std::atomic<bool> requested{false};     ///< the request is under way
  aiocann::core::Status request_status;   ///< written before requested is cleared
  aiocann_op *parent = nullptr;           ///< of a chunk or slice. Owns: one reference
  aiocann::core::Chunk *chunk = nullptr;  ///< pinned staging memory held
  uint64_t assigned = 0;                  ///< bytes of a staged copy given to chunks
  uint32_t parts = 0;                     ///< chunks or slices under way
  std::atomic<uint64_t> host_cursor{0};   ///< of a copy from host to host
  bool awaits_submission = false;         ///< of a wait: submit_waiter is in its mark's list

  // ---- stream: under its lock ----
  aiocann::core::Links<aiocann_op> links;  ///< in Stream::submitted or Stream::passed
  uint64_t sequence = 0;
  bool on_device = false;  ///< false: nothing of it was launched, it passes with its predecessor
  bool has_tasks = false;
  bool is_passed = false;
  bool has_marker = false;
  bool awaits_callback = false;     ///< something will tell that its marker is reached
  bool found_by_watchdog = false;   ///< its callback counts as lost, unless it comes after all
  bool depends_registered = false;  ///< of a wait: passes only when mark_known
  bool has_host_part = false;       ///< counted in Stream::host_parts
  uint32_t last_task = 0;
  uint32_t tasks = 0;       ///< in the driver's queue
  uint32_t host_left = 0;   ///< host parts not done
  uint32_t event_pins = 0;  ///< lanes that are just making a wait for the event
  aiocann::core::NativeEvent *event = nullptr;
  /// Of a wait: its mark's event, where that has to outlive the wait. Owns: a use of it
  aiocann::core::NativeEvent *waited_event = nullptr;
  /// Of a graph: the last task of each node that launched any.
  std::vector<std::pair<int32_t, uint32_t>> node_tasks;
  std::vector<aiocann::core::Mem *>
      extra;  ///< of a graph: scratch and workspaces. Owns: a use of each

  // ---- wait: whether the mark is settled, and its error ----
  std::atomic<bool> mark_known{false};

  // ---- mark: how far it is ----
  std::atomic<bool> mark_submitted{false};  ///< its event has been recorded, or never will be
  bool mark_needs_host = false;  ///< host parts before it: a wait is held until it settles
  bool event_dropped =
      false;  ///< the device will never reach its event: who waits there, waits for ever
  aiocann::core::Stack<aiocann::core::Delivery> submit_waiters;
  aiocann::core::Delivery submit_waiter;  ///< of a wait, in its mark's list
  aiocann::core::Delivery settle_waiter;  ///< of a wait, in its mark's watchers

  // ---- outcome ----
  aiocann::core::Status status;  ///< lane, then stream, then final
  std::atomic<void *> result{nullptr};
  void (*discard_result)(void *) = nullptr;
  uint64_t values[2] = {0, 0};  ///< answers; in [0] the handle of a stream to adopt
  std::atomic<uint64_t> timestamp_us{0};
  bool buried = false;  ///< its operands are leaked
  // One link for each list it can be in at once.
  aiocann_op *work_next = nullptr;     ///< passed ops of a Settler; jobs of the copiers
  aiocann_op *deliver_next = nullptr;  ///< settled ops of a Settler
  aiocann_op *report_next = nullptr;   ///< markers reached, of a reactor

 private:
  ~aiocann_op();
  std::atomic<uint32_t> references_{1};
  aiocann::core::StateWord<> state_;
};

namespace aiocann::core {

/// Collects what follows from ops having passed, and does it without a lock held: unstaging, deliveries, the
/// streams that can go on. One per batch of a thread; run() leaves nothing undone.
class Settler {
 public:
  ~Settler() { run(); }
  Settler() = default;
  Settler(const Settler &) = delete;
  Settler &operator=(const Settler &) = delete;

  /// op has been published: deliver it.
  void settled(Op *op) {
    op->deliver_next = nullptr;
    (deliver_ != nullptr ? deliver_last_->deliver_next : deliver_) = op;
    deliver_last_ = op;
  }
  /// op has passed, and its staging memory has to be dealt with.
  void passed(Op *op) {
    op->work_next = nullptr;
    (passed_ != nullptr ? passed_last_->work_next : passed_) = op;
    passed_last_ = op;
  }
  /// An internal op that will not pass: its staging memory goes back.
  void dropped(Op *op) {
    op->work_next = nullptr;
    (dropped_ != nullptr ? dropped_last_->work_next : dropped_) = op;
    dropped_last_ = op;
  }
  void run();

 private:
  void deliver(Op *op);
  Op *deliver_ = nullptr, *deliver_last_ = nullptr;
  Op *passed_ = nullptr, *passed_last_ = nullptr;
  Op *dropped_ = nullptr, *dropped_last_ = nullptr;
};

/// The device may use the operands of op for ever: they, and the record, are never freed. Before settling.
void bury(Op *op);

/// An internal op ends without having passed: gives its staging memory and its record back.
void drop_part(Op *part);

/// For ops that are not of a stream: publishes and delivers.
void settle(Op *op, const Status &status);

using OpList = List<Op, &Op::links>;

}  // namespace aiocann::core
