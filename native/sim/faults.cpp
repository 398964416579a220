// faults.cpp: the list of armed faults, and the misuse channel.
#include "sim/faults.hpp"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "sim/aiocann_sim.h"

namespace aiocann::sim {
namespace {

struct Rule {
  FaultKind kind;
  std::string target;
  uint64_t remaining;  ///< occurrences until it fires; 0: fires every time
  int value;
};

struct FaultState {
  std::mutex mutex;
  std::vector<Rule> rules;
  std::map<std::string, uint64_t> calls;
  bool counts_calls = false;
  std::string last_misuse;
  aiocann_sim_misuse_hook hook = nullptr;
};

// Leaked: workers may still be running when static destructors do.
FaultState &state() {
  static FaultState *const leaked = new FaultState();
  return *leaked;
}

}  // namespace

std::atomic<uint32_t> g_armed_faults{0};
Counters g_counters;

namespace {

/// Counting looks at each call too.
void tell_armed(const FaultState &faults) {
  g_armed_faults.store(static_cast<uint32_t>(faults.rules.size()) + (faults.counts_calls ? 1 : 0),
                       std::memory_order_relaxed);
}

}  // namespace

std::optional<int> strike(FaultKind kind, const char *name) {
  FaultState &faults = state();
  std::lock_guard<std::mutex> lock(faults.mutex);
  for (size_t i = 0; i < faults.rules.size(); ++i) {
    Rule &rule = faults.rules[i];
    if (rule.kind != kind || (rule.target != "*" && rule.target != name)) continue;
    if (rule.remaining == 0) return rule.value;
    if (--rule.remaining > 0) continue;
    const int value = rule.value;
    faults.rules.erase(faults.rules.begin() + static_cast<std::ptrdiff_t>(i));
    tell_armed(faults);
    return value;
  }
  return std::nullopt;
}

int injected_call_fault(const char *function) {
  {
    FaultState &faults = state();
    std::lock_guard<std::mutex> lock(faults.mutex);
    if (faults.counts_calls) ++faults.calls[function];
  }
  return injected_fault(FaultKind::kCall, function);
}

void count_calls(bool on) {
  FaultState &faults = state();
  std::lock_guard<std::mutex> lock(faults.mutex);
  if (on) faults.calls.clear();
  faults.counts_calls = on;
  tell_armed(faults);
}

const char *called(int32_t index, uint64_t *times) {
  static thread_local std::string shown;
  FaultState &faults = state();
  std::lock_guard<std::mutex> lock(faults.mutex);
  if (index < 0 || static_cast<size_t>(index) >= faults.calls.size()) return nullptr;
  const auto found = std::next(faults.calls.begin(), index);
  shown = found->first;
  *times = found->second;
  return shown.c_str();
}

void arm_fault(FaultKind kind, const char *target, uint64_t nth, int value) {
  FaultState &faults = state();
  std::lock_guard<std::mutex> lock(faults.mutex);
  faults.rules.push_back(Rule{kind, target, nth, value});
  tell_armed(faults);
}

void clear_faults() {
  FaultState &faults = state();
  std::lock_guard<std::mutex> lock(faults.mutex);
  faults.rules.clear();
  tell_armed(faults);
}

namespace {

void tell(bool is_misuse, const char *format, va_list arguments) {
  char text[512];
  vsnprintf(text, sizeof text, format, arguments);
  FaultState &faults = state();
  aiocann_sim_misuse_hook hook;
  {
    std::lock_guard<std::mutex> lock(faults.mutex);
    if (is_misuse) faults.last_misuse = text;
    hook = faults.hook;
  }
  static const bool log = getenv("AIOCANN_SIM_LOG") != nullptr;
  if (log) fprintf(stderr, "aiocann simulator: %s: %s\n", is_misuse ? "misuse" : "leak", text);
  if (hook != nullptr) hook(text);
}

}  // namespace

void misuse(const char *format, ...) {
  count(g_counters.misuse);
  va_list arguments;
  va_start(arguments, format);
  tell(true, format, arguments);
  va_end(arguments);
}

void leak(uint64_t n, const char *format, ...) {
  count(g_counters.leaks, n);
  va_list arguments;
  va_start(arguments, format);
  tell(false, format, arguments);
  va_end(arguments);
}

const char *last_misuse() {
  static thread_local std::string shown;
  FaultState &faults = state();
  std::lock_guard<std::mutex> lock(faults.mutex);
  shown = faults.last_misuse;
  return shown.c_str();
}

void set_misuse_hook(aiocann_sim_misuse_hook hook) {
  FaultState &faults = state();
  std::lock_guard<std::mutex> lock(faults.mutex);
  faults.hook = hook;
}

}  // namespace aiocann::sim
