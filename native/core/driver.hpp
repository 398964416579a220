// driver.hpp: a loaded driver and its one initialisation, shared by the runtimes of this process.
#pragma once
#include <string>

#include "acl/loader.hpp"
#include "core/op.hpp"
#include "core/stack.hpp"
#include "core/status.hpp"

namespace aiocann::core {

struct Driver {
  acl::Library library;
  int users = 0;             ///< runtimes between acquire and release
  bool initialised = false;  ///< by us: aclInit answered 0, not "already"
  /// Pinned memory of runtimes that had closed before its last user let go of it. Owner: Mem. Thread: any.
  Stack<Command> left_pinned;
};

/// Loads (once) and initialises (when it has no user yet). Drivers are never unloaded or freed. Thread: opener.
Status acquire_driver(const std::string &name, const std::string &sim_library, Driver **out);
/// The last user finalizes what we initialised, unless leak says that something still runs. Thread: closer.
void release_driver(Driver *driver, bool leak);

}  // namespace aiocann::core
