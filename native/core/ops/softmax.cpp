// softmax.cpp: soft_max with optional scale, mask and ALiBi slopes.
#include <cmath>

#include "core/ops/kernels.hpp"

namespace aiocann::core {
namespace {

constexpr int64_t kLastAxis = kAxes - 1;

/// Nothing but the softmax itself.
bool is_plain(const NodeView &node) { return !node.has(1) && node.params[0].f == 1; }

/// The mask of `layout`'s shape that belongs to rows 0 .. n-1 (it may have more rows than there
/// are).
Layout first_rows(const Layout &mask, int64_t n) {
  Layout cut = mask;
  if (cut.ne[1] > n) cut.ne[1] = n;
  return cut;
}

/// scores = scale * x + mask, x and scores in float32.
Status add_mask(Launch &launch, uint64_t x_address, const Layout &x, uint64_t scores,
                double scale) {
  const Layout mask = first_rows(launch.src(1), x.ne[1]);
  const Layout packed = Layout::contiguous(x, AIOCANN_F32);
  const Broadcast split(x, mask);
  return launch.call(ACLNN(aclnnAdd), launch.tensor(split.of_small(launch.src_address(1), mask)),
                     launch.tensor(split.of_big(x_address, x)), launch.scalar(scale),
                     launch.tensor(split.of_big(scores, packed)));
}

/// scores = scale * x + slope(head) * mask. One addition for each head: the slopes are exact, go
/// with the call and need no memory that could be reused before the device has read it.
Status add_biased_mask(Launch &launch, aclTensor *x, uint64_t scores, double scale,
                       double max_bias) {
  const Layout all = Layout::contiguous(launch.out(), AIOCANN_F32);
  Status status =
      launch.call(ACLNN(aclnnMuls), x, launch.scalar(scale), launch.tensor(scores, all));
  const Layout mask = first_rows(launch.src(1), all.ne[1]);
  Layout head = all;
  head.ne[2] = 1;
  Layout head_mask = mask;
  head_mask.ne[2] = 1;
  const Broadcast split(head, head_mask);
  for (int64_t h = 0; h < all.ne[2] && status.is_ok(); ++h) {
    const uint64_t at = scores + static_cast<uint64_t>(h * all.nb[2]);
    const uint64_t mask_at =
        launch.src_address(1) + static_cast<uint64_t>(h % mask.ne[2] * mask.nb[2]);
    status = launch.call(ACLNN(aclnnInplaceAdd), launch.tensor(split.of_big(at, head)),
                         launch.tensor(split.of_small(mask_at, head_mask)),
                         launch.scalar(alibi_slope(max_bias, all.ne[2], h)));
  }
  return status;
}

}  // namespace

double alibi_slope(double max_bias, int64_t n_heads, int64_t head) {
  int64_t low = 1;
  while (low * 2 <= n_heads) low *= 2;
  if (head < low) {
    return std::exp2(-max_bias / static_cast<double>(low) * static_cast<double>(head + 1));
  }
  return std::exp2(-max_bias / 2 / static_cast<double>(low) *
                   static_cast<double>(2 * (head - low) + 1));
}

void temps_soft_max(const NodeView &node, const Layout &out, Temps *temps) {
  if (is_plain(node)) return;
  temps->add(f32_bytes(out));  // the scores
  if (node.src[0]->dtype != AIOCANN_F32)
    temps->add(f32_bytes(out));  // x, then the result, in float32
}

Status launch_soft_max(Launch &launch) {
  if (is_plain(launch.node())) {
    return launch.call(ACLNN(aclnnSoftmax), launch.src_tensor(0), kLastAxis, launch.out_tensor());
  }
  const double scale = launch.number(0);
  const double max_bias = launch.number(1);
  const bool is_wide = launch.src(0).dtype == AIOCANN_F32;
  const Layout packed = Layout::contiguous(launch.out(), AIOCANN_F32);
  const Layout x_layout = is_wide ? launch.src(0) : packed;
  const uint64_t x_address = is_wide ? launch.src_address(0) : launch.temp(1);
  const uint64_t scores = launch.temp(0);
  aclTensor *x = launch.tensor(x_address, x_layout);

  Status status;
  if (!is_wide) status = launch.call(ACLNN(aclnnCast), launch.src_tensor(0), ACL_FLOAT, x);
  if (!status.is_ok()) return status;
  if (!launch.has(1)) {
    status = launch.call(ACLNN(aclnnMuls), x, launch.scalar(scale), launch.tensor(scores, packed));
  } else if (max_bias > 0) {
    status = add_biased_mask(launch, x, scores, scale, max_bias);
  } else {
    status = add_mask(launch, x_address, x_layout, scores, scale);
  }
  if (!status.is_ok()) return status;
  if (is_wide) {
    return launch.call(ACLNN(aclnnSoftmax), launch.tensor(scores, packed), kLastAxis,
                       launch.out_tensor());
  }
  status = launch.call(ACLNN(aclnnSoftmax), launch.tensor(scores, packed), kLastAxis, x);
  if (!status.is_ok()) return status;
  return convert(launch, x, AIOCANN_F32, launch.out_tensor(), launch.out().dtype);
}

}  // namespace aiocann::core
