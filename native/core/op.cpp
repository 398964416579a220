#include "core/op.hpp"

#include <mutex>
#include <vector>

#include "core/device.hpp"
#include "core/graph_op.hpp"
#include "core/lane.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"

using namespace aiocann::core;

namespace {

std::atomic<uint64_t> next_op_id{1};

}  // namespace

aiocann_op::aiocann_op(OpKind op_kind, Runtime *rt, Stream *on, aiocann_loop *home_loop,
                       bool is_notified)
    : kind(op_kind),
      notify(is_notified),
      id(next_op_id.fetch_add(1, std::memory_order_relaxed)),
      runtime(rt),
      stream(on) {
  command.owner = this;
  request.owner = this;
  request.kind = CommandKind::kRequest;
  runtime->retain();
  if (stream != nullptr) stream->retain();
  if (is_internal()) {
    command.kind = CommandKind::kStep;
    return;
  }
  add(runtime->counters.in_flight_ops);
  if (stream != nullptr) stream->unsettled.fetch_add(1, std::memory_order_relaxed);
  home.id = id;
  if (is_notified && home_loop != nullptr) {
    home_loop->retain();
    home.loop = home_loop;
    home.embedded_in = this;
    retain();
  }
}

aiocann_op::~aiocann_op() {
  if (void *left = result.load(std::memory_order_relaxed); left != nullptr) discard_result(left);
  // Ops that settled have none of these left; internal ones may.
  if (dst.mem != nullptr) dst.mem->release();
  if (src.mem != nullptr) src.mem->release();
  if (mark != nullptr) mark->release();
  if (graph != nullptr) graph->release();
  if (parent != nullptr) parent->release();
  if (stream != nullptr) stream->release();
  runtime->release();
}

void aiocann_op::release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

const char *aiocann_op::name() const {
  switch (kind) {
    case OpKind::kMemcpy:
      return "memcpy";
    case OpKind::kMemset:
      return "memset";
    case OpKind::kMark:
      return mark_kind == AIOCANN_MARK_RECORD        ? "record"
             : mark_kind == AIOCANN_MARK_SYNCHRONIZE ? "synchronize"
                                                     : "host_call";
    case OpKind::kWait:
      return "wait";
    case OpKind::kGraph:
      return "graph";
    case OpKind::kStreamClose:
      return "stream close";
    case OpKind::kOpen:
      return "open";
    case OpKind::kShutdown:
      return "close";
    case OpKind::kStreamCreate:
      return "stream create";
    case OpKind::kPinned:
      return "pinned allocate";
    case OpKind::kAllocate:
      return "allocate";
    case OpKind::kMemoryInfo:
      return "memory info";
    case OpKind::kReset:
      return "reset";
    case OpKind::kChunkToDevice:
    case OpKind::kChunkToHost:
    case OpKind::kCrossRead:
    case OpKind::kCrossWrite:
    case OpKind::kHostSlices:
      return "memcpy";
    case OpKind::kProbe:
      return "marker";
  }
  return "?";
}

void aiocann_op::publish() {
  Counters &counters = runtime->counters;
  if (status.is_ok() && kind == OpKind::kMemcpy) {
    const bool to_device = dst.mem != nullptr && dst.mem->is_device();
    const bool from_device = src.mem != nullptr && src.mem->is_device();
    if (to_device && from_device) {
      add(dst.mem->device == src.mem->device ? counters.d2d_bytes : counters.peer_bytes, nbytes);
    } else if (to_device) {
      add(counters.h2d_bytes, nbytes);
    } else if (from_device) {
      add(counters.d2h_bytes, nbytes);
    }
  }
  // Before the state, so that whoever sees it settled sees the numbers without it.
  subtract(counters.in_flight_ops);
  subtract(counters.in_flight_bytes,
           kind == OpKind::kMemcpy || kind == OpKind::kMemset ? nbytes : 0);
  if (notify) add(counters.completions);
  if (stream != nullptr) stream->unsettled.fetch_sub(1, std::memory_order_release);
  if (state_.settle(!status.is_ok())) add(counters.reaped);
}

void aiocann_op::abandon() {
  if (state_.abandon()) add(runtime->counters.abandoned);
}

namespace aiocann::core {
namespace {

void drop_operands(Op *op) {
  if (op->foreign != nullptr) op->foreign->foreign_uses.fetch_sub(1, std::memory_order_acq_rel);
  op->foreign = nullptr;
  for (Side *side : {&op->dst, &op->src}) {
    if (side->mem != nullptr) side->mem->release();
    side->mem = nullptr;
  }
  if (op->mark != nullptr) op->mark->release();
  op->mark = nullptr;
  if (op->graph != nullptr) op->graph->release();
  op->graph = nullptr;
  for (Mem *mem : op->extra) mem->release();
  op->extra.clear();
}

}  // namespace

void bury(Op *op) {
  // Reachable for ever, so that leak checkers see that it is meant.
  static auto *mutex = new std::mutex;
  static auto *graves = new std::vector<Op *>;
  std::lock_guard<std::mutex> guard(*mutex);
  op->retain();
  op->buried = true;
  graves->push_back(op);
}

void drop_part(Op *part) {
  if (part->chunk != nullptr) part->chunk->release();
  part->chunk = nullptr;
  part->release();
}

void Settler::run() {
  while (Op *op = dropped_) {
    dropped_ = op->work_next;
    drop_part(op);
  }
  while (passed_ != nullptr || deliver_ != nullptr) {
    while (Op *op = passed_) {
      passed_ = op->work_next;
      op->stream->device->lane->finish_passed(op, *this);
    }
    // Deliveries come last: they may wake other threads, which had better find everything done.
    if (Op *op = deliver_) {
      deliver_ = op->deliver_next;
      deliver(op);
    }
  }
}

void Settler::deliver(Op *op) {
  Counters &counters = op->runtime->counters;
  for (Delivery *node = op->submit_waiters.close(); node != nullptr;) {
    Delivery *next = node->next;
    Op *waiter = node->dependent;
    waiter->stream->poke();
    waiter->release();
    node = next;
  }
  for (Delivery *node = op->watchers.close(); node != nullptr;) {
    Delivery *next = node->next;
    if (Op *waiter = node->dependent; waiter != nullptr) {
      waiter->mark_known.store(true, std::memory_order_release);
      if (op->event_dropped) waiter->stream->device->raise_alarm();
      waiter->stream->advance(*this);
      waiter->stream->poke();
      waiter->release();
    } else if (node->loop->push(node)) {
      add(counters.loop_wakes);
    }
    node = next;
  }
  // The operands go now, not with the record: users may keep that.
  if (!op->buried) drop_operands(op);
  if (op->home.loop != nullptr && op->home.loop->push(&op->home)) add(counters.loop_wakes);
  op->release();
}

void settle(Op *op, const Status &status) {
  op->fail(status);
  op->publish();
  Settler settler;
  settler.settled(op);
}

}  // namespace aiocann::core

extern "C" {

uint64_t aiocann_op_id(const aiocann_op *op) { return op->id; }

int32_t aiocann_op_state(const aiocann_op *op) { return op->state(); }

int32_t aiocann_op_watch(aiocann_op *op, aiocann_loop *loop) {
  return guarded([&]() -> int32_t {
    if (op->settled()) return 1;
    auto *node = new Delivery;
    node->id = op->id;
    node->loop = loop;
    loop->retain();
    if (op->watchers.push(node)) return 0;
    node->discard();
    return 1;
  });
}

void aiocann_op_abandon(aiocann_op *op) { op->abandon(); }

const aiocann_error *aiocann_op_error(const aiocann_op *op) {
  return op->state() == 2 ? op->status.get() : nullptr;
}

int32_t aiocann_op_path(const aiocann_op *op) { return op->path.load(std::memory_order_relaxed); }

uint64_t aiocann_op_timestamp_us(const aiocann_op *op) {
  return op->timestamp_us.load(std::memory_order_relaxed);
}

void *aiocann_op_take_result(aiocann_op *op) {
  return op->state() == 1 ? op->result.exchange(nullptr, std::memory_order_acq_rel) : nullptr;
}

uint64_t aiocann_op_value(const aiocann_op *op, int32_t index) {
  return index >= 0 && index < 2 && op->state() == 1 ? op->values[index] : 0;
}

void aiocann_op_release(aiocann_op *op) { op->release(); }

}  // extern "C"
