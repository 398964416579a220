// error.hpp: error text per thread, as aclGetRecentErrMsg and aclrtGetLastError answer it.
#pragma once
#include "acl_abi.h"

namespace aiocann::sim {

/// Records `code` and a message for this thread and returns `code`. Layer: runtime failures also set the code
/// that aclrtPeekAtLastError shows; 100000-class rejections of the ACL layer do not.
aclError fail(aclError code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/// Messages are kept for the process from now on, whichever thread fails or asks; or for each thread again.
void share_errors(bool by_all_threads);

}  // namespace aiocann::sim
