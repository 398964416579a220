/* aiocann_sim.h: controls of the simulated machine, beside the ACL C ABI that it exports.
 *
 * One machine per process. Every function may be called from any thread at any time. Functions that return
 * int32_t give 0 or an ACL code; aiocann_sim_last_error() then says what was wrong and what is accepted. */
#ifndef AIOCANN_SIM_H_
#define AIOCANN_SIM_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)
/* cdef-begin */

/* Sets one value of the machine to be. Allowed only while no device is open (else 507007). Keys and values
 * (the environment variable of the same name, upper case with AIOCANN_SIM_ before it, is read when neither
 * a device is open nor the key was configured):
 *   devices      number of devices, 1 to 64 (default 1)
 *   soc          SoC name: "Ascend910B2" (default), "Ascend910_9391", "Ascend310P3", ...; sets the limits below
 *   memory       bytes of device memory per device; suffixes K, M, G (default: what the SoC has)
 *   threads      worker threads shared by all devices (default: number of usable cores)
 *   peers        "all" (default), "none", or pairs like "0-1,1-0": who can reach whose memory
 *   max_streams, max_events, pinned_memory   limits per device, and of pinned host memory
 *   cann         "9.1" (default) or "8.1": what CANN 8.1 lacks is hidden, and aclrtGetVersion answers as it does
 *   hide         names of further functions to hide, with commas between; see aiocann_sim_hidden
 *   strict       "0" (default) or "1": look for more misuse, see aiocann_sim_last_misuse; costs time
 * value NULL: back to the environment or the default. */
int32_t aiocann_sim_configure(const char *key, const char *value);
/* Another default of the setting `cann`: which CANN the folder is whose libraries forward to this one. The machine
 * takes it when it is next made; the last call wins. 100000: not a version that is played. */
int32_t aiocann_sim_play_cann(const char *version);
/* The value in force, as text; NULL for an unknown key. Valid until this thread's next call. */
const char *aiocann_sim_setting(const char *key);
const char *aiocann_sim_last_error(void);

/* Makes every device as new: open contexts are closed by force, with all that is in them; faults, holds and
 * losses end. The way out when something that has a device open will never close it, for the settings can change
 * afterwards. Handles of before are stale. */
void aiocann_sim_reset(void);
/* 1 when the settings say that the running CANN lacks this function, or when all that the simulator does is to say
 * that it does not support it. It is exported all the same: whoever looks symbols up in this library asks here too. */
int32_t aiocann_sim_hidden(const char *function);

/* Arms a fault. kind, target and what value is:
 *   "call", function name    the function returns the code `value` and has no effect ("an allocation fails")
 *   "kernel", kernel name    the kernel faults on the device with code `value` (0: 507015) and writes nothing
 *   "copy", "memcpy" or "memset"   the asynchronous task faults on the device with code `value` (0: 507053)
 *   "kernel_delay", "copy_delay"   likewise, but the task takes `value` milliseconds longer
 *   "kernel_stall", "copy_stall"   likewise, but the task never ends: until its stream is aborted or destroyed by
 *                                  force, or the device is reset by force. value other than 0: aborting and
 *                                  destroying answer it and do nothing
 *   "callback_drop", "no_block", "block" or "host_func"   the callback never fires. value 0: its stream goes on
 *                                  as if it had; 1: a stream that waits for it to return waits as if stalled
 *   "callback_delay", likewise     the callback comes `value` milliseconds late (0: when aiocann_sim_let_go says);
 *                                  a stream that waits for it to return waits on
 * target "*": any. nth: 1 = the next occurrence, once; 2 = the one after; 0 = every one until cleared. */
int32_t aiocann_sim_inject(const char *kind, const char *target, uint64_t nth, int32_t value);
/* Disarms all faults. What has struck goes on. */
void aiocann_sim_clear_faults(void);
/* What faults hold back goes on now: delayed and stalled tasks run, late callbacks fire, streams stop waiting for
 * dropped callbacks. */
void aiocann_sim_let_go(void);

/* The device is lost: its running and queued tasks fail, and every call that concerns it answers `code` (0: 507010),
 * until aclrtResetDeviceForce (or the aclrtResetDevice that gives up the last reference) has closed what is open on
 * it. for_ever: these close it too, but answer `code`, and the device stays lost until aiocann_sim_restore. */
int32_t aiocann_sim_lose(int32_t device, int32_t code, int32_t for_ever);
int32_t aiocann_sim_restore(int32_t device);

/* Holds the execution engine of a device, or of one of its streams (stream_id -1: all of them): tasks already
 * running finish, no other starts until the release. Enqueueing goes on. device is a logical id. */
int32_t aiocann_sim_hold(int32_t device, int32_t stream_id);
int32_t aiocann_sim_release(int32_t device, int32_t stream_id);

/* A counter by name, UINT64_MAX for an unknown one; names 0, 1, ... until NULL. */
uint64_t aiocann_sim_counter(const char *name);
const char *aiocann_sim_counter_name(int32_t index);

/* on: from now on the calls of each function that a fault of kind "call" can strike are counted, from none. */
void aiocann_sim_count_calls(int32_t on);
/* Function 0, 1, ... of those that were called while counting, by name, until NULL. Valid until this thread's next
 * call. */
const char *aiocann_sim_called(int32_t index, uint64_t *times);

/* Misuse that hardware would punish silently: memory that is used after it was freed or out of its bounds, freed
 * twice; work on what was destroyed. In strict mode also memory that is freed while queued tasks use it, copies
 * between ranges that overlap, device memory that is read and was never written (in granules of 32 bytes), events
 * destroyed under their waits; and what is left behind when a device is reset or ACL is finalized, which is
 * counted in "leaks" and told to the hook alone (objects of the operators' interface too, at the end; "live_tensors"
 * and its like count them). Never changes what a function returns. */
const char *aiocann_sim_last_misuse(void); /* "" when none yet */
typedef void (*aiocann_sim_misuse_hook)(const char *text);
void aiocann_sim_set_misuse_hook(aiocann_sim_misuse_hook hook); /* called on the offending thread */

/* cdef-end */
#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif /* AIOCANN_SIM_H_ */
