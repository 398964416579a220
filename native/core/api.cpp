// api.cpp: the enqueueing half of the C ABI: checks arguments, makes an op, hands it to a lane.
// Thread: any that may take the cost of a malloc; nothing here waits.
#include <algorithm>
#include <cstdint>

#include "core/blocks.hpp"
#include "core/device.hpp"
#include "core/driver.hpp"
#include "core/graph_op.hpp"
#include "core/lane.hpp"
#include "core/memory.hpp"
#include "core/op.hpp"
#include "core/ops/aclnn_call.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"

using namespace aiocann::core;

namespace {

using ull = unsigned long long;

Status usable(const Device *device) {
  if (Status status = device->runtime->usable(); !status.is_ok()) return status;
  if (!device->is_open()) return device->open_error;
  return device->out_of_use();
}

Status usable(const Stream *stream) {
  if (Status status = stream->device->runtime->usable(); !status.is_ok()) return status;
  if (stream->epoch != stream->device->epoch()) {
    return Status::error(AIOCANN_E_CLOSED, "The stream is closed: device %d was reset.",
                         stream->device->index);
  }
  if (stream->closing.load(std::memory_order_acquire))
    return Status::error(AIOCANN_E_CLOSED, "The stream is closed.");
  return Status::ok();
}

/// Hands op to lane. The caller's reference goes to *out, where that is asked for.
void enqueue(Lane *lane, Op *op, aiocann_op **out) {
  if (out != nullptr) {
    op->retain();
    *out = op;
  }
  if (!lane->push(&op->command)) {
    settle(op, Status::error(AIOCANN_E_CLOSED,
                             "The runtime was closed before this reached the device."));
  }
}

/// A range of device or pinned memory.
Status check_range(const Stream *stream, const Mem *mem, uint64_t offset, uint64_t nbytes,
                   const char *what) {
  if (mem->runtime != stream->device->runtime) {
    return Status::error(AIOCANN_E_USAGE, "The %s belongs to another runtime.", what);
  }
  if (Status status = mem->gone(); !status.is_ok()) return status;
  if (offset > mem->nbytes || nbytes > mem->nbytes - offset) {
    return Status::error(AIOCANN_E_USAGE,
                         "The %s has %llu bytes; bytes %llu to %llu were asked for.", what,
                         static_cast<ull>(mem->nbytes), static_cast<ull>(offset),
                         static_cast<ull>(offset) + static_cast<ull>(nbytes));
  }
  return Status::ok();
}

/// Fills side, with a use of its memory. Pinned memory is reduced to a host address and its owner.
Status resolve(const Stream *stream, const aiocann_span *span, uint64_t nbytes, bool notified,
               const char *what, Side *side) {
  if (span->mem != nullptr) {
    if (Status status = check_range(stream, span->mem, span->offset, nbytes, what); !status.is_ok())
      return status;
    span->mem->use(span->mem->is_device() ? stream : nullptr);
    side->mem = span->mem;
    side->offset = span->offset;
    if (!span->mem->is_device()) {
      side->host = reinterpret_cast<char *>(span->mem->address.load(std::memory_order_acquire)) +
                   span->offset;
    }
    return Status::ok();
  }
  if (span->host == nullptr)
    return Status::error(AIOCANN_E_USAGE, "The %s is neither memory nor an address.", what);
  if (!notified) {
    return Status::error(AIOCANN_E_USAGE,
                         "Without a notification nobody can tell when the %s, ordinary host "
                         "memory, is free again. Use "
                         "pinned memory, or ask for the op.",
                         what);
  }
  side->host = static_cast<char *>(span->host);
  side->mem = stream->device->runtime->pinned.find(span->host, nbytes);
  return Status::ok();
}

bool is_device(const Side &side) { return side.host == nullptr; }

void drop(Side *side) {
  if (side->mem != nullptr) side->mem->release();
  side->mem = nullptr;
}

/// How to copy, given both sides; or what is wrong with them.
Status choose_plan(const Stream *stream, const Side &dst, const Side &src, CopyPlan *plan,
                   uint8_t *path) {
  const Device *here = stream->device;
  const bool to_device = is_device(dst), from_device = is_device(src);
  *path = AIOCANN_PATH_DIRECT;
  *plan = CopyPlan::kDirect;
  if (!to_device && !from_device) {
    *plan = CopyPlan::kHost;
    return Status::ok();
  }
  const Device *to = to_device ? dst.mem->device : here;
  const Device *from = from_device ? src.mem->device : here;
  if (to != here && from != here) {
    return Status::error(AIOCANN_E_USAGE,
                         "The stream is of device %d, and neither side of the copy is: they are on "
                         "devices %d and %d.",
                         here->index, to->index, from->index);
  }
  if (to_device && from_device) {
    if (to == from) return Status::ok();
    const Device *other = to == here ? from : to;
    const bool peers =
        here->can_access_peer(other->position) && other->can_access_peer(here->position);
    *plan = peers ? CopyPlan::kPeer : CopyPlan::kCross;
    *path = peers ? AIOCANN_PATH_PEER : AIOCANN_PATH_STAGED;
    return Status::ok();
  }
  const Device *used = to_device ? to : from;
  if (used != here) {
    return Status::error(
        AIOCANN_E_USAGE,
        "The buffer is on device %d and the stream on device %d: use a stream of %d.", used->index,
        here->index, used->index);
  }
  const Side &host = to_device ? src : dst;
  if (host.mem != nullptr) return Status::ok();  // pinned
  *plan = to_device ? CopyPlan::kToDevice : CopyPlan::kToHost;
  *path = AIOCANN_PATH_STAGED;
  return Status::ok();
}

/// A copy that changes the form of blocks goes through staging memory, pinned host memory too.
Status convert_on_the_way(const Side &dst, const Side &src, CopyPlan *plan, uint8_t *path) {
  if (is_device(dst) == is_device(src))
    return Status::error(AIOCANN_E_USAGE, "Blocks change their form between host and device.");
  *plan = is_device(dst) ? CopyPlan::kToDevice : CopyPlan::kToHost;
  *path = AIOCANN_PATH_STAGED;
  return Status::ok();
}

Op *make(OpKind kind, Stream *stream, aiocann_loop *home, bool notified) {
  return new Op(kind, stream->device->runtime, stream, home, notified);
}

int32_t enqueue_on(Stream *stream, Op *op, aiocann_op **out) {
  enqueue(stream->device->lane.get(), op, out);
  return 0;
}

/// Nothing to do: settled at once.
int32_t settle_now(Op *op, aiocann_op **out) {
  if (out != nullptr) {
    op->retain();
    *out = op;
  }
  settle(op, Status::ok());
  return 0;
}

/// A graph that `create` plans, with the memory of its tensors.
template <typename Create>
int32_t make_graph(aiocann_device *dev, const aiocann_tensor *tensors, int32_t n_tensors,
                   aiocann_graph **graph, Create create) {
  *graph = nullptr;
  if (Status status = usable(dev); !status.is_ok()) return publish(status);
  std::vector<aiocann_mem *> mems;
  for (int32_t i = 0; i < n_tensors; ++i) {
    aiocann_mem *mem = tensors[i].mem;
    if (mem == nullptr || std::find(mems.begin(), mems.end(), mem) != mems.end()) continue;
    if (Status status = mem->gone(); !status.is_ok()) return publish(status);
    if (mem->device != dev) {
      return publish(mem->device == nullptr
                         ? Status::error(AIOCANN_E_USAGE,
                                         "Tensor %d is in pinned host memory, not on device %d.", i,
                                         dev->index)
                         : Status::error(AIOCANN_E_USAGE,
                                         "Tensor %d is on device %d, the graph on device %d.", i,
                                         mem->device->index, dev->index));
    }
    mems.push_back(mem);
  }
  std::unique_ptr<Graph> plan;
  if (Status status = create(&plan); !status.is_ok()) return publish(status);
  for (aiocann_mem *mem : mems) mem->retain_handle();
  *graph = new aiocann_graph(dev, std::move(plan), std::move(mems));
  return 0;
}

}  // namespace

extern "C" {

// ---- devices and memory --------------------------------------------------------------------------------------

int32_t aiocann_device_memory_info(aiocann_device *dev, aiocann_loop *home, aiocann_op **op) {
  return guarded([&]() -> int32_t {
    if (Status status = usable(dev); !status.is_ok()) return publish(status);
    enqueue(dev->lane.get(), new Op(OpKind::kMemoryInfo, dev->runtime, nullptr, home, true), op);
    return 0;
  });
}

int32_t aiocann_device_reset(aiocann_device *dev, aiocann_loop *home, aiocann_op **op) {
  return guarded([&]() -> int32_t {
    if (Status status = dev->runtime->usable(); !status.is_ok()) return publish(status);
    if (!dev->is_open()) return publish(dev->open_error);
    if (!dev->start_reset()) return publish(dev->out_of_use());
    enqueue(dev->lane.get(), new Op(OpKind::kReset, dev->runtime, nullptr, home, true), op);
    return 0;
  });
}

int32_t aiocann_device_allocate(aiocann_device *dev, uint64_t nbytes, aiocann_stream *stream,
                                int32_t nowait, aiocann_loop *home, aiocann_mem **mem,
                                aiocann_op **op) {
  return guarded([&]() -> int32_t {
    *mem = nullptr;
    if (op != nullptr) *op = nullptr;
    // Before the block: one that a reset has just taken must not look as if it were of afterwards.
    const uint32_t epoch = dev->epoch();
    if (Status status = usable(dev); !status.is_ok()) return publish(status);
    if (nbytes == 0)
      return publish(Status::error(AIOCANN_E_USAGE, "A buffer has at least one byte."));
    if (nbytes > INT64_MAX) {
      return publish(Status::error(AIOCANN_E_USAGE, "%llu bytes are more than any device has.",
                                   static_cast<ull>(nbytes)));
    }
    if (stream != nullptr && stream->device != dev) {
      return publish(Status::error(AIOCANN_E_USAGE,
                                   "The stream is of device %d, the memory is to be on device %d.",
                                   stream->device->index, dev->index));
    }
    const uint64_t stream_id = stream != nullptr ? stream->id : 0;
    Block *block = dev->pool.take(nbytes, stream_id);
    if (block == nullptr && nowait != 0) {
      return publish(
          Status::error(AIOCANN_E_WOULD_BLOCK,
                        "The pool of device %d cannot serve %llu bytes without asking the driver.",
                        dev->index, static_cast<ull>(nbytes)));
    }
    auto *made = new Mem(MemKind::kPool, dev->runtime, dev, nbytes);
    made->epoch = epoch;
    made->wanted_by_stream = stream_id;
    *mem = made;
    if (block != nullptr) {
      made->block = block;
      made->address.store(block->address(), std::memory_order_release);
      return 0;
    }
    auto *allocate = new Op(OpKind::kAllocate, dev->runtime, nullptr, home, op != nullptr);
    made->use(nullptr);
    allocate->dst.mem = made;
    enqueue(dev->lane.get(), allocate, op);
    return 0;
  });
}

int32_t aiocann_device_allocate_lazy(aiocann_device *dev, uint64_t nbytes, aiocann_mem **mem) {
  return guarded([&]() -> int32_t {
    *mem = nullptr;
    if (Status status = usable(dev); !status.is_ok()) return publish(status);
    if (nbytes == 0 || nbytes > INT64_MAX) {
      return publish(Status::error(AIOCANN_E_USAGE, "A buffer cannot have %llu bytes.",
                                   static_cast<ull>(nbytes)));
    }
    *mem = new Mem(MemKind::kPool, dev->runtime, dev, nbytes);
    return 0;
  });
}

int32_t aiocann_pinned_allocate(aiocann_runtime *rt, uint64_t nbytes, aiocann_loop *home,
                                aiocann_op **op) {
  return guarded([&]() -> int32_t {
    if (Status status = rt->usable(); !status.is_ok()) return publish(status);
    if (nbytes == 0 || nbytes > INT64_MAX) {
      return publish(Status::error(AIOCANN_E_USAGE, "Pinned memory of %llu bytes cannot be made.",
                                   static_cast<ull>(nbytes)));
    }
    auto *pin = new Op(OpKind::kPinned, rt, nullptr, home, true);
    pin->nbytes = nbytes;
    enqueue(rt->any_lane(), pin, op);
    return 0;
  });
}

int32_t aiocann_mem_wrap(aiocann_device *dev, uint64_t address, uint64_t nbytes,
                         aiocann_mem **mem) {
  return guarded([&]() -> int32_t {
    *mem = nullptr;
    if (Status status = usable(dev); !status.is_ok()) return publish(status);
    if (address == 0 || nbytes == 0 || nbytes > UINT64_MAX - address) {
      return publish(Status::error(AIOCANN_E_USAGE,
                                   "%llu bytes at address %llu cannot be memory of a device.",
                                   static_cast<ull>(nbytes), static_cast<ull>(address)));
    }
    *mem = new Mem(MemKind::kWrapped, dev->runtime, dev, nbytes);
    (*mem)->address.store(address, std::memory_order_release);
    return 0;
  });
}

// ---- streams -------------------------------------------------------------------------------------------------

int32_t aiocann_stream_create(aiocann_device *dev, int32_t priority, aiocann_loop *home,
                              aiocann_op **op) {
  return guarded([&]() -> int32_t {
    if (Status status = usable(dev); !status.is_ok()) return publish(status);
    if (priority < -1 || priority > 7) {
      return publish(
          Status::error(AIOCANN_E_USAGE,
                        "A stream's priority is 0 (first) to 7, or -1 for the driver's default; "
                        "%d is none.",
                        priority));
    }
    auto *create = new Op(OpKind::kStreamCreate, dev->runtime, nullptr, home, true);
    create->value = priority;
    enqueue(dev->lane.get(), create, op);
    return 0;
  });
}

int32_t aiocann_stream_adopt(aiocann_device *dev, uint64_t handle, aiocann_loop *home,
                             aiocann_op **op) {
  return guarded([&]() -> int32_t {
    if (Status status = usable(dev); !status.is_ok()) return publish(status);
    if (handle == 0) {
      return publish(
          Status::error(AIOCANN_E_USAGE,
                        "The default stream (0) cannot be adopted: it has no events. Pass "
                        "the handle of a stream that was created."));
    }
    auto *create = new Op(OpKind::kStreamCreate, dev->runtime, nullptr, home, true);
    create->value = -1;
    create->values[0] = handle;
    enqueue(dev->lane.get(), create, op);
    return 0;
  });
}

int32_t aiocann_stream_close(aiocann_stream *stream, aiocann_loop *home, aiocann_op **op) {
  return guarded([&]() -> int32_t {
    Runtime *runtime = stream->device->runtime;
    if (runtime->generation != fork_generation()) return publish(runtime->usable());
    stream->closing.store(true, std::memory_order_release);
    Op *close = make(OpKind::kStreamClose, stream, home, op != nullptr);
    if (op != nullptr) {
      close->retain();
      *op = close;
    }
    // A lane that has ended has destroyed or leaked its streams: either way this one is closed.
    if (!stream->device->lane->push(&close->command)) settle(close, Status::ok());
    return 0;
  });
}

void aiocann_stream_release(aiocann_stream *stream) {
  // The command carries the user's reference.
  if (!stream->device->lane->push(&stream->release_command)) stream->release();
}

uint64_t aiocann_stream_handle(const aiocann_stream *stream) {
  const bool is_gone = stream->epoch != stream->device->epoch();
  return is_gone ? 0 : reinterpret_cast<uint64_t>(stream->raw);
}

int32_t aiocann_stream_idle(const aiocann_stream *stream) { return stream->idle() ? 1 : 0; }

static int32_t enqueue_copy(aiocann_stream *stream, const aiocann_span *dst,
                            const aiocann_span *src, uint64_t nbytes, int32_t blocks,
                            aiocann_loop *home, aiocann_op **op) {
  return guarded([&]() -> int32_t {
    if (Status status = usable(stream); !status.is_ok()) return publish(status);
    Side to, from;
    CopyPlan plan{};
    uint8_t path = AIOCANN_PATH_NONE;
    Status status = resolve(stream, dst, nbytes, op != nullptr, "destination", &to);
    if (status.is_ok()) status = resolve(stream, src, nbytes, op != nullptr, "source", &from);
    if (status.is_ok()) status = choose_plan(stream, to, from, &plan, &path);
    if (status.is_ok() && blocks != 0) status = convert_on_the_way(to, from, &plan, &path);
    if (!status.is_ok()) {
      drop(&to);
      drop(&from);
      return publish(status);
    }
    Op *copy = make(OpKind::kMemcpy, stream, home, op != nullptr);
    copy->dst = to;
    copy->src = from;
    for (const Side &side : {to, from}) {
      if (side.mem == nullptr || !side.mem->is_device() || side.mem->device == stream->device)
        continue;
      copy->foreign = side.mem->device;
      copy->foreign->foreign_uses.fetch_add(1, std::memory_order_acq_rel);
    }
    copy->nbytes = nbytes;
    copy->blocks = blocks;
    copy->plan = plan;
    copy->path.store(path, std::memory_order_relaxed);
    if (nbytes == 0) return settle_now(copy, op);
    add(stream->device->runtime->counters.in_flight_bytes, nbytes);
    return enqueue_on(stream, copy, op);
  });
}

int32_t aiocann_stream_memcpy(aiocann_stream *stream, const aiocann_span *dst,
                              const aiocann_span *src, uint64_t nbytes, aiocann_loop *home,
                              aiocann_op **op) {
  return enqueue_copy(stream, dst, src, nbytes, 0, home, op);
}

int32_t aiocann_stream_copy_blocks(aiocann_stream *stream, const aiocann_span *dst,
                                   const aiocann_span *src, uint64_t nbytes, int32_t dtype,
                                   aiocann_loop *home, aiocann_op **op) {
  const uint64_t block = aiocann::core::block_form(dtype).block;
  if (block == 0 || nbytes % block != 0) {
    return publish(Status::error(AIOCANN_E_USAGE,
                                 "%llu bytes are not whole blocks of a quantized dtype (%d).",
                                 static_cast<ull>(nbytes), dtype));
  }
  return enqueue_copy(stream, dst, src, nbytes, dtype, home, op);
}

int32_t aiocann_stream_memset(aiocann_stream *stream, aiocann_mem *mem, uint64_t offset,
                              int32_t value, uint64_t nbytes, aiocann_loop *home, aiocann_op **op) {
  return guarded([&]() -> int32_t {
    if (Status status = usable(stream); !status.is_ok()) return publish(status);
    if (Status status = check_range(stream, mem, offset, nbytes, "buffer"); !status.is_ok())
      return publish(status);
    if (mem->is_device() && mem->device != stream->device) {
      return publish(Status::error(AIOCANN_E_USAGE,
                                   "The buffer is on device %d and the stream on device %d.",
                                   mem->device->index, stream->device->index));
    }
    Op *set = make(OpKind::kMemset, stream, home, op != nullptr);
    mem->use(mem->is_device() ? stream : nullptr);
    set->dst.mem = mem;
    set->dst.offset = offset;
    if (!mem->is_device()) set->dst.host = reinterpret_cast<char *>(mem->address.load()) + offset;
    set->value = value;
    set->nbytes = nbytes;
    if (nbytes == 0) return settle_now(set, op);
    add(stream->device->runtime->counters.in_flight_bytes, nbytes);
    return enqueue_on(stream, set, op);
  });
}

int32_t aiocann_stream_mark(aiocann_stream *stream, int32_t kind, aiocann_loop *home,
                            aiocann_op **op) {
  return guarded([&]() -> int32_t {
    if (Status status = usable(stream); !status.is_ok()) return publish(status);
    if (op == nullptr)
      return publish(Status::error(AIOCANN_E_USAGE, "A mark that nobody asks for is of no use."));
    if (kind < AIOCANN_MARK_RECORD || kind > AIOCANN_MARK_HOST_CALL) {
      return publish(Status::error(AIOCANN_E_USAGE, "There is no kind of mark %d.", kind));
    }
    Op *mark = make(OpKind::kMark, stream, home, true);
    mark->mark_kind = static_cast<uint8_t>(kind);
    return enqueue_on(stream, mark, op);
  });
}

int32_t aiocann_stream_wait(aiocann_stream *stream, aiocann_op *mark, aiocann_loop *home,
                            aiocann_op **op) {
  return guarded([&]() -> int32_t {
    if (Status status = usable(stream); !status.is_ok()) return publish(status);
    if (mark->kind != OpKind::kMark) {
      return publish(
          Status::error(AIOCANN_E_USAGE, "A stream waits for a mark; this is a %s.", mark->name()));
    }
    if (mark->runtime != stream->device->runtime) {
      return publish(Status::error(AIOCANN_E_USAGE, "The mark belongs to another runtime."));
    }
    Op *wait = make(OpKind::kWait, stream, home, op != nullptr);
    mark->retain();
    wait->mark = mark;
    return enqueue_on(stream, wait, op);
  });
}

// ---- graphs --------------------------------------------------------------------------------------------------

int32_t aiocann_graph_create(aiocann_device *dev, const aiocann_tensor *tensors, int32_t n_tensors,
                             const aiocann_node *nodes, int32_t n_nodes, aiocann_graph **graph) {
  return guarded([&] {
    return make_graph(dev, tensors, n_tensors, graph, [&](std::unique_ptr<Graph> *plan) {
      return Graph::create(tensors, n_tensors, nodes, n_nodes, dev->soc_name.c_str(), plan);
    });
  });
}

const char *aiocann_aclnn_signature(const char *name) { return aclnn_signature(name); }

int32_t aiocann_aclnn_create(aiocann_device *dev, const char *name, const aiocann_aclnn_arg *args,
                             int32_t n_args, const aiocann_tensor *tensors, const int32_t *formats,
                             int32_t n_tensors, aiocann_graph **graph) {
  return guarded([&] {
    return make_graph(dev, tensors, n_tensors, graph, [&](std::unique_ptr<Graph> *plan) {
      return create_aclnn_call(dev->runtime->driver().library, name, args, n_args, tensors, formats,
                               n_tensors, plan);
    });
  });
}

int32_t aiocann_graph_compute(aiocann_graph *graph, aiocann_stream *stream, aiocann_loop *home,
                              aiocann_op **op) {
  return guarded([&]() -> int32_t {
    if (Status status = usable(stream); !status.is_ok()) return publish(status);
    if (graph->epoch != graph->device->epoch()) {
      return publish(Status::error(AIOCANN_E_CLOSED, "The graph is closed: device %d was reset.",
                                   graph->device->index));
    }
    if (graph->device != stream->device) {
      return publish(Status::error(AIOCANN_E_USAGE,
                                   "The graph is of device %d and the stream of device %d.",
                                   graph->device->index, stream->device->index));
    }
    Op *compute = make(OpKind::kGraph, stream, home, op != nullptr);
    graph->retain();
    compute->graph = graph;
    for (aiocann_mem *mem : graph->mems) mem->note_stream(stream);
    return enqueue_on(stream, compute, op);
  });
}

}  // extern "C"
