/* aiocann.h: the whole C ABI between Python and the native core.
 *
 * Rules that hold for every function here:
 *  - None of them calls the driver and none blocks on the device: work is handed to a lane.
 *  - A function that can fail returns 0 or a code (an ACL code > 0, or AIOCANN_E_* < 0) and leaves the text
 *    in aiocann_last_error() of the calling thread.
 *  - Every pointer that is handed out carries one reference, given back with the matching *_release, which
 *    takes no lock and may be called on any thread, by a finaliser too.
 *  - Asynchronous failures live in the op: aiocann_op_error().
 *
 * The part between the two markers is also the cffi cdef: plain C declarations only.
 */
#ifndef AIOCANN_H_
#define AIOCANN_H_
#include <stdint.h>

#if defined(__GNUC__)
#define AIOCANN_EXPORT __attribute__((visibility("default")))
#else
#define AIOCANN_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)
/* cdef-begin */

/* ---- errors ------------------------------------------------------------------------------------------- */

/* Codes of aiocann's own; ACL codes are positive. */
enum {
  AIOCANN_E_USAGE = -1,       /* the arguments make no sense: detail says which, and what to do */
  AIOCANN_E_UNSUPPORTED = -2, /* the op, dtype or layout is not supported on this device */
  AIOCANN_E_LIBRARY = -3,     /* the driver library or a symbol of it was not found */
  AIOCANN_E_NO_MEMORY = -4,   /* device or pinned memory: the numbers are in requested .. used */
  AIOCANN_E_WOULD_BLOCK = -5, /* a _nowait call cannot be answered at once */
  AIOCANN_E_CLOSED = -6,      /* the stream, device or runtime is closed */
  AIOCANN_E_PREDECESSOR = -7, /* not run, or void: an earlier op failed; see cause_op */
  AIOCANN_E_TIMEOUT = -8,     /* closing gave up after its timeout */
  AIOCANN_E_INTERNAL = -9     /* a bug in aiocann */
};

typedef struct aiocann_error {
  int32_t code;
  int32_t device;   /* logical id, -1: none */
  int32_t node;     /* index of the graph node that failed, -1: none */
  int32_t is_fault; /* 1: the device reported the failure while running (not at submission) */
  uint64_t
      cause_op; /* id of the op that failed first, if this one failed because of it; 0: not known */
  uint64_t requested, free_bytes, total, reserved, used; /* bytes; AIOCANN_E_NO_MEMORY */
  char call[64];          /* the ACL or aclnn function that failed; "" for our own checks */
  char cause_kind[64];    /* what the first failing op was, e.g. "memcpy" or "graph" */
  char detail[768];       /* sentences for the user, the driver's own text at the end */
  int32_t cause_code;     /* of what failed first, if this one failed because of it; else 0 */
  int32_t cause_is_fault; /* its is_fault */
  int32_t cause_at;       /* where in detail the text about it begins */
} aiocann_error;

/* The last failure of this thread; never NULL; overwritten by the next failing call of this thread. */
const aiocann_error *aiocann_last_error(void);
const char *aiocann_version(void);

typedef struct aiocann_loop aiocann_loop;
typedef struct aiocann_runtime aiocann_runtime;
typedef struct aiocann_device aiocann_device;
typedef struct aiocann_stream aiocann_stream;
typedef struct aiocann_mem aiocann_mem;
typedef struct aiocann_op aiocann_op;
typedef struct aiocann_graph aiocann_graph;

/* ---- loops: where completions are delivered ----------------------------------------------------------- */

/* fd: an eventfd that is written when the loop is armed and something completes; -1: never written (the
 * queue is then drained by whoever cares). The loop owns no fd: the caller closes it after release. NULL: no memory. */
aiocann_loop *aiocann_loop_create(int fd);
/* Takes up to max settled op ids, oldest first. Fewer than max returned: the queue was found empty and the
 * loop is armed again (the next completion writes the eventfd). The caller resets the eventfd before. */
int32_t aiocann_loop_drain(aiocann_loop *loop, uint64_t *ids, int32_t max);
/* Waits a moment, 50 us at most, for something to complete. 1: there is something, and the eventfd is not written for
 * it: drain. 0: nothing has changed. For loops that have nothing else to do. */
int32_t aiocann_loop_linger(aiocann_loop *loop);
/* From now on what would come here goes to heir (which must be an fd=-1 loop, or NULL to drop). */
void aiocann_loop_close(aiocann_loop *loop, aiocann_loop *heir);
void aiocann_loop_release(aiocann_loop *loop);
uint64_t aiocann_loop_wakes(const aiocann_loop *loop); /* times that the eventfd was written */

/* ---- ops ---------------------------------------------------------------------------------------------- */

/* An op is one enqueued command. It is settled once: done well or failed. `home` in the enqueueing calls is
 * the loop to which its id is delivered when it settles (each op exactly once to its home; NULL: nowhere). */
uint64_t aiocann_op_id(const aiocann_op *op);
/* 0: in flight; 1: settled well; 2: settled with aiocann_op_error. */
int32_t aiocann_op_state(const aiocann_op *op);
/* Also deliver to loop. 0: it will be; 1: already settled, nothing will be delivered; or AIOCANN_E_NO_MEMORY. */
int32_t aiocann_op_watch(aiocann_op *op, aiocann_loop *loop);
/* Its last awaiter has gone. Counted as abandoned once, and as reaped when it settles. No-op when settled. */
void aiocann_op_abandon(aiocann_op *op);
/* NULL unless state is 2; lives as long as op. */
const aiocann_error *aiocann_op_error(const aiocann_op *op);
enum {
  AIOCANN_PATH_NONE = 0,
  AIOCANN_PATH_DIRECT = 1,
  AIOCANN_PATH_STAGED = 2,
  AIOCANN_PATH_PEER = 3
};
int32_t aiocann_op_path(const aiocann_op *op);
/* When the device passed the op's marker: microseconds on the device's clock. 0: not known (yet). */
uint64_t aiocann_op_timestamp_us(const aiocann_op *op);
/* The object made by a creating op (stream, pinned memory). NULL unless settled well; carries a reference,
 * handed out once. */
void *aiocann_op_take_result(aiocann_op *op);
/* Numbers answered by a query op (memory_info: 0 free, 1 total, bytes). */
uint64_t aiocann_op_value(const aiocann_op *op, int32_t index);
void aiocann_op_release(aiocann_op *op);

/* ---- runtime ------------------------------------------------------------------------------------------ */

typedef struct aiocann_config {
  const char *driver;      /* "cann" or "sim": the choice is made above */
  const char *sim_library; /* path of the simulator; used by driver sim */
  const int32_t *devices;  /* logical ids to open; NULL: the first n_devices */
  int32_t n_devices;       /* -1: all visible */
} aiocann_config;

/* Loads the driver, calls aclInit and opens the devices, all on native threads. *rt is usable once *op has
 * settled well. A device that fails to open is kept with its error (aiocann_device_open_error); the op fails
 * only when no device could be opened, or the driver could not. */
int32_t aiocann_runtime_open(const aiocann_config *config, aiocann_loop *home, aiocann_runtime **rt,
                             aiocann_op **op);
/* Drains every stream for at most timeout_ms, destroys what is idle, leaks (and counts) what is stuck, gives
 * the devices back, finalizes ACL if this runtime initialised it. Idempotent; asked again, while it drains, with less
 * time left, it hastens. */
int32_t aiocann_runtime_close(aiocann_runtime *rt, int64_t timeout_ms, aiocann_loop *home,
                              aiocann_op **op);
void aiocann_runtime_release(aiocann_runtime *rt);
/* "1.17.0" style, as aclrtGetVersion answers; valid after open. */
const char *aiocann_runtime_acl_version(const aiocann_runtime *rt);
/* Path of the driver library in use. */
const char *aiocann_runtime_library(const aiocann_runtime *rt);
int32_t aiocann_runtime_device_count(const aiocann_runtime *rt);
/* Borrowed; lives as rt. */
aiocann_device *aiocann_runtime_device(aiocann_runtime *rt, int32_t position);

typedef struct aiocann_statistics {
  uint64_t in_flight_ops, in_flight_bytes, abandoned, reaped;
  uint64_t live_buffers, live_streams, live_events, live_tensors, live_executors;
  uint64_t pool_reserved_bytes, pool_used_bytes, events_created, lost_callbacks;
  uint64_t loop_wakes, completions;
  uint64_t pinned_bytes, h2d_bytes, d2h_bytes, d2d_bytes, peer_bytes; /* copied since open */
  uint64_t
      pinned_reserved_bytes; /* of pinned memory got from the driver for users: in use, or kept for the next */
} aiocann_statistics;
void aiocann_runtime_statistics(const aiocann_runtime *rt, aiocann_statistics *out);

/* From now on, signal number also writes the eventfd fd, which must stay open. Whoever handled the signal before is
 * still called. */
int32_t aiocann_signal_watch(int32_t number, int32_t fd);

/* Is there an NPU device node or a CANN library on this machine? Opens no device. 1 or 0, or AIOCANN_E_NO_MEMORY. */
int32_t aiocann_cann_present(void);

/* ---- devices ------------------------------------------------------------------------------------------ */

int32_t aiocann_device_index(const aiocann_device *dev);       /* logical id */
int32_t aiocann_device_physical_id(const aiocann_device *dev); /* -1: not known */
const char *aiocann_device_soc_name(const aiocann_device *dev);
const aiocann_error *aiocann_device_open_error(const aiocann_device *dev); /* NULL: it is open */
int32_t aiocann_device_poisoned(const aiocann_device *dev); /* 1 after a device fault */
int32_t aiocann_device_can_access_peer(const aiocann_device *dev, const aiocann_device *peer);
int32_t aiocann_device_memory_info(aiocann_device *dev, aiocann_loop *home, aiocann_op **op);

/* Starts the device anew: closes all its handles (streams, memory, graphs: their further use fails with E_CLOSED),
 * lets what is in flight on it fail, and resets it through the driver. Failing, *op says what to do; the device is
 * then of no use until another reset. */
int32_t aiocann_device_reset(aiocann_device *dev, aiocann_loop *home, aiocann_op **op);

/* ---- memory ------------------------------------------------------------------------------------------- */

/* Device memory from the device's pool. When the pool can answer at once *mem is set and *op is NULL;
 * otherwise *op is set and *mem is usable once it has settled well (release *mem either way).
 * nowait: AIOCANN_E_WOULD_BLOCK instead of an op. stream (may be NULL): memory whose last uses are all on
 * that stream may be handed out before they are done. nbytes > 0. */
int32_t aiocann_device_allocate(aiocann_device *dev, uint64_t nbytes, aiocann_stream *stream,
                                int32_t nowait, aiocann_loop *home, aiocann_mem **mem,
                                aiocann_op **op);
/* Device memory that the lane allocates when the first command that touches it is submitted: usable as an
 * operand at once. */
int32_t aiocann_device_allocate_lazy(aiocann_device *dev, uint64_t nbytes, aiocann_mem **mem);
/* Pinned host memory, 64-byte aligned; the result of *op is an aiocann_mem. */
int32_t aiocann_pinned_allocate(aiocann_runtime *rt, uint64_t nbytes, aiocann_loop *home,
                                aiocann_op **op);
/* Memory of another library on dev: never freed here. */
int32_t aiocann_mem_wrap(aiocann_device *dev, uint64_t address, uint64_t nbytes, aiocann_mem **mem);
uint64_t aiocann_mem_address(const aiocann_mem *mem);       /* 0: lazy and not yet allocated */
uint64_t aiocann_mem_nbytes(const aiocann_mem *mem);        /* as asked for */
aiocann_device *aiocann_mem_device(const aiocann_mem *mem); /* NULL: pinned host memory */
void aiocann_mem_retain(aiocann_mem *mem);
/* The last release gives the memory back to its pool once every op that uses it has passed. */
void aiocann_mem_release(aiocann_mem *mem);

/* ---- streams ------------------------------------------------------------------------------------------ */

/* The result of *op is an aiocann_stream. priority: -1 = the driver's default. */
int32_t aiocann_stream_create(aiocann_device *dev, int32_t priority, aiocann_loop *home,
                              aiocann_op **op);
/* Another library's aclrtStream, of dev's primary context. It is never destroyed, aborted or subscribed here:
 * closing drains what was enqueued here and lets go of it. E_USAGE: it is known here already. */
int32_t aiocann_stream_adopt(aiocann_device *dev, uint64_t handle, aiocann_loop *home,
                             aiocann_op **op);
/* Settles when all work of the stream is done and it is destroyed. Later enqueues fail with E_CLOSED. */
int32_t aiocann_stream_close(aiocann_stream *stream, aiocann_loop *home, aiocann_op **op);
/* Not closed yet: closes it once its work is done. */
void aiocann_stream_release(aiocann_stream *stream);
/* The aclrtStream; 0: a reset of the device took it. */
uint64_t aiocann_stream_handle(const aiocann_stream *stream);
int32_t aiocann_stream_idle(const aiocann_stream *stream); /* 1: everything enqueued has settled */

/* One side of a copy. mem set: offset bytes into it (device or pinned). mem NULL: ordinary host memory at
 * host, which the caller keeps alive until the op settles (memory that lies in a pinned block of this
 * runtime is recognised by its address). */
typedef struct aiocann_span {
  aiocann_mem *mem;
  uint64_t offset;
  void *host;
} aiocann_span;

/* Every enqueueing call: op == NULL means "no notification": no op is made, home is ignored, and the
 * operands must all be mem (else E_USAGE). */
int32_t aiocann_stream_memcpy(aiocann_stream *stream, const aiocann_span *dst,
                              const aiocann_span *src, uint64_t nbytes, aiocann_loop *home,
                              aiocann_op **op);
/* The same between host memory with ggml's blocks of a quantized dtype, of a whole tensor, and a device, where all
 * quants lie before all scales; see core/blocks.hpp. Always staged. */
int32_t aiocann_stream_copy_blocks(aiocann_stream *stream, const aiocann_span *dst,
                                   const aiocann_span *src, uint64_t nbytes, int32_t dtype,
                                   aiocann_loop *home, aiocann_op **op);
int32_t aiocann_stream_memset(aiocann_stream *stream, aiocann_mem *mem, uint64_t offset,
                              int32_t value, uint64_t nbytes, aiocann_loop *home, aiocann_op **op);
/* A marker: settles when everything enqueued on the stream before it, host parts included, has. It serves
 * as event record, synchronize and host_call; `kind` only names it in errors. */
enum { AIOCANN_MARK_RECORD = 0, AIOCANN_MARK_SYNCHRONIZE = 1, AIOCANN_MARK_HOST_CALL = 2 };
int32_t aiocann_stream_mark(aiocann_stream *stream, int32_t kind, aiocann_loop *home,
                            aiocann_op **op);
/* Device-side wait of stream for a mark enqueued on any stream of any device of the same runtime. */
int32_t aiocann_stream_wait(aiocann_stream *stream, aiocann_op *mark, aiocann_loop *home,
                            aiocann_op **op);

/* ---- tensors, ops, graphs ----------------------------------------------------------------------------- */

enum {
  AIOCANN_F32 = 0,
  AIOCANN_F16 = 1,
  AIOCANN_BF16 = 2,
  AIOCANN_I8 = 3,
  AIOCANN_I16 = 4,
  AIOCANN_I32 = 5,
  AIOCANN_I64 = 6,
  AIOCANN_Q4_0 = 7,
  AIOCANN_Q8_0 = 8
};

/* ggml order: ne[0] is the contiguous axis; unused axes are 1. nb: bytes. */
typedef struct aiocann_tensor {
  int32_t dtype;
  int32_t n_dims; /* 1..4: how many axes the user sees */
  int64_t ne[4];
  int64_t nb[4];
  aiocann_mem *mem; /* NULL: an intermediate that the graph's plan places */
  uint64_t offset;  /* bytes into mem; of a view: from the first byte of the storage */
  int32_t view_of;  /* index in the graph's table: whose storage this one shares; -1: own */
  int32_t reserved_;
} aiocann_tensor;

enum { AIOCANN_MAX_SRC = 5, AIOCANN_MAX_PARAMS = 16 };

/* Parameters are doubles or integers as the op table says; each op documents its own. */
typedef union aiocann_param {
  int64_t i;
  double f;
} aiocann_param;

typedef struct aiocann_node {
  int32_t op; /* index in the op table */
  int32_t n_src;
  int32_t src[5]; /* indices of tensors; -1: an optional source left out */
  int32_t out;    /* index of a tensor */
  aiocann_param params[16];
} aiocann_node;

/* One row of the op table. */
typedef struct aiocann_op_info {
  const char *name; /* as in aiocann.ops */
  int32_t min_src, max_src;
  int32_t n_params;
  const char *param_names; /* "eps:f" or "scale:f max_bias:f": name, f (float) or i (integer) */
  const char *aclnn;       /* the aclnn functions it uses, space separated; "" for views */
  const char *dtypes;      /* "table: f32 f16; ids: i32 i64": what each source may be */
  int32_t is_view;         /* 1: no device work; the result shares its source's storage */
  const char *summary;     /* one sentence; this and the following are for the docs */
  const char *sources;     /* "x mask?": names, "?" after one that may be left out */
  const char *shape;       /* the shape rule in words, NumPy order */
  const char *out_dtype;   /* the dtype of the result in words */
  const char *soc;         /* differences between SoCs in words; "" none */
} aiocann_op_info;

int32_t aiocann_op_table_size(void);
const aiocann_op_info *aiocann_op_table_row(int32_t op); /* NULL: out of range, or no memory */
/* Shape and dtype rule: fills out->dtype, n_dims, ne and nb (contiguous, unless the op is a view or writes into
 * a source: then mem and offset are filled too, the source's own offset included) for the given sources and
 * parameters, or fails with E_USAGE (shapes) or E_UNSUPPORTED (dtypes, layouts). soc_name: NULL = any. */
int32_t aiocann_op_infer(int32_t op, const aiocann_tensor *const *src, int32_t n_src,
                         const aiocann_param *params, const char *soc_name, aiocann_tensor *out);

/* Checks every node (E_UNSUPPORTED, E_USAGE: detail names the node) and plans intermediates by lifetime.
 * Nodes are in execution order. The graph keeps a reference to every mem. */
int32_t aiocann_graph_create(aiocann_device *dev, const aiocann_tensor *tensors, int32_t n_tensors,
                             const aiocann_node *nodes, int32_t n_nodes, aiocann_graph **graph);

/* ---- any aclnn operator, by name ----------------------------------------------------------------------- */

enum {
  AIOCANN_ARG_NULL = 0,    /* a pointer that is left out */
  AIOCANN_ARG_TENSOR = 1,  /* integer: its index */
  AIOCANN_ARG_TENSORS = 2, /* integer: index of the first of `count` */
  AIOCANN_ARG_SCALAR = 3,  /* data: `count` bytes; integer: its kind, 'f', 'i', 'u' or 'b' */
  AIOCANN_ARG_INTS = 4,    /* data: `count` int64_t */
  AIOCANN_ARG_FLOATS = 5,  /* data: `count` float */
  AIOCANN_ARG_BOOLS = 6,   /* data: `count` bool */
  AIOCANN_ARG_INTEGER = 7, /* integer; of any width, and bool */
  AIOCANN_ARG_DTYPE = 8,   /* integer: one of AIOCANN_F32..., passed as an aclDataType */
  AIOCANN_ARG_DOUBLE = 9,  /* number */
  AIOCANN_ARG_FLOAT = 10,  /* number, passed as a float */
  AIOCANN_ARG_TEXT = 11    /* data: char, ends with 0 */
};

typedef struct aiocann_aclnn_arg {
  int32_t kind;
  int32_t count;
  int64_t integer;
  double number;
  const void *data; /* copied */
} aiocann_aclnn_arg;

/* What the operator takes: "self:tensor other:tensor alpha:scalar out:tensor"; kinds are tensor, tensors, scalar,
 * ints, integer, bool, dtype, double and text. NULL: not in the tables, which says nothing of the driver. */
const char *aiocann_aclnn_signature(const char *name);
/* A call of an operator, as a graph for aiocann_graph_compute. formats: an aclFormat for each tensor; tensors have
 * memory, and offsets from its start. E_UNSUPPORTED: the driver has no such operator. */
int32_t aiocann_aclnn_create(aiocann_device *dev, const char *name, const aiocann_aclnn_arg *args,
                             int32_t n_args, const aiocann_tensor *tensors, const int32_t *formats,
                             int32_t n_tensors, aiocann_graph **graph);
uint64_t aiocann_graph_scratch_bytes(const aiocann_graph *graph);
int32_t aiocann_graph_compute(aiocann_graph *graph, aiocann_stream *stream, aiocann_loop *home,
                              aiocann_op **op);
void aiocann_graph_release(aiocann_graph *graph);

/* cdef-end */
#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif /* AIOCANN_H_ */
