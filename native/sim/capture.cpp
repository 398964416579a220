// capture.cpp: beginning and ending captures, and what is recorded meanwhile.
#include "sim/capture.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sim/device.hpp"
#include "sim/error.hpp"
#include "sim/faults.hpp"
#include "sim/lookup.hpp"
#include "sim/stream.hpp"
#include "sim/thread_state.hpp"

namespace aiocann::sim {
namespace {

std::atomic<uint32_t> g_next_model_id{1};

struct Models {
  std::mutex mutex;
  std::set<Model *> living;
  /// Captures that a thread has begun and not ended, by mode.
  std::map<uint32_t, uint32_t[3]> by_thread;
};

Models &models() {
  static Models *const leaked = new Models();
  return *leaked;
}

void count_begin(const Model &model, int by) {
  model.context->captures[model.mode].fetch_add(static_cast<uint32_t>(by));
  std::lock_guard<std::mutex> lock(models().mutex);
  models().by_thread[model.tid][model.mode] += static_cast<uint32_t>(by);
}

/// The strictest of the modes that are counted; 3: none.
template <class Counts>
int strictest(const Counts &counts) {
  for (int mode = 0; mode < 3; ++mode) {
    if (counts[mode] != 0) return mode;
  }
  return 3;
}

int mode_of_thread(uint32_t tid) {
  std::lock_guard<std::mutex> lock(models().mutex);
  const auto found = models().by_thread.find(tid);
  return found == models().by_thread.end() ? 3 : strictest(found->second);
}

}  // namespace

Model::Model(Context *context, Kind kind)
    : id(g_next_model_id.fetch_add(1)), context(context), kind(kind) {
  retain();  // by its handle
  state.store(kind == Kind::kBuilt ? State::kBuilding : State::kEmpty);
  std::lock_guard<std::mutex> lock(models().mutex);
  models().living.insert(this);
}

Model::~Model() = default;

Model *find_model(aclmdlRI handle) {
  std::lock_guard<std::mutex> lock(models().mutex);
  Model *const model = static_cast<Model *>(handle);
  return models().living.count(model) != 0 ? model : nullptr;
}

bool is_living(uint32_t model_id) {
  std::lock_guard<std::mutex> lock(models().mutex);
  const auto &all = models().living;
  return std::any_of(all.begin(), all.end(),
                     [model_id](const Model *model) { return model->id == model_id; });
}

TaskGroup *find_task_group(aclrtTaskGrp handle) {
  std::lock_guard<std::mutex> lock(models().mutex);
  for (Model *model : models().living) {
    std::lock_guard<std::mutex> model_lock(model->mutex);
    for (const auto &group : model->groups) {
      if (group.get() == handle) return group.get();
    }
  }
  return nullptr;
}

std::shared_ptr<Conditional> find_conditional(aclmdlRICondHandle handle, Model **model) {
  std::lock_guard<std::mutex> lock(models().mutex);
  for (Model *candidate : models().living) {
    std::lock_guard<std::mutex> model_lock(candidate->mutex);
    for (const auto &conditional : candidate->conditionals) {
      if (conditional.get() != handle) continue;
      *model = candidate;
      return conditional;
    }
  }
  return nullptr;
}

/// Its streams are bound to nothing any more.
static void unbind_all(Model *model) {
  std::vector<Stream *> streams;
  {
    std::lock_guard<std::mutex> lock(model->mutex);
    for (Model::Branch &branch : model->branches) {
      if (branch.stream != nullptr) streams.push_back(std::exchange(branch.stream, nullptr));
    }
  }
  for (Stream *stream : streams) stream->set_bound(nullptr);
}

void forget_model(Model *model) {
  {
    std::lock_guard<std::mutex> lock(models().mutex);
    if (models().living.erase(model) == 0) return;
  }
  if (model->kind == Model::Kind::kBuilt) unbind_all(model);
  std::vector<std::shared_ptr<Conditional>> conditionals;
  {
    std::lock_guard<std::mutex> lock(model->mutex);
    conditionals = model->conditionals;
  }
  for (const auto &conditional : conditionals) {
    conditional->memory->free(conditional->value);
    for (const auto &body : conditional->bodies) forget_model(static_cast<Model *>(body.get()));
  }
  model->release();
}

void forget_models(const Context *context) {
  std::vector<Model *> found;
  {
    std::lock_guard<std::mutex> lock(models().mutex);
    for (Model *model : models().living) {
      if (model->context == context) found.push_back(model);
    }
  }
  for (Model *model : found) forget_model(model);
}

void Model::begin_capture(Stream *origin, aclmdlRICaptureMode capture_mode) {
  origin_uid = origin->uid();
  mode = capture_mode;
  tid = thread_state().tid;
  state.store(State::kCapturing);
  {
    std::lock_guard<std::mutex> lock(mutex);
    add_branch(origin);
  }
  count_begin(*this, 1);
  origin->set_capture(this);
}

void Model::invalidate() {
  State capturing = State::kCapturing;
  state.compare_exchange_strong(capturing, State::kInvalid);
}

uint32_t Model::branch_of(const Stream *stream) const {
  for (uint32_t i = 0; i < branches.size(); ++i) {
    if (branches[i].stream_uid == stream->uid()) return i;
  }
  return ModelNode::kNone;
}

uint32_t Model::add_branch(Stream *stream) {
  branches.emplace_back();
  branches.back().stream = stream;
  branches.back().stream_uid = stream->uid();
  return static_cast<uint32_t>(branches.size() - 1);
}

aclError Model::append(Stream *stream, Task task) {
  if (state.load() == State::kInvalid)
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "the capture of stream %d is invalid",
                stream->id());
  if (kind == Kind::kBuilt && state.load() != State::kBuilding)
    return fail(ACL_ERROR_RT_STREAM_MODEL,
                "stream %d is bound to a model whose build has ended: it takes no more tasks",
                stream->id());
  if (std::holds_alternative<CallbackTask>(task.payload))
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "a callback cannot be captured: launch a host function");
  std::lock_guard<std::mutex> lock(mutex);
  const uint32_t branch = branch_of(stream);
  if (branches[branch].has_open_group) {
    if (!std::holds_alternative<KernelTask>(task.payload)) {
      invalidate();
      return fail(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, "a task group takes kernels alone");
    }
    branches[branch].group.push_back(static_cast<uint32_t>(nodes.size()));
  }
  ModelNode node;
  node.branch = branch;
  node.task = std::make_shared<const Task>(std::move(task));
  branches[branch].last = static_cast<uint32_t>(nodes.size());
  nodes.push_back(std::move(node));
  return ACL_SUCCESS;
}

aclError Model::append_record(Stream *stream, uint32_t *node) {
  std::lock_guard<std::mutex> lock(mutex);
  ModelNode record;
  record.kind = ModelNode::Kind::kRecord;
  record.branch = branch_of(stream);
  *node = branches[record.branch].last = static_cast<uint32_t>(nodes.size());
  nodes.push_back(std::move(record));
  return ACL_SUCCESS;
}

aclError Model::append_wait(Stream *stream, uint32_t record) {
  std::lock_guard<std::mutex> lock(mutex);
  ModelNode wait;
  wait.kind = ModelNode::Kind::kWait;
  wait.branch = branch_of(stream);
  wait.record = record;
  if (nodes[record].branch != wait.branch) nodes[record].is_waited = true;
  branches[wait.branch].last = static_cast<uint32_t>(nodes.size());
  nodes.push_back(std::move(wait));
  return ACL_SUCCESS;
}

aclError Model::complete() {
  std::lock_guard<std::mutex> lock(mutex);
  for (const Branch &branch : branches) {
    if (branch.has_open_group)
      return fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task group was not ended");
  }
  // As nothing follows a branch's last recording, waits for each of these lead back to the origin.
  for (const Branch &branch : branches) {
    if (branch.stream_uid == origin_uid) continue;
    const ModelNode *last = branch.last == ModelNode::kNone ? nullptr : &nodes[branch.last];
    if (last == nullptr || last->kind != ModelNode::Kind::kRecord || !last->is_waited)
      return fail(
          ACL_ERROR_RT_STREAM_UNJOINED,
          "a stream was taken into the capture and not joined back: its last task must be the "
          "recording of an event that the origin waits for");
  }
  for (const auto &conditional : conditionals) {
    for (const auto &held : conditional->bodies) {
      const auto &body = static_cast<const Model &>(*held);
      if (body.is_capturing())
        return fail(ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING,
                    "the capture of a conditional task's model %u has not ended", body.id);
      if (body.state.load() == State::kDropped)
        return fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
                    "the capture of a conditional task's model %u failed", body.id);
    }
  }
  order_nodes();
  return ACL_SUCCESS;
}

void Model::order_nodes() {
  order.resize(branches.size());
  for (uint32_t i = 0; i < nodes.size(); ++i) order[nodes[i].branch].push_back(i);
}

aclError check_unsafe_call(const char *function, bool sync) {
  Context *const context = current_context();
  if (context == nullptr) return ACL_SUCCESS;  // found by others
  const int active = strictest(context->captures);
  if (active > ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL) return ACL_SUCCESS;
  const ThreadState &thread = thread_state();
  const int own = mode_of_thread(thread.tid);
  bool refused = false;
  if (thread.capture_mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)
    refused =
        active == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || own == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
  else if (thread.capture_mode == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL)
    refused =
        own == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || own == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
  if (!refused) return ACL_SUCCESS;
  return fail(sync ? ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT : ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC,
              "%s would disturb a capture: the capture modes of this context and thread forbid it",
              function);
}

aclError begin_capture(Stream *stream, aclmdlRICaptureMode mode, Model *body) {
  Context *const context = stream->context();
  std::lock_guard<std::mutex> lock(context->capture_mutex);
  if (body != nullptr && body->state.load() != Model::State::kEmpty)
    return fail(ACL_ERROR_RT_MODEL_CAPTURED, "model %u was captured into already", body->id);
  if (stream->capture() != nullptr)
    return fail(ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is capturing already", stream->id());
  Model *const model = body != nullptr ? body : new Model(context, Model::Kind::kCaptured);
  model->begin_capture(stream, mode);
  return ACL_SUCCESS;
}

/// With the context's capture lock: nothing of the capture is recorded any more.
static void leave_capture(Model *model, Model::State outcome) {
  std::vector<Stream *> streams;
  {
    std::lock_guard<std::mutex> lock(model->mutex);
    for (Model::Branch &branch : model->branches) {
      streams.push_back(branch.stream);
      branch.stream = nullptr;
    }
  }
  for (Stream *stream : streams) {
    if (stream != nullptr) stream->set_capture(nullptr);
  }
  count_begin(*model, -1);
  model->state.store(outcome);
  if (outcome != Model::State::kDropped) return;
  for (const auto &conditional : model->conditionals) {
    for (const auto &held : conditional->bodies) {
      auto *const body = static_cast<Model *>(held.get());
      if (body->is_capturing()) leave_capture(body, Model::State::kDropped);
    }
  }
}

/// It has failed. Bodies stay with the graph that they are for.
static void drop_model(Model *model) {
  if (model->kind != Model::Kind::kBody) forget_model(model);
}

aclError end_capture(Stream *stream, Model **result) {
  std::lock_guard<std::mutex> lock(stream->context()->capture_mutex);
  Model *const model = stream->capture();
  if (model == nullptr)
    return fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not capturing", stream->id());
  if (stream->uid() != model->origin_uid)
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, "the capture was not begun on stream %d",
                stream->id());
  aclError code = ACL_SUCCESS;
  if (model->mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED && model->tid != thread_state().tid)
    code = fail(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
                "the capture of stream %d was begun by another thread", stream->id());
  else if (model->state.load() == Model::State::kInvalid)
    code = fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
                "an earlier failure made the capture of stream %d invalid", stream->id());
  else
    code = model->complete();
  leave_capture(model, code == ACL_SUCCESS ? Model::State::kReady : Model::State::kDropped);
  if (code == ACL_SUCCESS)
    *result = model;
  else
    drop_model(model);
  return code;
}

void drop_capture(Stream *stream) {
  std::lock_guard<std::mutex> lock(stream->context()->capture_mutex);
  Model *const model = stream->capture();
  if (model == nullptr) return;
  if (stream->uid() != model->origin_uid) {
    model->invalidate();
    std::lock_guard<std::mutex> model_lock(model->mutex);
    model->branches[model->branch_of(stream)].stream = nullptr;
    return;
  }
  leave_capture(model, Model::State::kDropped);
  drop_model(model);
}

aclError bind_stream(Model *model, Stream *stream, bool is_head) {
  std::lock_guard<std::mutex> lock(model->context->capture_mutex);
  if (stream->bound() != nullptr)
    return fail(ACL_ERROR_RT_STREAM_MODEL, "stream %d is bound to model %u already", stream->id(),
                stream->bound()->id);
  if (model->state.load() != Model::State::kBuilding)
    return fail(ACL_ERROR_RT_STREAM_MODEL, "the build of model %u has ended", model->id);
  {
    std::lock_guard<std::mutex> model_lock(model->mutex);
    model->branches[model->add_branch(stream)].is_head = is_head;
  }
  stream->set_bound(model);
  return ACL_SUCCESS;
}

aclError unbind_stream(Model *model, Stream *stream) {
  std::lock_guard<std::mutex> lock(model->context->capture_mutex);
  if (stream->bound() != model)
    return fail(ACL_ERROR_RT_STREAM_MODEL, "stream %d is not bound to model %u", stream->id(),
                model->id);
  {
    std::lock_guard<std::mutex> model_lock(model->mutex);
    model->branches[model->branch_of(stream)].stream = nullptr;
  }
  stream->set_bound(nullptr);
  return ACL_SUCCESS;
}

void drop_binding(Stream *stream) {
  Model *const model = stream->bound();
  if (model == nullptr) return;
  if (model->context->alive.load())
    misuse("stream %d was destroyed while it was bound to model %u", stream->id(), model->id);
  unbind_stream(model, stream);
}

aclError join_capture(Model *model, Stream *stream) {
  Model *const own = stream->capture();
  if (own == model) return ACL_SUCCESS;
  if (own != nullptr) {
    own->invalidate();
    model->invalidate();
    return fail(ACL_ERROR_STREAM_CAPTURE_CONFLICT, "the event would link two captures");
  }
  {
    std::lock_guard<std::mutex> lock(model->mutex);
    model->add_branch(stream);
  }
  stream->set_capture(model);
  return ACL_SUCCESS;
}

}  // namespace aiocann::sim
