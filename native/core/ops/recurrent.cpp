// recurrent.cpp: ops that go through a sequence token by token, with a state.
#include "core/ops/kernels.hpp"
#include "core/ops/shapes.hpp"

namespace aiocann::core {
namespace {

// Sources of gated_linear_attn.
enum { kKeys, kValues, kQueries, kGates, kState };

/// Extents of gated_linear_attn. Tokens of a sequence are neighbours.
struct Attention {
  explicit Attention(const NodeView &node) {
    const Layout &k = *node.src[kKeys];
    size = k.ne[0];
    heads = k.ne[1];
    tokens = k.ne[2];
    const int64_t one = size * size * heads;
    sequences = one == 0 ? 0 : node.src[kState]->elements() / one;
    length = sequences == 0 ? 0 : tokens / sequences;
  }
  int64_t size, heads, tokens, sequences, length;
};

}  // namespace

Status shape_gated_linear_attn(const NodeView &node, Layout *out, int64_t *) {
  const Layout &k = *node.src[kKeys];
  for (int i = kValues; i <= kGates; ++i) {
    if (!node.src[i]->same_shape(k))
      return node.usage("k, v, q and g must have the same shape, (tokens, heads, size)");
  }
  if (k.ne[3] != 1 || k.n_dims > 3) return node.usage("k must be (tokens, heads, size)");
  const Layout &state = *node.src[kState];
  const Attention it(node);
  if (it.sequences == 0 || state.elements() != it.sequences * it.size * it.size * it.heads ||
      it.sequences * it.length != it.tokens) {
    return node.usage(
        "the state must have heads x size x size elements for each sequence, and the tokens must "
        "be as many for each");
  }
  if (!state.is_contiguous()) return node.unsupported("the state must be without gaps");
  out->ne[0] = it.size * it.heads;
  out->ne[1] = it.tokens + it.size * it.sequences;
  out->ne[2] = out->ne[3] = 1;
  out->n_dims = 2;
  return Status::ok();
}

void temps_gated_linear_attn(const NodeView &node, const Layout &, Temps *temps) {
  const Attention it(node);
  const auto rows = static_cast<uint64_t>(it.size * it.heads * it.sequences);
  temps->add(rows * static_cast<uint64_t>(it.size) * sizeof(float));  // products of k and v
  temps->add(rows * sizeof(float));                                   // results before scaling
}

// state[i][j] = g[i] * state[i][j] + k[i] * v[j], then out[j] = scale * sum of q[i] * state[i][j]:
// of all sequences and heads at once, one token after the other. The state lives in the result.
Status launch_gated_linear_attn(Launch &launch) {
  const Attention it(launch.node());
  const Layout &out = launch.out();
  const int64_t size = it.size, word = sizeof(float), row = size * word, matrix = size * row;
  const auto states = [&](uint64_t address) {
    View view;
    view.address = address;
    view.push(size, word).push(size, row).push(it.heads, matrix);
    return launch.tensor(view.push(it.sequences, it.heads * matrix));
  };
  aclTensor *before = states(launch.src_address(kState));
  aclTensor *state = states(launch.out_address() + static_cast<uint64_t>(it.tokens * out.nb[1]));
  if (it.length == 0) return launch.call(ACLNN(aclnnInplaceCopy), state, before);
  aclTensor *product = states(launch.temp(0));
  // One token of each sequence: (sequences, heads, size), as a column or as a row.
  const auto token = [&](int source, int64_t at, bool is_column) {
    const Layout &x = launch.src(source);
    View view;
    view.address = launch.src_address(source) + static_cast<uint64_t>(at * x.nb[2]);
    if (is_column) view.push(1, x.nb[0]);
    view.push(size, x.nb[0]);
    if (!is_column) view.push(1, x.nb[0]);
    view.push(it.heads, x.nb[1]);
    return launch.tensor(view.push(it.sequences, it.length * x.nb[2]));
  };
  View unscaled, scaled;
  unscaled.address = launch.temp(1);
  unscaled.push(size, word).push(1, row).push(it.heads, row).push(it.sequences, it.heads * row);
  aclTensor *attended = launch.tensor(unscaled);
  scaled.push(size, word).push(1, row).push(it.heads, row);
  scaled.push(it.sequences, it.length * out.nb[1]);
  for (int64_t at = 0; at < it.length; ++at) {
    aclTensor *gates = token(kGates, at, true);
    Status status = at == 0 ? launch.call(ACLNN(aclnnMul), before, gates, state)
                            : launch.call(ACLNN(aclnnInplaceMul), state, gates);
    if (status.is_ok()) {
      status =
          launch.call(ACLNN(aclnnMul), token(kKeys, at, true), token(kValues, at, false), product);
    }
    if (status.is_ok())
      status = launch.call(ACLNN(aclnnInplaceAdd), state, product, launch.scalar(1));
    if (status.is_ok()) {
      status =
          launch.call(ACLNN(aclnnMatmul), token(kQueries, at, false), state, attended, int8_t{0});
    }
    scaled.address = launch.out_address() + static_cast<uint64_t>(at * out.nb[1]);
    if (status.is_ok()) {
      status = launch.call(ACLNN(aclnnMuls), attended, launch.scalar(launch.number(0)),
                           launch.tensor(scaled));
    }
    if (!status.is_ok()) return status;
  }
  return Status::ok();
}

}  // namespace aiocann::core
