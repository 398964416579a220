// stubs.cpp: what functions answer that the simulator does not have.
#include "sim/stubs.hpp"

#include "sim/faults.hpp"

namespace aiocann::sim {

aclError not_supported(const char *function) {
  if (faults_armed()) {
    if (const int code = injected_call_fault(function))
      return fail(code, "%s failed: fault injected by a test", function);
  }
  return fail(ACL_ERROR_API_NOT_SUPPORT, "%s is not supported by the simulator", function);
}

aclnnStatus no_kernel(const char *function) {
  return fail(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "%s: the simulator has no kernel for it",
              function);
}

bool is_stub(const std::string &function) {
  for (size_t i = 0; i < kStubCount; ++i) {
    if (function == kStubs[i].name) return kStubs[i].exported == kStubs[i].stub;
  }
  return false;
}

}  // namespace aiocann::sim
