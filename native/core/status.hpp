// status.hpp: how the core reports failure to itself. One value, made where the failure is seen.
#pragma once
#include <memory>
#include <string>

#include "aiocann.h"

namespace aiocann::core {

/// Ok is a null pointer, so passing success around costs nothing.
class Status {
 public:
  Status() = default;
  static Status ok() { return {}; }
  /// printf-checked; `code` is an AIOCANN_E_* or an ACL code.
  static Status error(int32_t code, const char *format, ...) __attribute__((format(printf, 2, 3)));
  /// A driver call failed: takes the driver's own text (the caller read it on this thread at once).
  static Status driver(int32_t code, const char *call, const char *recent_message);

  bool is_ok() const { return error_ == nullptr; }
  explicit operator bool() const { return is_ok(); }
  int32_t code() const { return error_ ? error_->code : 0; }
  const aiocann_error *get() const { return error_.get(); }
  /// For adding device, node or memory numbers; only on a failure.
  aiocann_error &mutate();

 private:
  std::shared_ptr<aiocann_error> error_;
};

/// The device failed, at some work or altogether; not: a call was refused. As errors.py has it.
bool is_fault_code(int32_t code);
/// The driver does not have it, or not here: something else may be tried.
bool is_refusal_code(int32_t code);

/// Leaves `status` in aiocann_last_error() of this thread and returns its code.
int32_t publish(const Status &status);

}  // namespace aiocann::core
