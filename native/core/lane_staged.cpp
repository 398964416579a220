// lane_staged.cpp: copies that need the host: ordinary memory through pinned chunks, devices that cannot reach
// each other, host to host.
//
// A large copy is cut into parts, internal ops of one chunk each. Parts on the user's stream have markers of their
// own, so the copy itself needs none: it passes right behind its last part. While parts are under way the copy stays
// at the head of its stream's FIFO, where its fields belong to the lane.
#include <algorithm>

#include "core/copier.hpp"
#include "core/device.hpp"
#include "core/lane.hpp"
#include "core/memory.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"

namespace aiocann::core {
namespace {

void *device_at(const Side &side, uint64_t offset) {
  return reinterpret_cast<void *>(side.mem->address.load(std::memory_order_acquire) + side.offset +
                                  offset);
}

}  // namespace

Op *Lane::make_part(OpKind kind, Op *parent, Stream *stream, Chunk *chunk, uint64_t offset,
                    uint64_t nbytes) {
  Op *part = new Op(kind, runtime_, stream, nullptr, false);
  parent->retain();
  part->parent = parent;
  part->chunk = chunk;
  part->assigned = offset;
  part->nbytes = nbytes;
  return part;
}

// ---- small copies: one slot, no copier -------------------------------------------------------------------

Lane::Verdict Lane::small_to_device(Stream *stream, Op *op) {
  Status failure;
  Chunk *slot = slots_.take(stream, &failure);
  if (slot == nullptr) return failure.is_ok() ? Verdict::kHeld : fail_head(stream, op, failure);
  from_host(op, 0, op->nbytes, slot->base);
  op->chunk = slot;
  const int32_t code = lent([&] {
    return api_->aclrtMemcpyAsync(device_at(op->dst, 0), op->nbytes, slot->base, op->nbytes,
                                  ACL_MEMCPY_HOST_TO_DEVICE, stream->raw);
  });
  if (code != 0) return fail_head(stream, op, driver_error(code, "aclrtMemcpyAsync"));
  submitted(stream, op, 1, true);
  return Verdict::kGone;
}

Lane::Verdict Lane::small_to_host(Stream *stream, Op *op) {
  Status failure;
  Chunk *slot = slots_.take(stream, &failure);
  if (slot == nullptr) return failure.is_ok() ? Verdict::kHeld : fail_head(stream, op, failure);
  op->chunk = slot;
  op->host_left = 1;
  op->has_host_part = true;
  const int32_t code = lent([&] {
    return api_->aclrtMemcpyAsync(slot->base, op->nbytes, device_at(op->src, 0), op->nbytes,
                                  ACL_MEMCPY_DEVICE_TO_HOST, stream->raw);
  });
  if (code != 0) return fail_head(stream, op, driver_error(code, "aclrtMemcpyAsync"));
  submitted(stream, op, 1, true);
  return Verdict::kGone;
}

// ---- large copies ----------------------------------------------------------------------------------------

Lane::Verdict Lane::staged_to_device(Stream *stream, Op *op) {
  bool failed = stream->faulted() || stream->failed(op);
  while (!failed && op->assigned < op->nbytes) {
    Status failure;
    Chunk *chunk = chunks_.take(stream, &failure);
    if (chunk == nullptr) {
      if (failure.is_ok()) break;
      stream->fail(op, failure);
      failed = true;
      break;
    }
    const uint64_t bytes = std::min(Staging::kChunkBytes, op->nbytes - op->assigned);
    Op *part = make_part(OpKind::kChunkToDevice, op, stream, chunk, op->assigned, bytes);
    op->assigned += bytes;
    ++op->parts;
    runtime_->copiers.push(part);
  }
  if (op->parts > 0 || (!failed && op->assigned < op->nbytes)) return Verdict::kHeld;
  return not_on_device(stream, op);
}

Lane::Verdict Lane::staged_to_host(Stream *stream, Op *op) {
  bool failed = stream->faulted() || stream->failed(op);
  while (!failed && op->assigned < op->nbytes) {
    Status failure;
    Chunk *chunk = chunks_.take(stream, &failure);
    if (chunk == nullptr && failure.is_ok()) return Verdict::kHeld;
    if (chunk != nullptr) {
      const uint64_t bytes = std::min(Staging::kChunkBytes, op->nbytes - op->assigned);
      const int32_t code = lent([&] {
        return api_->aclrtMemcpyAsync(chunk->base, bytes, device_at(op->src, op->assigned), bytes,
                                      ACL_MEMCPY_DEVICE_TO_HOST, stream->raw);
      });
      if (code == 0) {
        Op *part = make_part(OpKind::kChunkToHost, op, stream, chunk, op->assigned, bytes);
        op->assigned += bytes;
        stream->add_host_part(op);
        submitted(stream, part, 1, true);
        continue;
      }
      failure = driver_error(code, "aclrtMemcpyAsync");
      chunk->release();
    }
    stream->fail(op, failure);
    failed = true;
  }
  op->has_host_part = true;
  return not_on_device(stream, op);
}

Lane::Verdict Lane::staged_across(Stream *stream, Op *op) {
  if (op->assigned == 0 && held_until_drained(stream)) return Verdict::kHeld;
  bool failed = stream->faulted() || stream->failed(op);
  Lane *reader = op->src.mem->device->lane.get();
  while (!failed && op->assigned < op->nbytes) {
    Status failure;
    Chunk *chunk = chunks_.take(stream, &failure);
    if (chunk == nullptr) {
      if (failure.is_ok()) break;
      stream->fail(op, failure);
      failed = true;
      break;
    }
    const uint64_t bytes = std::min(Staging::kChunkBytes, op->nbytes - op->assigned);
    Op *part = make_part(OpKind::kCrossRead, op, reader->internal(), chunk, op->assigned, bytes);
    op->assigned += bytes;
    ++op->parts;
    reader->push_or_drop(part);
  }
  if (op->parts > 0 || (!failed && op->assigned < op->nbytes)) return Verdict::kHeld;
  return not_on_device(stream, op);
}

Lane::Verdict Lane::host_to_host(Stream *stream, Op *op) {
  if (op->assigned == 0) {
    if (held_until_drained(stream)) return Verdict::kHeld;
    const char *from = op->src.host, *to = op->dst.host;
    const uint64_t slice = Copiers::kSlice;
    // Where the sides overlap, slices have to be copied one after the other.
    const bool overlap = from < to + op->nbytes && to < from + op->nbytes;
    const int workers = op->nbytes > slice && !overlap ? Copiers::kThreads : 1;
    op->assigned = op->nbytes;
    op->parts = static_cast<uint32_t>(workers);
    for (int i = 0; i < workers; ++i) {
      runtime_->copiers.push(make_part(OpKind::kHostSlices, op, stream, nullptr, 0, slice));
    }
  }
  return op->parts > 0 ? Verdict::kHeld : not_on_device(stream, op);
}

// ---- parts ------------------------------------------------------------------------------------------------

void Lane::step(Op *part) {
  switch (part->kind) {
    case OpKind::kChunkToDevice: {
      Op *parent = part->parent;
      Stream *stream = part->stream;
      if (!stream->aborted && !stream->gone && !gave_up_ && !stream->failed(parent)) {
        const int32_t code = lent([&] {
          return api_->aclrtMemcpyAsync(device_at(parent->dst, part->assigned), part->nbytes,
                                        part->chunk->base, part->nbytes, ACL_MEMCPY_HOST_TO_DEVICE,
                                        stream->raw);
        });
        if (code == 0) {
          --parent->parts;
          submitted(stream, part, 1, true);
          return make_ready(stream);
        }
        part->fail(driver_error(code, "aclrtMemcpyAsync"));
      }
      return part_done(part);
    }
    case OpKind::kCrossRead:
      if (!part->is_passed && part->status.is_ok()) return cross_read(part);
      return part->status.is_ok() ? cross_write(part) : part_done(part);
    default:
      return part_done(part);
  }
}

void Lane::part_done(Op *part) {
  Op *parent = part->parent;
  Stream *stream = parent->stream;
  if (!part->status.is_ok()) stream->fail(parent, part->status);
  if (part->chunk != nullptr) part->chunk->release();
  part->chunk = nullptr;
  --parent->parts;
  make_ready(stream);
  part->release();
}

/// Why nothing is submitted to the internal stream.
Status Lane::refusal() const {
  if (Status status = device_->out_of_use(); !status.is_ok()) return status;
  return Status::error(AIOCANN_E_CLOSED, "Device %d is closed.", device_->index);
}

void Lane::cross_read(Op *part) {
  const Op *parent = part->parent;
  if (internal_->aborted) {
    part->fail(refusal());
    return parent->stream->device->lane->push_or_drop(part);
  }
  const int32_t code = lent([&] {
    return api_->aclrtMemcpyAsync(part->chunk->base, part->nbytes,
                                  device_at(parent->src, part->assigned), part->nbytes,
                                  ACL_MEMCPY_DEVICE_TO_HOST, internal_->raw);
  });
  if (code == 0) return submitted(internal_, part, 1, true);
  part->fail(driver_error(code, "aclrtMemcpyAsync"));
  parent->stream->device->lane->push_or_drop(part);
}

void Lane::cross_write(Op *read) {
  const Op *parent = read->parent;
  Op *part = make_part(OpKind::kCrossWrite, read->parent, internal_, read->chunk, read->assigned,
                       read->nbytes);
  read->chunk = nullptr;
  read->release();
  if (internal_->aborted) {
    part->fail(refusal());
    return parent->stream->device->lane->push_or_drop(part);
  }
  const int32_t code = lent([&] {
    return api_->aclrtMemcpyAsync(device_at(parent->dst, part->assigned), part->nbytes,
                                  part->chunk->base, part->nbytes, ACL_MEMCPY_HOST_TO_DEVICE,
                                  internal_->raw);
  });
  if (code == 0) return submitted(internal_, part, 1, true);
  part->fail(driver_error(code, "aclrtMemcpyAsync"));
  parent->stream->device->lane->push_or_drop(part);
}

// Thread: whoever settles, mostly a reactor.
void Lane::finish_passed(Op *op, Settler &settler) {
  switch (op->kind) {
    case OpKind::kChunkToHost:
      if (op->status.is_ok()) return runtime_->copiers.push(op);
      op->chunk->release();
      op->chunk = nullptr;
      op->stream->host_part_done(op->parent, settler);
      return op->release();
    case OpKind::kCrossRead: {
      // Well: on to the lane that writes. Not: home, where the copy fails.
      const Op *parent = op->parent;
      Device *next = op->status.is_ok() ? parent->dst.mem->device : parent->stream->device;
      return next->lane->push_or_drop(op);
    }
    case OpKind::kCrossWrite:
      return op->parent->stream->device->lane->push_or_drop(op);
    case OpKind::kMemcpy: {
      Chunk *slot = op->chunk;
      op->chunk = nullptr;
      const bool is_read = op->plan == CopyPlan::kToHost;
      if (is_read && op->status.is_ok()) to_host(op, slot->base, 0, op->nbytes);
      slot->release();
      if (is_read) op->stream->host_part_done(op, settler);
      return;
    }
    default:
      return drop_part(op);
  }
}

}  // namespace aiocann::core
