// shared.cpp: making and opening blocks that processes share.
#include "sim/shared.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>

#include "sim/error.hpp"

namespace aiocann::sim {
namespace {

constexpr uint32_t kMaxPids = 64;
// A process id has 22 bits on Linux.
constexpr int kFdBits = 20;
constexpr int kNonceBits = 22;

std::string descriptor_of(int32_t pid, int fd) {
  return "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
}

}  // namespace

int make_shared_file(uint64_t bytes) {
  const int fd = memfd_create("aiocann", MFD_CLOEXEC);
  if (fd < 0) return -1;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0) return fd;
  close(fd);
  return -1;
}

std::shared_ptr<SharedBlock> SharedBlock::make(Kind kind, int device) {
  std::shared_ptr<SharedBlock> block(new SharedBlock());
  block->fd_ = block->owner_fd_ = make_shared_file(sizeof(Header));
  if (block->fd_ < 0) return nullptr;
  void *memory = mmap(nullptr, sizeof(Header), PROT_READ | PROT_WRITE, MAP_SHARED, block->fd_, 0);
  if (memory == MAP_FAILED) return nullptr;
  Header *header = new (memory) Header();
  header->kind = kind;
  header->owner = getpid();
  header->device = device;
  header->memory_fd = -1;
  header->checks_pids.store(1);
  if (getrandom(&header->nonce, sizeof header->nonce, 0) != sizeof header->nonce) return nullptr;
  block->header_ = header;
  return block;
}

std::shared_ptr<SharedBlock> SharedBlock::open(const std::string &key, Kind kind, aclError *code) {
  *code = ACL_ERROR_RT_PARAM_INVALID;
  unsigned long long number = 0;
  if (sscanf(key.c_str(), "aiocann-%llx", &number) != 1) {
    fail(*code, "'%s' is not a key", key.c_str());
    return nullptr;
  }
  const int32_t pid = static_cast<int32_t>(number >> (kFdBits + kNonceBits));
  const int fd = static_cast<int>(number >> kNonceBits & ((1u << kFdBits) - 1));
  std::shared_ptr<SharedBlock> block(new SharedBlock());
  block->owner_fd_ = fd;
  block->fd_ = ::open(descriptor_of(pid, fd).c_str(), O_RDWR | O_CLOEXEC);
  struct stat info = {};
  if (block->fd_ < 0 || fstat(block->fd_, &info) != 0 ||
      info.st_size != static_cast<off_t>(sizeof(Header))) {
    fail(*code, "what the key '%s' names does not exist (any more)", key.c_str());
    return nullptr;
  }
  void *memory = mmap(nullptr, sizeof(Header), PROT_READ | PROT_WRITE, MAP_SHARED, block->fd_, 0);
  if (memory == MAP_FAILED) {
    *code = ACL_ERROR_RT_MEMORY_ALLOCATION;
    fail(*code, "the memory behind the key '%s' cannot be mapped", key.c_str());
    return nullptr;
  }
  block->header_ = static_cast<Header *>(memory);
  const Header &header = *block->header_;
  if (block->number() != number || header.kind != kind) {
    fail(*code, "what the key '%s' names does not exist (any more)", key.c_str());
    return nullptr;
  }
  bool is_allowed = header.checks_pids.load() == 0 || header.owner == getpid();
  for (uint32_t i = 0; i < header.n_pids.load() && i < kMaxPids; ++i) {
    if (header.pids[i].load() == getpid()) is_allowed = true;
  }
  if (!is_allowed) {
    *code = ACL_ERROR_RT_NO_PERMISSION;
    fail(*code, "process %d is not among those that may use the key '%s'", getpid(), key.c_str());
    return nullptr;
  }
  *code = ACL_SUCCESS;
  return block;
}

SharedBlock::~SharedBlock() {
  if (header_ != nullptr) munmap(header_, sizeof(Header));
  if (fd_ >= 0) close(fd_);
}

uint64_t SharedBlock::number() const {
  const uint64_t nonce = header_->nonce & ((uint64_t{1} << kNonceBits) - 1);
  return (static_cast<uint64_t>(header_->owner) << kFdBits | static_cast<uint64_t>(owner_fd_))
             << kNonceBits |
         nonce;
}

std::string SharedBlock::key_of(uint64_t number) {
  char text[kKeyBytes];
  snprintf(text, sizeof text, "aiocann-%llx", static_cast<unsigned long long>(number));
  return text;
}

bool SharedBlock::allow(const int32_t *pids, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t place = header_->n_pids.load();
    if (place >= kMaxPids) return false;
    header_->pids[place].store(pids[i]);
    header_->n_pids.store(place + 1);
  }
  return true;
}

int SharedBlock::open_memory() const {
  return ::open(descriptor_of(header_->owner, header_->memory_fd).c_str(), O_RDWR | O_CLOEXEC);
}

void SharedEvent::complete(uint64_t number) {
  std::atomic<uint64_t> &done = block_->header().counts[1];
  uint64_t before = done.load();
  while (before < number && !done.compare_exchange_weak(before, number)) {
  }
}

}  // namespace aiocann::sim
