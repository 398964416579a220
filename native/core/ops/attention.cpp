// attention.cpp: flash_attn_ext. q (batch, heads, m, d), k and v (batch, key heads, n, d) -> (batch, m, heads, d).
#include <algorithm>

#include "core/ops/kernels.hpp"
#include "core/ops/shapes.hpp"

namespace aiocann::core {
namespace {

/// What the device's heads are multiples of.
constexpr int64_t kWidthUnit = 16;
constexpr int64_t kWidestHead = 512;

int64_t padded(int64_t width) { return (width + kWidthUnit - 1) / kWidthUnit * kWidthUnit; }

/// The layout of a packed copy with wider rows.
Layout widened(const Layout &layout) {
  Layout wide = layout;
  wide.ne[0] = padded(layout.ne[0]);
  return Layout::contiguous(wide, AIOCANN_F16);
}

/// The part of a widened copy that has numbers.
Layout inner(const Layout &wide, int64_t width) {
  Layout part = wide;
  part.ne[0] = width;
  return part;
}

/// The result as the device gives it: (batch, heads, m, d).
Layout raw_result(const NodeView &node) {
  Layout raw = *node.src[0];
  raw.ne[0] = node.src[2]->ne[0];
  return widened(raw);
}

bool has_slopes(const NodeView &node) { return node.has(3) && node.params[1].f > 0; }

Layout biased_mask(const NodeView &node) {
  return biased_mask(*node.src[3], node.src[0]->ne[1], node.src[0]->ne[2], AIOCANN_F16);
}

enum Temp { kQuery, kResult, kFirstOptional };

/// A float16 copy with heads of a width that the device takes.
Status widen(Launch &launch, int i, uint64_t address) {
  const Layout &from = launch.src(i);
  const Layout wide = widened(from);
  Status status;
  if (wide.ne[0] != from.ne[0])
    status = launch.call(ACLNN(aclnnInplaceZero), launch.tensor(address, wide));
  if (!status.is_ok()) return status;
  return convert(launch, launch.src_tensor(i), from.dtype,
                 launch.tensor(address, inner(wide, from.ne[0])), AIOCANN_F16);
}

}  // namespace

Status shape_flash_attn_ext(const NodeView &node, Layout *out, int64_t *) {
  const Layout &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
  const double max_bias = node.params[1].f;
  if (on_310p(node)) return node.unsupported("%s has no attention", node.soc);
  if (node.params[2].f != 0) return node.unsupported("logit_softcap is not 0");
  if (!(max_bias >= 0)) return node.usage("max_bias is %g; it must not be negative", max_bias);
  if (q.ne[0] != k.ne[0] || k.ne[1] != v.ne[1] || k.ne[2] != v.ne[2] || k.ne[3] != v.ne[3] ||
      k.ne[3] != q.ne[3] || k.ne[2] == 0 || q.ne[2] % k.ne[2] != 0) {
    return node.usage(
        "q must be (batch, heads, m, d), k and v (batch, key heads, n, d), and key "
        "heads divide heads");
  }
  if (k.ne[0] != v.ne[0]) return node.unsupported("heads of k and v differ in width");
  if (k.ne[0] < 1 || k.ne[0] > kWidestHead || q.ne[2] > 256)
    return node.unsupported(
        "there are heads of %lld numbers, %lld of them; up to %lld and 256 are "
        "possible",
        static_cast<long long>(k.ne[0]), static_cast<long long>(q.ne[2]),
        static_cast<long long>(kWidestHead));
  if (k.ne[1] == 0) return node.usage("there are no keys");
  if (node.has(3)) {
    const Layout &mask = *node.src[3];
    if (mask.ne[0] != k.ne[1] || mask.ne[1] < q.ne[1] ||
        (mask.ne[2] != 1 && mask.ne[2] != q.ne[2]) || (mask.ne[3] != 1 && mask.ne[3] != q.ne[3])) {
      return node.usage("the mask must be (batch or 1, heads or 1, m or more, n)");
    }
  } else if (max_bias > 0) {
    return node.usage("max_bias needs a mask: it scales the mask by a slope for each head");
  }
  out->ne[0] = v.ne[0];
  out->ne[1] = q.ne[2];
  out->ne[2] = q.ne[1];
  out->ne[3] = q.ne[3];
  out->n_dims = 4;
  return Status::ok();
}

void temps_flash_attn_ext(const NodeView &node, const Layout &, Temps *temps) {
  temps->add(own_bytes(widened(*node.src[0])));
  temps->add(own_bytes(raw_result(node)));
  if (has_slopes(node)) temps->add(own_bytes(biased_mask(node)));
  for (int i = 1; i < 3; ++i) {
    if (node.src[i]->ne[0] % kWidthUnit != 0) temps->add(own_bytes(widened(*node.src[i])));
  }
}

Status launch_flash_attn_ext(Launch &launch) {
  const NodeView &node = launch.node();
  const Layout &q = launch.src(0), &k = launch.src(1);
  int next = kFirstOptional;
  aclTensor *shift = nullptr;
  Status status = widen(launch, 0, launch.temp(kQuery));
  if (has_slopes(node)) {
    const Layout biased = biased_mask(node);
    const uint64_t to = launch.temp(next++);
    if (status.is_ok()) {
      status =
          bias_mask(launch, launch.src_address(3), launch.src(3), launch.number(1), to, biased);
    }
    shift = launch.tensor(to, biased);
  } else if (node.has(3)) {
    // One mask for all heads: an axis that does not move.
    Layout mask = launch.src(3);
    mask.ne[1] = q.ne[1];
    if (mask.ne[2] == 1) mask.nb[2] = 0;
    mask.ne[2] = q.ne[2];
    shift = launch.tensor(launch.src_address(3), mask);
  }
  aclTensor *keys[2];
  for (int i = 0; i < 2 && status.is_ok(); ++i) {
    if (k.ne[0] % kWidthUnit == 0) {
      keys[i] = launch.src_tensor(i + 1);
      continue;
    }
    const uint64_t address = launch.temp(next++);
    status = widen(launch, i + 1, address);
    keys[i] = launch.tensor(address, widened(launch.src(i + 1)));
  }
  if (!status.is_ok()) return status;
  const Layout raw = raw_result(node);
  const aclTensor *none = nullptr;
  const aclIntArray *no_lengths = nullptr;
  constexpr int64_t kFar = 65535;  // beyond any token that is masked by position
  constexpr int64_t kWithEmptyRows = 2;
  char layout[] = "BNSD";
  status = launch.call(
      ACLNN(aclnnFusedInferAttentionScoreV2), launch.tensor(launch.temp(kQuery), widened(q)),
      launch.list(keys[0]), launch.list(keys[1]), shift, none, no_lengths, no_lengths, none, none,
      none, none, none, none, none, none, none, none, none, none, none, none, none, none,
      no_lengths, q.ne[2], launch.number(0), kFar, kFar, static_cast<char *>(layout), k.ne[2],
      int64_t{0}, q.ne[1] == 1 ? int64_t{0} : kWithEmptyRows, int64_t{0}, int64_t{0}, false,
      int64_t{0}, int64_t{0}, launch.tensor(launch.temp(kResult), raw), none);
  if (!status.is_ok()) return status;
  Layout turned = launch.out();  // (batch, heads, m, d), as the device's
  std::swap(turned.ne[1], turned.ne[2]);
  std::swap(turned.nb[1], turned.nb[2]);
  return convert(launch, launch.tensor(launch.temp(kResult), inner(raw, launch.src(2).ne[0])),
                 AIOCANN_F16, launch.tensor(launch.out_address(), turned), launch.out().dtype);
}

}  // namespace aiocann::core
