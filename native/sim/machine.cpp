// machine.cpp: building the machine from its settings.
#include "sim/machine.hpp"

#include <stdio.h>
#include <stdlib.h>

#include "sim/error.hpp"
#include "sim/faults.hpp"
#include "sim/late.hpp"
#include "sim/lifecycle.hpp"
#include "sim/pool.hpp"
#include "sim/strict.hpp"
#include "sim/stubs.hpp"

namespace aiocann::sim {
namespace {

constexpr uint64_t kSmallestFallback = 256ull << 20;
constexpr uint64_t kVirtualBytes = 1ull << 40;  ///< addresses that programs can reserve
/// Where a program may ask for addresses: from 16 TiB on, unless the system has something else there.
constexpr uintptr_t kVirtualBase = uintptr_t{1} << 44;

}  // namespace

bool machine_is_stopping() { return Pool::instance().is_stopping(); }

Machine &Machine::instance() {
  static Machine *const leaked = new Machine();
  return *leaked;
}

Machine::Machine() {
  for (int d = 0; d < kMaxDevices; ++d) devices_[d] = std::make_unique<Device>(d);
}

aclError refuse_forked() {
  if (!Pool::instance().is_forked()) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_INTERNAL_ERROR,
              "this process was forked from one that used the simulator: no device works here");
}

aclError Machine::prepare() {
  if (const aclError code = refuse_forked())
    return code;  // before any lock that the parent may have held
  if (any_open()) return ACL_SUCCESS;
  std::lock_guard<std::mutex> lock(mutex_);
  return any_open() ? ACL_SUCCESS : prepare_locked();
}

aclError Machine::opened() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!any_open()) {
    if (const aclError code = prepare_locked()) return code;
  }
  open_contexts_.fetch_add(1);
  return ACL_SUCCESS;
}

aclError Machine::prepare_locked() {
  const Settings settings = effective_settings(configured_);
  const char *visible = getenv("ASCEND_RT_VISIBLE_DEVICES");
  const std::string visible_key = visible == nullptr ? "unset" : "=" + std::string(visible);
  if (is_built_ && settings == built_from_ && visible_key == built_visible_) return ACL_SUCCESS;
  Config config;
  const std::string complaint = parse_settings(settings, configured_, &config);
  if (!complaint.empty()) return fail(ACL_ERROR_INVALID_PARAM, "%s", complaint.c_str());
  for (int d = 0; d < config.devices; ++d) {
    Arena &memory = devices_[d]->memory;
    if (memory.is_reserved() && memory.capacity() == config.memory_bytes) continue;
    uint64_t bytes = config.memory_bytes;
    while (!memory.reserve(bytes)) {
      // The memory of a real SoC may be more than this process may address; what was asked for must be met.
      if (config.memory_was_set || bytes / 2 < kSmallestFallback) {
        return fail(
            ACL_ERROR_BAD_ALLOC,
            "cannot reserve address space for %llu bytes of memory of simulated device %d: lower "
            "AIOCANN_SIM_MEMORY or AIOCANN_SIM_DEVICES, or raise the limit (ulimit -v)",
            static_cast<unsigned long long>(bytes), d);
      }
      bytes /= 2;
    }
  }
  for (int d = config.devices; d < kMaxDevices; ++d) devices_[d]->memory.unreserve();
  if (!pinned_.is_reserved() ||
      (pinned_.capacity() != config.pinned_bytes && pinned_.live_blocks() == 0)) {
    uint64_t bytes = config.pinned_bytes;
    while (!pinned_.reserve(bytes)) {
      if (bytes / 2 < kSmallestFallback) {
        return fail(ACL_ERROR_BAD_ALLOC, "cannot reserve address space for pinned host memory");
      }
      bytes /= 2;
    }
  }
  if (!virtual_.is_reserved()) {
    uint64_t bytes = kVirtualBytes;
    while (!virtual_.reserve(bytes, kVirtualBase)) {
      if (bytes / 2 < kSmallestFallback)
        return fail(ACL_ERROR_BAD_ALLOC, "cannot reserve address space for virtual memory");
      bytes /= 2;
    }
  }
  Pool::instance().start(config.threads);
  if (Pool::instance().threads() == 0) {
    return fail(ACL_ERROR_BAD_ALLOC, "cannot start a worker thread for the simulator");
  }
  config_ = config;
  for (int d = 0; d < config.devices; ++d) devices_[d]->memory.track_writes(config.is_strict);
  strict::g_is_on.store(config.is_strict);
  visible_ = parse_visible_devices(visible, config.devices, &visible_complaint_);
  built_from_ = settings;
  built_visible_ = visible_key;
  is_built_ = true;
  return ACL_SUCCESS;
}

aclError Machine::configure(const char *key, const char *value) {
  if (key == nullptr || !is_setting(key)) {
    std::string names;
    for (const std::string &name : setting_names()) names += (names.empty() ? "" : ", ") + name;
    return fail(ACL_ERROR_INVALID_PARAM, "simulator setting '%s' is not known: expected one of %s",
                key == nullptr ? "(null)" : key, names.c_str());
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (any_open()) {
    return fail(
        ACL_ERROR_RT_CONTEXT_RELEASE_ERROR,
        "simulator setting '%s' cannot change while a device is open: reset every device first, or "
        "give up what has them open with aiocann_sim_reset (aiocann.sim.reset)",
        key);
  }
  Settings wished = configured_;
  if (value == nullptr)
    wished.erase(key);
  else
    wished[key] = value;
  Config config;
  const std::string complaint = parse_settings(effective_settings(wished), wished, &config);
  if (!complaint.empty()) return fail(ACL_ERROR_INVALID_PARAM, "%s", complaint.c_str());
  configured_ = wished;
  return ACL_SUCCESS;
}

std::string Machine::setting(const std::string &key) {
  if (prepare() != ACL_SUCCESS) return "";
  std::lock_guard<std::mutex> lock(mutex_);
  return describe_setting(config_, built_from_, key);
}

bool Machine::hides(const std::string &function) {
  if (is_stub(function)) return true;
  std::lock_guard<std::mutex> lock(mutex_);
  return is_hidden(any_open() ? built_from_ : effective_settings(configured_), function);
}

void Machine::reset() {
  clear_faults();
  let_go();
  for (const std::unique_ptr<Device> &device : devices_) {
    device->lost_for_ever.store(false);
    close_all_contexts(device.get(), true);
    device->lost.store(0);
    release(device.get(), nullptr);
  }
}

Device *Machine::by_user_id(int id) const {
  if (id < 0 || id >= visible_count()) return nullptr;
  return devices_[visible_[static_cast<size_t>(id)]].get();
}

int Machine::user_id(const Device *device) const {
  for (size_t i = 0; i < visible_.size(); ++i) {
    if (visible_[i] == device->index) return static_cast<int>(i);
  }
  return -1;
}

Location Machine::locate(const void *pointer) const {
  for (int d = 0; d < config_.devices; ++d) {
    Device *device = devices_[d].get();
    if (device->memory.contains(pointer)) return {Location::kDevice, device, &device->memory};
  }
  if (pinned_.contains(pointer)) return {Location::kPinned, nullptr, &pinned_};
  if (virtual_.contains(pointer)) {
    bool is_host = false;
    Device *device = virtual_.device_at(pointer, &is_host);
    if (is_host) return {Location::kPinned, nullptr, &virtual_};
    // Addresses that are not reserved are nobody's, but no host memory either.
    return {Location::kDevice, device != nullptr ? device : devices_[0].get(), &virtual_};
  }
  if (registered_.contains(pointer)) return {Location::kPinned, nullptr, nullptr};
  return {};
}

}  // namespace aiocann::sim
