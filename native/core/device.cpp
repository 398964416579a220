#include "core/device.hpp"

#include <algorithm>

#include "core/lane.hpp"
#include "core/reactor.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"

using namespace aiocann::core;

namespace {

/// Who hears of device failures. Never freed: the driver's threads may call at any time.
struct Router {
  std::mutex mutex;  // a leaf, but for the fault lock of a device
  std::vector<Device *> devices;
  std::vector<const aiocann::acl::Api *> slots;  ///< by callback; null: free
};

Router &router() {
  static auto *the_router = new Router;
  return *the_router;
}

/// Which driver calls, the callback does not say; both have the same getters for their own infos, so there is
/// one callback for each driver that can be loaded.
template <int slot>
void on_exception(aclrtExceptionInfo *info) {
  Router &routes = router();
  std::lock_guard<std::mutex> guard(routes.mutex);
  const aiocann::acl::Api *api =
      static_cast<size_t>(slot) < routes.slots.size() ? routes.slots[slot] : nullptr;
  if (api == nullptr) return;
  const uint32_t device_id = api->aclrtGetDeviceIdFromExceptionInfo(info);
  FaultRecord fault{};
  fault.stream_id = api->aclrtGetStreamIdFromExceptionInfo(info);
  fault.task_id = api->aclrtGetTaskIdFromExceptionInfo(info);
  fault.code = static_cast<int32_t>(api->aclrtGetErrorCodeFromExceptionInfo(info));
  for (Device *device : routes.devices) {
    if (&device->runtime->api() == api && device->index == static_cast<int32_t>(device_id)) {
      device->add_fault(fault);
    }
  }
}

constexpr aclrtExceptionInfoCallback kCallbacks[] = {on_exception<0>, on_exception<1>,
                                                     on_exception<2>, on_exception<3>};

}  // namespace

namespace aiocann::core {

void route_faults(const acl::Api &api, Device *device) {
  Router &routes = router();
  size_t slot = 0;
  {
    std::lock_guard<std::mutex> guard(routes.mutex);
    routes.devices.push_back(device);
    if (std::find(routes.slots.begin(), routes.slots.end(), &api) != routes.slots.end()) return;
    auto place = std::find(routes.slots.begin(), routes.slots.end(), nullptr);
    if (place == routes.slots.end()) place = routes.slots.insert(place, nullptr);
    slot = static_cast<size_t>(place - routes.slots.begin());
    if (slot >= std::size(kCallbacks)) {
      routes.slots.pop_back();
      return;
    }
    *place = &api;
  }
  // Outside the lock: the driver may call back while it registers.
  if (api.aclrtExceptionInfoCallbackRegister != nullptr &&
      api.aclrtExceptionInfoCallbackRegister(kCallbacks[slot]) == 0) {
    return;
  }
  if (api.aclrtSetExceptionInfoCallback != nullptr)
    api.aclrtSetExceptionInfoCallback(kCallbacks[slot]);
}

void forget_faults(const acl::Api &api) {
  Router &routes = router();
  size_t slot = 0;
  {
    std::lock_guard<std::mutex> guard(routes.mutex);
    auto found = std::find(routes.slots.begin(), routes.slots.end(), &api);
    if (found == routes.slots.end()) return;
    slot = static_cast<size_t>(found - routes.slots.begin());
    *found = nullptr;
  }
  if (api.aclrtExceptionInfoCallbackUnregister != nullptr &&
      api.aclrtExceptionInfoCallbackUnregister(kCallbacks[slot]) == 0) {
    return;
  }
  if (api.aclrtSetExceptionInfoCallback != nullptr) api.aclrtSetExceptionInfoCallback(nullptr);
}

void unroute_faults(Device *device) {
  Router &routes = router();
  std::lock_guard<std::mutex> guard(routes.mutex);
  routes.devices.erase(std::remove(routes.devices.begin(), routes.devices.end(), device),
                       routes.devices.end());
}

}  // namespace aiocann::core

aiocann_device::aiocann_device(Runtime *rt, int32_t logical_id, int32_t at)
    : runtime(rt), index(logical_id), position(at) {}

aiocann_device::~aiocann_device() = default;

void aiocann_device::resize_peers(size_t n) {
  peers_.reset(new std::atomic<uint8_t>[n]());
  peer_matrix.assign(n, 0);
}

void aiocann_device::add_fault(const FaultRecord &fault) {
  {
    std::lock_guard<std::mutex> guard(mutex_);
    faults_.push_back(fault);
    n_faults_.fetch_add(1, std::memory_order_release);
    poisoned_.store(true, std::memory_order_release);
  }
  raise_alarm();  // where failures stop streams, no marker will tell
}

void aiocann_device::raise_alarm() {
  alarm_.store(true, std::memory_order_release);
  lane->nudge();
}

void aiocann_device::apply_faults() {
  if (n_faults_.load(std::memory_order_acquire) == 0) return;
  std::vector<std::pair<Stream *, FaultRecord>> work;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    for (const FaultRecord &fault : faults_) {
      auto found = streams_.find(fault.stream_id);
      if (found == streams_.end()) continue;  // of another library: not ours to tell
      found->second->retain();
      work.emplace_back(found->second, fault);
    }
    faults_.clear();
    n_faults_.store(0, std::memory_order_release);
  }
  for (auto &[stream, fault] : work) {
    stream->attach_fault(fault);
    stream->release();
  }
}

Status aiocann_device::out_of_use() const {
  if (resetting.load(std::memory_order_acquire)) {
    return Status::error(AIOCANN_E_CLOSED, "Device %d is being reset.", index);
  }
  if (!lost()) return Status::ok();
  std::lock_guard<std::mutex> guard(mutex_);
  return lost_why_;
}

bool aiocann_device::start_reset() {
  if (resetting.exchange(true, std::memory_order_acq_rel)) return false;
  epoch_.fetch_add(1, std::memory_order_acq_rel);
  return true;
}

void aiocann_device::recovered() {
  std::lock_guard<std::mutex> guard(mutex_);
  faults_.clear();
  n_faults_.store(0, std::memory_order_release);
  first_fault_ = lost_why_ = Status();
  poisoned_.store(false, std::memory_order_release);
  lost_.store(false, std::memory_order_release);
}

void aiocann_device::lose(const Status &why) {
  std::lock_guard<std::mutex> guard(mutex_);
  lost_why_ = why;
  poisoned_.store(true, std::memory_order_release);
  lost_.store(true, std::memory_order_release);
}

void aiocann_device::register_stream(Stream *stream) {
  stream->retain();
  std::lock_guard<std::mutex> guard(mutex_);
  Stream *&slot = streams_[static_cast<uint32_t>(stream->driver_id)];
  if (slot != nullptr) slot->release();
  slot = stream;
}

void aiocann_device::unregister_stream(Stream *stream) {
  std::lock_guard<std::mutex> guard(mutex_);
  auto found = streams_.find(static_cast<uint32_t>(stream->driver_id));
  if (found == streams_.end() || found->second != stream) return;
  streams_.erase(found);
  stream->release();
}

std::vector<Stream *> aiocann_device::streams() {
  std::lock_guard<std::mutex> guard(mutex_);
  std::vector<Stream *> all;
  for (const auto &[id, stream] : streams_) {
    stream->retain();
    all.push_back(stream);
  }
  return all;
}

void aiocann_device::note_first_fault(const Status &fault, uint64_t op, const char *kind) {
  std::lock_guard<std::mutex> guard(mutex_);
  poisoned_.store(true, std::memory_order_release);
  if (!first_fault_.is_ok()) return;
  first_fault_ = fault;
  first_fault_op_ = op;
  first_fault_kind_ = kind;
}

bool aiocann_device::first_fault(Status *fault, uint64_t *op, const char **kind) {
  std::lock_guard<std::mutex> guard(mutex_);
  *fault = first_fault_;
  *op = first_fault_op_;
  *kind = first_fault_kind_;
  return !first_fault_.is_ok();
}

Status aiocann_device::explained(const Status &why, const Op *op) {
  Status first;
  uint64_t first_op = 0;
  const char *kind = "";
  if (!is_fault_code(why.code()) || why.get()->is_fault) return why;
  apply_faults();
  if (!first_fault(&first, &first_op, &kind) || first.code() != why.code()) {
    return why;
  }
  return predecessor(first, first_op, kind, op);
}

extern "C" {

int32_t aiocann_device_index(const aiocann_device *dev) { return dev->index; }

int32_t aiocann_device_physical_id(const aiocann_device *dev) { return dev->physical_id; }

const char *aiocann_device_soc_name(const aiocann_device *dev) { return dev->soc_name.c_str(); }

const aiocann_error *aiocann_device_open_error(const aiocann_device *dev) {
  return dev->open_error.get();
}

int32_t aiocann_device_poisoned(const aiocann_device *dev) { return dev->poisoned() ? 1 : 0; }

int32_t aiocann_device_can_access_peer(const aiocann_device *dev, const aiocann_device *peer) {
  if (dev->runtime != peer->runtime) return 0;
  return dev == peer || dev->can_access_peer(peer->position) ? 1 : 0;
}

}  // extern "C"
