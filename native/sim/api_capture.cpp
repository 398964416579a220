// api_capture.cpp: capturing streams, and the graphs that come of it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <algorithm>

#include "sim/capture.hpp"
#include "sim/entry.hpp"
#include "sim/lifecycle.hpp"
#include "sim/lookup.hpp"
#include "sim/machine.hpp"
#include "sim/stream.hpp"
#include "sim/thread_state.hpp"

namespace aiocann::sim {
namespace {

constexpr int64_t kDestroyGraceMs = 10000;

/// 207000 for the models of conditional tasks: they come and go with that which runs them.
aclError refuse_body(const char *function, const Model *model) {
  if (model->kind != Model::Kind::kBody) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: model %u belongs to a conditional task",
              function, model->id);
}

/// A built graph must have been given an end, and its streams must be bound to it still.
aclError check_built(Model *model) {
  std::lock_guard<std::mutex> lock(model->mutex);
  if (model->state.load() != Model::State::kReady)
    return fail(ACL_ERROR_RT_MODEL_EXECUTE, "the build of model %u has not ended", model->id);
  if (!model->has_end)
    return fail(ACL_ERROR_RT_MODEL_EXECUTE, "model %u has no end task: call aclmdlRIEndTask",
                model->id);
  const bool is_bound = std::all_of(model->branches.begin(), model->branches.end(),
                                    [](const auto &branch) { return branch.stream != nullptr; });
  if (is_bound) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_STREAM_MODEL, "a stream of model %u is not bound to it any more",
              model->id);
}

/// A model that can be executed.
aclError require_complete(const char *function, aclmdlRI handle, Model **model) {
  if (const aclError code = require_model(handle, model)) return code;
  if (const aclError code = refuse_body(function, *model)) return code;
  if ((*model)->kind == Model::Kind::kBuilt) return check_built(*model);
  if ((*model)->state.load() == Model::State::kReady) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_MODEL_CAPTURED, "the model is still being captured");
}

aclError enqueue(Model *model, Stream *stream) {
  model->running.fetch_add(1);
  const aclError code = stream->submit(RunModelTask{Ref<ModelBase>(model)});
  if (code != ACL_SUCCESS) model->running.fetch_sub(1);
  return code;
}

const char *name_of(const ModelNode &node) {
  if (node.kind == ModelNode::Kind::kRecord) return "event record";
  if (node.kind == ModelNode::Kind::kWait) return "event wait";
  struct Namer {
    const char *operator()(const KernelTask &kernel) { return kernel.name; }
    const char *operator()(const CopyTask &) { return "memcpy"; }
    const char *operator()(const Copy2dTask &) { return "memcpy2d"; }
    const char *operator()(const BufferCopyTask &) { return "memcpy"; }
    const char *operator()(const MemsetTask &) { return "memset"; }
    const char *operator()(const HostFuncTask &) { return "host function"; }
    const char *operator()(const ValueWriteTask &) { return "value write"; }
    const char *operator()(const ValueWaitTask &) { return "value wait"; }
    const char *operator()(const RecordNotifyTask &) { return "notify record"; }
    const char *operator()(const WaitNotifyTask &) { return "notify wait"; }
    const char *operator()(const RecordTask &) { return "external event record"; }
    const char *operator()(const RecordExternalTask &) { return "external event record"; }
    const char *operator()(const WaitFlagTask &) { return "external event wait"; }
    const char *operator()(const WaitExternalTask &) { return "external event wait"; }
    const char *operator()(const ResetFlagTask &) { return "external event reset"; }
    const char *operator()(const FlowTask &task) { return std::visit(*this, task.flow->step); }
    const char *operator()(const GoToLabel &) { return "label switch"; }
    const char *operator()(const GoToBranch &) { return "stream switch"; }
    const char *operator()(const BeginBranch &) { return "stream activation"; }
    const char *operator()(const EndGraph &) { return "end of the graph"; }
    const char *operator()(const RunBody &) { return "conditional task"; }
    const char *operator()(...) { return "task"; }
  };
  return std::visit(Namer{}, node.task->payload);
}

bool is_updating(const Model &model) {
  std::lock_guard<std::mutex> lock(model.context->capture_mutex);
  std::lock_guard<std::mutex> model_lock(model.mutex);
  return std::any_of(model.groups.begin(), model.groups.end(),
                     [](const auto &group) { return group->is_updating; });
}

aclError find_group(aclrtTaskGrp handle, TaskGroup **group) {
  if (handle == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "the task group is NULL");
  *group = find_task_group(handle);
  if (*group != nullptr) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, "the task group does not exist (any more)");
}

/// Calls `body` with a stream that is captured, its model, and the stream's branch of that, which are locked.
template <class Body>
aclError with_branch(aclrtStream stream, Body &&body) {
  Stream *target = nullptr;
  if (const aclError code = find_named_stream(stream, &target)) return code;
  std::lock_guard<std::mutex> lock(target->context()->capture_mutex);
  Model *const model = target->capture();
  if (model == nullptr)
    return fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not capturing", target->id());
  std::lock_guard<std::mutex> model_lock(model->mutex);
  Model::Branch &branch = model->branches[model->branch_of(target)];
  return body(target, model, branch);
}

/// Checks of both ways to begin a capture.
aclError begin(aclrtStream stream, Model *body, aclmdlRICaptureMode mode) {
  Stream *target = nullptr;
  if (const aclError code = find_named_stream(stream, &target)) return code;
  if (mode < ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "capture mode %d is not 0, 1 or 2",
                static_cast<int>(mode));
  if ((target->flags() & kNeverCaptured) != 0)
    return fail(ACL_ERROR_RT_INTERNAL_ERROR, "a stream with flags 0x%x cannot be captured",
                target->flags());
  if (target == target->context()->default_stream)
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the default stream cannot be captured");
  return begin_capture(target, mode, body);
}

}  // namespace

aclError require_model(aclmdlRI handle, Model **model) {
  if (handle == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "the model is NULL");
  *model = find_model(handle);
  if (*model == nullptr)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the model does not exist (any more)");
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  if ((*model)->context == context) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_MODEL_CONTEXT, "the model was not made in the current context");
}

}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode) {
  ACL_ENTRY();
  return begin(stream, nullptr, mode);
}

aclError aclmdlRICaptureToModelRIBegin(aclrtStream stream, aclmdlRI modelRI,
                                       aclmdlRICaptureMode mode) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(stream);
  if (const aclError code = require_hbm_soc("a conditional task")) return code;
  Model *body = nullptr;
  if (const aclError code = require_model(modelRI, &body)) return code;
  if (body->kind != Model::Kind::kBody)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "model %u does not belong to a conditional task",
                body->id);
  return begin(stream, body, mode);
}

aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus *status,
                                aclmdlRI *modelRI) {
  ACL_ENTRY();
  if (status == nullptr && modelRI == nullptr)
    return fail(ACL_ERROR_INVALID_PARAM, "status and model are both NULL");
  Stream *target = nullptr;
  if (const aclError code = find_named_stream(stream, &target)) return code;
  std::lock_guard<std::mutex> lock(target->context()->capture_mutex);
  Model *const model = target->capture();
  if (status != nullptr) {
    *status = model == nullptr ? ACL_MODEL_RI_CAPTURE_STATUS_NONE
              : model->state.load() == Model::State::kInvalid
                  ? ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED
                  : ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
  }
  if (modelRI != nullptr) *modelRI = model;
  return ACL_SUCCESS;
}

/// A body is known already: `modelRI` may be NULL for it, and stays as it is where its capture failed.
aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *modelRI) {
  ACL_ENTRY();
  Stream *target = nullptr;
  if (const aclError code = find_named_stream(stream, &target)) return code;
  const Model *const capturing = target->capture();
  const bool is_body = capturing != nullptr && capturing->kind == Model::Kind::kBody;
  if (!is_body) REQUIRE_NOT_NULL(modelRI);
  Model *model = nullptr;
  const aclError code = end_capture(target, &model);
  if (modelRI != nullptr && (code == ACL_SUCCESS || !is_body)) *modelRI = model;
  return code;
}

aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(mode);
  if (*mode < ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || *mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "capture mode %d is not 0, 1 or 2",
                static_cast<int>(*mode));
  std::swap(*mode, thread_state().capture_mode);
  return ACL_SUCCESS;
}

aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream) {
  ACL_ENTRY();
  Model *model = nullptr;
  if (const aclError code = require_complete(__func__, modelRI, &model)) return code;
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  if (target->capture() != nullptr)
    return fail(ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is capturing", target->id());
  if ((target->flags() & kNeverCaptured) != 0)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "a stream with flags 0x%x executes no models",
                target->flags());
  return enqueue(model, target);
}

aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout) {
  ACL_ENTRY();
  if (timeout < -1 || timeout == 0)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "timeout %d: expected -1 or more than 0 milliseconds",
                timeout);
  Model *model = nullptr;
  if (const aclError code = require_complete(__func__, modelRI, &model)) return code;
  Stream *own = nullptr;
  if (const aclError code = create_stream(model->context, 0, 0, &own)) return code;
  aclError code = enqueue(model, own);
  if (code == ACL_SUCCESS) code = own->wait_for_all(Deadline::after_ms(timeout));
  if (code == ACL_SUCCESS) code = own->take_error();
  own->discard(ACL_ERROR_RT_STREAM_ABORT);  // late: it is not waited for any more
  destroy_stream(own);
  return code == ACL_SUCCESS ? code : fail(code, "the graph failed, or took over %d ms", timeout);
}

aclError aclmdlRIDestroy(aclmdlRI modelRI) {
  ACL_ENTRY();
  Model *model = nullptr;
  if (const aclError code = require_model(modelRI, &model)) return code;
  if (const aclError code = refuse_body(__func__, model)) return code;
  if (model->is_capturing())
    return fail(ACL_ERROR_RT_MODEL_CAPTURED, "the model is still being captured");
  if (is_updating(*model))
    return fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task group of the model is being updated");
  const Deadline deadline = Deadline::after_ms(kDestroyGraceMs);
  while (model->running.load() != 0) {
    if (deadline.has_passed() || machine_is_stopping())
      return fail(ACL_ERROR_RT_MODEL_RUNNING, "the model is still running");
    const timespec pause{0, 200000};
    nanosleep(&pause, nullptr);
  }
  forget_model(model);
  return ACL_SUCCESS;
}

aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t *modelRIId) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(modelRIId);
  Model *model = nullptr;
  if (const aclError code = require_model(modelRI, &model)) return code;
  *modelRIId = model->id;
  return ACL_SUCCESS;
}

aclError aclmdlRISetName(aclmdlRI modelRI, const char *name) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(name);
  Model *model = nullptr;
  if (const aclError code = require_model(modelRI, &model)) return code;
  std::lock_guard<std::mutex> lock(model->mutex);
  model->name = name;
  return ACL_SUCCESS;
}

aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char *name) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(name);
  Model *model = nullptr;
  if (const aclError code = require_model(modelRI, &model)) return code;
  std::lock_guard<std::mutex> lock(model->mutex);
  if (model->name.size() >= maxLen)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%u bytes are too few for a name of %zu", maxLen,
                model->name.size());
  strcpy(name, model->name.c_str());
  return ACL_SUCCESS;
}

aclError aclmdlRIDebugPrint(aclmdlRI modelRI) {
  ACL_ENTRY();
  Model *model = nullptr;
  if (const aclError code = require_model(modelRI, &model)) return code;
  if (getenv("AIOCANN_SIM_LOG") == nullptr) return ACL_SUCCESS;  // the log is off
  std::lock_guard<std::mutex> lock(model->mutex);
  fprintf(stderr, "aiocann simulator: model %u: %zu branches\n", model->id, model->branches.size());
  for (size_t i = 0; i < model->nodes.size(); ++i) {
    fprintf(stderr, "aiocann simulator:   task %zu on branch %u: %s\n", i, model->nodes[i].branch,
            name_of(model->nodes[i]));
  }
  return ACL_SUCCESS;
}

aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char *path, uint32_t flags) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(path);
  if (flags > ACL_MDLRI_DEBUG_JSON_PRINT_VERBOSE)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "flags %u are not 0 or 1", flags);
  Model *model = nullptr;
  if (const aclError code = require_model(modelRI, &model)) return code;
  FILE *file = fopen(path, "w");
  if (file == nullptr) return fail(ACL_ERROR_INVALID_FILE, "'%s' cannot be written", path);
  std::lock_guard<std::mutex> lock(model->mutex);
  fputs("[", file);
  for (size_t i = 0; i < model->nodes.size(); ++i) {
    fprintf(file,
            "%s\n{\"name\": \"%s\", \"ph\": \"X\", \"pid\": \"model %u\", \"tid\": \"stream %u\", "
            "\"ts\": %zu, \"dur\": 1, \"args\": {\"task\": %zu}}",
            i == 0 ? "" : ",", name_of(model->nodes[i]), model->id, model->nodes[i].branch, i, i);
  }
  fputs("\n]\n", file);
  return fclose(file) == 0 ? ACL_SUCCESS
                           : fail(ACL_ERROR_INVALID_FILE, "'%s' cannot be written", path);
}

aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream) {
  ACL_ENTRY();
  return with_branch(stream, [](Stream *target, Model *, Model::Branch &branch) -> aclError {
    if (branch.has_open_group)
      return fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "stream %d has a task group open already",
                  target->id());
    branch.has_open_group = true;
    branch.group.clear();
    return ACL_SUCCESS;
  });
}

aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp *handle) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(handle);
  *handle = nullptr;
  return with_branch(
      stream, [handle](Stream *target, Model *model, Model::Branch &branch) -> aclError {
        if (!branch.has_open_group)
          return fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "stream %d has no task group open",
                      target->id());
        branch.has_open_group = false;
        if (model->state.load() == Model::State::kInvalid)
          return fail(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "the capture is invalid");
        auto group = std::make_unique<TaskGroup>();
        group->model = model;
        group->nodes = std::move(branch.group);
        *handle = group.get();
        model->groups.push_back(std::move(group));
        return ACL_SUCCESS;
      });
}

aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle) {
  ACL_ENTRY();
  if (const aclError code = require_hbm_soc("updating task groups")) return code;
  Stream *target = nullptr;
  if (const aclError code = find_named_stream(stream, &target)) return code;
  TaskGroup *group = nullptr;
  if (const aclError code = find_group(handle, &group)) return code;
  std::lock_guard<std::mutex> lock(target->context()->capture_mutex);
  if (target->capture() != nullptr)
    return fail(ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is capturing", target->id());
  if (target->update() != nullptr || group->is_updating)
    return fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "the %s is updating a task group already",
                target->update() != nullptr ? "stream" : "group");
  group->is_updating = true;
  target->set_update(group);
  return ACL_SUCCESS;
}

aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream) {
  ACL_ENTRY();
  Stream *target = nullptr;
  if (const aclError code = find_named_stream(stream, &target)) return code;
  std::lock_guard<std::mutex> lock(target->context()->capture_mutex);
  if (target->capture() != nullptr)
    return fail(ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is capturing", target->id());
  TaskGroup *const group = target->update();
  if (group == nullptr)
    return fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "stream %d updates no task group",
                target->id());
  const bool all = target->set_update(nullptr);
  group->is_updating = false;
  if (all) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_INTERNAL_ERROR, "not all kernels of the task group were updated");
}
