// control.cpp: aiocann_sim_*, the controls of tests and of the Python package.
#include <string.h>

#include <string>

#include "sim/aclnn/live.hpp"
#include "sim/aiocann_sim.h"
#include "sim/error.hpp"
#include "sim/faults.hpp"
#include "sim/late.hpp"
#include "sim/lifecycle.hpp"
#include "sim/lookup.hpp"
#include "sim/machine.hpp"
#include "sim/pool.hpp"
#include "sim/stream.hpp"
#include "sim/thread_state.hpp"

namespace aiocann::sim {

void set_misuse_hook(aiocann_sim_misuse_hook hook);

namespace {

/// Keeps the text of a failed control call for aiocann_sim_last_error, apart from the program's own errors.
thread_local std::string t_last_error;

int32_t note(aclError code) {
  ThreadState &thread = thread_state();
  if (code != ACL_SUCCESS && !thread.messages.empty()) {
    t_last_error = thread.messages.back();
    thread.messages.pop_back();
  }
  return code;
}

uint64_t live_of(uint64_t (*amount)(const Device &)) {
  uint64_t total = 0;
  for (int d = 0; d < kMaxDevices; ++d) total += amount(*machine().by_index(d));
  return total;
}

struct NamedCounter {
  const char *name;
  uint64_t (*read)();
};

#define PLAIN(field) {#field, [] { return g_counters.field.load(); }}
#define LIVE(field) {"live_" #field, [] { return g_live_objects.field.load(); }}
constexpr NamedCounter kCounters[] = {
    PLAIN(tasks),
    PLAIN(kernels),
    PLAIN(copies),
    PLAIN(memsets),
    PLAIN(callbacks),
    PLAIN(faults),
    PLAIN(exceptions),
    PLAIN(misuse),
    PLAIN(leaks),
    LIVE(tensors),
    LIVE(scalars),
    LIVE(arrays),
    LIVE(lists),
    LIVE(executors),
    PLAIN(dropped_callbacks),
    PLAIN(bytes_h2d),
    PLAIN(bytes_d2h),
    PLAIN(bytes_d2d),
    PLAIN(bytes_peer),
    {"live_allocations",
     [] { return live_of([](const Device &d) { return d.memory.live_blocks(); }); }},
    {"live_bytes", [] { return live_of([](const Device &d) { return d.memory.used_bytes(); }); }},
    {"live_streams",
     [] { return live_of([](const Device &d) -> uint64_t { return d.streams.live(); }); }},
    {"live_events",
     [] { return live_of([](const Device &d) -> uint64_t { return d.events.live(); }); }},
    {"live_contexts", []() -> uint64_t { return machine().contexts().live(); }},
    {"live_pinned", [] { return machine().pinned().live_blocks(); }},
    {"pinned_bytes", [] { return machine().pinned().used_bytes(); }},
    {"armed_faults", []() -> uint64_t { return g_armed_faults.load(); }},
    {"threads", []() -> uint64_t { return static_cast<uint64_t>(Pool::instance().threads()); }},
};
#undef PLAIN
#undef LIVE

struct NamedFault {
  const char *name;
  FaultKind kind;
  int32_t lowest;     ///< value that is accepted
  int32_t otherwise;  ///< for the value 0
};

constexpr NamedFault kFaults[] = {
    {"call", FaultKind::kCall, 1, 0},
    {"kernel", FaultKind::kKernel, 1, ACL_ERROR_RT_AICORE_EXCEPTION},
    {"copy", FaultKind::kCopy, 1, ACL_ERROR_RT_DEVICE_MEM_ERROR},
    {"kernel_delay", FaultKind::kKernelDelay, 1, 0},
    {"copy_delay", FaultKind::kCopyDelay, 1, 0},
    {"kernel_stall", FaultKind::kKernelStall, 0, 0},
    {"copy_stall", FaultKind::kCopyStall, 0, 0},
    {"callback_drop", FaultKind::kCallbackDrop, 0, 0},
    {"callback_delay", FaultKind::kCallbackDelay, INT32_MIN, -1},
};

aclError find_gate(int32_t device_id, int32_t stream_id, Device **device, Stream **stream) {
  if (const aclError code = find_device(device_id, device)) return code;
  *stream = nullptr;
  if (stream_id < 0) return ACL_SUCCESS;
  if (static_cast<uint32_t>(stream_id) < (*device)->streams.used()) {
    *stream = (*device)->streams.at(static_cast<uint32_t>(stream_id));
    if ((*stream)->alive.load()) return ACL_SUCCESS;
  }
  return fail(ACL_ERROR_INVALID_PARAM, "device %d has no stream %d", device_id, stream_id);
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;

int32_t aiocann_sim_configure(const char *key, const char *value) {
  return note(machine().configure(key, value));
}

int32_t aiocann_sim_play_cann(const char *version) {
  if (play_cann(version)) return ACL_SUCCESS;
  return note(
      fail(ACL_ERROR_INVALID_PARAM, "CANN '%s' is not played", version ? version : "(null)"));
}

const char *aiocann_sim_setting(const char *key) {
  static thread_local std::string shown;
  if (key == nullptr || !is_setting(key)) return nullptr;
  if (const aclError code = machine().prepare()) {
    note(code);
    return nullptr;
  }
  shown = machine().setting(key);
  return shown.c_str();
}

const char *aiocann_sim_last_error() { return t_last_error.c_str(); }

int32_t aiocann_sim_inject(const char *kind, const char *target, uint64_t nth, int32_t value) {
  if (kind == nullptr || target == nullptr) {
    return note(fail(ACL_ERROR_INVALID_PARAM, "kind and target of a fault must not be NULL"));
  }
  std::string names;
  for (const NamedFault &fault : kFaults) {
    names += (names.empty() ? "" : ", ") + std::string(fault.name);
    if (strcmp(kind, fault.name) != 0) continue;
    if (value == 0) value = fault.otherwise;
    if (value < fault.lowest) {
      return note(fail(ACL_ERROR_INVALID_PARAM, "a fault of kind %s needs a value of at least %d",
                       fault.name, fault.lowest));
    }
    arm_fault(fault.kind, target, nth, value);
    return 0;
  }
  return note(fail(ACL_ERROR_INVALID_PARAM, "fault kind '%s' is not known: expected one of %s",
                   kind, names.c_str()));
}

void aiocann_sim_clear_faults() { clear_faults(); }

void aiocann_sim_let_go() { let_go(); }

int32_t aiocann_sim_lose(int32_t device, int32_t code, int32_t for_ever) {
  Device *target = nullptr;
  if (const aclError error = find_device(device, &target)) return note(error);
  lose(target, code != 0 ? code : ACL_ERROR_RT_LOST_HEARTBEAT, for_ever != 0);
  return 0;
}

int32_t aiocann_sim_restore(int32_t device) {
  Device *target = nullptr;
  if (const aclError error = find_device(device, &target)) return note(error);
  restore(target);
  return 0;
}

void aiocann_sim_reset() { machine().reset(); }

int32_t aiocann_sim_hidden(const char *function) {
  return function != nullptr && machine().hides(function) ? 1 : 0;
}

int32_t aiocann_sim_hold(int32_t device, int32_t stream_id) {
  Device *target = nullptr;
  Stream *stream = nullptr;
  if (const aclError code = find_gate(device, stream_id, &target, &stream)) return note(code);
  hold(target, stream);
  return 0;
}

int32_t aiocann_sim_release(int32_t device, int32_t stream_id) {
  Device *target = nullptr;
  Stream *stream = nullptr;
  if (const aclError code = find_gate(device, stream_id, &target, &stream)) return note(code);
  release(target, stream);
  return 0;
}

uint64_t aiocann_sim_counter(const char *name) {
  for (const NamedCounter &counter : kCounters) {
    if (name != nullptr && strcmp(name, counter.name) == 0) return counter.read();
  }
  return UINT64_MAX;
}

const char *aiocann_sim_counter_name(int32_t index) {
  constexpr int32_t n = sizeof kCounters / sizeof kCounters[0];
  return index >= 0 && index < n ? kCounters[index].name : nullptr;
}

void aiocann_sim_count_calls(int32_t on) { count_calls(on != 0); }

const char *aiocann_sim_called(int32_t index, uint64_t *times) { return called(index, times); }

const char *aiocann_sim_last_misuse() { return last_misuse(); }

void aiocann_sim_set_misuse_hook(aiocann_sim_misuse_hook hook) { set_misuse_hook(hook); }
