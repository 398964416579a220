// status.hpp: how the core reports failure to itself. One value, made where the failure is seen.
#pragma once
#include <exception>
#include <memory>
#include <new>
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

/// The device failed, at some work or altogether; not: a call was refused. (acl_faults.tsv)
bool is_fault_code(int32_t code);
/// The driver does not have it, or not here: something else may be tried.
bool is_refusal_code(int32_t code);
/// Something that can be counted has run out: streams, events.
bool is_exhaustion_code(int32_t code);

/// As publish, of a text; without allocating anything.
int32_t publish_text(int32_t code, const char *text) noexcept;

/// What stands between C and a body that may throw: every exception becomes a code, with its text.
template <typename Body>
int32_t guarded(Body &&body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return publish_text(AIOCANN_E_NO_MEMORY, "The process has no memory left for this call.");
  } catch (const std::exception &error) {
    return publish_text(AIOCANN_E_INTERNAL, error.what());
  } catch (...) {
    return publish_text(AIOCANN_E_INTERNAL, "An exception of unknown kind.");
  }
}

/// Leaves `status` in aiocann_last_error() of this thread and returns its code.
int32_t publish(const Status &status);

}  // namespace aiocann::core
