// strict.cpp: the checks of strict mode.
#include "sim/strict.hpp"

#include "sim/aclnn/live.hpp"

#include <map>
#include <mutex>
#include <string>

#include "sim/faults.hpp"
#include "sim/machine.hpp"
#include "sim/stream.hpp"

namespace aiocann::sim::strict {

std::atomic<bool> g_is_on{false};

namespace {

/// How many tasks use a block, and which came last.
struct BlockUse {
  std::atomic<uint32_t> tasks{0};
  std::atomic<const char *> what{""};
  std::atomic<int32_t> stream{-1};
};

/// By the first address of the block. Blocks that are not used have an entry until they are freed.
struct Registry {
  std::mutex mutex;
  std::map<uintptr_t, std::shared_ptr<BlockUse>> blocks;
};

Registry &registry() {
  static Registry *const leaked = new Registry();
  return *leaked;
}

std::string text_of(const Where &where) {
  if (where.stream == nullptr) return where.what;
  return std::string(where.what) + " of stream " + std::to_string(where.stream->id()) +
         " of device " + std::to_string(machine().user_id(where.stream->device())) + " (task " +
         std::to_string(where.task) + ")";
}

/// The device in whose own memory this is. Mapped and pinned memory is written unseen, so it is not looked at.
Device *owner(const void *begin) {
  const Location place = machine().locate(begin);
  return place.device != nullptr && place.arena == &place.device->memory ? place.device : nullptr;
}

bool overlap(uintptr_t a, uint64_t a_bytes, uintptr_t b, uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

}  // namespace

class Uses {
 public:
  explicit Uses(std::vector<std::shared_ptr<BlockUse>> blocks) : blocks_(std::move(blocks)) {}
  ~Uses() {
    for (const auto &block : blocks_) block->tasks.fetch_sub(1, std::memory_order_acq_rel);
  }
  Uses(const Uses &) = delete;
  Uses &operator=(const Uses &) = delete;

 private:
  const std::vector<std::shared_ptr<BlockUse>> blocks_;
};

std::shared_ptr<const Uses> use(const Ranges &ranges, const char *what, const Stream *stream) {
  std::vector<std::shared_ptr<BlockUse>> blocks;
  for (const Range &range : ranges) {
    const Location where = machine().locate(range.begin);
    Arena::BlockInfo info = {};
    if (range.bytes == 0 || where.arena == nullptr ||
        !where.arena->find_block(range.begin, &info)) {
      continue;
    }
    Registry &known = registry();
    std::lock_guard<std::mutex> lock(known.mutex);
    std::shared_ptr<BlockUse> &block = known.blocks[info.begin];
    if (block == nullptr) block = std::make_shared<BlockUse>();
    block->tasks.fetch_add(1, std::memory_order_acq_rel);
    block->what.store(what);
    block->stream.store(stream->id());
    blocks.push_back(block);
  }
  return blocks.empty() ? nullptr : std::make_shared<const Uses>(std::move(blocks));
}

void freeing(const char *call, const void *begin) {
  std::shared_ptr<BlockUse> block;
  {
    Registry &known = registry();
    std::lock_guard<std::mutex> lock(known.mutex);
    const auto found = known.blocks.find(reinterpret_cast<uintptr_t>(begin));
    if (found == known.blocks.end()) return;
    block = found->second;
    known.blocks.erase(found);
  }
  if (const uint32_t tasks = block->tasks.load(std::memory_order_acquire)) {
    misuse("%s: %p is still used by %u tasks that are not done, the last a %s of stream %d", call,
           begin, tasks, block->what.load(), block->stream.load());
  }
}

void reads(const Where &where, const void *begin, uint64_t bytes) {
  const Device *device = owner(begin);
  if (device == nullptr) return;
  const auto address = reinterpret_cast<uintptr_t>(begin);
  if (const uintptr_t at = device->memory.written.first_unwritten(address, bytes)) {
    misuse("%s reads memory of device %d that was never written: %p, byte %llu of %llu",
           text_of(where).c_str(), machine().user_id(device), reinterpret_cast<void *>(at),
           static_cast<unsigned long long>(at - address), static_cast<unsigned long long>(bytes));
  }
}

void writes(const void *begin, uint64_t bytes) {
  if (Device *device = owner(begin))
    device->memory.written.mark(reinterpret_cast<uintptr_t>(begin), bytes);
}

void copies(const Where &where, const void *dst, uint64_t dst_pitch, const void *src,
            uint64_t src_pitch, uint64_t width, uint64_t rows) {
  if (width == 0 || rows == 0) return;
  const auto to = reinterpret_cast<uintptr_t>(dst), from = reinterpret_cast<uintptr_t>(src);
  // Of pitched copies only what surely overlaps: rows may lie between each other's.
  const bool whole = dst_pitch == width && src_pitch == width;
  const uint64_t bytes = whole ? width * rows : width;
  if (overlap(to, bytes, from, bytes)) {
    misuse("%s copies between ranges that overlap: %llu bytes from %p to %p",
           text_of(where).c_str(), static_cast<unsigned long long>(bytes), src, dst);
  }
  if (whole) {
    reads(where, src, bytes);
    writes(dst, bytes);
    return;
  }
  for (uint64_t row = 0; row < rows; ++row) {
    reads(where, reinterpret_cast<const void *>(from + row * src_pitch), width);
    writes(reinterpret_cast<const void *>(to + row * dst_pitch), width);
  }
}

/// Objects of the aclnn interface belong to no device.
static void leaving_objects(const char *call) {
  const LiveObjects &live = g_live_objects;
  const uint64_t tensors = live.tensors.load(), scalars = live.scalars.load(),
                 arrays = live.arrays.load(), lists = live.lists.load(),
                 executors = live.executors.load();
  const uint64_t left = tensors + scalars + arrays + lists + executors;
  if (left == 0) return;
  leak(left,
       "%s: the program leaves %llu tensors, %llu scalars, %llu arrays, %llu lists and %llu "
       "executors",
       call, static_cast<unsigned long long>(tensors), static_cast<unsigned long long>(scalars),
       static_cast<unsigned long long>(arrays), static_cast<unsigned long long>(lists),
       static_cast<unsigned long long>(executors));
}

void leaving(const char *call, const Device *only) {
  if (only == nullptr) leaving_objects(call);
  uint64_t blocks = 0, streams = 0, events = 0;
  for (int d = 0; d < kMaxDevices; ++d) {
    const Device &device = *machine().by_index(d);
    if (only != nullptr && only != &device) continue;
    blocks += device.memory.live_blocks();
    events += device.events.live();
    // Each context has one of its own.
    const uint32_t own = device.n_contexts.load();
    streams += device.streams.live() - std::min(device.streams.live(), own);
  }
  const uint64_t pinned = only != nullptr ? 0 : machine().pinned().live_blocks();
  const uint64_t left = blocks + streams + events + pinned;
  if (left == 0) return;
  leak(left,
       "%s: the program leaves %llu blocks of device memory, %llu streams, %llu events and %llu "
       "blocks of pinned memory",
       call, static_cast<unsigned long long>(blocks), static_cast<unsigned long long>(streams),
       static_cast<unsigned long long>(events), static_cast<unsigned long long>(pinned));
}

}  // namespace aiocann::sim::strict
