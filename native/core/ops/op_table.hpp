// op_table.hpp: the one table of ops. A row says all there is to say of an op:
// its sources and parameters, which dtypes it takes, the shape of its result, the aclnn functions
// behind it, and where a SoC differs. It drives aiocann_op_infer (which answers supports_op), the
// dispatch, the check of aiocann.ops and docs/ops.md.
#pragma once
#include <cstdint>

#include "core/ops/layout.hpp"
#include "core/status.hpp"

namespace aiocann::core {

class Launch;

/// A set of dtypes, as bits.
using DtypeSet = uint32_t;
constexpr DtypeSet dtype_bit(int32_t dtype) { return 1u << dtype; }
constexpr DtypeSet kFloats =
    dtype_bit(AIOCANN_F32) | dtype_bit(AIOCANN_F16) | dtype_bit(AIOCANN_BF16);
constexpr DtypeSet kMasks = dtype_bit(AIOCANN_F32) | dtype_bit(AIOCANN_F16);
constexpr DtypeSet kQuantized = dtype_bit(AIOCANN_Q4_0) | dtype_bit(AIOCANN_Q8_0);
constexpr DtypeSet kIndices = dtype_bit(AIOCANN_I32) | dtype_bit(AIOCANN_I64);
constexpr DtypeSet kPlain = kFloats | kIndices | dtype_bit(AIOCANN_I8) | dtype_bit(AIOCANN_I16);

/// The dtype of the result.
enum class OutDtype {
  kSame,       ///< that of the first source
  kF32,        ///< f32, whatever comes in
  kI64,        ///< i64, whatever comes in
  kI32,        ///< i32, whatever comes in
  kParameter,  ///< given by the parameter "dtype"
  kDst         ///< that of the last source, into which the op writes
};

struct OpRow;

/// What an op is asked about: its sources (nullptr: left out) and parameters.
struct NodeView {
  const OpRow *row = nullptr;
  const Layout *src[AIOCANN_MAX_SRC] = {};
  int32_t n_src = 0;
  const aiocann_param *params = nullptr;
  const char *soc = "";   ///< whose rules hold
  bool overlaps = false;  ///< cpy: source and destination share bytes without being the same

  bool has(int i) const { return i < n_src && src[i] != nullptr; }
  const Layout &last() const { return *src[n_src - 1]; }
  /// "mul_mat(f16 (384, 384), f32 (4, 7, 384))"
  std::string describe() const;
  Status usage(const char *format, ...) const __attribute__((format(printf, 2, 3)));
  Status unsupported(const char *format, ...) const __attribute__((format(printf, 2, 3)));
};

/// Fills shape and n_dims of `out` (whose dtype is set; strides too where the op is a view, and
/// then `offset`, in bytes from its source's first element) or says why not.
using ShapeRule = Status (*)(const NodeView &node, Layout *out, int64_t *offset);

/// Device memory that an op needs while it runs, besides the workspace of its aclnn calls. It is
/// planned with the intermediates of the graph, so that nothing else lives in it until the node's
/// last call has been enqueued.
struct Temps {
  static constexpr int kMax = 6;
  int n = 0;
  uint64_t bytes[kMax] = {};
  void add(uint64_t size) { bytes[n++] = size; }
};
using TempRule = void (*)(const NodeView &node, const Layout &out, Temps *temps);

using LaunchFn = Status (*)(Launch &launch);

struct OpRow {
  const char *name;
  const char *summary;
  const char *sources;  ///< names, space separated; "?" after one that may be left out
  int32_t min_src, max_src;
  const char *params;  ///< as in aiocann_op_info::param_names
  DtypeSet dtypes[AIOCANN_MAX_SRC];
  OutDtype out_dtype;
  const char *shape;  ///< the shape rule in words, NumPy order
  ShapeRule shape_rule;
  const char *aclnn;
  const char *soc;  ///< differences between SoCs, in words
  TempRule temps;   ///< nullptr: none
  LaunchFn launch;  ///< nullptr: a view, no device work
};

/// The rows of one family of ops, each in a file of its own.
struct OpRows {
  template <int32_t kCount>
  constexpr explicit OpRows(const OpRow (&rows)[kCount]) : first(rows), count(kCount) {}
  const OpRow *first;
  int32_t count;
};
extern const OpRows kElementwiseRows, kRowRows, kShapingRows, kLayerRows;

// What rows say of SoCs.
constexpr const char *kNo310PBf16 = "Ascend310P: no bf16";
constexpr const char *kNo310PQuantized = "Ascend310P: no bf16, no quantized w";

/// Is the node for an Ascend310P, which lacks some of what others have?
bool on_310p(const NodeView &node);

int32_t op_count();
const OpRow *op_row(int32_t op);         ///< nullptr: out of range
int32_t find_op(const char *name);       ///< -1: no such op
int32_t count_params(const OpRow &row);  ///< how many parameters it takes
/// "table: f32 f16 bf16; ids: i32 i64"
std::string dtypes_text(const OpRow &row);

/// The dtype, SoC and shape rules of a row. `view_offset` gets the bytes from the first source's
/// start where the row is a view, else 0.
Status infer(const NodeView &node, const char *soc_name, Layout *out, int64_t *view_offset);

}  // namespace aiocann::core
