// virtual.hpp: addresses that a program reserves and maps memory to: physical handles, and memory of other processes.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>

#include "acl_abi.h"
#include "sim/arena.hpp"
#include "sim/shared.hpp"

namespace aiocann::sim {

struct Device;

/// Physical memory without an address: a file. A slot of the machine's table, kept by its handle and its mappings.
struct Physical {
  uint32_t slot_index = 0;
  std::atomic<bool> alive{false};
  Device *device = nullptr;  ///< whose it is; of memory of the host, in whose context it was made
  bool is_host = false;
  uint64_t bytes = 0, page = 0;
  int fd = -1;
  bool is_import = false;
  aclrtPhysicalMemProp prop = {};
  // Guarded by VirtualMemory's lock.
  uint32_t refs = 0;                      ///< mappings, and the next
  uint32_t handles = 0;                   ///< that the program may still free
  std::shared_ptr<SharedBlock> exported;  ///< what others import it by
};

/// One range of addresses for all devices. A reservation belongs to one device, that of what is mapped to it.
class VirtualMemory final : public Arena {
 public:
  VirtualMemory() : Arena(-1) {}

  /// `bytes` are rounded up to huge pages. `expected`: where, or nullptr. nullptr: no addresses left, or not there.
  void *reserve_range(uint64_t bytes, Device *device, void *expected = nullptr);
  aclError release_range(void *pointer);
  /// `readable`: without it, nobody has access until grant().
  aclError map(void *pointer, uint64_t bytes, Physical *physical, bool readable);
  aclError unmap(void *pointer);
  aclError grant(void *pointer, uint64_t bytes, const Device *device, aclrtMemAccessFlags flags);
  aclError access_of(void *pointer, const Device *device, uint64_t *flags) const;
  /// Another reference to what is mapped at `pointer`; nullptr: nothing is.
  Physical *retain_at(const void *pointer);
  /// Gives up one handle.
  aclError release_handle(Physical *physical);
  /// All of a device that is being closed.
  void clear(const Device *device);

  /// Whose memory is at `pointer`, which is in the range; nullptr: nobody's, or the host's.
  Device *device_at(const void *pointer, bool *is_host) const;
  /// Did grant() let `device` reach it?
  bool is_granted(const void *pointer, const Device *device) const;

  Check check(const void *pointer, uint64_t bytes) const override;
  bool find_block(const void *pointer, BlockInfo *info) const override;
  bool find_range(const void *pointer, uintptr_t *begin, uint64_t *bytes) const;

 private:
  struct Mapping {
    uint64_t bytes;
    Physical *physical;
    bool is_accessible;
    uint64_t granted;  ///< bit d: device d, besides the owner
  };
  struct Range {
    uint64_t bytes;
    Device *device;
    std::map<uintptr_t, Mapping> mappings;
  };
  const Range *range_of(uintptr_t address) const;
  Range *range_of(uintptr_t address) {
    return const_cast<Range *>(static_cast<const VirtualMemory *>(this)->range_of(address));
  }
  const Mapping *mapping_of(uintptr_t address, uintptr_t *begin = nullptr) const;
  void unmap_locked(uintptr_t begin, const Mapping &mapping);
  void release_locked(Physical *physical);

  mutable std::shared_mutex ranges_mutex_;
  std::map<uintptr_t, Range> ranges_;
};

}  // namespace aiocann::sim
