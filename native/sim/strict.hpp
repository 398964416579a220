// strict.hpp: strict mode: what hardware lets pass in silence is looked for and reported, never refused.
//
// Off, each place costs one relaxed load. Always on are the checks that cost nothing more: liveness and bounds of
// operands, stale handles, double frees.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/queue.hpp"

namespace aiocann::sim {

class Stream;
struct Device;

/// Which call or task does something, for reports.
struct Where {
  const char *what;                ///< "aclrtMemcpy", or of a task "memcpy", "aclnnAdd"
  const Stream *stream = nullptr;  ///< nullptr: a call
  uint32_t task = 0;
};

namespace strict {

extern std::atomic<bool> g_is_on;
inline bool is_on() { return g_is_on.load(std::memory_order_relaxed); }

/// `rows` rows of `width` bytes are about to be copied: neither may the sides overlap, nor may device memory be
/// read that was never written.
void copies(const Where &where, const void *dst, uint64_t dst_pitch, const void *src,
            uint64_t src_pitch, uint64_t width, uint64_t rows);
void reads(const Where &where, const void *begin, uint64_t bytes);
void writes(const void *begin, uint64_t bytes);

/// That tasks which are not done yet use blocks of memory. One for each task, which drops it when it is done.
class Uses;
template <class T>
std::shared_ptr<const Uses> uses_of(const T &task, const Stream *stream);

/// A block is about to be freed by `call`: no task may use it any more.
void freeing(const char *call, const void *begin);
/// What a program leaves behind: everything (device nullptr), or on a device that is closed.
void leaving(const char *call, const Device *device);

// ---- what each kind of task uses ----

struct Range {
  const void *begin;
  uint64_t bytes;
};
using Ranges = std::vector<Range>;

template <class T>
void add_ranges(const T &, Ranges *) {}  // a task that touches no memory
inline void add_ranges(const CopyTask &task, Ranges *ranges) {
  ranges->push_back({task.dst, task.bytes});
  ranges->push_back({task.src, task.bytes});
}
inline void add_ranges(const Copy2dTask &task, Ranges *ranges) {
  ranges->push_back({task.dst, task.width});
  ranges->push_back({task.src, task.width});
}
inline void add_ranges(const BufferCopyTask &task, Ranges *ranges) {
  ranges->push_back({task.dst, task.n_bytes});
}
inline void add_ranges(const MemsetTask &task, Ranges *ranges) {
  ranges->push_back({task.dst, task.bytes});
}
inline void add_ranges(const KernelTask &task, Ranges *ranges) {
  for (const Operand &operand : task.operands) ranges->push_back({operand.begin, operand.bytes});
}

template <class T>
const char *name_of(const T &) {
  return "memcpy";
}
inline const char *name_of(const MemsetTask &) { return "memset"; }
inline const char *name_of(const KernelTask &task) { return task.name; }

std::shared_ptr<const Uses> use(const Ranges &ranges, const char *what, const Stream *stream);

template <class T>
std::shared_ptr<const Uses> uses_of(const T &task, const Stream *stream) {
  Ranges ranges;
  add_ranges(task, &ranges);
  return ranges.empty() ? nullptr : use(ranges, name_of(task), stream);
}

}  // namespace strict
}  // namespace aiocann::sim
