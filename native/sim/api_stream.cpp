// api_stream.cpp: streams.
#include <algorithm>

#include "sim/entry.hpp"
#include "sim/lifecycle.hpp"
#include "sim/lookup.hpp"
#include "sim/machine.hpp"
#include "sim/stream.hpp"

namespace aiocann::sim {
namespace {

constexpr uint32_t kLowestPriority = kPriorities - 1;
/// Their work is never waited for: they are fed by something else than the host's queue.
constexpr uint32_t kNeverSynchronized =
    ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;

aclError check_timeout(int32_t timeout) {
  if (timeout >= -1 && timeout != 0) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, "timeout %d: expected -1 or more than 0 milliseconds",
              timeout);
}

/// 107027 for calls that a capturing stream does not take.
aclError refuse_captured(const Stream *stream) {
  if (stream->capture() == nullptr) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is capturing", stream->id());
}

aclError synchronize(Stream *stream, int32_t timeout) {
  if (const aclError code = refuse_captured(stream)) return code;
  if ((stream->flags() & kNeverSynchronized) != 0) return ACL_SUCCESS;
  if (const aclError code = stream->wait_for_all(Deadline::after_ms(timeout))) {
    return fail(code, "stream %d did not finish within %d ms", stream->id(), timeout);
  }
  const aclError code = stream->take_error();
  return code == ACL_SUCCESS ? code
                             : fail(code, "a task of stream %d failed on the device", stream->id());
}

aclError check_destroy(aclrtStream handle, Stream **stream) {
  if (handle == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "the stream is NULL");
  if (const aclError code = find_stream(handle, stream)) return code;
  if (*stream == (*stream)->context()->default_stream) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the default stream of a context cannot be destroyed");
  }
  return refuse_captured(*stream);
}

/// 507000 for calls that a stream does not take which is part of a graph.
aclError refuse_bound(const Stream *stream) {
  if (stream->bound() == nullptr) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_INTERNAL_ERROR, "stream %d is bound to a model", stream->id());
}

/// An injected fault can make a task that not even an abort ends.
aclError refuse_abort(const Stream *stream) {
  const aclError code = stream->abort_refusal();
  return code == ACL_SUCCESS ? code : fail(code, "stream %d cannot be aborted", stream->id());
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(stream);
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  Stream *made = nullptr;
  if (const aclError code =
          create_stream(context, std::min(priority, kLowestPriority), flag, &made))
    return code;
  *stream = made;
  return ACL_SUCCESS;
}

aclError aclrtCreateStream(aclrtStream *stream) {
  ACL_ENTRY();
  return aclrtCreateStreamWithConfig(stream, 0, 0);
}

aclError aclrtDestroyStream(aclrtStream stream) {
  ACL_ENTRY();
  Stream *target = nullptr;
  if (const aclError code = check_destroy(stream, &target)) return code;
  target->wait_for_all(Deadline::never());
  destroy_stream(target);
  return ACL_SUCCESS;
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  ACL_ENTRY();
  Stream *target = nullptr;
  if (const aclError code = check_destroy(stream, &target)) return code;
  if (const aclError code = refuse_abort(target)) return code;
  target->discard(ACL_ERROR_RT_STREAM_ABORT);
  destroy_stream(target);
  return ACL_SUCCESS;
}

aclError aclrtStreamAbort(aclrtStream stream) {
  ACL_ENTRY();
  if (stream == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "the stream is NULL");
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  if (machine().config().soc->ddr_only) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s cannot abort streams",
                machine().config().soc->name);
  }
  if (const aclError code = refuse_captured(target)) return code;
  if (const aclError code = refuse_bound(target)) return code;
  if (const aclError code = refuse_abort(target)) return code;
  target->set_error(
      ACL_ERROR_RT_STREAM_ABORT);  // for a synchronisation that waits already, and the next one
  target->discard(ACL_ERROR_RT_STREAM_ABORT);
  return ACL_SUCCESS;
}

/// On hardware such streams are made with ACL_STREAM_DEVICE_USE_ONLY.
aclError aclrtStreamStop(aclrtStream stream) {
  ACL_ENTRY();
  if (stream == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "the stream is NULL");
  if (const aclError code = require_hbm_soc("aclrtStreamStop")) return code;
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  if (const aclError code = refuse_captured(target)) return code;
  if (const aclError code = refuse_bound(target)) return code;
  if (const aclError code = refuse_abort(target)) return code;
  target->stop_running();
  return ACL_SUCCESS;
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(status);
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  if (const aclError code = refuse_captured(target)) return code;
  const bool complete = (target->flags() & kNeverSynchronized) != 0 || target->is_idle();
  *status = complete ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  ACL_ENTRY();
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  return synchronize(target, -1);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  ACL_ENTRY();
  if (const aclError code = check_timeout(timeout)) return code;
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  return synchronize(target, timeout);
}

aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(streamId);
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  *streamId = target->id();
  return ACL_SUCCESS;
}

aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(priority);
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  *priority = target->priority();
  return ACL_SUCCESS;
}

aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(flags);
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  *flags = target->flags();
  return ACL_SUCCESS;
}

aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(stream);
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  *stream = context->default_stream;
  return ACL_SUCCESS;
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
  ACL_ENTRY();
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  if (stream == nullptr && machine().config().soc->ddr_only) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s takes no NULL stream here",
                machine().config().soc->name);
  }
  if (target->bound() != nullptr)
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "stream %d is bound to a model", target->id());
  const bool stop = (mode & 1) != 0;  // only the low bit counts
  std::atomic<bool> &stops = target->context()->stop_on_failure;
  if (stops.load() && !stop) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "the context stops on failures: that cannot be taken back");
  }
  if (stop) stops.store(true);
  return ACL_SUCCESS;
}

aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority) {
  ACL_ENTRY();
  if (leastPriority != nullptr) *leastPriority = static_cast<int32_t>(kLowestPriority);
  if (greatestPriority != nullptr) *greatestPriority = 0;
  return ACL_SUCCESS;
}

aclError aclrtGetStreamAvailableNum(uint32_t *streamCount) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(streamCount);
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  *streamCount = machine().config().max_streams - context->device->streams.live();
  return ACL_SUCCESS;
}

aclError aclrtGetThreadLastTaskId(uint32_t *taskId) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(taskId);
  *taskId = thread_state().last_task_id;
  return ACL_SUCCESS;
}

namespace aiocann::sim {

aclError submit_kernel(aclrtStream stream, KernelTask task) {
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  return target->submit(std::move(task));
}

}  // namespace aiocann::sim
