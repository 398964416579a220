// status.cpp: failures as values, and the last failure of each thread.
#include "core/status.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "acl_abi.h"

namespace aiocann::core {
namespace {

// Plain data, so that no destructor runs when a thread or the process ends.
thread_local aiocann_error last_error{0, -1, -1, 0, 0, 0, 0, 0, 0, 0, {0}, {0}, {0}, 0, 0, 0};

std::shared_ptr<aiocann_error> blank(int32_t code) {
  auto error = std::make_shared<aiocann_error>();
  std::memset(error.get(), 0, sizeof(aiocann_error));
  error->code = code;
  error->device = -1;
  error->node = -1;
  return error;
}

}  // namespace

Status Status::error(int32_t code, const char *format, ...) {
  Status status;
  status.error_ = blank(code);
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(status.error_->detail, sizeof status.error_->detail, format, arguments);
  va_end(arguments);
  return status;
}

Status Status::driver(int32_t code, const char *call, const char *recent_message) {
  Status status;
  status.error_ = blank(code);
  std::snprintf(status.error_->call, sizeof status.error_->call, "%s", call);
  if (recent_message != nullptr && recent_message[0] != '\0') {
    std::snprintf(status.error_->detail, sizeof status.error_->detail, "%s failed with code %d: %s",
                  call, code, recent_message);
  } else {
    std::snprintf(status.error_->detail, sizeof status.error_->detail, "%s failed with code %d.",
                  call, code);
  }
  return status;
}

aiocann_error &Status::mutate() {
  // A status that was copied is shared: what is added here belongs to this one alone.
  if (error_.use_count() > 1) error_ = std::make_shared<aiocann_error>(*error_);
  return *error_;
}

bool is_fault_code(int32_t code) {
  switch (code) {
#define ACL_ERROR_ENTRY(name, value)
#define ACL_FAULT_ENTRY(name, value) case value:
#include "acl_errors.inc"
    return true;
    default:
      return false;
  }
}

bool is_refusal_code(int32_t code) {
  switch (code) {
    case ACL_ERROR_INVALID_PARAM:
    case ACL_ERROR_API_NOT_SUPPORT:
    case ACL_ERROR_FEATURE_UNSUPPORTED:
    case ACL_ERROR_RT_PARAM_INVALID:
    case ACL_ERROR_RT_FEATURE_NOT_SUPPORT:
    // Of callbacks alone: whatever it is that their threads and streams lack.
    case ACL_ERROR_RT_STREAM_SUBSCRIBE:
    case ACL_ERROR_RT_THREAD_SUBSCRIBE:
    case ACL_ERROR_RT_GROUP_NOT_SET:
    case ACL_ERROR_RT_GROUP_NOT_CREATE:
    case ACL_ERROR_RT_STREAM_NO_CB_REG:
      return true;
    default:
      return false;
  }
}

bool is_exhaustion_code(int32_t code) {
  return code == ACL_ERROR_RT_RESOURCE_ALLOC_FAIL || code == ACL_ERROR_RT_NO_EVENT_RESOURCE ||
         code == ACL_ERROR_RT_NO_STREAM_RESOURCE || code == ACL_ERROR_RT_OVER_LIMIT;
}

int32_t publish(const Status &status) {
  if (status.is_ok()) return 0;
  last_error = *status.get();
  return last_error.code;
}

int32_t publish_text(int32_t code, const char *text) noexcept {
  std::memset(&last_error, 0, sizeof last_error);
  last_error.code = code;
  last_error.device = -1;
  last_error.node = -1;
  std::snprintf(last_error.detail, sizeof last_error.detail, "%s", text);
  return code;
}

}  // namespace aiocann::core

extern "C" const aiocann_error *aiocann_last_error(void) { return &aiocann::core::last_error; }
