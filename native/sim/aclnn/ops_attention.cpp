// ops_attention.cpp: rotary position embedding and attention.
#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "sim/aclnn/check.hpp"
#include "sim/aclnn/executor.hpp"
#include "sim/kernels/attention.hpp"
#include "sim/kernels/rotary.hpp"

namespace aiocann::sim {
namespace {

constexpr DTypeSet kHalves = DTypeSet::of(ACL_FLOAT16, ACL_BF16);
constexpr int64_t kWidestHead = 512, kMostHeads = 256, kLargestBatch = 65536;
/// Rotated axes that the device takes.
constexpr int64_t kWidestRotation = 896;
/// The causal mask that stands for masks of any size.
constexpr int64_t kCausalMask = 2048;

/// Which axis of a tensor is which; -1 for what it lacks.
struct Layout {
  const char *name;
  int rank;
  int batch, heads, tokens, width;
};
constexpr Layout kLayouts[] = {
    {"BSH", 3, 0, -1, 1, 2},
    {"BSND", 4, 0, 2, 1, 3},
    {"BNSD", 4, 0, 1, 2, 3},
    {"TND", 3, -1, 1, 0, 2},
};
constexpr const Layout &kBsh = kLayouts[0], &kBsnd = kLayouts[1], &kBnsd = kLayouts[2],
                       &kTnd = kLayouts[3];

/// A tensor as [batch, heads, tokens, width]; of a rank that fits the layout.
View arranged(const View &view, const Layout &layout, int64_t heads) {
  View out;
  out.dtype = view.dtype;
  out.shape.rank = 4;
  const auto axis = [&](int to, int from) {
    out.shape.dim[to] = from < 0 ? 1 : view.shape.dim[from];
    out.stride[to] = from < 0 ? 0 : view.stride[from];
  };
  axis(0, layout.batch);
  axis(1, layout.heads);
  axis(2, layout.tokens);
  axis(3, layout.width);
  if (layout.heads < 0) {
    out.shape.dim[1] = heads;
    out.shape.dim[3] = view.shape.dim[layout.width] / heads;
    out.stride[1] = out.shape.dim[3] * view.stride[layout.width];
  }
  return out;
}

/// What the arguments of one call mean.
struct Call {
  Layout in, out;
  bool is_decode = false;  ///< one query: sparse modes mean nothing
  int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, width = 0;
  int64_t keys = 0;  ///< the longest that a sequence may be
  View query, result;
  std::vector<View> key, value;
};

void find_layouts(Check *check, const char *name, Call *call) {
  if (check->failed()) return;
  const bool turned = std::strcmp(name, "BNSD_BSND") == 0;
  call->in = kBnsd;
  call->out = turned ? kBsnd : kBnsd;
  if (turned) return;
  for (const Layout &layout : kLayouts) {
    if (std::strcmp(layout.name, name) != 0) continue;
    call->in = call->out = layout;
    return;
  }
  check->that(false, "inputLayout is %s", name);
}

/// Query and result.
void find_queries(Check *check, const aclTensor *query, const aclTensor *out, int64_t heads,
                  Call *call) {
  if (check->failed()) return;
  const View q = view_of(query), to = view_of(out);
  const Layout &layout = call->in;
  check->that(q.shape.rank == layout.rank && to.shape.rank == call->out.rank,
              "query has %d dimensions, attentionOut %d", q.shape.rank, to.shape.rank);
  check->that(heads >= 1 && heads <= kMostHeads, "numHeads is %lld", static_cast<long long>(heads));
  if (check->failed()) return;
  if (layout.heads < 0) {
    check->that(q.shape.dim[layout.width] % heads == 0 && to.shape.dim[layout.width] % heads == 0,
                "rows of query do not make %lld heads", static_cast<long long>(heads));
  } else {
    check->that(q.shape.dim[layout.heads] == heads, "query has %lld heads, numHeads is %lld",
                static_cast<long long>(q.shape.dim[layout.heads]), static_cast<long long>(heads));
  }
  if (check->failed()) return;
  call->heads = heads;
  call->query = arranged(q, layout, heads);
  call->result = arranged(to, call->out, heads);
  const Shape &shape = call->query.shape;
  call->batch = shape.dim[0];
  call->queries = shape.dim[2];
  call->width = shape.dim[3];
  call->is_decode = call->queries == 1 && layout.batch >= 0;
  check->that(call->width <= kWidestHead, "heads are %lld wide",
              static_cast<long long>(call->width));
  check->that(call->batch <= kLargestBatch, "the batch is %lld",
              static_cast<long long>(call->batch));
  for (int d = 0; d < 3; ++d) {
    check->that(call->result.shape.dim[d] == shape.dim[d],
                "attentionOut has shape %s, which does not fit query", ShapeText(to.shape).text);
  }
}

/// Keys or values of a list, in the layout of queries or in pages.
void find_keys(Check *check, const char *what, const aclTensorList *list, DTypeSet dtypes,
               bool paged, Call *call, std::vector<View> *views) {
  if (check->failed()) return;
  const size_t n = list->members.size();
  check->that(
      n == 1 ||
          (static_cast<int64_t>(n) == call->batch && !paged && call->in.batch >= 0 && n <= 256),
      "%s has %zu tensors for a batch of %lld", what, n, static_cast<long long>(call->batch));
  for (size_t i = 0; i < n && !check->failed(); ++i) {
    const aclTensor *tensor = list->members[i];
    check->not_null(tensor, what).tensor(tensor, what, dtypes, 4, 3);
    if (check->failed()) return;
    const View view = view_of(tensor);
    // Pages: [pages, tokens, all heads] or [pages, heads, tokens, width].
    const Layout &layout = !paged ? call->in : view.shape.rank == 3 ? kBsh : kBnsd;
    check->that(view.shape.rank == layout.rank, "%s has %d dimensions", what, view.shape.rank);
    if (check->failed()) return;
    if (layout.heads < 0) {
      check->that(view.shape.dim[layout.width] % call->key_heads == 0,
                  "rows of %s do not make %lld heads", what,
                  static_cast<long long>(call->key_heads));
    } else {
      check->that(view.shape.dim[layout.heads] == call->key_heads, "%s has %lld heads, not %lld",
                  what, static_cast<long long>(view.shape.dim[layout.heads]),
                  static_cast<long long>(call->key_heads));
    }
    if (check->failed()) return;
    views->push_back(arranged(view, layout, call->key_heads));
    const Shape &shape = views->back().shape;
    check->that(shape.dim[0] == (n > 1 ? 1 : call->batch) || paged, "%s has a batch of %lld", what,
                static_cast<long long>(shape.dim[0]));
    check->that(shape.dim[3] == (*views)[0].shape.dim[3], "heads of %s differ in width", what);
  }
}

/// Lengths of sequences: from an array (one for all, or one each), or the whole axis.
void find_lengths(Check *check, const char *what, const aclIntArray *array, int64_t batch,
                  const std::function<int64_t(int64_t)> &longest, std::vector<int64_t> *lengths) {
  if (check->failed()) return;
  const size_t n = array == nullptr ? 0 : array->values.size();
  check->that(n <= 1 || static_cast<int64_t>(n) >= batch, "%s has %zu values for a batch of %lld",
              what, n, static_cast<long long>(batch));
  for (int64_t b = 0; b < batch && !check->failed(); ++b) {
    const int64_t length = n == 0 ? longest(b) : array->values[n == 1 ? 0 : static_cast<size_t>(b)];
    check->that(length >= 0 && length <= longest(b), "%s has %lld, of %lld", what,
                static_cast<long long>(length), static_cast<long long>(longest(b)));
    lengths->push_back(length);
  }
}

/// Ends of sequences that lie one after the other: starts and lengths.
void find_ends(Check *check, const char *what, const aclIntArray *array, int64_t total,
               std::vector<int64_t> *starts, std::vector<int64_t> *lengths) {
  int64_t start = 0;
  for (size_t b = 0; b < array->values.size() && !check->failed(); ++b) {
    const int64_t end = array->values[b];
    check->that(end >= start && end <= total, "%s has %lld behind %lld, of %lld", what,
                static_cast<long long>(end), static_cast<long long>(start),
                static_cast<long long>(total));
    starts->push_back(start);
    lengths->push_back(end - start);
    start = end;
  }
}

/// A mask or shift as [batch, heads, queries, keys]: axes of length 1 stand for all.
bool spread(const View &view, const Call &call, View *wide) {
  const int rank = view.shape.rank;
  int from[4] = {-1, -1, rank - 2, rank - 1};
  if (rank == 2 && call.is_decode) {
    from[0] = 0;
    from[2] = -1;
  }
  if (rank >= 3) from[0] = 0;
  if (rank == 4) from[1] = 1;
  const int64_t least[4] = {call.batch, call.heads, call.queries, call.keys};
  wide->dtype = view.dtype;
  wide->shape.rank = 4;
  for (int d = 0; d < 4; ++d) {
    const int64_t own = from[d] < 0 ? 1 : view.shape.dim[from[d]];
    const bool repeats = own == 1 && d < 2;
    if (!repeats && (d < 2 ? own != least[d] : own < least[d]) && !(from[d] < 0)) return false;
    const bool single = from[d] < 0 || repeats;
    wide->shape.dim[d] = single ? least[d] : own;
    wide->stride[d] = single ? 0 : view.stride[from[d]];
  }
  return true;
}

/// A parameter of int8 keys as [batch, key heads, keys, width]. `shared`: keys and values have one half each of it;
/// what comes out is the first.
bool key_factors(const View &given, bool shared, int64_t mode, const Call &call, int64_t width,
                 View *wide) {
  View view = given;
  if (shared) {  // [2, ...]
    if (view.shape.rank < 1 || view.shape.dim[0] != 2) return false;
    for (int d = 0; d + 1 < view.shape.rank; ++d) {
      view.shape.dim[d] = given.shape.dim[d + 1];
      view.stride[d] = given.stride[d + 1];
    }
    view.shape.rank -= 1;
  } else if (view.shape.rank > 1 && view.shape.dim[0] == 1 &&
             !(mode == 1 && view.shape.rank == 2) && !(mode == 3 && view.shape.rank == 3)) {
    for (int d = 0; d + 1 < view.shape.rank; ++d) {  // an axis of length 1 in front
      view.shape.dim[d] = given.shape.dim[d + 1];
      view.stride[d] = given.stride[d + 1];
    }
    view.shape.rank -= 1;
  }
  wide->dtype = view.dtype;
  wide->shape.rank = 4;
  const int64_t dims[] = {call.batch, call.key_heads, call.keys, width};
  for (int d = 0; d < 4; ++d) {
    wide->shape.dim[d] = dims[d];
    wide->stride[d] = 0;
  }
  const int rank = view.shape.rank;
  const int64_t *dim = view.shape.dim;
  if (mode == 0) {
    if (rank == 0 || (rank == 1 && dim[0] == 1)) return true;  // one for all
    if (rank == 1 && dim[0] == call.key_heads * width) {
      wide->stride[1] = width * view.stride[0];
      wide->stride[3] = view.stride[0];
      return true;
    }
    if (dim[0] != call.key_heads || dim[rank - 1] != width || (rank == 3 && dim[1] != 1) ||
        rank > 3)
      return false;
    wide->stride[1] = view.stride[0];
    wide->stride[3] = view.stride[rank - 1];
    return true;
  }
  if (mode == 1) {  // each token
    if (rank != 2 || dim[0] != call.batch || dim[1] < call.keys) return false;
    wide->stride[0] = view.stride[0];
    wide->stride[2] = view.stride[1];
    return true;
  }
  if (mode == 2) {  // each head
    if (rank != 1 || dim[0] != call.key_heads) return false;
    wide->stride[1] = view.stride[0];
    return true;
  }
  if (mode == 3) {  // each token of each head
    if (rank != 3 || dim[0] != call.batch || dim[1] != call.key_heads || dim[2] < call.keys)
      return false;
    for (int d = 0; d < 3; ++d) wide->stride[d] = view.stride[d];
    return true;
  }
  return false;
}

/// Scale or offset of an int8 result as [batch, heads, queries, width].
bool out_factors(const View &view, const Call &call, View *wide) {
  const int64_t width = call.result.shape.dim[3], count = view.shape.count();
  wide->dtype = view.dtype;
  wide->shape = call.result.shape;
  for (int d = 0; d < 4; ++d) wide->stride[d] = 0;
  if (count == 1) return true;
  if (count != call.heads * width || !is_contiguous(view)) return false;
  wide->stride[1] = width;
  wide->stride[3] = 1;
  return true;
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;  // NOLINT: the entry points are this file's whole business

extern "C" {

aclnnStatus aclnnRotaryPositionEmbeddingGetWorkspaceSize(const aclTensor *x, const aclTensor *cos,
                                                         const aclTensor *sin, int64_t mode,
                                                         aclTensor *out, uint64_t *workspaceSize,
                                                         aclOpExecutor **executor) {
  Check check("aclnnRotaryPositionEmbedding");
  check.not_null(x, "x").not_null(cos, "cos").not_null(sin, "sin").not_null(out, "out");
  check.results(workspaceSize, executor);
  check.tensor(x, "x", kHalfAndFloat, 4, 3).tensor(cos, "cos", kHalfAndFloat, 4, 3);
  check.tensor(sin, "sin", kHalfAndFloat, 4, 3).tensor(out, "out", kHalfAndFloat, 4, 3);
  check.same_dtype(x, cos).same_dtype(x, sin).same_dtype(x, out);
  check.same_shape(x, out).same_shape(cos, sin);
  check.that(mode == 0 || mode == 1, "mode is %lld, not 0 or 1", static_cast<long long>(mode));
  if (check.failed()) return check.status();
  const View in = view_of(x);
  const int rank = in.shape.rank;
  const int64_t width = in.shape.dim[rank - 1];
  check.that(width % 2 == 0 && width <= kWidestRotation,
             "the last axis is %lld long: odd, or more than %lld", static_cast<long long>(width),
             static_cast<long long>(kWidestRotation));
  const Shape angles = shape_of(cos);
  check.that(angles.rank == rank && angles.dim[rank - 1] == width, "cos has shape %s, x %s",
             ShapeText(angles).text, ShapeText(in.shape).text);
  for (int d = 0; d < rank - 1; ++d) {
    check.that(angles.dim[d] == in.shape.dim[d] || angles.dim[d] == 1, "cos has shape %s, x %s",
               ShapeText(angles).text, ShapeText(in.shape).text);
  }
  if (check.failed()) return check.status();
  Planner plan(check.op(), workspaceSize, executor);
  const int a = plan.input(x), c = plan.input(cos), s = plan.input(sin), to = plan.output(out);
  plan.write(to, view_of(out));
  plan.read(a, in);
  plan.read(c, broadcast(view_of(cos), in.shape));
  plan.read(s, broadcast(view_of(sin), in.shape));
  plan.need_workspace(straightening(in, x->dtype));
  return plan.finish(in.count() == 0 ? nullptr : rotary_kernel,
                     RotaryParams{mode == 0 ? RotaryMode::kHalf : RotaryMode::kInterleaved});
}
ACLNN_RUN(aclnnRotaryPositionEmbedding)

aclnnStatus aclnnFusedInferAttentionScoreV2GetWorkspaceSize(
    const aclTensor *query, const aclTensorList *key, const aclTensorList *value,
    const aclTensor *pseShiftOptional, const aclTensor *attenMaskOptional,
    const aclIntArray *actualSeqLengthsOptional, const aclIntArray *actualSeqLengthsKvOptional,
    const aclTensor *deqScale1Optional, const aclTensor *quantScale1Optional,
    const aclTensor *deqScale2Optional, const aclTensor *quantScale2Optional,
    const aclTensor *quantOffset2Optional, const aclTensor *antiquantScaleOptional,
    const aclTensor *antiquantOffsetOptional, const aclTensor *blockTableOptional,
    const aclTensor *queryPaddingSizeOptional, const aclTensor *kvPaddingSizeOptional,
    const aclTensor *keyAntiquantScaleOptional, const aclTensor *keyAntiquantOffsetOptional,
    const aclTensor *valueAntiquantScaleOptional, const aclTensor *valueAntiquantOffsetOptional,
    const aclTensor *keySharedPrefixOptional, const aclTensor *valueSharedPrefixOptional,
    const aclIntArray *actualSharedPrefixLenOptional, int64_t numHeads, double scaleValue,
    int64_t preTokens, int64_t nextTokens, char *inputLayout, int64_t numKeyValueHeads,
    int64_t sparseMode, int64_t innerPrecise, int64_t blockSize, int64_t antiquantMode,
    bool softmaxLseFlag, int64_t keyAntiquantMode, int64_t valueAntiquantMode,
    const aclTensor *attentionOut, const aclTensor *softmaxLse, uint64_t *workspaceSize,
    aclOpExecutor **executor) {
  Check check("aclnnFusedInferAttentionScoreV2");
  check.not_null(query, "query").not_null(key, "key").not_null(value, "value");
  check.not_null(attentionOut, "attentionOut").not_null(inputLayout, "inputLayout");
  check.results(workspaceSize, executor);
  check.needs_hbm();
  const DTypeSet any_key = kHalves | DTypeSet::of(ACL_INT8);
  check.tensor(query, "query", kHalves, 4, 3);
  check.tensor(attentionOut, "attentionOut", any_key, 4, 3);
  if (softmaxLseFlag) check.not_null(softmaxLse, "softmaxLse");
  if (check.failed()) return check.status();
  const bool int8_out = attentionOut->dtype == ACL_INT8;
  check.that(int8_out || attentionOut->dtype == query->dtype, "query is %s but attentionOut %s",
             name_of(query->dtype), name_of(attentionOut->dtype));
  check.that(deqScale1Optional == nullptr && quantScale1Optional == nullptr &&
                 deqScale2Optional == nullptr,
             "deqScale1, quantScale1 and deqScale2 are for an INT8 query alone");
  check.that(int8_out == (quantScale2Optional != nullptr),
             "quantScale2 goes with an INT8 attentionOut");
  check.that(quantOffset2Optional == nullptr || quantScale2Optional != nullptr,
             "there is a quantOffset2 but no quantScale2");
  check.that(innerPrecise >= 0 && innerPrecise <= 3, "innerPrecise is %lld",
             static_cast<long long>(innerPrecise));
  Call call;
  find_layouts(&check, inputLayout, &call);
  find_queries(&check, query, attentionOut, numHeads, &call);
  call.key_heads = numKeyValueHeads == 0 ? numHeads : numKeyValueHeads;
  check.that(call.key_heads >= 1 && numHeads % call.key_heads == 0,
             "numHeads %lld is no multiple of numKeyValueHeads %lld",
             static_cast<long long>(numHeads), static_cast<long long>(call.key_heads));
  check.that(call.is_decode || (sparseMode >= 0 && sparseMode <= 4), "sparseMode is %lld",
             static_cast<long long>(sparseMode));
  const bool paged = blockTableOptional != nullptr;
  find_keys(&check, "key", key, any_key, paged, &call, &call.key);
  find_keys(&check, "value", value, any_key, paged, &call, &call.value);
  if (check.failed()) return check.status();
  const bool packed = call.in.batch < 0;
  const aclDataType key_type = key->members[0]->dtype;
  check.that(key->members.size() == value->members.size(), "key has %zu tensors, value %zu",
             key->members.size(), value->members.size());
  if (check.failed()) return check.status();
  for (size_t i = 0; i < call.key.size(); ++i) {
    const View &k = call.key[i], &v = call.value[i];
    check.that(k.dtype == key_type && v.dtype == key_type &&
                   (key_type == query->dtype || key_type == ACL_INT8),
               "key is %s and value %s for a query of %s", name_of(k.dtype), name_of(v.dtype),
               name_of(query->dtype));
    bool fits = k.shape.dim[3] == call.width;
    for (int d = 0; d < 3; ++d) fits = fits && k.shape.dim[d] == v.shape.dim[d];
    check.that(fits, "key and value do not fit query, or each other");
    check.that(v.shape.dim[3] <= kWidestHead, "heads of value are %lld wide",
               static_cast<long long>(v.shape.dim[3]));
  }
  check.that(call.result.shape.dim[3] == call.value[0].shape.dim[3],
             "heads of attentionOut are %lld wide, of value %lld",
             static_cast<long long>(call.result.shape.dim[3]),
             static_cast<long long>(call.value[0].shape.dim[3]));
  if (check.failed()) return check.status();

  AttentionParams p;
  p.scale = static_cast<float>(scaleValue);
  p.n_keys = static_cast<int16_t>(call.key.size());
  p.packed = packed;
  std::vector<int64_t> starts[2], lengths[2];
  if (packed) {
    check.not_null(actualSeqLengthsOptional, "actualSeqLengths")
        .not_null(actualSeqLengthsKvOptional, "actualSeqLengthsKv");
    check.that(!paged, "pages do not go with TND");
    if (check.failed()) return check.status();
    check.that(actualSeqLengthsOptional->values.size() == actualSeqLengthsKvOptional->values.size(),
               "actualSeqLengths and actualSeqLengthsKv differ in length");
    find_ends(&check, "actualSeqLengths", actualSeqLengthsOptional, call.queries, &starts[0],
              &lengths[0]);
    find_ends(&check, "actualSeqLengthsKv", actualSeqLengthsKvOptional, call.key[0].shape.dim[2],
              &starts[1], &lengths[1]);
    if (check.failed()) return check.status();
    call.batch = static_cast<int64_t>(lengths[0].size());
    for (View *view : {&call.query, &call.result, &call.key[0], &call.value[0]})
      view->shape.dim[0] = call.batch;
    call.keys = call.key[0].shape.dim[2];
  } else {
    int64_t pages = 0;
    if (paged) {
      check.tensor(blockTableOptional, "blockTable", DTypeSet::of(ACL_INT32), 2, 2);
      check.not_null(actualSeqLengthsKvOptional, "actualSeqLengthsKv");
      check.that(blockSize > 0 && blockSize <= 512 && blockSize == call.key[0].shape.dim[2],
                 "blockSize is %lld", static_cast<long long>(blockSize));
      if (check.failed()) return check.status();
      pages = shape_of(blockTableOptional).dim[1];
      check.that(shape_of(blockTableOptional).dim[0] == call.batch, "blockTable has %lld rows",
                 static_cast<long long>(shape_of(blockTableOptional).dim[0]));
      p.block = static_cast<int32_t>(blockSize);
    }
    const auto longest = [&](int64_t b) {
      if (paged) return pages * blockSize;
      return call.key[call.key.size() > 1 ? static_cast<size_t>(b) : 0].shape.dim[2];
    };
    for (int64_t b = 0; b < call.batch; ++b) call.keys = std::max(call.keys, longest(b));
    find_lengths(
        &check, "actualSeqLengths", call.is_decode ? nullptr : actualSeqLengthsOptional, call.batch,
        [&](int64_t) { return call.queries; }, &lengths[0]);
    find_lengths(&check, "actualSeqLengthsKv", actualSeqLengthsKvOptional, call.batch, longest,
                 &lengths[1]);
    for (auto &list : starts) list.assign(static_cast<size_t>(call.batch), 0);
  }
  if (check.failed()) return check.status();
  if (paged) {  // only what sequences have is looked at
    call.keys = 0;
    for (const int64_t length : lengths[1]) call.keys = std::max(call.keys, length);
  }

  View prefixes[2];
  check.that((keySharedPrefixOptional == nullptr) == (valueSharedPrefixOptional == nullptr),
             "of the shared prefixes one is missing");
  if (keySharedPrefixOptional != nullptr && !check.failed()) {
    check.that(!paged && !packed && p.n_keys == 1 && queryPaddingSizeOptional == nullptr &&
                   kvPaddingSizeOptional == nullptr,
               "shared prefixes do not go with pages, lists, padding or TND");
    const aclTensor *given[] = {keySharedPrefixOptional, valueSharedPrefixOptional};
    for (int i = 0; i < 2 && !check.failed(); ++i) {
      check.tensor(given[i], "a shared prefix", DTypeSet::of(key_type), call.in.rank, call.in.rank);
      if (check.failed()) break;
      const View &like = i == 0 ? call.key[0] : call.value[0];
      prefixes[i] = arranged(view_of(given[i]), call.in, call.key_heads);
      check.that(prefixes[i].shape.dim[0] == 1 && prefixes[i].shape.dim[1] == like.shape.dim[1] &&
                     prefixes[i].shape.dim[3] == like.shape.dim[3] &&
                     prefixes[i].shape.dim[2] == prefixes[0].shape.dim[2],
                 "a shared prefix has shape %s", ShapeText(shape_of(given[i])).text);
    }
    int64_t length = prefixes[0].shape.dim[2];
    if (actualSharedPrefixLenOptional != nullptr && !check.failed()) {
      const auto &values = actualSharedPrefixLenOptional->values;
      check.that(values.size() == 1 && values[0] >= 0 && values[0] <= length,
                 "actualSharedPrefixLen is wrong");
      if (!check.failed()) length = values[0];
    }
    p.prefix = static_cast<int32_t>(length);
    call.keys += length;
  }
  if (check.failed()) return check.status();

  // Sparse modes.
  const bool compressed = !call.is_decode && sparseMode >= 2;
  if (compressed || (!call.is_decode && sparseMode == 1))
    check.that(attenMaskOptional != nullptr, "sparseMode %lld needs attenMask",
               static_cast<long long>(sparseMode));
  constexpr DTypeSet kMask = DTypeSet::of(ACL_BOOL, ACL_INT8, ACL_UINT8);
  View mask;
  if (attenMaskOptional != nullptr) {
    check.tensor(attenMaskOptional, "attenMask", kMask, 4, 2);
    if (check.failed()) return check.status();
    const View own = view_of(attenMaskOptional);
    const int rank = own.shape.rank;
    if (compressed) {
      check.that(own.shape.dim[rank - 1] == kCausalMask && own.shape.dim[rank - 2] == kCausalMask &&
                     own.count() == kCausalMask * kCausalMask,
                 "attenMask has shape %s, not 2048 x 2048", ShapeText(own.shape).text);
    } else {
      check.that(spread(own, call, &mask), "attenMask has shape %s", ShapeText(own.shape).text);
    }
  }
  if (!call.is_decode && sparseMode == 0 && attenMaskOptional != nullptr) {
    p.banded = true;
    p.before = preTokens;
    p.after = nextTokens;
  }
  if (compressed) {
    p.banded = true;
    p.from_end = sparseMode != 2;
    p.before = sparseMode == 4 ? preTokens : INT32_MAX;
    p.after = sparseMode == 4 ? nextTokens : 0;
  }
  // Far enough for any axis, and safe to add to.
  p.before = std::min<int64_t>(std::max<int64_t>(p.before, -INT32_MAX), INT32_MAX);
  p.after = std::min<int64_t>(std::max<int64_t>(p.after, -INT32_MAX), INT32_MAX);

  View shift;
  if (pseShiftOptional != nullptr) {
    check.tensor(pseShiftOptional, "pseShift", DTypeSet::of(query->dtype), 4, 4);
    if (check.failed()) return check.status();
    const View own = view_of(pseShiftOptional);
    check.that(own.shape.dim[1] == call.heads && spread(own, call, &shift), "pseShift has shape %s",
               ShapeText(own.shape).text);
  }

  // int8 keys and values.
  const bool apart = keyAntiquantScaleOptional != nullptr || valueAntiquantScaleOptional != nullptr;
  const aclTensor *scales[2] = {antiquantScaleOptional, antiquantScaleOptional};
  const aclTensor *offsets[2] = {antiquantOffsetOptional, antiquantOffsetOptional};
  int64_t modes[2] = {antiquantMode, antiquantMode};
  if (apart) {
    scales[0] = keyAntiquantScaleOptional;
    scales[1] = valueAntiquantScaleOptional;
    offsets[0] = keyAntiquantOffsetOptional;
    offsets[1] = valueAntiquantOffsetOptional;
    modes[0] = keyAntiquantMode;
    modes[1] = valueAntiquantMode;
    check.that((offsets[0] == nullptr) == (offsets[1] == nullptr),
               "of keyAntiquantOffset and valueAntiquantOffset one is missing");
    check.that(modes[0] == modes[1] || (modes[0] == 0 && modes[1] == 1),
               "keyAntiquantMode is %lld, valueAntiquantMode %lld",
               static_cast<long long>(modes[0]), static_cast<long long>(modes[1]));
  }
  check.that((scales[0] != nullptr && scales[1] != nullptr) == (key_type == ACL_INT8) &&
                 (scales[0] == nullptr) == (scales[1] == nullptr),
             "scales go with INT8 keys and values");
  View factors[4];  // key scale, key offset, value scale, value offset
  int64_t shifts[4] = {};
  for (int i = 0; i < 2 && key_type == ACL_INT8 && !check.failed(); ++i) {
    const int64_t width = i == 0 ? call.width : call.value[0].shape.dim[3];
    const aclTensor *given[] = {scales[i], offsets[i]};
    for (int j = 0; j < 2; ++j) {
      if (given[j] == nullptr) continue;
      check.tensor(given[j], "an antiquantisation parameter", kHalfAndFloat, 5, 1);
      if (check.failed()) break;
      check.same_shape(given[j], given[0]);
      check.that(key_factors(view_of(given[j]), !apart, modes[i], call, width, &factors[2 * i + j]),
                 "an antiquantisation parameter has shape %s", ShapeText(shape_of(given[j])).text);
      // Keys and values have one half each of a tensor that they share.
      if (!apart && !check.failed())
        shifts[2 * i + j] =
            i * given[j]->strides[0] * static_cast<int64_t>(size_of(given[j]->dtype));
    }
  }
  View out_scale, out_offset;
  if (int8_out && !check.failed()) {
    constexpr DTypeSet types = DTypeSet::of(ACL_FLOAT, ACL_BF16);
    check.tensor(quantScale2Optional, "quantScale2", types, 4, 1);
    if (check.failed()) return check.status();
    check.that(out_factors(view_of(quantScale2Optional), call, &out_scale),
               "quantScale2 has shape %s", ShapeText(shape_of(quantScale2Optional)).text);
    if (quantOffset2Optional != nullptr) {
      check.tensor(quantOffset2Optional, "quantOffset2", types, 4, 1);
      check.same_dtype(quantOffset2Optional, quantScale2Optional);
      check.same_shape(quantOffset2Optional, quantScale2Optional);
      if (!check.failed()) out_factors(view_of(quantOffset2Optional), call, &out_offset);
    }
  }

  // Data that stand at the end of their axis.
  const aclTensor *paddings[] = {
      actualSeqLengthsOptional != nullptr && !call.is_decode ? queryPaddingSizeOptional : nullptr,
      actualSeqLengthsKvOptional != nullptr ? kvPaddingSizeOptional : nullptr};
  for (const aclTensor *padding : paddings) {
    if (padding == nullptr) continue;
    check.tensor(padding, "a padding size", DTypeSet::of(ACL_INT64), 1, 0);
    check.that(!paged && !packed && p.n_keys == 1, "padding does not go with pages, lists or TND");
  }

  View lse;
  if (softmaxLseFlag) {
    check.tensor(softmaxLse, "softmaxLse", DTypeSet::of(ACL_FLOAT), 4, 3);
    if (check.failed()) return check.status();
    Shape expected;
    const auto add = [&](int64_t dim) { expected.dim[expected.rank++] = dim; };
    if (packed) {
      add(call.queries);
      add(call.heads);
    } else {
      add(call.batch);
      add(call.heads);
      add(call.queries);
    }
    add(1);
    check.has_shape(softmaxLse, "softmaxLse", expected);
    if (check.failed()) return check.status();
    const View own = view_of(softmaxLse);
    lse = packed ? arranged(own, kTnd, call.heads) : own;
    lse.shape.dim[0] = call.batch;
  }
  if (check.failed()) return check.status();

  std::vector<int64_t> numbers;
  for (int i = 0; i < 2; ++i) {
    numbers.insert(numbers.end(), starts[i].begin(), starts[i].end());
    numbers.insert(numbers.end(), lengths[i].begin(), lengths[i].end());
  }
  Planner plan(check.op(), workspaceSize, executor);
  // Slots in the order of the signature.
  const int q_slot = plan.input(query), k_slot = plan.input_list(key),
            v_slot = plan.input_list(value);
  const aclTensor *optional[] = {pseShiftOptional,
                                 attenMaskOptional,
                                 deqScale1Optional,
                                 quantScale1Optional,
                                 deqScale2Optional,
                                 quantScale2Optional,
                                 quantOffset2Optional,
                                 antiquantScaleOptional,
                                 antiquantOffsetOptional,
                                 blockTableOptional,
                                 queryPaddingSizeOptional,
                                 kvPaddingSizeOptional,
                                 keyAntiquantScaleOptional,
                                 keyAntiquantOffsetOptional,
                                 valueAntiquantScaleOptional,
                                 valueAntiquantOffsetOptional,
                                 keySharedPrefixOptional,
                                 valueSharedPrefixOptional};
  int slots[sizeof optional / sizeof *optional];
  for (size_t i = 0; i < sizeof optional / sizeof *optional; ++i)
    slots[i] = plan.input(optional[i]);
  const int to = plan.output(attentionOut), lse_slot = plan.output(softmaxLse);
  plan.write(to, call.result);
  plan.read(q_slot, call.query);
  int16_t next = 2;
  for (size_t i = 0; i < call.key.size(); ++i, ++next)
    plan.read(k_slot + static_cast<int>(i), call.key[i]);
  for (size_t i = 0; i < call.value.size(); ++i, ++next)
    plan.read(v_slot + static_cast<int>(i), call.value[i]);
  const auto add = [&](bool wanted, const aclTensor *tensor, const View &view, int16_t *place,
                       int64_t byte_shift = 0) {
    if (!wanted || tensor == nullptr) return;
    size_t i = 0;
    while (optional[i] != tensor) ++i;
    plan.read(slots[i], view, byte_shift);
    *place = next++;
  };
  add(true, pseShiftOptional, shift, &p.shift);
  add(!compressed, attenMaskOptional, mask, &p.mask);
  add(int8_out, quantScale2Optional, out_scale, &p.out_scale);
  add(int8_out, quantOffset2Optional, out_offset, &p.out_offset);
  add(key_type == ACL_INT8, scales[0], factors[0], &p.key_scale);
  add(key_type == ACL_INT8, offsets[0], factors[1], &p.key_offset);
  add(key_type == ACL_INT8, scales[1], factors[2], &p.value_scale, shifts[2]);
  add(key_type == ACL_INT8, offsets[1], factors[3], &p.value_offset, shifts[3]);
  add(paged, blockTableOptional, paged ? view_of(blockTableOptional) : View(), &p.table);
  for (int i = 0; i < 2; ++i) {
    add(true, paddings[i], paddings[i] == nullptr ? View() : view_of(paddings[i]),
        i == 0 ? &p.query_padding : &p.key_padding);
  }
  add(true, keySharedPrefixOptional, prefixes[0], &p.key_prefix);
  add(true, valueSharedPrefixOptional, prefixes[1], &p.value_prefix);
  if (softmaxLseFlag) {
    plan.write(lse_slot, lse);
    p.lse = next++;
  }
  plan.give_numbers(std::move(numbers));
  // What the device keeps of scores and results between its passes.
  plan.need_workspace(static_cast<uint64_t>(call.result.count()) * sizeof(float));
  return plan.finish(call.result.count() == 0 ? nullptr : attention_kernel, p);
}
ACLNN_RUN(aclnnFusedInferAttentionScoreV2)

}  // extern "C"
