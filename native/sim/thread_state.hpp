// thread_state.hpp: what the simulated runtime keeps for each thread of the program.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "acl_abi.h"

namespace aiocann::sim {

struct Context;

struct ThreadState {
  /// Set by aclrtSetCurrentContext and aclrtCreateContext; wins over `primary_device`.
  Context *explicit_context = nullptr;
  /// Index of the device whose primary context is current, -1: none. An index and not a context, because a reset
  /// and a new SetDevice by other threads renew the context for this one.
  int primary_device = -1;
  /// What aclrtPeekAtLastError shows: failures of the runtime layer.
  aclError last_error = ACL_SUCCESS;
  uint32_t last_task_id = UINT32_MAX;
  /// Of aclmdlRICaptureThreadExchangeMode: which calls that disturb captures this thread may make.
  aclmdlRICaptureMode capture_mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  uint32_t tid = 0;                   ///< of the operating system; exception callbacks name it
  std::vector<std::string> messages;  ///< since the last aclGetRecentErrMsg, oldest first
  std::string shown;                  ///< what aclGetRecentErrMsg gave out last
};

ThreadState &thread_state();

}  // namespace aiocann::sim
