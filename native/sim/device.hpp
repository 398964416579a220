// device.hpp: devices and contexts of the simulated machine.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "acl_abi.h"
#include "sim/arena.hpp"
#include "sim/config.hpp"
#include "sim/event.hpp"
#include "sim/notify.hpp"
#include "sim/slots.hpp"

namespace aiocann::sim {

class HostFuncThread;
class Stream;
struct Device;

/// How long a program's thread spins before it sleeps in a synchronisation.
constexpr uint64_t kHostSpinNs = 20000;
/// The process is exiting: no worker runs any more, so nothing may wait for one.
bool machine_is_stopping();

/// Slots are taken again as late as possible, and `alive` tells a destroyed context.
struct Context {
  uint32_t slot_index = 0;
  std::atomic<bool> alive{false};
  Device *device = nullptr;
  bool is_primary = false;
  Stream *default_stream = nullptr;

  std::mutex mutex;                            ///< guards the two below
  std::vector<Stream *> streams;               ///< the default stream included
  std::shared_ptr<HostFuncThread> host_funcs;  ///< made by the first aclrtLaunchHostFunc

  std::mutex capture_mutex;                ///< over beginning, joining and ending captures
  std::atomic<uint32_t> captures[3] = {};  ///< that are going on, by mode

  std::atomic<bool> stop_on_failure{false};
  std::atomic<aclError> stop_error{0};  ///< the first failure since; nothing is accepted any more

  /// A task failed under STOP_ON_FAILURE: every stream of the context drops what it has. Thread: a worker.
  void stop(aclError code);
};

struct Device {
  explicit Device(int index)
      : index(index),
        streams(kStreamCapacity),
        events(kEventCapacity),
        notifies(kNotifyCapacity),
        memory(index) {}

  const int index;  ///< logical id; programs see it through ASCEND_RT_VISIBLE_DEVICES

  std::mutex mutex;  ///< guards opening and closing: the two below
  std::atomic<Context *> primary{nullptr};
  uint32_t primary_refs = 0;
  std::atomic<uint32_t> n_contexts{0};

  SlotTable<Stream> streams;
  SlotTable<Event> events;
  SlotTable<Notify> notifies;
  Arena memory;
  /// Bit p: this device may reach the memory of device p.
  std::atomic<uint64_t> peers_enabled{0};

  /// Of aiocann_sim_lose: the code that everything answers, 0: the device is well.
  std::atomic<aclError> lost{0};
  std::atomic<bool> lost_for_ever{false};  ///< a reset does not bring it back

  // The gate of aiocann_sim_hold.
  std::atomic<bool> held{false};
  std::mutex held_mutex;
  Stream *held_streams =
      nullptr;  ///< queued streams that wait for the release, linked through next_ready

  bool is_open() const { return n_contexts.load() != 0; }
};

}  // namespace aiocann::sim
