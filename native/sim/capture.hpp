// capture.hpp: what a capturing stream records instead of running, and the graph that comes of it.
//
// A model is a list of nodes in the order in which they were captured, each on a branch (one per captured stream).
// That order satisfies every dependency; replays go through the branches side by side where one has to wait.
//
// Locks: a context's capture lock, then a stream's submission lock, then a model's.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "acl_abi.h"
#include "sim/event.hpp"
#include "sim/queue.hpp"

namespace aiocann::sim {

struct Context;
class Stream;
struct TaskGroup;

struct ModelNode {
  enum class Kind : uint8_t { kTask, kRecord, kWait };
  static constexpr uint32_t kNone = UINT32_MAX;

  Kind kind = Kind::kTask;
  uint32_t branch = 0;
  uint32_t record = kNone;           ///< kWait: the node whose recording it waits for
  bool is_waited = false;            ///< kRecord: some branch waits for it
  std::shared_ptr<const Task> task;  ///< kTask; replaced by updates
};

/// An aclmdlRI. Kept by its handle, by the events recorded in it, and by tasks that run it.
struct Model final : ModelBase {
  enum class State : uint8_t { kCapturing, kInvalid, kReady, kDropped };

  struct Branch {
    Stream *stream = nullptr;  ///< while it is captured
    uint64_t stream_uid = 0;
    uint32_t last = ModelNode::kNone;
    bool has_open_group = false;
    std::vector<uint32_t> group;  ///< nodes of the open group
  };

  Model(Context *context, Stream *origin, aclmdlRICaptureMode mode, uint32_t tid);
  ~Model() override;

  bool is_capturing() const {
    const State now = state.load();
    return now == State::kCapturing || now == State::kInvalid;
  }
  /// Something failed: the capture goes on, and its end tells.
  void invalidate();

  /// Takes `task` instead of `stream`'s queue. Thread: one that holds the stream's submission lock.
  aclError append(Stream *stream, Task task);
  /// The node of the recording; `pull` puts the stream on a branch of its own if it is on none.
  aclError append_record(Stream *stream, uint32_t *node);
  aclError append_wait(Stream *stream, uint32_t record);
  /// 0, or why what was captured is no graph.
  aclError complete();
  uint32_t branch_of(const Stream *stream) const;
  uint32_t add_branch(Stream *stream);

  const uint32_t id;
  Context *const context;
  const uint64_t origin_uid;
  const aclmdlRICaptureMode mode;
  const uint32_t tid;  ///< of the thread that began

  std::atomic<State> state{State::kCapturing};
  std::atomic<uint32_t> running{0};  ///< enqueued and not yet done

  mutable std::mutex mutex;  ///< guards what follows
  std::vector<ModelNode> nodes;
  std::vector<Branch> branches;
  std::vector<std::vector<uint32_t>> order;  ///< nodes by branch; once complete
  std::vector<std::unique_ptr<TaskGroup>> groups;
  std::vector<const Event *> external_records, external_waits;  ///< each event once per model
  std::string name;
};

/// Kernels of a model that can be replaced as one.
struct TaskGroup {
  Model *model;
  std::vector<uint32_t> nodes;
  bool is_updating = false;
};

/// A replay in progress, between two looks of the worker at its task.
struct ModelRun {
  explicit ModelRun(const Model &model);
  std::vector<size_t> next;    ///< by branch
  std::vector<bool> recorded;  ///< by node
  uint32_t current = 0;        ///< branch to look at first: the task there may be half done
  bool has_failed = false;
};

/// The living model at `handle`, or nullptr.
Model *find_model(aclmdlRI handle);
/// A group of a living model, or nullptr.
TaskGroup *find_task_group(aclrtTaskGrp handle);
/// 0, or what a call that would disturb a capture answers: `sync` for calls that block, else for what they become.
aclError check_unsafe_call(const char *function, bool sync);

// For the calls that make, use and end what is captured.
aclError begin_capture(Stream *stream, aclmdlRICaptureMode mode);
aclError end_capture(Stream *stream, Model **model);
/// The stream is being destroyed, or its context: what it captures is lost.
void drop_capture(Stream *stream);
/// Puts `stream` on a branch of `model`; 107032 when it is on one of another model.
aclError join_capture(Model *model, Stream *stream);
/// The handle dies; the model when nothing runs it any more.
void forget_model(Model *model);
/// All of a context that is being closed.
void forget_models(const Context *context);

}  // namespace aiocann::sim
