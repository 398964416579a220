// events.hpp: the events behind markers, by whichever maker the driver has.
//
//   ex     aclrtCreateEventExWithFlag: recorded again and again; a wait keeps the recording that it was made with
//   flag   aclrtCreateEventWithFlag: would have to be reset before it is recorded again, and nothing tells whether a
//          wait on another stream is before or behind that; so each serves one marker
//   plain  aclrtCreateEvent: may not be recorded again; each serves one marker
//
// What serves one marker is destroyed when the device is past the marker and past all waits for it.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "acl/api.hpp"
#include "core/op.hpp"
#include "core/stack.hpp"

namespace aiocann::core {

enum class EventMaker : uint8_t { kAuto, kEx, kFlag, kPlain };

/// As AIOCANN_EVENTS says it; null or "": auto. False: there is no such maker.
bool parse_event_maker(const char *text, EventMaker *maker);

struct NativeEvent {
  NativeEvent *next = nullptr;
  void *raw = nullptr;
  size_t place = 0;      ///< in Events::all_
  bool is_dead = false;  ///< the device has been reset. Thread: lane
  bool serves_once = false;
  std::atomic<uint32_t> users{
      0};  ///< the marker; and, of one that serves only it, the waits for it
};

/// The events of one device. Thread: lane, where nothing else is said.
class Events {
 public:
  explicit Events(Device *device) : device_(device) {}
  /// Which maker to use: auto takes the first that the driver has.
  void choose(EventMaker wanted) { maker_ = wanted; }

  /// take() will find one. False: *failure says why, or is ok: the lane will be nudged when one comes back.
  bool ready(Status *failure);
  /// For a marker; null: there is none.
  NativeEvent *take();
  /// The device will wait for it: then, where it serves one marker, it must be let go once more. Thread: any lane.
  bool hold_for_wait(NativeEvent *event);
  /// Thread: any.
  void let_go(NativeEvent *event);
  /// Whoever lacked one has been told: ask again.
  void clear_starved() { starved_.store(false, std::memory_order_seq_cst); }
  /// The device has been reset: none of them is there any more.
  void forget_all();
  /// When closing. What is let go later is nobody's.
  Status destroy_all();

 private:
  int32_t create(void **raw);
  void collect();
  void forget(NativeEvent *event);

  Device *const device_;
  EventMaker maker_ = EventMaker::kAuto;
  NativeEvent *idle_ = nullptr;
  std::vector<NativeEvent *> all_;
  const char *call_ = "";
  Stack<NativeEvent> returned_;
  std::atomic<bool> starved_{false};
};

}  // namespace aiocann::core
