#include "core/runtime.hpp"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>

#include "core/device.hpp"
#include "core/driver.hpp"
#include "core/lane.hpp"
#include "core/parker.hpp"
#include "core/reactor.hpp"

using namespace aiocann::core;

namespace {

std::atomic<uint32_t> fork_count{0};

void count_forks() {
  // In the library for as long as it is loaded; it is never unloaded, as its threads could not be stopped.
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
}

/// Has begin() take over made, of which the caller gets a reference, where that is asked for.
template <typename Begin>
void start(aiocann_op *made, aiocann_op **out, Begin &&begin) {
  made->retain();
  try {
    begin(made);
  } catch (...) {
    settle(made, Status::ok());  // nobody has heard of it
    made->release();
    throw;
  }
  if (out != nullptr)
    *out = made;
  else
    made->release();
}

}  // namespace

uint32_t aiocann::core::fork_generation() { return fork_count.load(std::memory_order_relaxed); }

aiocann_runtime::aiocann_runtime(const aiocann_config &config)
    : generation(fork_generation()),
      driver_(config.driver),
      sim_library_(config.sim_library != nullptr ? config.sim_library : ""),
      n_wanted_(config.n_devices) {
  count_forks();
  if (config.devices != nullptr) wanted_.assign(config.devices, config.devices + config.n_devices);
}

aiocann_runtime::~aiocann_runtime() = default;

void aiocann_runtime::release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void aiocann_runtime::release_handle() {
  const Phase now = phase();
  if (generation == fork_generation() && now != Phase::kFailed && now != Phase::kClosed) {
    // Its threads must end; who lets go of an open runtime gets no more than a short grace for what is in flight.
    start(new aiocann_op(OpKind::kShutdown, this, nullptr, nullptr, false), nullptr,
          [this](aiocann_op *op) { start_close(1000, op); });
  }
  release();
}

Status aiocann_runtime::usable() const {
  if (generation != fork_generation()) {
    return Status::error(
        AIOCANN_E_CLOSED,
        "This runtime was opened before a fork. It works only in the process that opened it: the "
        "child has none of its threads. Open it after the fork (multiprocessing: use \"spawn\").");
  }
  switch (phase()) {
    case Phase::kOpen:
      return Status::ok();
    case Phase::kOpening:
      return Status::error(AIOCANN_E_USAGE, "The runtime is still opening.");
    case Phase::kFailed:
      return Status::error(AIOCANN_E_CLOSED, "The runtime could not be opened.");
    default:
      return Status::error(AIOCANN_E_CLOSED, "The runtime is closed.");
  }
}

Status aiocann_runtime::driver_error(int32_t code, const char *call) const {
  return Status::driver(code, call, api_->aclGetRecentErrMsg());
}

// ---- opening -----------------------------------------------------------------------------------------------

void aiocann_runtime::run_apart(std::function<void()> what) {
  retain();
  try {
    std::thread([this, what = std::move(what)] {
      what();
      release();
    }).detach();
  } catch (...) {
    release();
    throw;
  }
}

void aiocann_runtime::start_open(aiocann_op *op) {
  run_apart([this, op] {
    name_thread("aiocann-opener");
    const Status status = open();
    {
      std::lock_guard<std::mutex> guard(close_mutex_);
      phase_.store(status.is_ok() ? Phase::kOpen : Phase::kFailed, std::memory_order_release);
    }
    opened_.notify_all();
    settle(op, status);
  });
}

Status aiocann_runtime::open() {
  Status status = acquire_driver(driver_, sim_library_, &loaded_);
  if (!status.is_ok()) return status;
  api_ = &loaded_->library.api;
  library_path = loaded_->library.path;
  int32_t major = 0, minor = 0, patch = 0;
  if (api_->aclrtGetVersion(&major, &minor, &patch) == 0) {
    acl_version = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  }
  status = choose_devices();
  if (status.is_ok()) {
    for (size_t i = 0; i < wanted_.size(); ++i) {
      devices.push_back(std::make_unique<Device>(this, wanted_[i], static_cast<int32_t>(i)));
      devices.back()->resize_peers(wanted_.size());
      devices.back()->lane = std::make_unique<Lane>(devices.back().get());
    }
    copiers.start();
    for (auto &device : devices) device->lane->start();
    for (auto &device : devices) {
      device->lane->wait_open();
      if (device->is_open() && any_lane_ == nullptr) any_lane_ = device->lane.get();
    }
    if (any_lane_ != nullptr) return Status::ok();
    status = devices.front()->open_error;
    for (auto &device : devices) device->lane->join();
    copiers.stop();
  }
  release_driver(loaded_, false);
  return status;
}

Status aiocann_runtime::choose_devices() {
  uint32_t visible = 0;
  if (const int32_t code = api_->aclrtGetDeviceCount(&visible); code != 0) {
    return driver_error(code, "aclrtGetDeviceCount");
  }
  if (visible == 0) {
    return Status::error(
        AIOCANN_E_USAGE,
        "The %s driver (%s) sees no device. ASCEND_RT_VISIBLE_DEVICES may hide them.",
        driver_.c_str(), library_path.c_str());
  }
  if (wanted_.empty()) {
    if (n_wanted_ > static_cast<int64_t>(visible)) {
      return Status::error(AIOCANN_E_USAGE, "%d devices were asked for, but the %s driver sees %u.",
                           n_wanted_, driver_.c_str(), visible);
    }
    const uint32_t count = n_wanted_ < 0 ? visible : static_cast<uint32_t>(n_wanted_);
    for (uint32_t i = 0; i < count; ++i) wanted_.push_back(static_cast<int32_t>(i));
  }
  return Status::ok();
}

// ---- closing -----------------------------------------------------------------------------------------------

void aiocann_runtime::start_close(int64_t timeout_ms, aiocann_op *op) {
  const int64_t deadline = now_ms() + std::max<int64_t>(0, timeout_ms);
  std::unique_lock<std::mutex> guard(close_mutex_);
  const Phase now = phase_.load(std::memory_order_acquire);
  if (now == Phase::kClosed) {
    guard.unlock();
    return settle(op, Status::ok());  // its outcome has been told
  }
  closers_.push_back(op);
  if (close_started_) {
    if (deadline >= close_deadline_ms_) return;
    close_deadline_ms_ = deadline;
    if (now == Phase::kClosing) ask_to_close(deadline);
    return;
  }
  close_deadline_ms_ = deadline;
  try {
    run_apart([this] { run_close(); });
  } catch (...) {
    closers_.pop_back();
    throw;
  }
  close_started_ = true;
}

void aiocann_runtime::run_close() {
  name_thread("aiocann-closer");
  Status status;
  bool was_open = false;
  {
    std::unique_lock<std::mutex> lock(close_mutex_);
    opened_.wait(lock, [this] { return phase_.load() != Phase::kOpening; });
    was_open = phase_.load() == Phase::kOpen;
    phase_.store(Phase::kClosing, std::memory_order_release);
    if (was_open) ask_to_close(close_deadline_ms_);
  }
  if (was_open) status = close();
  std::vector<aiocann_op *> closers;
  {
    std::lock_guard<std::mutex> guard(close_mutex_);
    phase_.store(Phase::kClosed, std::memory_order_release);
    closers.swap(closers_);
  }
  for (aiocann_op *closer : closers) settle(closer, status);
}

namespace {

/// What is stuck in a driver refers to it, and may come back. Reachable, so that leak checkers see that it is meant.
void keep_for_ever(aiocann_runtime *rt) {
  static auto *mutex = new std::mutex;
  static auto *kept = new std::vector<aiocann_runtime *>;
  std::lock_guard<std::mutex> guard(*mutex);
  rt->retain();
  kept->push_back(rt);
}

}  // namespace

void aiocann_runtime::ask_to_close(int64_t deadline_ms) {
  for (auto &device : devices) {
    if (device->is_open()) device->lane->ask_to_close(deadline_ms);
  }
}

Status aiocann_runtime::close() {
  const int64_t start = now_ms();
  std::vector<Lane *> lanes;
  for (auto &device : devices) {
    if (device->is_open()) lanes.push_back(device->lane.get());
  }
  uint64_t aborted = 0, stuck = 0, given_up = 0;
  for (Lane *lane : lanes) lane->wait_drained(&aborted, &stuck);
  const auto waited = static_cast<long long>(now_ms() - start);
  for (Lane *lane : lanes) lane->stop();
  for (Lane *lane : lanes) lane->wait_stopped();
  // Before any op is given up: its host memory may be gone right after.
  copiers.stop();
  const Device *hung = nullptr;
  for (Lane *lane : lanes) {
    if (lane->left_behind()) hung = lane->device();
  }
  const bool leak = stuck > 0 || hung != nullptr;
  for (Lane *lane : lanes) {
    lane->left_behind() ? lane->leave_behind(&given_up) : lane->finish(leak);
  }
  Status status;
  for (auto &device : devices) {
    if (device->is_open() && device->lane->left_behind()) continue;
    if (!device->lane->join()) {
      hung = device.get();
      continue;
    }
    given_up += device->lane->ops_given_up();
    if (status.is_ok()) status = device->lane->close_status();
  }
  release_driver(loaded_, leak || hung != nullptr);
  if (leak || hung != nullptr) keep_for_ever(this);
  if (hung != nullptr) {
    return Status::error(AIOCANN_E_TIMEOUT,
                         "Closing gave up after %lld ms: a call of the driver for device %d does "
                         "not return. %llu commands have failed; what they use on the device and "
                         "in pinned memory is leaked, as is the thread.",
                         waited, hung->index, static_cast<unsigned long long>(given_up));
  }
  if (aborted + stuck == 0) return status;
  return Status::error(
      AIOCANN_E_TIMEOUT,
      "Closing gave up after %lld ms: %llu commands had not ended, and have failed. %s", waited,
      static_cast<unsigned long long>(given_up),
      stuck == 0
          ? "The driver aborted them."
          : "The driver could not abort them all: what they use on the devices and in pinned "
            "memory is leaked.");
}

// ---- the C ABI ---------------------------------------------------------------------------------------------

void aiocann_runtime::statistics(aiocann_statistics *out) const {
  auto get = [](const Counters::Counter &counter) {
    return counter.load(std::memory_order_relaxed);
  };
  *out = aiocann_statistics{};
  out->in_flight_ops = get(counters.in_flight_ops);
  out->in_flight_bytes = get(counters.in_flight_bytes);
  out->abandoned = get(counters.abandoned);
  out->reaped = get(counters.reaped);
  out->live_buffers = get(counters.live_buffers);
  out->live_streams = get(counters.live_streams);
  out->live_events = get(counters.events_in_use);
  out->live_tensors = get(counters.live_tensors);
  out->live_executors = get(counters.live_executors);
  out->events_created = get(counters.events_created);
  out->lost_callbacks = get(counters.lost_callbacks);
  out->loop_wakes = get(counters.loop_wakes);
  out->completions = get(counters.completions);
  out->pinned_bytes = get(counters.pinned_bytes);
  out->pinned_reserved_bytes = pinned_pool.reserved_bytes();
  out->h2d_bytes = get(counters.h2d_bytes);
  out->d2h_bytes = get(counters.d2h_bytes);
  out->d2d_bytes = get(counters.d2d_bytes);
  out->peer_bytes = get(counters.peer_bytes);
  if (phase() == Phase::kOpening) return;
  for (const auto &device : devices) {
    out->pool_reserved_bytes += device->pool.reserved_bytes();
    out->pool_used_bytes += device->pool.used_bytes();
  }
}

extern "C" {

int32_t aiocann_runtime_open(const aiocann_config *config, aiocann_loop *home, aiocann_runtime **rt,
                             aiocann_op **op) {
  return guarded([&]() -> int32_t {
    *rt = nullptr;
    *op = nullptr;
    if (config == nullptr || config->driver == nullptr) {
      return publish(
          Status::error(AIOCANN_E_USAGE, "No driver was named: it is \"cann\" or \"sim\"."));
    }
    if (config->devices != nullptr) {
      for (int32_t i = 0; i < config->n_devices; ++i) {
        const int32_t id = config->devices[i];
        if (id < 0)
          return publish(Status::error(AIOCANN_E_USAGE, "Device ids start at 0; %d is none.", id));
        if (std::find(config->devices, config->devices + i, id) != config->devices + i) {
          return publish(Status::error(AIOCANN_E_USAGE, "Device %d is listed twice.", id));
        }
      }
    }
    if (config->n_devices == 0 || config->n_devices < -1 ||
        (config->devices != nullptr && config->n_devices < 0)) {
      return publish(Status::error(AIOCANN_E_USAGE,
                                   "A runtime needs at least one device; %d were asked for.",
                                   config->n_devices));
    }
    Family family{};
    if (const char *text = std::getenv("AIOCANN_COMPLETION"); !parse_family(text, &family)) {
      return publish(
          Status::error(AIOCANN_E_USAGE,
                        "AIOCANN_COMPLETION is \"%s\", but must be \"auto\", \"callback\", "
                        "\"callback-block\", \"host-func\" or \"query\".",
                        text));
    }
    EventMaker event_maker{};
    if (const char *text = std::getenv("AIOCANN_EVENTS"); !parse_event_maker(text, &event_maker)) {
      return publish(Status::error(
          AIOCANN_E_USAGE,
          "AIOCANN_EVENTS is \"%s\", but must be \"auto\", \"ex\", \"flag\" or \"plain\".", text));
    }
    auto *runtime = new aiocann_runtime(*config);
    runtime->family = family;
    runtime->event_maker = event_maker;
    try {
      start(new aiocann_op(OpKind::kOpen, runtime, nullptr, home, true), op,
            [&](aiocann_op *made) { runtime->start_open(made); });
    } catch (...) {
      runtime->release();
      throw;
    }
    *rt = runtime;
    return 0;
  });
}

int32_t aiocann_runtime_close(aiocann_runtime *rt, int64_t timeout_ms, aiocann_loop *home,
                              aiocann_op **op) {
  return guarded([&]() -> int32_t {
    if (op != nullptr) *op = nullptr;
    if (rt->generation != fork_generation()) return publish(rt->usable());
    start(new aiocann_op(OpKind::kShutdown, rt, nullptr, home, op != nullptr), op,
          [&](aiocann_op *made) { rt->start_close(timeout_ms, made); });
    return 0;
  });
}

void aiocann_runtime_release(aiocann_runtime *rt) {
  // Where it cannot be closed, it stays, as its threads do.
  guarded([&]() -> int32_t {
    rt->release_handle();
    return 0;
  });
}

const char *aiocann_runtime_acl_version(const aiocann_runtime *rt) {
  return rt->acl_version.c_str();
}

const char *aiocann_runtime_library(const aiocann_runtime *rt) { return rt->library_path.c_str(); }

int32_t aiocann_runtime_device_count(const aiocann_runtime *rt) {
  return rt->phase() == Phase::kOpening ? 0 : static_cast<int32_t>(rt->devices.size());
}

aiocann_device *aiocann_runtime_device(aiocann_runtime *rt, int32_t position) {
  if (position < 0 || position >= aiocann_runtime_device_count(rt)) return nullptr;
  return rt->devices[static_cast<size_t>(position)].get();
}

void aiocann_runtime_statistics(const aiocann_runtime *rt, aiocann_statistics *out) {
  rt->statistics(out);
}

int32_t aiocann_cann_present(void) {
  return guarded([]() -> int32_t { return aiocann::acl::cann_present() ? 1 : 0; });
}

const char *aiocann_version(void) { return AIOCANN_VERSION; }

}  // extern "C"
