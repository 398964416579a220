// virtual.cpp: reservations and mappings. Arena hands out the addresses; what is behind them is kept here.
#include "sim/virtual.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "sim/device.hpp"
#include "sim/error.hpp"
#include "sim/machine.hpp"

namespace aiocann::sim {
namespace {

uint64_t whole_pages(uint64_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }

/// Where it is counted.
Arena &memory_of(const Physical &physical) {
  return physical.is_host ? machine().pinned() : physical.device->memory;
}

uintptr_t address_of(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }

}  // namespace

const VirtualMemory::Range *VirtualMemory::range_of(uintptr_t address) const {
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) return nullptr;
  --range;
  return address - range->first < range->second.bytes ? &range->second : nullptr;
}

const VirtualMemory::Mapping *VirtualMemory::mapping_of(uintptr_t address, uintptr_t *begin) const {
  const Range *range = range_of(address);
  if (range == nullptr) return nullptr;
  auto mapping = range->mappings.upper_bound(address);
  if (mapping == range->mappings.begin()) return nullptr;
  --mapping;
  if (address - mapping->first >= mapping->second.bytes) return nullptr;
  if (begin != nullptr) *begin = mapping->first;
  return &mapping->second;
}

void *VirtualMemory::reserve_range(uint64_t bytes, Device *device, void *expected) {
  if (bytes > capacity()) return nullptr;
  const uint64_t whole = whole_pages(bytes);
  void *pointer = nullptr;
  if (expected == nullptr)
    pointer = take_addresses(whole);
  else if (take_addresses_at(expected, whole))
    pointer = expected;
  if (pointer == nullptr) return nullptr;
  std::unique_lock<std::shared_mutex> lock(ranges_mutex_);
  ranges_[address_of(pointer)] = Range{bytes, device, {}};
  return pointer;
}

aclError VirtualMemory::release_range(void *pointer) {
  std::unique_lock<std::shared_mutex> lock(ranges_mutex_);
  const auto range = ranges_.find(address_of(pointer));
  if (range == ranges_.end())
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not the start of a reservation", pointer);
  if (!range->second.mappings.empty())
    return fail(ACL_ERROR_RT_PARAM_INVALID, "memory is still mapped in the reservation %p",
                pointer);
  give_back_addresses(pointer, whole_pages(range->second.bytes));
  ranges_.erase(range);
  return ACL_SUCCESS;
}

aclError VirtualMemory::map(void *pointer, uint64_t bytes, Physical *physical, bool readable) {
  const uintptr_t begin = address_of(pointer);
  std::unique_lock<std::shared_mutex> lock(ranges_mutex_);
  Range *range = range_of(begin);
  if (range == nullptr || range_of(begin + bytes - 1) != range)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%p and what follows is not within one reservation",
                pointer);
  if (begin % kSmallPage != 0)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not at a page's start", pointer);
  const auto next = range->mappings.lower_bound(begin);
  const bool meets_next = next != range->mappings.end() && next->first < begin + bytes;
  if (meets_next || mapping_of(begin) != nullptr)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "memory is mapped at %p already", pointer);
  if (!range->mappings.empty()) {
    const Physical *other = range->mappings.begin()->second.physical;
    if (other->device != physical->device || other->is_import != physical->is_import ||
        other->is_host != physical->is_host)
      return fail(ACL_ERROR_RT_PARAM_INVALID,
                  "a reservation takes memory of one device or of the host, and not imported and "
                  "own memory");
  }
  const int access = readable ? PROT_READ | PROT_WRITE : PROT_NONE;
  if (mmap(pointer, bytes, access, MAP_SHARED | MAP_FIXED, physical->fd, 0) == MAP_FAILED)
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "the system does not map %llu bytes",
                static_cast<unsigned long long>(bytes));
  range->device = physical->device;
  range->mappings[begin] = Mapping{bytes, physical, readable, 0};
  ++physical->refs;
  return ACL_SUCCESS;
}

void VirtualMemory::unmap_locked(uintptr_t begin, const Mapping &mapping) {
  map_private(reinterpret_cast<void *>(begin), mapping.bytes);
  release_locked(mapping.physical);
}

aclError VirtualMemory::unmap(void *pointer) {
  std::unique_lock<std::shared_mutex> lock(ranges_mutex_);
  Range *range = range_of(address_of(pointer));
  const auto mapping = range == nullptr ? std::map<uintptr_t, Mapping>::iterator()
                                        : range->mappings.find(address_of(pointer));
  if (range == nullptr || mapping == range->mappings.end())
    return fail(ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped that starts at %p", pointer);
  unmap_locked(mapping->first, mapping->second);
  range->mappings.erase(mapping);
  return ACL_SUCCESS;
}

aclError VirtualMemory::grant(void *pointer, uint64_t bytes, const Device *device,
                              aclrtMemAccessFlags flags) {
  std::unique_lock<std::shared_mutex> lock(ranges_mutex_);
  uintptr_t begin = 0;
  auto *mapping = const_cast<Mapping *>(mapping_of(address_of(pointer), &begin));
  if (mapping == nullptr || begin != address_of(pointer) || bytes != mapping->bytes)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not one mapping of that size", pointer);
  const bool allowed = flags != ACL_RT_MEM_ACCESS_FLAGS_NONE;
  if (device == mapping->physical->device) {
    if (mprotect(pointer, bytes, allowed ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
      return fail(ACL_ERROR_RT_INTERNAL_ERROR, "the system does not change the access to %p",
                  pointer);
    mapping->is_accessible = allowed;
  } else {
    const uint64_t bit = uint64_t{1} << device->index;
    mapping->granted = allowed ? mapping->granted | bit : mapping->granted & ~bit;
  }
  return ACL_SUCCESS;
}

aclError VirtualMemory::access_of(void *pointer, const Device *device, uint64_t *flags) const {
  std::shared_lock<std::shared_mutex> lock(ranges_mutex_);
  const Mapping *mapping = mapping_of(address_of(pointer));
  if (mapping == nullptr)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped at %p", pointer);
  const bool allowed = device == mapping->physical->device
                           ? mapping->is_accessible
                           : (mapping->granted >> device->index & 1) != 0;
  *flags = allowed ? ACL_RT_MEM_ACCESS_FLAGS_READWRITE : ACL_RT_MEM_ACCESS_FLAGS_NONE;
  return ACL_SUCCESS;
}

Physical *VirtualMemory::retain_at(const void *pointer) {
  std::unique_lock<std::shared_mutex> lock(ranges_mutex_);
  const Mapping *mapping = mapping_of(address_of(pointer));
  if (mapping == nullptr) return nullptr;
  ++mapping->physical->refs;
  ++mapping->physical->handles;
  return mapping->physical;
}

aclError VirtualMemory::release_handle(Physical *physical) {
  std::unique_lock<std::shared_mutex> lock(ranges_mutex_);
  if (physical->handles == 0)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the memory handle was freed already");
  --physical->handles;
  release_locked(physical);
  return ACL_SUCCESS;
}

void VirtualMemory::release_locked(Physical *physical) {
  if (--physical->refs > 0) return;
  physical->alive.store(false);
  close(physical->fd);
  if (!physical->is_import) memory_of(*physical).unaccount(physical->bytes);
  physical->exported.reset();
  machine().physicals().release(physical);
}

void VirtualMemory::clear(const Device *device) {
  std::unique_lock<std::shared_mutex> lock(ranges_mutex_);
  for (auto range = ranges_.begin(); range != ranges_.end();) {
    if (range->second.device != device) {
      ++range;
      continue;
    }
    for (const auto &[begin, mapping] : range->second.mappings) unmap_locked(begin, mapping);
    give_back_addresses(reinterpret_cast<void *>(range->first), whole_pages(range->second.bytes));
    range = ranges_.erase(range);
  }
  SlotTable<Physical> &all = machine().physicals();
  for (uint32_t i = 0; i < all.used(); ++i) {
    Physical *physical = all.at(i);
    if (!physical->alive.load() || physical->device != device) continue;
    while (physical->handles > 0) {
      --physical->handles;
      release_locked(physical);
    }
  }
}

Device *VirtualMemory::device_at(const void *pointer, bool *is_host) const {
  std::shared_lock<std::shared_mutex> lock(ranges_mutex_);
  const Range *range = range_of(address_of(pointer));
  // All of a reservation is of one kind.
  *is_host = range != nullptr && !range->mappings.empty() &&
             range->mappings.begin()->second.physical->is_host;
  return range == nullptr || *is_host ? nullptr : range->device;
}

bool VirtualMemory::is_granted(const void *pointer, const Device *device) const {
  std::shared_lock<std::shared_mutex> lock(ranges_mutex_);
  const Mapping *mapping = mapping_of(address_of(pointer));
  return mapping != nullptr && (mapping->granted >> device->index & 1) != 0;
}

Arena::Check VirtualMemory::check(const void *pointer, uint64_t bytes) const {
  std::shared_lock<std::shared_mutex> lock(ranges_mutex_);
  uintptr_t address = address_of(pointer);
  const uintptr_t end = address + bytes;
  do {
    uintptr_t begin = 0;
    const Mapping *mapping = mapping_of(address, &begin);
    if (mapping == nullptr || !mapping->is_accessible) return Check::kOutside;
    address = begin + mapping->bytes;
  } while (address < end);
  return Check::kInside;
}

bool VirtualMemory::find_block(const void *pointer, BlockInfo *info) const {
  std::shared_lock<std::shared_mutex> lock(ranges_mutex_);
  uintptr_t begin = 0;
  const Mapping *mapping = mapping_of(address_of(pointer), &begin);
  if (mapping == nullptr) return false;
  *info = BlockInfo{begin, mapping->bytes, mapping->physical->page, false};
  return true;
}

bool VirtualMemory::find_range(const void *pointer, uintptr_t *begin, uint64_t *bytes) const {
  std::shared_lock<std::shared_mutex> lock(ranges_mutex_);
  auto range = ranges_.upper_bound(address_of(pointer));
  if (range == ranges_.begin()) return false;
  --range;
  if (address_of(pointer) - range->first >= range->second.bytes) return false;
  *begin = range->first;
  *bytes = range->second.bytes;
  return true;
}

}  // namespace aiocann::sim
