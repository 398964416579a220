#include "core/graph_op.hpp"

#include <algorithm>

#include "core/device.hpp"
#include "core/lane.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"

using namespace aiocann::core;

aiocann_graph::aiocann_graph(Device *on, std::unique_ptr<Graph> planned,
                             std::vector<aiocann_mem *> operands)
    : device(on), plan(std::move(planned)), epoch(on->epoch()), mems(std::move(operands)) {
  device->runtime->retain();
}

aiocann_graph::~aiocann_graph() {
  for (aiocann_mem *mem : mems) mem->release_handle();
  device->runtime->release();
}

void aiocann_graph::release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

namespace aiocann::core {

/// What dispatch sees of the lane while it submits one graph. Thread: lane.
class GraphLaunch : public LaunchContext {
 public:
  GraphLaunch(Lane *lane, Stream *stream, Op *op, uint64_t scratch)
      : lane_(lane), stream_(stream), op_(op), scratch_(scratch) {
    lane_->api().aclrtGetThreadLastTaskId(&last_task_);
    submission_ = stream_->constants.next_submission();
  }

  const acl::Api &api() const override { return lane_->api(); }
  void *stream() const override { return stream_->raw; }
  uint64_t address(const aiocann_mem *mem) const override {
    return mem->address.load(std::memory_order_acquire);
  }
  uint64_t scratch() const override { return scratch_; }

  Status workspace(uint64_t bytes, uint64_t *address) override {
    Mem *mem = stream_->workspace;
    if (mem == nullptr || mem->nbytes < bytes) {
      // The stream's order makes one workspace enough; a larger one takes its place, and the old one stays in use
      // by the ops that were submitted with it.
      const uint64_t size = std::max(bytes, mem != nullptr ? 2 * mem->nbytes : uint64_t{0});
      auto *larger = new Mem(MemKind::kInternal, lane_->runtime_, lane_->device_, size);
      if (Status status = lane_->allocate(larger, stream_->id, Pool::By::kLane); !status.is_ok()) {
        larger->release_handle();
        return status;
      }
      if (mem != nullptr) mem->release_handle();
      stream_->workspace = mem = larger;
      used_ = nullptr;
    }
    if (used_ != mem) use(used_ = mem);
    *address = mem->address.load(std::memory_order_relaxed);
    return Status::ok();
  }

  Status constant(const ConstantKey &key, uint64_t bytes, uint64_t *address,
                  bool *is_new) override {
    Constants::Entry *entry = stream_->constants.find(key);
    *is_new = entry == nullptr;
    if (*is_new) {
      auto *mem = new Mem(MemKind::kInternal, lane_->runtime_, lane_->device_, bytes);
      if (Status status = lane_->allocate(mem, stream_->id, Pool::By::kLane); !status.is_ok()) {
        mem->release_handle();
        return status;
      }
      entry = stream_->constants.add(key, mem);
    }
    if (entry->used != submission_) {
      entry->used = submission_;
      use(entry->mem);
    }
    *address = entry->mem->address.load(std::memory_order_relaxed);
    return Status::ok();
  }
  void forget_constant(const ConstantKey &key) override { stream_->constants.forget(key); }

  void launched(int32_t node) override {
    // The id is of the thread's last task, on whatever stream: unchanged, it says that this node launched none.
    uint32_t task = 0;
    if (lane_->api().aclrtGetThreadLastTaskId(&task) != 0 || task == last_task_) return;
    last_task_ = task;
    op_->node_tasks.emplace_back(node, task);
  }

  void count_tensors(int64_t delta) override {
    add(lane_->runtime_->counters.live_tensors, static_cast<uint64_t>(delta));
  }
  void count_executors(int64_t delta) override {
    add(lane_->runtime_->counters.live_executors, static_cast<uint64_t>(delta));
  }

 private:
  void use(Mem *mem) {
    mem->use(stream_);
    op_->extra.push_back(mem);
  }

  Lane *const lane_;
  Stream *const stream_;
  Op *const op_;
  const uint64_t scratch_;
  Mem *used_ = nullptr;  ///< the workspace, once this op uses it
  uint64_t submission_ = 0;
  uint32_t last_task_ = 0;
};

Lane::Verdict Lane::submit_graph(Stream *stream, Op *op) {
  const Graph &graph = *op->graph->plan;
  uint64_t scratch = 0;
  if (graph.scratch_bytes() > 0) {
    auto *mem = new Mem(MemKind::kInternal, runtime_, device_, graph.scratch_bytes());
    if (Status status = allocate(mem, stream->id, Pool::By::kLane); !status.is_ok()) {
      mem->release_handle();
      return fail_head(stream, op, status);
    }
    scratch = mem->address.load(std::memory_order_relaxed);
    mem->use(stream);
    op->extra.push_back(mem);
    // Its block is lent at once: the next graph on this stream runs in the same memory.
    mem->release_handle();
  }
  GraphLaunch launch(this, stream, op, scratch);
  op->node_tasks.reserve(static_cast<size_t>(graph.n_nodes()));
  if (Status status = lent([&] { return graph.submit(launch); }); !status.is_ok()) {
    if (status.get()->device < 0) status.mutate().device = device_->index;
    stream->fail(op, status);
  }
  // Also when it failed half-way: what was launched before must have passed before the memory goes.
  submitted(stream, op, 2 * static_cast<uint32_t>(graph.n_nodes()), true);
  return Verdict::kGone;
}

}  // namespace aiocann::core

extern "C" {

uint64_t aiocann_graph_scratch_bytes(const aiocann_graph *graph) {
  return graph->plan->scratch_bytes();
}

void aiocann_graph_release(aiocann_graph *graph) { graph->release(); }

}  // extern "C"
