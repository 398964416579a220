// capture.hpp: what a stream that captures, or is bound to a graph, records instead of running; what comes of it.
//
// A model is a list of nodes in the order in which they were recorded, each on a branch (one per stream). Replays go
// through the branches side by side where one has to wait. A graph is captured (its order satisfies every
// dependency), built from streams bound to it (flow.hpp says which branch is at what), or the body of a conditional
// task, which is captured into it.
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
#include "sim/flow.hpp"
#include "sim/late.hpp"
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
  enum class Kind : uint8_t { kCaptured, kBuilt, kBody };
  enum class State : uint8_t {
    kEmpty,  ///< a body into which nothing was captured yet
    kBuilding,
    kCapturing,
    kInvalid,
    kReady,
    kDropped
  };

  struct Branch {
    Stream *stream = nullptr;  ///< while it is captured or bound
    uint64_t stream_uid = 0;
    bool is_head = true;  ///< runs from the beginning
    uint32_t last = ModelNode::kNone;
    bool has_open_group = false;
    std::vector<uint32_t> group;  ///< nodes of the open group
  };

  Model(Context *context, Kind kind);
  ~Model() override;

  bool is_capturing() const {
    const State now = state.load();
    return now == State::kCapturing || now == State::kInvalid;
  }
  /// From now on `origin` is captured into it. With the context's capture lock.
  void begin_capture(Stream *origin, aclmdlRICaptureMode mode);
  /// Something failed: the capture goes on, and its end tells.
  void invalidate();

  /// Takes `task` instead of `stream`'s queue. Thread: one that holds the stream's submission lock.
  aclError append(Stream *stream, Task task);
  /// The node of the recording; `pull` puts the stream on a branch of its own if it is on none.
  aclError append_record(Stream *stream, uint32_t *node);
  aclError append_wait(Stream *stream, uint32_t record);
  /// 0, or why what was captured is no graph.
  aclError complete();
  /// What replays go by. With `mutex`.
  void order_nodes();
  uint32_t branch_of(const Stream *stream) const;
  uint32_t add_branch(Stream *stream);

  const uint32_t id;
  Context *const context;
  const Kind kind;
  // Of the capture:
  uint64_t origin_uid = 0;
  aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  uint32_t tid = 0;  ///< of the thread that began

  std::atomic<State> state{State::kCapturing};
  std::atomic<uint32_t> running{0};  ///< enqueued and not yet done

  mutable std::mutex mutex;  ///< guards what follows
  std::vector<ModelNode> nodes;
  std::vector<Branch> branches;
  std::vector<std::vector<uint32_t>> order;  ///< nodes by branch; once complete
  std::vector<std::unique_ptr<TaskGroup>> groups;
  std::vector<std::shared_ptr<Conditional>> conditionals;
  bool has_end = false;                                         ///< built: a task ends it
  std::vector<const Event *> external_records, external_waits;  ///< each event once per model
  std::string name;
};

/// Streams whose flags say that they are fed by something else than the host's queue.
constexpr uint32_t kNeverCaptured =
    ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;

/// Kernels of a model that can be replaced as one.
struct TaskGroup {
  Model *model;
  std::vector<uint32_t> nodes;
  bool is_updating = false;
};

/// A replay in progress, between two looks of the worker at its task; or that of a body within one.
struct ModelRun {
  explicit ModelRun(const Model &model);
  ModelRun(const ModelRun &) = delete;
  ModelRun &operator=(const ModelRun &) = delete;
  ~ModelRun();

  struct Branch {
    bool is_active = false;
    bool is_waiting = false;  ///< at a task that does not pass yet
    size_t next = 0;
    // Of the task at `next`:
    bool is_examined = false;         ///< faults were looked up
    Ref<Pause> pause;                 ///< of a fault that holds it back
    std::unique_ptr<ModelRun> inner;  ///< when it runs a body

    void go_to(size_t where);
  };

  const Model &model;
  std::vector<Branch> branches;
  std::vector<bool> recorded;  ///< by node
  uint32_t current = 0;        ///< branch to look at first: the task there may be half done
  bool has_ended = false;      ///< by its end task
  bool is_stuck = false;       ///< that was told
  bool has_failed = false;     ///< of the outermost run
};

/// The living model at `handle`, or nullptr.
Model *find_model(aclmdlRI handle);
bool is_living(uint32_t model_id);
/// 100000 for NULL, 107000 for what is no model, 107004 for one of another context.
aclError require_model(aclmdlRI handle, Model **model);
/// A group of a living model, or nullptr.
TaskGroup *find_task_group(aclrtTaskGrp handle);
/// 0, or what a call that would disturb a capture answers: `sync` for calls that block, else for what they become.
aclError check_unsafe_call(const char *function, bool sync);

// For the calls that make, use and end what is captured.
/// `body`: the empty one that is captured into, nullptr for a graph of its own.
aclError begin_capture(Stream *stream, aclmdlRICaptureMode mode, Model *body);
aclError end_capture(Stream *stream, Model **model);
/// The stream is being destroyed, or its context: what it captures is lost.
void drop_capture(Stream *stream);
// For graphs that are built.
aclError bind_stream(Model *model, Stream *stream, bool is_head);
aclError unbind_stream(Model *model, Stream *stream);
/// The stream is being destroyed, or its context.
void drop_binding(Stream *stream);
/// A conditional of a living model, and the model; or nullptr.
std::shared_ptr<Conditional> find_conditional(aclmdlRICondHandle handle, Model **model);
/// Puts `stream` on a branch of `model`; 107032 when it is on one of another model.
aclError join_capture(Model *model, Stream *stream);
/// The handle dies; the model when nothing runs it any more.
void forget_model(Model *model);
/// All of a context that is being closed.
void forget_models(const Context *context);

}  // namespace aiocann::sim
