// device.hpp: one device of a runtime: its pool, faults, events, lane and reactor.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/events.hpp"
#include "core/op.hpp"
#include "core/pool.hpp"
#include "core/stack.hpp"
#include "core/stream.hpp"

namespace aiocann::acl {
struct Api;
}

namespace aiocann::core {

class Reactor;

/// Registers the process-wide exception callback of a driver, once, and routes what it says to devices.
void route_faults(const acl::Api &api, Device *device);
void unroute_faults(Device *device);
/// The driver is about to be finalized: takes the callback out again.
void forget_faults(const acl::Api &api);

}  // namespace aiocann::core

struct aiocann_device {
 public:
  aiocann_device(aiocann::core::Runtime *rt, int32_t logical_id, int32_t at);
  ~aiocann_device();

  // ---- Thread: any ----
  bool is_open() const { return open_error.is_ok(); }
  /// Counts its resets: what was made in another epoch is closed.
  uint32_t epoch() const { return epoch_.load(std::memory_order_acquire); }
  /// Ok, or why nothing can be asked of it: a reset is under way, or has failed.
  aiocann::core::Status out_of_use() const;
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  /// Closes every handle. False: a reset is under way.
  bool start_reset();
  bool poisoned() const { return poisoned_.load(std::memory_order_acquire); }
  void add_fault(const aiocann::core::FaultRecord &fault);
  /// Hands the faults that have come in to their streams. Before markers are taken.
  void apply_faults();
  void register_stream(aiocann::core::Stream *stream);
  void unregister_stream(aiocann::core::Stream *stream);
  /// Those that are registered, with a reference each.
  std::vector<aiocann::core::Stream *> streams();
  /// Of all that have been told since it was opened. Under a stream's lock.
  void note_first_fault(const aiocann::core::Status &fault, uint64_t op, const char *kind);
  bool first_fault(aiocann::core::Status *fault, uint64_t *op, const char **kind);
  /// why; or, where a call about op was refused because the device has failed before, that failure as its cause.
  aiocann::core::Status explained(const aiocann::core::Status &why, const aiocann::core::Op *op);
  /// Streams may have stopped without a marker to tell: the lane looks soon.
  void raise_alarm();
  /// Whether it was raised since the last time. Thread: lane.
  bool take_alarm() { return alarm_.exchange(false, std::memory_order_acq_rel); }
  /// Peer copies with device `at`: 0 not yet enabled from here, 1 enabled, 2 impossible.
  std::atomic<uint8_t> &peer_state(int32_t at_position) {
    return peers_[static_cast<size_t>(at_position)];
  }
  bool can_access_peer(int32_t at_position) const {
    return peer_matrix[static_cast<size_t>(at_position)] != 0;
  }

  aiocann::core::Runtime *const runtime;  // not owned: devices live as their runtime does
  const int32_t index;                    ///< logical id
  const int32_t position;                 ///< in Runtime::devices
  int32_t physical_id = -1;
  std::string soc_name;
  aiocann::core::Status open_error;
  std::vector<uint8_t> peer_matrix;  ///< by position; fixed once open
  aiocann::core::Pool pool;
  std::unique_ptr<aiocann::core::Lane> lane;
  std::unique_ptr<aiocann::core::Reactor> reactor;
  void *context = nullptr;  ///< the primary one

  aiocann::core::Events events{this};
  /// Callbacks awaited: while there are some, the lane looks for lost ones.
  std::atomic<uint64_t> markers_in_flight{0};

  void resize_peers(size_t n);
  /// A reset has ended, well or not. Thread: lane.
  void recovered();
  void lose(const aiocann::core::Status &why);

  std::atomic<bool> resetting{false};
  /// Ops of other devices' streams that work with memory of this one.
  std::atomic<uint64_t> foreign_uses{0};

 private:
  std::unique_ptr<std::atomic<uint8_t>[]> peers_;
  std::atomic<bool> poisoned_{false}, alarm_{false}, lost_{false};
  std::atomic<uint32_t> epoch_{1};
  mutable std::mutex mutex_;  // guards what is below; a leaf
  std::vector<aiocann::core::FaultRecord> faults_;
  aiocann::core::Status lost_why_;
  aiocann::core::Status first_fault_;
  uint64_t first_fault_op_ = 0;
  const char *first_fault_kind_ = "";
  std::unordered_map<uint32_t, aiocann::core::Stream *>
      streams_;  ///< by the driver's id. Owns: a reference each
  std::atomic<uint32_t> n_faults_{0};
};
