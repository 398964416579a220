#include "core/inquiry.hpp"

#include "core/device.hpp"
#include "core/events.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"

namespace aiocann::core {
namespace {

constexpr int32_t kSyncTimeout = 507046;
constexpr int32_t kStreamAborted = 107023;

/// The event of a marker: whether it is complete; a fault code, where the driver answers with one.
bool is_complete(const acl::Api &api, const NativeEvent *event, int32_t *fault) {
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  const int32_t code = api.aclrtQueryEventStatus(event->raw, &status);
  if (is_fault_code(code)) *fault = code;
  return code == 0 && status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

bool is_captured(const acl::Api &api, void *raw) {
  aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  return api.aclmdlRICaptureGetInfo != nullptr &&
         api.aclmdlRICaptureGetInfo(raw, &status, nullptr) == 0 &&
         status == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
}

}  // namespace

Answer inquire(Stream *stream, Op *op, bool thorough, Settler &settler) {
  const acl::Api &api = stream->device->runtime->api();
  if (thorough && is_captured(api, stream->raw)) return Answer::kRunning;
  NativeEvent *event = stream->pin_event(op);
  // Passed meanwhile; or its device is being reset. Or it never had one: then only the stream can tell.
  if (event == nullptr && !thorough) {
    return stream->has_passed(op) ? Answer::kReached : Answer::kRunning;
  }
  int32_t fault = 0;
  bool reached = event != nullptr && is_complete(api, event, &fault);
  bool over = false;
  if (!reached && (thorough || fault != 0)) {
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
    const int32_t code = api.aclrtStreamQuery(stream->raw, &status);
    if (is_fault_code(code)) fault = code;
    if (fault != 0 || (code == 0 && status == ACL_STREAM_STATUS_COMPLETE)) {
      // At once, where nothing is left to wait for; and it alone tells what became of the work.
      const int32_t synced = api.aclrtSynchronizeStreamWithTimeout(stream->raw, 1);
      if (is_fault_code(synced)) fault = synced;
      // An event that is complete after all has the last word.
      reached = event != nullptr ? is_complete(api, event, &fault) : synced != kSyncTimeout;
      over = !reached && synced != kSyncTimeout;
    }
  }
  if (event != nullptr) stream->unpin_event(op);
  if (over) {
    // Idle, and yet the marker was never reached: someone has aborted the stream.
    stream->device->apply_faults();
    stream->work_dropped(fault != 0 ? fault : kStreamAborted, settler);
    return Answer::kOver;
  }
  if (fault != 0) {
    stream->device->apply_faults();
    stream->fault_seen(op, fault);
  }
  return reached ? Answer::kReached : Answer::kRunning;
}

}  // namespace aiocann::core
