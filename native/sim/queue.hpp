// queue.hpp: the tasks of a stream, as data, and the queue that holds them.
//
// A task is what it does and to what: nothing in it depends on when it runs or has run, so a captured list can be
// replayed by copying. One consumer (whichever worker runs the stream), producers one at a time (the stream's lock).
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>

#include "acl_abi.h"
#include "sim/event.hpp"
#include "sim/notify.hpp"
#include "sim/ref.hpp"
#include "sim/task.hpp"

namespace aiocann::sim {
namespace strict {
class Uses;
}

struct CopyTask {
  void *dst;
  const void *src;
  uint64_t bytes;
};

/// Rows of `width` bytes. `kind` counts like a plain copy.
struct Copy2dTask {
  void *dst;
  const void *src;
  uint64_t dst_pitch, src_pitch, width, height;
};

/// The host bytes were taken when the call was made (HOST_TO_BUF_TO_DEVICE).
struct BufferCopyTask {
  void *dst;
  std::shared_ptr<const uint8_t[]> bytes;
  uint64_t n_bytes;
};

struct MemsetTask {
  void *dst;
  uint64_t bytes;
  uint8_t value;
};

/// Completes `point` (snapshot events) and raises the flag of `event` (flag events).
struct RecordTask {
  Ref<Event> event;
  Ref<RecordPoint> point;
};

/// Waits for one recording: later recordings of the same event do not matter.
struct WaitPointTask {
  Ref<Event> event;
  Ref<RecordPoint> point;
  uint32_t timeout_s;  ///< 0: never
};

/// Waits until the flag of `event` is up.
struct WaitFlagTask {
  Ref<Event> event;
  uint32_t timeout_s;
};

struct ResetFlagTask {
  Ref<Event> event;
};

struct RecordNotifyTask {
  Ref<Notify> notify;
};

/// Waits until the notify is set, and takes it back.
struct WaitNotifyTask {
  Ref<Notify> notify;
  uint32_t timeout_s;
};

/// Recordings of an event that processes share count up; a wait is for one of them.
struct RecordSharedTask {
  Ref<Event> event;
  uint64_t number;
};

struct WaitSharedTask {
  Ref<Event> event;
  uint64_t number;
  uint32_t timeout_s;
};

struct ValueWriteTask {
  uint64_t *address;
  uint64_t value;
};

struct ValueWaitTask {
  const uint64_t *address;
  uint64_t value;
  uint32_t condition;  ///< ACL_STREAM_WAIT_VALUE_*
};

/// In a graph alone: the event is recorded as if by a stream of its own, and waited for likewise.
struct RecordExternalTask {
  Ref<Event> event;
};

struct WaitExternalTask {
  Ref<Event> event;
};

/// Replays a captured graph.
struct RunModelTask {
  Ref<ModelBase> model;
};

/// What steers a graph (flow.hpp). In a graph alone.
struct Flow;
struct FlowTask {
  std::shared_ptr<const Flow> flow;
};

/// Puts another kernel in the place of one in a graph.
struct UpdateModelTask {
  Ref<ModelBase> model;
  uint32_t node;
  std::shared_ptr<const KernelTask> kernel;
};

/// To the thread that is subscribed to the stream when the task runs.
struct CallbackTask {
  aclrtCallback fn;
  void *data;
  bool block;
};

/// To the host-function thread of the stream's context; always blocking.
struct HostFuncTask {
  aclrtHostFunc fn;
  void *data;
};

using Payload = std::variant<CopyTask, Copy2dTask, BufferCopyTask, MemsetTask, RecordTask,
                             WaitPointTask, WaitFlagTask, ResetFlagTask, RecordNotifyTask,
                             WaitNotifyTask, RecordSharedTask, WaitSharedTask, ValueWriteTask,
                             ValueWaitTask, RecordExternalTask, WaitExternalTask, RunModelTask,
                             FlowTask, UpdateModelTask, CallbackTask, HostFuncTask, KernelTask>;

inline bool is_copy(const Payload &payload) {
  return std::holds_alternative<CopyTask>(payload) || std::holds_alternative<Copy2dTask>(payload) ||
         std::holds_alternative<BufferCopyTask>(payload);
}

struct Task {
  uint32_t id;   ///< increasing on its stream
  uint32_t tid;  ///< of the thread that submitted it; exception callbacks name it
  Payload payload;
  std::shared_ptr<const strict::Uses> uses{};  ///< strict mode: of the memory, until it is done
};

class TaskQueue {
 public:
  TaskQueue() = default;
  TaskQueue(const TaskQueue &) = delete;
  TaskQueue &operator=(const TaskQueue &) = delete;
  ~TaskQueue();

  /// Producer side.
  template <class T>
  void push(uint32_t id, uint32_t tid, T &&payload, std::shared_ptr<const strict::Uses> uses = {}) {
    if (tail_ == nullptr || tail_index_ == kBlockTasks) grow();
    new (tail_->slot(tail_index_++)) Task{id, tid, std::forward<T>(payload), std::move(uses)};
  }

  /// Consumer side; only when the stream's counts say that there is a task.
  Task &front() {
    if (head_index_ == kBlockTasks) advance();
    return *head_->slot(head_index_);
  }
  void pop() { head_->slot(head_index_++)->~Task(); }

  /// Gives its memory back. Empty, and nobody at either end.
  void clear();

 private:
  static constexpr uint32_t kBlockTasks = 64;
  struct Block {
    Block *next = nullptr;
    alignas(Task) unsigned char storage[kBlockTasks * sizeof(Task)];
    Task *slot(uint32_t i) { return reinterpret_cast<Task *>(storage) + i; }
  };

  void grow();
  void advance();

  Block *tail_ = nullptr;
  uint32_t tail_index_ = 0;
  alignas(64) Block *head_ = nullptr;
  uint32_t head_index_ = 0;
  /// A finished block on its way back to the producer, so that a steady stream allocates nothing.
  std::atomic<Block *> spare_{nullptr};
};

}  // namespace aiocann::sim
