// stubs.hpp: functions of the ABI that the simulator does not have. sim_stubs.cpp, which is generated, defines each
// function of the tables weakly, so that any ACL program links; a definition of our own takes its place.
#pragma once
#include <cstddef>
#include <string>

#include "sim/error.hpp"

namespace aiocann::sim {

struct Stub {
  const char *name;
  void (*exported)();  ///< what programs call
  void (*stub)();      ///< the same, where nothing better was linked
};

// In another translation unit than the weak definitions, so that no compiler believes to know which one wins.
extern const Stub kStubs[];
extern const size_t kStubCount;

aclError not_supported(const char *function);
/// An operator without a kernel, in either phase.
aclnnStatus no_kernel(const char *function);

/// Is that all that the function does?
bool is_stub(const std::string &function);

}  // namespace aiocann::sim
