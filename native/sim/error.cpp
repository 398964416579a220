// error.cpp: error text per thread, and the calls that read it.
#include "sim/error.hpp"

#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "sim/entry.hpp"
#include "sim/thread_state.hpp"

namespace aiocann::sim {
namespace {

constexpr size_t kMaxMessages = 64;

using Messages = std::vector<std::string>;

/// The messages of the process, where they are not kept per thread.
struct SharedMessages {
  std::atomic<bool> is_on{false};
  std::mutex mutex;
  Messages messages;
};

SharedMessages &shared() {
  static SharedMessages *const leaked = new SharedMessages();
  return *leaked;
}

void append(Messages *messages, const char *line) {
  if (messages->size() == kMaxMessages) messages->erase(messages->begin());
  messages->emplace_back(line);
}

/// The ACL layer's own rejections do not reach the runtime's last error.
bool is_runtime_code(aclError code) {
  const int family = code / 1000;
  return family == 107 || family == 207 || family == 507;
}

const char *message_class(aclError code) {
  if (is_runtime_code(code)) return code / 1000 == 507 ? "EE9999" : "EE1001";
  if (code / 1000 == 161 || code / 1000 == 361 || code / 1000 == 561) return "EZ9999";
  return "EH0001";
}

}  // namespace

ThreadState &thread_state() {
  static thread_local ThreadState state;
  if (state.tid == 0) state.tid = static_cast<uint32_t>(syscall(SYS_gettid));
  return state;
}

aclError fail(aclError code, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  char line[1100];
  snprintf(line, sizeof line, "%s: %s (%d)", message_class(code), text, code);
  ThreadState &thread = thread_state();
  if (is_runtime_code(code)) thread.last_error = code;
  if (!shared().is_on.load(std::memory_order_relaxed)) {
    append(&thread.messages, line);
    return code;
  }
  std::lock_guard<std::mutex> lock(shared().mutex);
  append(&shared().messages, line);
  return code;
}

void share_errors(bool by_all_threads) { shared().is_on.store(by_all_threads); }

}  // namespace aiocann::sim

using namespace aiocann::sim;

const char *aclGetRecentErrMsg() {
  ThreadState &thread = thread_state();
  Messages messages;
  if (shared().is_on.load(std::memory_order_relaxed)) {
    std::lock_guard<std::mutex> lock(shared().mutex);
    messages.swap(shared().messages);
  } else {
    messages.swap(thread.messages);
  }
  if (messages.empty()) return nullptr;
  thread.shown.clear();
  for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
    if (!thread.shown.empty()) thread.shown += '\n';
    thread.shown += *message;
  }
  return thread.shown.c_str();
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  ACL_ENTRY();
  if (level != ACL_RT_THREAD_LEVEL) {
    return fail(ACL_ERROR_INVALID_PARAM, "level %d is not ACL_RT_THREAD_LEVEL (0)",
                static_cast<int>(level));
  }
  return thread_state().last_error;
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
  const aclError code = aclrtPeekAtLastError(level);
  if (level == ACL_RT_THREAD_LEVEL) thread_state().last_error = ACL_SUCCESS;
  return code;
}
