// completion.hpp: how a driver tells that a marker has been reached. There are four families; one of them serves
// all streams of a device.
//
//   callback        aclrtLaunchCallback, which does not hold the stream; run by a thread that takes reports
//   callback-block  the same, holding the stream until the callback has returned
//   host-func       aclrtLaunchHostFunc: the driver has a thread of its own for them
//   query           no callback at all: the markers' events are asked
//
// What a callback is given is a ticket, never an op: a callback that comes after its op has been settled without
// it, its stream destroyed or its runtime closed finds the ticket empty, and touches nothing else.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "acl/api.hpp"
#include "core/op.hpp"
#include "core/stack.hpp"

namespace aiocann::core {

class Reactor;

enum class Family : uint8_t { kAuto, kCallback, kCallbackBlock, kHostFunc, kQuery };

/// As AIOCANN_COMPLETION says it; null or "": auto. False: there is no such family.
bool parse_family(const char *text, Family *family);

struct Ticket {
  Ticket *next = nullptr;
  std::atomic<Op *> op{nullptr};  ///< Owns: a reference
  Op *arrived = nullptr;          ///< taken out of `op` by the callback, on its way to the reactor
  uint64_t stream = 0;            ///< its id. Thread: lane
};

/// The tickets of a device. They are never freed: one whose callback did not come may be called for at any time.
class Tickets {
 public:
  ~Tickets() { close(); }
  /// Thread: lane. Takes over a reference of op.
  Ticket *take(Op *op);
  /// The op of a ticket, with its reference; null: too late. Thread: any. To the winner the ticket belongs.
  static Op *claim(Ticket *ticket);
  /// Claimed before. Thread: any.
  void give_back(Ticket *ticket);
  /// Nobody waits for the callbacks of this stream any more. Thread: lane.
  void cancel(uint64_t stream);
  /// Everything is cancelled; what has been called for may be used by other devices.
  void close();

 private:
  std::vector<Ticket *> all_;  ///< that may be in use
  Ticket *free_ = nullptr;
  Stack<Ticket> returned_;
};

/// One family at work for one device.
class Completion {
 public:
  /// Null: the driver lacks a function that the family needs.
  static std::unique_ptr<Completion> make(Family family, const acl::Api &api, Device *device,
                                          uint64_t thread_id);
  Completion(const acl::Api &api, Device *device) : api_(api), device_(device) {}
  virtual ~Completion() = default;
  Completion(const Completion &) = delete;
  Completion &operator=(const Completion &) = delete;

  // ---- Thread: lane ----
  /// Before the first marker of a stream: an ACL code, and the function it is of in *call.
  virtual int32_t subscribe(void *raw, const char **call) = 0;
  virtual void unsubscribe(void *raw) = 0;
  /// Whether the driver takes what place() launches: launches one that tells nothing, on a stream that is subscribed.
  virtual int32_t probe(void *) { return 0; }
  /// After op's event has been recorded: whatever will tell that it is reached. An ACL code. Takes over a reference
  /// of op, unless it fails.
  virtual int32_t place(Op *op) = 0;
  /// The ACL function behind place().
  virtual const char *call() const = 0;
  /// Whether a marker without an event would never be told of.
  virtual bool needs_event() const { return false; }
  /// Nothing will be told of this stream any more: it is about to be, or has been, destroyed.
  virtual void forget(const Stream *stream) = 0;
  /// Sets *stop and makes a waiting await() return; in the order of the internal stream (null: at once) where that
  /// can be.
  virtual void interrupt(void *internal_raw, std::atomic<bool> *stop) = 0;
  /// After an interrupt: there is another thread.
  virtual void resume(uint64_t thread_id) = 0;
  /// The reactor has ended. What is still told is told to nobody.
  virtual void close() = 0;

  // ---- Thread: the reactor's ----
  /// Waits until markers have been reached, and hands them to settler. False: nothing came for a whole while.
  virtual bool await(Settler &settler) = 0;

 protected:
  const acl::Api &api_;
  Device *const device_;
};

}  // namespace aiocann::core
