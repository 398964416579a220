// lifecycle.hpp: making and unmaking contexts and streams, and holding a device's engine.
#pragma once
#include <cstdint>

#include "acl_abi.h"

namespace aiocann::sim {

struct Context;
struct Device;
class Stream;

aclError open_context(Device *device, bool is_primary, Context **context);
/// Waits for its work, or drops it (force). The last context of a device takes its memory and events with it.
void close_context(Context *context, bool force);

/// What aclrtSetDevice does for the calling thread.
aclError set_device(Device *device);
/// The device of threads that set none; nullptr: there is none.
void set_default_device(Device *device);
Device *default_device();

aclError create_stream(Context *context, uint32_t priority, uint32_t flags, Stream **stream);
/// Its work must be done or dropped.
void destroy_stream(Stream *stream);

/// From now on the device answers `code`, and drops what it has. Until it is reset, or for ever.
void lose(Device *device, aclError code, bool for_ever);
/// A device that was lost for ever can be reset again; one that nobody has open is well at once.
void restore(Device *device);
/// Closes every context of the device by force, or only the explicit ones.
void close_all_contexts(Device *device, bool primary_too);

/// stream nullptr: the whole device.
void hold(Device *device, Stream *stream);
void release(Device *device, Stream *stream);

}  // namespace aiocann::sim
