// shared.hpp: what processes share: blocks of memory with a header, named by a key that one process gives another.
//
// A block is a memfd, and its key says whose descriptor of it to open under /proc: nothing is left behind in the file
// system, and a process that has opened a block keeps it, whatever becomes of the one that made it.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "acl_abi.h"

namespace aiocann::sim {

/// An anonymous file of so many bytes, and its descriptor. -1: the system refuses.
int make_shared_file(uint64_t bytes);

class SharedBlock {
 public:
  enum class Kind : uint32_t { kNotify = 1, kEvent, kMemory, kPhysical };
  static constexpr size_t kKeyBytes = 64;  ///< with the final 0

  /// What every process sees. Words change atomically; the rest is written before the key is given out.
  struct Header {
    uint64_t nonce;
    Kind kind;
    int32_t owner;
    int32_t device;     ///< index, in the machine of the owner
    int32_t memory_fd;  ///< of the owner: the memory that a block stands for, -1: none
    uint64_t memory_offset, memory_bytes, page;
    std::atomic<uint32_t> checks_pids;
    std::atomic<uint32_t> n_pids;
    std::atomic<int32_t> pids[64];
    std::atomic<uint32_t> word;       ///< of a notify: set or not
    std::atomic<uint64_t> counts[2];  ///< of an event: recordings called for, and done
  };

  /// nullptr: no memory or no descriptors left.
  static std::shared_ptr<SharedBlock> make(Kind kind, int device);
  /// nullptr, with `code` and text, for a key that names nothing of this kind or that this process may not use.
  static std::shared_ptr<SharedBlock> open(const std::string &key, Kind kind, aclError *code);

  ~SharedBlock();
  SharedBlock(const SharedBlock &) = delete;
  SharedBlock &operator=(const SharedBlock &) = delete;

  Header &header() const { return *header_; }
  std::string key() const { return key_of(number()); }
  /// The same in 64 bits: process, descriptor, and what tells a block from an earlier one with these.
  uint64_t number() const;
  static std::string key_of(uint64_t number);
  /// The processes that may open it, besides those named before. False: too many.
  bool allow(const int32_t *pids, size_t n);
  /// A descriptor of our own of the memory behind it; -1: the owner has ended.
  int open_memory() const;

 private:
  SharedBlock() = default;
  int fd_ = -1;
  int owner_fd_ = -1;  ///< as the owner numbers it
  Header *header_ = nullptr;
};

/// An event that several processes record and wait for: recordings are counted.
class SharedEvent {
 public:
  explicit SharedEvent(std::shared_ptr<SharedBlock> block) : block_(std::move(block)) {}
  SharedBlock &block() const { return *block_; }
  uint64_t begin_record() { return block_->header().counts[0].fetch_add(1) + 1; }
  uint64_t recorded() const { return block_->header().counts[0].load(); }
  uint64_t completed() const { return block_->header().counts[1].load(); }
  void complete(uint64_t number);
  bool is_complete() const { return completed() >= recorded(); }

 private:
  std::shared_ptr<SharedBlock> block_;
};

}  // namespace aiocann::sim
