// faults.hpp: faults to inject, misuse seen, counters. Shared by the whole machine and its tests.
#pragma once
#include <atomic>
#include <cstdint>

namespace aiocann::sim {

/// What a fault can strike. A rule fires on the nth matching occurrence after it was armed.
enum class FaultKind : uint8_t {
  kCall,    ///< an exported function, by name: it returns the code and does nothing
  kKernel,  ///< a kernel task, by name: it faults on the device, without effect
  kCopy,    ///< an asynchronous copy or memset task, by "memcpy" or "memset"
};

extern std::atomic<uint32_t> g_armed_faults;
inline bool faults_armed() { return g_armed_faults.load(std::memory_order_relaxed) != 0; }

/// 0, or the code with which this occurrence must fail. Call only when faults_armed().
int injected_fault(FaultKind kind, const char *name);
int injected_call_fault(const char *function);

/// nth 1 is the next occurrence and fires once; nth 0: every occurrence. `target` "*" matches every name.
void arm_fault(FaultKind kind, const char *target, uint64_t nth, int code);
void clear_faults();

/// Hardware would have punished this silently: counted, kept as text, logged; never changes a return code.
void misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *last_misuse();  ///< of the process; "" when none. Valid until this thread asks again.

/// One relaxed counter each.
struct Counters {
  std::atomic<uint64_t> tasks{0}, kernels{0}, copies{0}, memsets{0}, callbacks{0}, faults{0};
  std::atomic<uint64_t> bytes_h2d{0}, bytes_d2h{0}, bytes_d2d{0}, bytes_peer{0};
  std::atomic<uint64_t> misuse{0}, exceptions{0};
};
extern Counters g_counters;

inline void count(std::atomic<uint64_t> &counter, uint64_t n = 1) {
  counter.fetch_add(n, std::memory_order_relaxed);
}

}  // namespace aiocann::sim
