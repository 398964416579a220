// capture.cpp: beginning and ending captures, and what is recorded meanwhile.
#include "sim/capture.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "sim/device.hpp"
#include "sim/error.hpp"
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

Model::Model(Context *context, Stream *origin, aclmdlRICaptureMode mode, uint32_t tid)
    : id(g_next_model_id.fetch_add(1)),
      context(context),
      origin_uid(origin->uid()),
      mode(mode),
      tid(tid) {
  std::lock_guard<std::mutex> lock(models().mutex);
  models().living.insert(this);
}

Model::~Model() = default;

Model *find_model(aclmdlRI handle) {
  std::lock_guard<std::mutex> lock(models().mutex);
  Model *const model = static_cast<Model *>(handle);
  return models().living.count(model) != 0 ? model : nullptr;
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

void forget_model(Model *model) {
  {
    std::lock_guard<std::mutex> lock(models().mutex);
    if (models().living.erase(model) == 0) return;
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
  order.resize(branches.size());
  for (uint32_t i = 0; i < nodes.size(); ++i) order[nodes[i].branch].push_back(i);
  return ACL_SUCCESS;
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

aclError begin_capture(Stream *stream, aclmdlRICaptureMode mode) {
  Context *const context = stream->context();
  std::lock_guard<std::mutex> lock(context->capture_mutex);
  if (stream->capture() != nullptr)
    return fail(ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is capturing already", stream->id());
  auto *model = new Model(context, stream, mode, thread_state().tid);
  model->retain();  // by its handle
  {
    std::lock_guard<std::mutex> model_lock(model->mutex);
    model->add_branch(stream);
  }
  count_begin(*model, 1);
  stream->set_capture(model);
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
}

aclError end_capture(Stream *stream, Model **result) {
  *result = nullptr;
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
    forget_model(model);
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
  forget_model(model);
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
