// machine.hpp: the one simulated machine of the process.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "acl_abi.h"
#include "sim/arena.hpp"
#include "sim/config.hpp"
#include "sim/device.hpp"
#include "sim/registry.hpp"
#include "sim/slots.hpp"
#include "sim/virtual.hpp"

namespace aiocann::sim {

/// Where a pointer points.
struct Location {
  enum Kind : uint8_t { kPageable, kPinned, kDevice };
  Kind kind = kPageable;
  Device *device = nullptr;
  /// nullptr: ordinary memory of the process (pinned, if it is registered).
  const Arena *arena = nullptr;
};

/// Built from settings when first needed and rebuilt when they change while no device is open. Leaked on purpose:
/// workers and other threads may outlive static destructors.
class Machine {
 public:
  static Machine &instance();

  /// Makes sure that the machine is what the settings say. ACL_ERROR_INVALID_PARAM (with text) for bad settings.
  aclError prepare();
  /// See aiocann_sim_configure.
  aclError configure(const char *key, const char *value);
  std::string setting(const std::string &key);
  /// Is the function to be taken as absent? Builds nothing.
  bool hides(const std::string &function);
  /// Closes all devices by force and makes them well: the settings may change again.
  void reset();

  const Config &config() const { return config_; }
  /// Devices that the program may see, by user id.
  int visible_count() const { return static_cast<int>(visible_.size()); }
  /// nullptr: out of range.
  Device *by_user_id(int id) const;
  Device *by_index(int index) const { return devices_[index].get(); }
  int device_count() const { return config_.devices; }
  /// What is wrong with ASCEND_RT_VISIBLE_DEVICES when no device is visible.
  const std::string &visible_complaint() const { return visible_complaint_; }
  /// -1: hidden by ASCEND_RT_VISIBLE_DEVICES.
  int user_id(const Device *device) const;

  Location locate(const void *pointer) const;
  /// May the engine of `from` reach the memory of `to`?
  bool has_access(const Device *from, const Device *to) const {
    if (from == to || (from->peers_enabled.load(std::memory_order_acquire) >> to->index & 1) != 0)
      return true;
    return config_.soc->is_a3 && (config_.peers[from->index] >> to->index & 1) != 0;
  }
  Arena &pinned() { return pinned_; }
  VirtualMemory &virtual_memory() { return virtual_; }
  SlotTable<Physical> &physicals() { return physicals_; }
  HostRegistry &registered() { return registered_; }
  SlotTable<Context> &contexts() { return contexts_; }

  /// Opens and closes are counted, so that settings change only between them.
  aclError opened();
  void closed() { open_contexts_.fetch_sub(1); }
  bool any_open() const { return open_contexts_.load() != 0; }

 private:
  Machine();
  aclError prepare_locked();

  std::mutex mutex_;  ///< guards building; what is built is read without it while a device is open
  std::atomic<int> open_contexts_{0};
  Settings configured_;
  Settings built_from_;
  std::string built_visible_;
  bool is_built_ = false;
  Config config_;
  std::vector<int> visible_;
  std::string visible_complaint_;
  std::unique_ptr<Device> devices_[kMaxDevices];
  Arena pinned_{-1};
  VirtualMemory virtual_;
  SlotTable<Physical> physicals_{65536};
  HostRegistry registered_;
  SlotTable<Context> contexts_{65536};
};

/// The workers of a forked process stayed with its parent: 0, or the code and text that say so.
aclError refuse_forked();

inline Machine &machine() { return Machine::instance(); }

}  // namespace aiocann::sim
