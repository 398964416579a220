// The pool's bookkeeping by itself: no overlap, coalescing, lending to a stream, whole segments back.
#include <map>
#include <random>
#include <vector>

#include "check.hpp"
#include "core/pool.hpp"

using aiocann::core::Block;
using aiocann::core::Pool;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

Block *take(Pool &pool, uint64_t nbytes, uint64_t stream = 0) {
  Block *block = pool.take(nbytes, stream);
  CHECK(block != nullptr);
  CHECK(block->nbytes >= nbytes);
  CHECK(pool.consistent());
  return block;
}

void splits_and_joins() {
  Pool pool;
  CHECK(pool.take(1, 0) == nullptr);
  CHECK_EQ(Pool::segment_bytes(1), 32 * kMiB);
  CHECK_EQ(Pool::segment_bytes(100 * kMiB + 1), 102 * kMiB);
  pool.add_segment(0x10000000, 32 * kMiB);
  Block *a = take(pool, 1), *b = take(pool, 513), *c = take(pool, 1024);
  CHECK_EQ(a->address(), 0x10000000);
  CHECK_EQ(b->address(), 0x10000000 + 512);
  CHECK_EQ(c->address(), 0x10000000 + 512 + 1024);
  CHECK_EQ(pool.used_bytes(), 512 + 1024 + 1024);
  CHECK(pool.remove_segments(false).empty());
  pool.give_back(a, false);
  pool.give_back(c, false);
  CHECK(pool.consistent());
  Block *again = take(pool, 512);  // best fit: the hole
  CHECK_EQ(again->address(), 0x10000000);
  pool.give_back(b, false);
  pool.give_back(again, false);
  CHECK(pool.consistent());
  CHECK_EQ(pool.used_bytes(), 0);
  Block *all = take(pool, 32 * kMiB);
  CHECK(pool.take(1, 0) == nullptr);
  pool.give_back(all, false);
  CHECK_EQ(pool.remove_segments(false).size(), 1);
  CHECK_EQ(pool.reserved_bytes(), 0);
}

void lends_to_the_stream_alone() {
  Pool pool;
  pool.add_segment(4096, kMiB);
  Block *block = take(pool, kMiB);
  pool.lend(block, 7);
  CHECK_EQ(pool.used_bytes(), 0);
  CHECK(pool.take(kMiB, 0) == nullptr);
  CHECK(pool.take(kMiB, 8) == nullptr);
  CHECK(pool.take(1000, 7) == nullptr);  // too small for so large a block
  Block *second = take(pool, kMiB, 7);
  CHECK(second == block);
  pool.give_back(block, true);  // the first mem's uses have passed
  CHECK(pool.consistent());
  CHECK(pool.take(kMiB, 0) == nullptr);
  pool.give_back(second, false);
  CHECK(pool.consistent());
  // Used on several streams: nobody's until it has passed.
  block = take(pool, kMiB);
  pool.lend(block, 0);
  CHECK(pool.take(kMiB, 7) == nullptr);
  pool.give_back(block, true);
  // The second mem goes first, while the first is still in use: the stream may have it a third time.
  block = take(pool, kMiB);
  pool.lend(block, 7);
  CHECK(take(pool, kMiB, 7) == block);
  pool.give_back(block, false);
  CHECK(pool.take(kMiB, 9) == nullptr);
  CHECK(take(pool, kMiB, 7) == block);
  // It is used by another stream now: no order protects it.
  pool.lend(block, 9);
  CHECK(pool.take(kMiB, 7) == nullptr);
  CHECK(pool.take(kMiB, 9) == nullptr);
  pool.give_back(block, true);
  pool.give_back(block, true);
  CHECK(pool.consistent());
  CHECK(take(pool, kMiB) != nullptr);
}

// What a user dropped may still be used by commands behind the one for which a lane takes memory.
void lanes_get_what_lanes_took() {
  Pool pool;
  pool.add_segment(4096, kMiB);
  Block *block = take(pool, kMiB);
  pool.lend(block, 7, Pool::By::kUser);
  CHECK(pool.take(kMiB, 7, Pool::By::kLane) == nullptr);
  CHECK(pool.take(kMiB, 7, Pool::By::kUser) == block);
  pool.give_back(block, true);
  pool.lend(block, 7, Pool::By::kLane);
  CHECK(pool.take(kMiB, 8, Pool::By::kLane) == nullptr);
  CHECK(pool.take(kMiB, 7, Pool::By::kLane) == block);
  pool.lend(block, 7, Pool::By::kLane);
  CHECK(pool.take(kMiB, 7, Pool::By::kUser) == block);
  pool.give_back(block, true);
  pool.give_back(block, true);
  // A user's again: no lane's, as long as its uses may be in the FIFO.
  pool.lend(block, 7, Pool::By::kUser);
  CHECK(pool.take(kMiB, 7, Pool::By::kLane) == nullptr);
  pool.give_back(block, true);
  CHECK(pool.consistent());
}

/// Random life of many mems, checked against a map of what is handed out.
void random_life(uint32_t seed) {
  std::mt19937 random(seed);
  Pool pool;
  struct Use {
    Block *block;
    uint64_t stream;
    bool dropped;
  };
  std::vector<Use> mems;
  uint64_t next_segment = uint64_t{1} << 32;
  for (int step = 0; step < 4000; ++step) {
    const uint32_t dice = random() % 10;
    if (dice < 5) {
      const uint64_t nbytes = 1 + random() % (random() % 20 == 0 ? 20 * kMiB : 100000);
      const uint64_t stream = random() % 4;
      Block *block = pool.take(nbytes, stream);
      if (block == nullptr) {
        pool.add_segment(next_segment, Pool::segment_bytes(nbytes));
        next_segment += Pool::segment_bytes(nbytes) + (random() % 2) * 4096;
        block = pool.take(nbytes, stream);
        CHECK(block != nullptr);
      }
      // Nothing alive overlaps it; what was dropped may, on its own stream.
      for (const Use &other : mems) {
        if (other.block != block) {
          const bool apart = other.block->address() + other.block->nbytes <= block->address() ||
                             block->address() + block->nbytes <= other.block->address();
          CHECK(apart);
        } else {
          CHECK(other.dropped && stream != 0 && other.stream == stream);
        }
      }
      mems.push_back({block, stream, false});
    } else if (!mems.empty()) {
      const size_t i = random() % mems.size();
      if (!mems[i].dropped && dice < 8) {
        mems[i].dropped = true;
        pool.lend(mems[i].block, mems[i].stream);
      } else {
        pool.give_back(mems[i].block, mems[i].dropped);
        mems[i] = mems.back();
        mems.pop_back();
      }
    }
    if (dice == 9) pool.remove_segments(false);
    if (step % 16 == 0) CHECK(pool.consistent());
  }
  while (!mems.empty()) {
    pool.give_back(mems.back().block, mems.back().dropped);
    mems.pop_back();
  }
  CHECK(pool.consistent());
  CHECK_EQ(pool.used_bytes(), 0);
  pool.remove_segments(false);
  CHECK_EQ(pool.reserved_bytes(), 0);
}

}  // namespace

int main() {
  splits_and_joins();
  lends_to_the_stream_alone();
  lanes_get_what_lanes_took();
  for (uint32_t seed = 1; seed <= 10; ++seed) random_life(seed);
}
