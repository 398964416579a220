// lane.hpp: the one thread that makes the submitting, creating and freeing ACL calls of a device.
//
// It has an inbox and no lock: everything below that is not marked belongs to its thread.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "acl/api.hpp"
#include "core/inbox.hpp"
#include "core/inquiry.hpp"
#include "core/op.hpp"
#include "core/pool.hpp"
#include "core/spin.hpp"
#include "core/staging.hpp"

namespace aiocann::core {

/// ACL_HBM_MEM. (Chips without HBM answer for their DDR.)
constexpr auto kHbmMemory = static_cast<aclrtMemAttr>(1);

class Lane {
 public:
  explicit Lane(Device *device);
  ~Lane();

  // ---- Thread: opener and closer ----
  void start();
  /// Blocks until the device is open or has failed to open (Device::open_error).
  void wait_open();
  /// Asks for the end; again, with another deadline, while it drains. Then wait_drained, stop, wait_stopped, finish and join, each on every lane before the next.
  void ask_to_close(int64_t deadline_ms);
  /// Blocks until every stream is drained or the deadline has passed. Streams that were stuck then: those whose work
  /// the driver has dropped, and those that it could not abort. False, as of the waits below: the lane does not come
  /// back from a call of the driver. Then nothing more may be asked of it but leave_behind.
  bool wait_drained(uint64_t *aborted, uint64_t *stuck);
  /// No more commands are taken. Afterwards no lane touches what is another's.
  void stop();
  bool wait_stopped();
  /// leak: something is stuck on some device, so neither memory nor the device may be given back.
  void finish(bool leak);
  bool join();
  bool left_behind() const { return left_.load(std::memory_order_acquire); }
  /// Instead of finish and join. All that the thread may still touch is leaked; the ops that are not its own fail.
  void leave_behind(uint64_t *given_up);
  /// What went wrong in closing, and how many ops were given up. After join.
  Status close_status() const { return close_status_; }
  uint64_t ops_given_up() const { return ops_given_up_; }

  // ---- Thread: any; lock-free ----

  /// False: the lane has ended, and the command still belongs to the caller.
  bool push(Command *command);
  /// As push, of a part of a staged copy; when the lane has ended nobody waits for it any more. Owns: part.
  void push_or_drop(Op *part);
  /// op has passed: its chunk goes on to a copier, another lane or back to the staging memory.
  void finish_passed(Op *op, Settler &settler);
  /// Something that held streams up may have gone: staging memory, an event. Or the lane is to close.
  void nudge();

  // ---- Thread: lane ----
  const acl::Api &api() const { return *api_; }
  Stream *internal() const { return internal_; }  ///< fixed once open; any thread
  Device *device() const { return device_; }
  Status driver_error(int32_t code, const char *call) const;
  /// A block for mem, growing the pool if need be.
  Status allocate(Mem *mem, uint64_t stream, Pool::By by);
  /// Pinned memory from the driver; on its being out of memory, what is kept for nothing is given up first.
  Status pinned(uint64_t nbytes, void **address);
  void unpin(void *address);
  void make_ready(Stream *stream);

 private:
  enum class Verdict { kGone, kHeld };
  /// Whose the lane's state is: while its thread is in a call that may never end, whoever loses patience may take it.
  enum class Hands : uint8_t { kLane, kLent, kTaken };
  /// Thrown through the thread's own frames when its state was taken: it touches nothing any more.
  struct Left {};
  friend class GraphLaunch;

  /// Makes a call that may never end. The lane's state is lent meanwhile, so call() leaves alone what others look at
  /// then: FIFOs, streams_, settler_ and what is in hand. Throws Left.
  template <typename Call>
  auto lent(Call &&call) {
    if (!may_lend_) return call();
    may_lend_ = false;
    hands_.store(Hands::kLent, std::memory_order_release);
    auto answer = call();
    Hands mine = Hands::kLent;
    if (!hands_.compare_exchange_strong(mine, Hands::kLane, std::memory_order_acq_rel))
      throw Left{};
    may_lend_ = true;
    steps_.store(steps_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    return answer;
  }

  void run();
  Status open_device();
  void close_device();
  void close_stream(Stream *stream, bool leak);
  void forget_waiting();
  /// leak: without a call of the driver, by whatever thread.
  void abandon(Command *first, bool leak);
  void fail_fifo(Stream *stream, const Status &why, bool leak, uint64_t *given_up);
  bool reaches(const bool *what, const std::atomic<int64_t> &deadline_ms);
  /// Back from a call, after the closer has left.
  void end_late();
  /// A stream of the lane's own, subscribed: for its context, which it notes.
  Status open_internal();

  // starting the device anew (lane_reset.cpp)
  void begin_reset(Op *op);
  /// True: something was done.
  bool step_reset();
  void reset_device();
  bool flush_reset();
  Status reopen_device();
  void end_reset(const Status &status);
  bool dispatch_inbox();
  void dispatch(Command *command);
  bool run_ready();
  void wait_for_work();
  /// Runs the watchdog when it is time, and then answers 0; otherwise the milliseconds until then, -1: none.
  int64_t watch();
  /// True: something is under way that no callback will tell of.
  bool watchdog();
  void unstick(Stream *stream);
  Answer ask_driver(Stream *stream, Op *op, bool thorough);
  bool all_drained();
  void abort_stuck(uint64_t *aborted, uint64_t *stuck);

  // commands (lane.cpp)
  void enqueue(Op *op);
  void begin(Op *op);
  void create_stream(Op *op);
  /// Where a stream has gone, those that there was no room for try again. True: there were some.
  bool retry_creating();
  void fail_creating(const Status &why);
  void allocate_pinned(Op *op);
  /// A block of the runtime's pinned memory.
  Status pinned_block(uint64_t nbytes, Block **block);
  /// Gives the driver what this runtime has pinned for nobody, of staging memory this lane's. True: there was some.
  bool trim_pinned();
  void free_left_pinned();
  void memory_info(Op *op);
  void release_stream(Stream *stream);
  void destroy_stream(Stream *stream, Status *status);
  void destroy_raw(Stream *stream, Status *status);
  void drop_mem(Mem *mem);
  void free_mem(Mem *mem);
  void answer_request(Op *op);

  // the head of a stream (lane_submit.cpp)
  void run_stream(Stream *stream);
  Verdict try_head(Stream *stream, Op *op);
  Verdict submit_copy(Stream *stream, Op *op);
  Verdict submit_memset(Stream *stream, Op *op);
  Verdict submit_mark(Stream *stream, Op *op);
  Verdict submit_wait(Stream *stream, Op *op);
  Verdict submit_graph(Stream *stream, Op *op);
  Verdict submit_close(Stream *stream, Op *op);
  /// The memory of op's operands is there. Not: held, or failed (op->status).
  bool ready_memory(Stream *stream, Op *op, Verdict *verdict);
  bool ready_mem(Stream *stream, Op *op, Mem *mem, Verdict *verdict);
  bool ready_peer(Stream *stream, Op *op, Verdict *verdict);
  bool ask(Device *other, Op *op);
  Status enable_peer(Device *other);
  bool held_until_drained(Stream *stream);
  bool ready_event(Stream *stream, Op *op, Verdict *verdict);
  Verdict fail_head(Stream *stream, Op *op, const Status &why);
  /// After the ACL calls of op: notes its tasks, appends it and, if need be, places its marker. op may be gone
  /// afterwards.
  void submitted(Stream *stream, Op *op, uint32_t n_tasks, bool wants_marker);
  /// Nothing of op went to the device (or what did has markers of its own): it passes after its predecessors.
  Verdict not_on_device(Stream *stream, Op *op);
  void tell_submit_waiters(Op *mark);
  /// Sees to it that we are told when the device is past op, whose event has been recorded unless has_event says no.
  void place_marker(Stream *stream, Op *op, bool has_event, Status trouble);
  /// Looks at the last commands of all streams; true: the device is past some. last: the others get their markers.
  bool look(bool last);
  bool look_at(Stream *stream, bool last);
  /// Something is to follow the last command of stream.
  void end_look(Stream *stream);
  void drop_looks();
  /// False: for want of an event, later.
  bool place_probe(Stream *stream);
  void probe_unmarked();
  /// Lets what is launched on marker_raw from now on wait for event, of an adopted stream.
  Status follow(Stream *stream, const NativeEvent *event);
  void rescue(Stream *stream, Op *op, const Status &why);

  // staged copies (lane_staged.cpp)
  Verdict small_to_device(Stream *stream, Op *op);
  Verdict small_to_host(Stream *stream, Op *op);
  Verdict staged_to_device(Stream *stream, Op *op);
  Verdict staged_to_host(Stream *stream, Op *op);
  Verdict staged_across(Stream *stream, Op *op);
  Verdict host_to_host(Stream *stream, Op *op);
  void step(Op *part);
  void cross_read(Op *part);
  void cross_write(Op *read);
  Status refusal() const;
  void part_done(Op *part);
  Op *make_part(OpKind kind, Op *parent, Stream *stream, Chunk *chunk, uint64_t offset,
                uint64_t nbytes);

  Device *const device_;
  Runtime *const runtime_;
  const acl::Api *api_ = nullptr;
  std::thread thread_;
  Inbox<Command> inbox_;

  Stream *internal_ = nullptr;
  std::vector<Stream *> streams_;  ///< open ones. Owns: a reference each
  std::deque<Stream *> ready_;
  std::vector<Stream *> unmarked_;
  std::vector<Stream *> without_event_;  ///< held for want of an event
  std::deque<Op *> creating_;            ///< held until a stream that is being closed has gone
  bool has_room_ = false;                ///< such a stream has gone
  std::vector<Stream *> looked_at_;      ///< those with a Stream::looked_at. Owns: a reference each
  Staging chunks_, slots_;
  Settler settler_;
  Spin spin_;
  // In hand while a call is made: where it does not return, they have to be settled, or leaked, too.
  Command *rest_ = nullptr;  ///< taken from the inbox, not yet dispatched
  Op *device_op_ = nullptr;  ///< of no stream
  const Op *head_ =
      nullptr;            ///< of a stream: the driver may have its operands. Only to be compared
  bool may_lend_ = true;  ///< not in a call already, and not closing the device
  int64_t next_watch_ms_ = 0;

  enum class ResetStep : uint8_t { kNone, kStop, kFlush };
  struct {
    ResetStep step = ResetStep::kNone;
    Op *op = nullptr;
    int64_t deadline_ms = 0;
    bool is_lost = false;  ///< the driver says that the device is not there
    Status why;            ///< what its streams' commands fail with
    Status failed;         ///< what the driver said
  } reset_;

  // closing
  bool gave_up_ = false;  ///< nothing more is submitted. Thread: lane
  std::atomic<bool> closing_{false}, stop_asked_{false}, left_{false};
  std::atomic<Hands> hands_{Hands::kLane};
  std::atomic<uint64_t> steps_{0};  ///< tells the closer that the thread gets on
  std::atomic<int64_t> deadline_ms_{0};
  std::mutex gate_;  // guards the next two lines; a leaf
  std::condition_variable gate_changed_;
  bool opened_ = false, drained_ = false, stopped_ = false, finishing_ = false, leak_ = false,
       ended_ = false;
  uint64_t aborted_streams_ = 0, stuck_streams_ = 0;
  Status close_status_;
  uint64_t ops_given_up_ = 0;
};

/// Of a clock that only goes forward.
int64_t now_us();
int64_t now_ms();

}  // namespace aiocann::core
