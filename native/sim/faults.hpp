// faults.hpp: faults to inject, misuse seen, counters. Shared by the whole machine and its tests.
#pragma once
#include <atomic>
#include <cstdint>
#include <optional>

namespace aiocann::sim {

/// What a fault can strike. A rule fires on the nth matching occurrence after it was armed.
enum class FaultKind : uint8_t {
  kCall,         ///< an exported function, by name: it returns the code and does nothing
  kKernel,       ///< a kernel task, by name: it faults on the device, without effect
  kCopy,         ///< an asynchronous copy or memset task, by "memcpy" or "memset"
  kKernelDelay,  ///< the value is milliseconds: the task takes that long, and then runs
  kCopyDelay,
  kKernelStall,  ///< the task never ends by itself; a value other than 0: nor by an abort, which answers it
  kCopyStall,
  kCallbackDrop,   ///< by family; value 1: a stream that would wait for its return waits for ever
  kCallbackDelay,  ///< by family: milliseconds, negative until let_go()
};

extern std::atomic<uint32_t> g_armed_faults;
inline bool faults_armed() { return g_armed_faults.load(std::memory_order_relaxed) != 0; }

/// The value of the rule that strikes this occurrence, if one does. Call only when faults_armed().
std::optional<int> strike(FaultKind kind, const char *name);
/// For rules whose value is a code: it, or 0.
inline int injected_fault(FaultKind kind, const char *name) {
  return strike(kind, name).value_or(0);
}
int injected_call_fault(const char *function);

/// nth 1 is the next occurrence and fires once; nth 0: every occurrence. `target` "*" matches every name.
void arm_fault(FaultKind kind, const char *target, uint64_t nth, int value);
void clear_faults();

/// Which functions that can be made to fail are called, and how often, from now on; the former count is forgotten.
void count_calls(bool on);
/// The index-th of them by name; nullptr after the last. Valid until this thread asks again.
const char *called(int32_t index, uint64_t *times);

/// Hardware would have punished this silently: counted, kept as text, logged; never changes a return code.
void misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
/// `count` objects are left behind: told as misuse is, but counted apart.
void leak(uint64_t count, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *last_misuse();  ///< of the process; "" when none. Valid until this thread asks again.

/// One relaxed counter each.
struct Counters {
  std::atomic<uint64_t> tasks{0}, kernels{0}, copies{0}, memsets{0}, callbacks{0}, faults{0};
  std::atomic<uint64_t> bytes_h2d{0}, bytes_d2h{0}, bytes_d2d{0}, bytes_peer{0};
  std::atomic<uint64_t> misuse{0}, leaks{0}, exceptions{0}, dropped_callbacks{0};
};
extern Counters g_counters;

inline void count(std::atomic<uint64_t> &counter, uint64_t n = 1) {
  counter.fetch_add(n, std::memory_order_relaxed);
}

}  // namespace aiocann::sim
