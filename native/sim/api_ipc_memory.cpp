// api_ipc_memory.cpp: device memory that processes share by key, and host memory that is registered.
#include <string.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "sim/entry.hpp"
#include "sim/lookup.hpp"
#include "sim/machine.hpp"

namespace aiocann::sim {
namespace {

constexpr size_t kKeyLength = 65;

/// By key: what this process exported or imported.
struct Shares {
  struct Imported {
    void *pointer;
    Physical *physical;
  };
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<SharedBlock>> exported;
  std::map<std::string, Imported> imported;
};

Shares &shares() {
  static Shares *const leaked = new Shares();
  return *leaked;
}

aclError check_registration(const void *pointer, uint64_t size) {
  if (const aclError code = require_hbm_soc("registering host memory")) return code;
  if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "the size to register is 0");
  if (reinterpret_cast<uintptr_t>(pointer) % kSmallPage != 0) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not aligned to 4096 bytes", pointer);
  }
  if (machine().locate(pointer).arena != nullptr) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not ordinary host memory", pointer);
  }
  if (machine().registered().add(pointer, size)) return ACL_SUCCESS;
  return fail(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "memory at %p is registered already",
              pointer);
}

/// Maps what a key stands for at addresses of the current device.
aclError map_import(const SharedBlock &block, Device *device, Shares::Imported *imported) {
  const SharedBlock::Header &header = block.header();
  VirtualMemory &memory = machine().virtual_memory();
  Physical *physical = machine().physicals().acquire(UINT32_MAX);
  if (physical == nullptr) return fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "no more memory handles");
  physical->device = device;
  physical->bytes = header.memory_offset + header.memory_bytes;
  physical->page = header.page;
  physical->fd = block.open_memory();
  physical->is_import = true;
  physical->is_host = false;
  physical->refs = physical->handles = 1;
  physical->alive.store(true, std::memory_order_release);
  aclError code = ACL_SUCCESS;
  void *base = nullptr;
  if (physical->fd < 0) {
    code = fail(ACL_ERROR_RT_PARAM_INVALID, "the memory that was exported does not exist any more");
  } else if ((base = memory.reserve_range(physical->bytes, device)) == nullptr) {
    code = fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no addresses left to import memory");
  } else {
    code = memory.map(base, physical->bytes, physical, true);
    if (code != ACL_SUCCESS) memory.release_range(base);
  }
  memory.release_handle(physical);  // the mapping keeps it
  if (code != ACL_SUCCESS) return code;
  *imported = {static_cast<char *>(base) + header.memory_offset, physical};
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key, size_t len, uint64_t flags) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(devPtr);
  REQUIRE_NOT_NULL(key);
  if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtIpcMemGetExportKey: size is 0");
  if (len != kKeyLength) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the length of a key is %zu, not %zu", kKeyLength, len);
  }
  if (flags > ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "export flags must be 0 or 1");
  const Location where = machine().locate(devPtr);
  Arena::BlockInfo info = {};
  if (where.device == nullptr || where.arena != &where.device->memory ||
      !where.arena->find_block(devPtr, &info)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not memory that was allocated on a device",
                devPtr);
  }
  const uint64_t offset = reinterpret_cast<uintptr_t>(devPtr) - info.begin;
  if (offset % info.page != 0 || where.arena->check(devPtr, size) == Arena::Check::kOutside) {
    return fail(ACL_ERROR_RT_PARAM_INVALID,
                "%zu bytes at %p are not within a block, or do not begin at a page", size, devPtr);
  }
  if (machine().config().soc->ddr_only && !info.for_peers) {
    return fail(ACL_ERROR_RT_PARAM_INVALID,
                "%s shares only memory that was allocated by a P2P policy",
                machine().config().soc->name);
  }
  uintptr_t begin = 0;
  const int fd = where.device->memory.share_block(devPtr, &begin);
  auto block =
      fd < 0 ? nullptr : SharedBlock::make(SharedBlock::Kind::kMemory, where.device->index);
  if (block == nullptr)
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory or descriptors to share memory");
  SharedBlock::Header &header = block->header();
  header.memory_fd = fd;
  header.memory_offset = offset;
  header.memory_bytes = size;
  header.page = info.page;
  header.checks_pids.store(flags == 0 ? 1 : 0);
  memset(key, 0, len);
  strncpy(key, block->key().c_str(), len - 1);
  std::lock_guard<std::mutex> lock(shares().mutex);
  shares().exported[key] = std::move(block);
  return ACL_SUCCESS;
}

aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(key);
  REQUIRE_NOT_NULL(pid);
  if (num == 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtIpcMemSetImportPid: num is 0");
  std::lock_guard<std::mutex> lock(shares().mutex);
  const auto found = shares().exported.find(key);
  if (found == shares().exported.end())
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the key is of nothing that this process exported");
  if (found->second->allow(pid, num)) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, "too many processes may import the memory already");
}

aclError aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(devPtr);
  REQUIRE_NOT_NULL(key);
  if (flags > ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "import flags must be 0 or 1");
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  std::lock_guard<std::mutex> lock(shares().mutex);
  if (shares().imported.count(key) != 0)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the key is imported already");
  aclError code = ACL_SUCCESS;
  const auto block = SharedBlock::open(key, SharedBlock::Kind::kMemory, &code);
  if (block == nullptr) return code;
  Shares::Imported imported = {};
  if (const aclError failed = map_import(*block, context->device, &imported)) return failed;
  shares().imported[key] = imported;
  *devPtr = imported.pointer;
  return ACL_SUCCESS;
}

aclError aclrtIpcMemClose(const char *key) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(key);
  std::lock_guard<std::mutex> lock(shares().mutex);
  const auto imported = shares().imported.find(key);
  if (imported != shares().imported.end()) {
    VirtualMemory &memory = machine().virtual_memory();
    uintptr_t begin = 0;
    uint64_t bytes = 0;
    if (memory.find_range(imported->second.pointer, &begin, &bytes)) {
      memory.unmap(reinterpret_cast<void *>(begin));
      memory.release_range(reinterpret_cast<void *>(begin));
    }
    shares().imported.erase(imported);
    return ACL_SUCCESS;
  }
  if (shares().exported.erase(key) != 0) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, "the key is neither exported nor imported here");
}

aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(ptr);
  REQUIRE_NOT_NULL(devPtr);
  if (type != ACL_HOST_REGISTER_MAPPED)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "register type %d is not 0 (mapped)",
                static_cast<int>(type));
  if (const aclError code = check_registration(ptr, size)) return code;
  *devPtr = ptr;  // device and host share their addresses here
  return ACL_SUCCESS;
}

aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(ptr);
  constexpr uint32_t kKnown =
      ACL_HOST_REG_MAPPED | ACL_HOST_REG_IOMEMORY | ACL_HOST_REG_READONLY | ACL_HOST_REG_PINNED;
  if (flag == 0 || (flag & ~kKnown) != 0)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "register flags 0x%x are not known", flag);
  return check_registration(ptr, size);
}

aclError aclrtHostUnregister(void *ptr) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(ptr);
  if (const aclError code = require_hbm_soc("aclrtHostUnregister")) return code;
  if (machine().registered().remove(ptr)) return ACL_SUCCESS;
  return fail(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "memory at %p is not registered", ptr);
}

aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(pHost);
  REQUIRE_NOT_NULL(pDevice);
  if (flag != 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "flag must be 0");
  if (machine().locate(pHost).kind != Location::kPinned) {
    return fail(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "memory at %p is not registered", pHost);
  }
  *pDevice = pHost;
  return ACL_SUCCESS;
}
