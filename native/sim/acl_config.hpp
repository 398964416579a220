// acl_config.hpp: the file that a program gives to aclInit, and what the runtime takes from it.
#pragma once
#include <string>

#include "acl_abi.h"

namespace aiocann::sim {

/// What the simulator has no use for (dump, StackSize, queue lengths, sizes of buffers) is accepted and let be.
struct AclConfig {
  int32_t default_device = -1;      ///< defaultDevice.default_device; -1: none
  bool errors_per_process = false;  ///< err_msg_mode "1": aclGetRecentErrMsg is not per thread
};

/// 0, 100003 for a file that cannot be read. No path: an empty text.
aclError read_acl_config(const char *path, std::string *text);
/// 0, 100006 for what is no JSON or nested too deeply, 100000 for values that mean nothing.
aclError parse_acl_config(const std::string &text, AclConfig *config);

}  // namespace aiocann::sim
