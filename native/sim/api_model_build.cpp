// api_model_build.cpp: graphs that are built from streams, and what steers graphs.
#include <string.h>

#include "sim/capture.hpp"
#include "sim/entry.hpp"
#include "sim/flow.hpp"
#include "sim/lookup.hpp"
#include "sim/machine.hpp"
#include "sim/stream.hpp"

namespace aiocann::sim {
namespace {

constexpr uint64_t kConditionBytes = sizeof(uint64_t);

/// 107000 for graphs that are captured.
aclError require_built(const char *function, aclmdlRI handle, Model **model) {
  if (const aclError code = require_model(handle, model)) return code;
  if ((*model)->kind == Model::Kind::kBuilt) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: model %u is captured, not built", function,
              (*model)->id);
}

aclError refuse_capturing(const Stream *stream) {
  if (stream->capture() == nullptr) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is capturing", stream->id());
}

/// What a stream must be to become part of a graph.
aclError check_bindable(const Stream *stream) {
  if (const aclError code = refuse_capturing(stream)) return code;
  const uint32_t flags = stream->flags();
  if ((flags & ACL_STREAM_DEVICE_USE_ONLY) != 0)
    return fail(ACL_ERROR_RT_INTERNAL_ERROR, "a stream for use on the device only cannot be bound");
  if (stream->context()->stop_on_failure.load())
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "a stream that stops on failures cannot be bound");
  if ((flags & ACL_STREAM_FAST_LAUNCH) != 0)
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "a stream of fast launches cannot be bound");
  if ((flags & (ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE)) == 0)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "stream %d was not made with ACL_STREAM_PERSISTENT",
                stream->id());
  return ACL_SUCCESS;
}

/// Streams that begin or go over to others; not on Atlas A3.
aclError check_steering(const char *function) {
  const char *const soc = machine().config().soc->name;
  if (strncmp(soc, "Ascend910_93", strlen("Ascend910_93")) != 0) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s is not supported on %s", function, soc);
}

/// Two streams of one graph; answers the branch of `other`.
aclError find_branches(aclrtStream stream, aclrtStream other, Stream **target, uint32_t *branch) {
  Stream *second = nullptr;
  if (const aclError code = find_stream(stream, target)) return code;
  if (const aclError code = find_stream(other, &second)) return code;
  Model *const model = (*target)->bound();
  if (model == nullptr || second->bound() != model)
    return fail(ACL_ERROR_RT_STREAM_MODEL, "streams %d and %d are not bound to one model",
                (*target)->id(), second->id());
  std::lock_guard<std::mutex> lock(model->mutex);
  *branch = model->branch_of(second);
  return ACL_SUCCESS;
}

template <class Step>
aclError submit_flow(Stream *stream, Step step) {
  return stream->submit(FlowTask{std::make_shared<const Flow>(std::move(step))});
}

aclError check_conditional_size(const aclmdlRICondTaskParams &params) {
  switch (params.type) {
    case ACL_MODEL_RI_COND_TYPE_IF:
      if (params.size == 1 || params.size == 2) return ACL_SUCCESS;
      break;
    case ACL_MODEL_RI_COND_TYPE_WHILE:
      if (params.size == 1) return ACL_SUCCESS;
      break;
    default:
      if (params.size > 0) return ACL_SUCCESS;
  }
  return fail(ACL_ERROR_RT_PARAM_INVALID, "a conditional task of type %d has no %u models",
              static_cast<int>(params.type), params.size);
}

/// With the context's capture lock. The bodies come to be with the task, or not at all.
aclError add_conditional(const std::shared_ptr<Conditional> &conditional, Stream *stream,
                         const aclmdlRICondTaskParams &params) {
  Context *const context = stream->context();
  conditional->type = params.type;
  for (uint32_t i = 0; i < params.size; ++i)
    conditional->bodies.emplace_back(new Model(context, Model::Kind::kBody));
  const aclError code = submit_flow(stream, RunBody{conditional});
  for (uint32_t i = 0; i < params.size; ++i) {
    auto *const body = static_cast<Model *>(conditional->bodies[i].get());
    params.modelRIArray[i] = code == ACL_SUCCESS ? body : nullptr;
    if (code != ACL_SUCCESS) forget_model(body);
  }
  if (code != ACL_SUCCESS) conditional->bodies.clear();
  return code;
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclmdlRIBuildBegin(aclmdlRI *modelRI, uint32_t) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(modelRI);
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  *modelRI = new Model(context, Model::Kind::kBuilt);
  return ACL_SUCCESS;
}

aclError aclmdlRIBindStream(aclmdlRI modelRI, aclrtStream stream, uint32_t flag) {
  ACL_ENTRY();
  Model *model = nullptr;
  if (const aclError code = require_built(__func__, modelRI, &model)) return code;
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  if (const aclError code = check_bindable(target)) return code;
  return bind_stream(model, target, flag == ACL_MODEL_STREAM_FLAG_HEAD);
}

aclError aclmdlRIUnbindStream(aclmdlRI modelRI, aclrtStream stream) {
  ACL_ENTRY();
  Model *model = nullptr;
  if (const aclError code = require_built(__func__, modelRI, &model)) return code;
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  if (const aclError code = refuse_capturing(target)) return code;
  return unbind_stream(model, target);
}

aclError aclmdlRIEndTask(aclmdlRI modelRI, aclrtStream stream) {
  ACL_ENTRY();
  Model *model = nullptr;
  if (const aclError code = require_built(__func__, modelRI, &model)) return code;
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  if (const aclError code = refuse_capturing(target)) return code;
  std::lock_guard<std::mutex> lock(model->context->capture_mutex);
  if (model->has_end)
    return fail(ACL_ERROR_RT_INTERNAL_ERROR, "model %u has an end task already", model->id);
  if (target->bound() != model)
    return fail(ACL_ERROR_RT_INTERNAL_ERROR, "stream %d is not bound to model %u", target->id(),
                model->id);
  if (const aclError code = submit_flow(target, EndGraph{})) return code;
  std::lock_guard<std::mutex> model_lock(model->mutex);
  model->has_end = true;
  return ACL_SUCCESS;
}

aclError aclmdlRIBuildEnd(aclmdlRI modelRI, void *reserve) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(modelRI);
  if (reserve != nullptr) return fail(ACL_ERROR_INVALID_PARAM, "reserve is not NULL");
  Model *model = nullptr;
  if (const aclError code = require_built(__func__, modelRI, &model)) return code;
  std::lock_guard<std::mutex> lock(model->context->capture_mutex);
  std::lock_guard<std::mutex> model_lock(model->mutex);
  if (model->state.load() != Model::State::kBuilding)
    return fail(ACL_ERROR_RT_INTERNAL_ERROR, "the build of model %u has ended", model->id);
  model->order_nodes();
  model->state.store(Model::State::kReady);
  return ACL_SUCCESS;
}

aclError aclrtActiveStream(aclrtStream activeStream, aclrtStream stream) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(activeStream);
  REQUIRE_NOT_NULL(stream);
  if (const aclError code = check_steering(__func__)) return code;
  Stream *target = nullptr;
  uint32_t branch = 0;
  if (const aclError code = find_branches(stream, activeStream, &target, &branch)) return code;
  return submit_flow(target, BeginBranch{branch});
}

aclError aclrtSwitchStream(void *leftValue, aclrtCondition cond, void *rightValue,
                           aclrtCompareDataType dataType, aclrtStream trueStream,
                           aclrtStream falseStream, aclrtStream stream) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(leftValue);
  REQUIRE_NOT_NULL(rightValue);
  REQUIRE_NOT_NULL(trueStream);
  REQUIRE_NOT_NULL(stream);
  if (falseStream != nullptr) return fail(ACL_ERROR_INVALID_PARAM, "falseStream is not NULL");
  if (cond < ACL_RT_EQUAL || cond > ACL_RT_LESS_OR_EQUAL)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "condition %d is not from 0 to 5",
                static_cast<int>(cond));
  if (dataType != ACL_RT_SWITCH_INT32 && dataType != ACL_RT_SWITCH_INT64)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "data type %d is neither 0 (int32) nor 1 (int64)",
                static_cast<int>(dataType));
  if (const aclError code = check_steering(__func__)) return code;
  Stream *target = nullptr;
  uint32_t branch = 0;
  if (const aclError code = find_branches(stream, trueStream, &target, &branch)) return code;
  return submit_flow(target, GoToBranch{leftValue, rightValue, cond, dataType, branch});
}

aclError aclmdlRICondHandleCreate(aclmdlRI modelRI, uint32_t defaultLaunchValue,
                                  aclmdlRICondHandleFlag flag, aclmdlRICondHandle *handle) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(modelRI);
  REQUIRE_NOT_NULL(handle);
  const auto bits = static_cast<uint32_t>(flag);
  if (bits > ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "flag %u is neither 0 nor 1 (assign default)", bits);
  Model *model = nullptr;
  if (const aclError code = require_model(modelRI, &model)) return code;
  if (model->kind == Model::Kind::kBuilt)
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "model %u is built, not captured", model->id);
  if (const aclError code = require_hbm_soc("a conditional task")) return code;
  std::lock_guard<std::mutex> lock(model->context->capture_mutex);
  if (model->state.load() != Model::State::kCapturing)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "model %u is not being captured", model->id);
  auto made = std::make_shared<Conditional>();
  Arena &memory = model->context->device->memory;
  made->memory = &memory;
  made->value =
      static_cast<uint64_t *>(memory.allocate(kConditionBytes, kConditionBytes, kSmallPage));
  if (made->value == nullptr)
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no device memory is left for a condition");
  made->has_default = bits == ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT;
  made->default_value = defaultLaunchValue;
  *handle = made.get();
  std::lock_guard<std::mutex> model_lock(model->mutex);
  model->conditionals.push_back(std::move(made));
  return ACL_SUCCESS;
}

aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t **ptr) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(handle);
  REQUIRE_NOT_NULL(ptr);
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  if (const aclError code = require_hbm_soc("a conditional task")) return code;
  Model *model = nullptr;
  const auto conditional = find_conditional(handle, &model);
  if (conditional == nullptr)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the condition handle does not exist (any more)");
  *ptr = conditional->value;
  return ACL_SUCCESS;
}

aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream, uint32_t flags) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(stream);
  if (params.type < ACL_MODEL_RI_COND_TYPE_IF || params.type > ACL_MODEL_RI_COND_TYPE_SWITCH)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "type %d of a conditional task is not from 0 to 2",
                static_cast<int>(params.type));
  if (flags != 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "flags %u are not 0", flags);
  if (params.handle == nullptr || params.modelRIArray == nullptr)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the handle or the array of models is NULL");
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  if (const aclError code = require_hbm_soc("a conditional task")) return code;
  Model *model = nullptr;
  const auto conditional = find_conditional(params.handle, &model);
  if (conditional == nullptr)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the condition handle does not exist (any more)");
  std::lock_guard<std::mutex> lock(target->context()->capture_mutex);
  if (!conditional->bodies.empty())
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the condition handle has a task already");
  if (target->capture() == nullptr)
    return fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not capturing", target->id());
  if (target->capture() != model)
    return fail(ACL_ERROR_RT_PARAM_INVALID,
                "the condition handle was not made in the model that stream %d is captured into",
                target->id());
  if (const aclError code = check_conditional_size(params)) return code;
  return add_conditional(conditional, target, params);
}
