// pool.hpp: device memory of one device, sub-allocated. Pure bookkeeping: no driver call is made here.
//
// Segments come from the driver and go back to it whole. A segment is a chain of blocks in address order; free
// neighbours are joined. A block whose memory was dropped while ops of one stream still use it is *lent*: it may
// be handed out again to that stream at once (its order protects it) and to anybody when those uses have passed.
//
// "That stream's order" means two things. What a user asks for is used by ops enqueued later than all uses of the
// lent block. What a lane takes while it submits an op is used by that op, and ops behind it in the stream's FIFO
// may still use a block that a user dropped: so a lane gets only blocks that lanes took, whose uses are submitted.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

namespace aiocann::core {

struct Segment;

struct Block {
  Segment *segment = nullptr;
  uint64_t offset = 0, nbytes = 0;
  Block *before = nullptr, *after = nullptr;  ///< neighbours in the segment
  uint32_t generations = 0;                   ///< mems whose uses have not all passed; 0: free
  bool lent = false;    ///< in the lent set: no mem stands for it, stream `stream` may take it
  uint64_t stream = 0;  ///< key of the stream whose order protects it while lent
  uint64_t address() const;
};

struct Segment {
  uint64_t address = 0, nbytes = 0;
  Block *first = nullptr;
  uint32_t condemned = 0;  ///< the driver has taken it: blocks that have yet to come back
};

class Pool {
 public:
  static constexpr uint64_t kGranule = 512;
  static constexpr uint64_t kSegmentBytes = uint64_t{32} << 20;
  static constexpr uint64_t kHugePage = uint64_t{2} << 20;
  /// From here on a request gets a segment of its own size.
  static constexpr uint64_t kLargeBytes = uint64_t{16} << 20;

  ~Pool();

  /// Who takes or drops a block.
  enum class By : uint8_t { kUser, kLane };

  /// A block of at least nbytes, or null: then add_segment. stream 0: none. Thread: any.
  Block *take(uint64_t nbytes, uint64_t stream, By by = By::kUser);
  /// The mem that stood for block was dropped while in use on one stream (0: on several): it may be lent.
  void lend(Block *block, uint64_t stream, By by = By::kUser);
  /// All uses of one mem that stood for block have passed. dropped: lend() was called for that mem.
  void give_back(Block *block, bool dropped);

  /// How much to ask the driver for, so that take(nbytes) will succeed.
  static uint64_t segment_bytes(uint64_t nbytes);
  static uint64_t rounded(uint64_t nbytes) { return (nbytes + kGranule - 1) / kGranule * kGranule; }
  void add_segment(uint64_t address, uint64_t nbytes);
  /// Takes out the segments with nothing in them (all: every segment, for closing): addresses to free.
  std::vector<uint64_t> remove_segments(bool all);

  /// The driver has taken all of it back. What is still in use is forgotten when it comes back.
  void condemn();

  uint64_t reserved_bytes() const { return reserved_.load(std::memory_order_relaxed); }
  uint64_t used_bytes() const { return used_.load(std::memory_order_relaxed); }
  /// For tests: every invariant of the structure.
  bool consistent() const;

 private:
  struct BySize {
    bool operator()(const Block *a, const Block *b) const {
      return a->nbytes != b->nbytes ? a->nbytes < b->nbytes : a->address() < b->address();
    }
  };
  static uint64_t key(uint64_t stream, By by) {
    return by == By::kLane ? stream | uint64_t{1} << 62 : stream;
  }
  static uint64_t stream_of(uint64_t key) { return key & ~(uint64_t{1} << 62); }
  using Sorted = std::set<Block *, BySize>;
  static Sorted::iterator best_fit(const Sorted &blocks, uint64_t nbytes);
  Block *take_lent_locked(uint64_t wanted, uint64_t key);
  Block *split_locked(Block *block, uint64_t nbytes);
  void free_locked(Block *block);

  mutable std::mutex mutex_;  // a leaf: list work only
  Sorted free_;
  std::map<uint64_t, Sorted> lent_;  ///< by key
  std::set<Segment *> segments_;
  std::set<Segment *> condemned_;
  std::atomic<uint64_t> reserved_{0}, used_{0};
};

}  // namespace aiocann::core
