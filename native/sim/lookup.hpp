// lookup.hpp: from what a program passes to what it means, with the checks that every call of its kind makes.
#pragma once
#include "acl_abi.h"

namespace aiocann::sim {

struct Context;
struct Device;
struct Event;
struct Notify;
class Stream;

/// The calling thread's context: the explicit one, else its device's primary one, else nullptr.
Context *current_context();
/// 0, or 107002 when the thread has no context (or a destroyed one).
aclError require_context(Context **context);
/// NULL is the default stream of the current context. 107002 without a context, 107003 for a stream of another
/// context or one that was destroyed.
aclError find_stream(aclrtStream handle, Stream **stream);
/// Likewise, but 100000 for NULL.
aclError find_named_stream(aclrtStream handle, Stream **stream);
/// 100000 for NULL, 107000 for what is not a living event.
aclError find_event(aclrtEvent handle, Event **event);
aclError find_notify(aclrtNotify handle, Notify **notify);
/// 107001 for an id that is out of range.
aclError find_device(int32_t id, Device **device);

/// 207000 where the SoC (one without HBM) does not have what `function` needs.
aclError require_hbm_soc(const char *function);
/// Can kernels of the SoC take numbers of this type?
bool soc_takes(aclDataType dtype);
/// Whether the SoC has HBM: those without lack some operators, too.
bool soc_has_hbm();
/// 0, or the code of a device that is lost.
aclError refuse_lost(const Device *device);

/// Puts a held stream back among the ready ones (so that it can drop its tasks), if it is held.
void release_held(Device *device, Stream *stream);

}  // namespace aiocann::sim
