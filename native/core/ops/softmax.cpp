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
Status add_mask(Launch &launch, uint64_t mask_address, const Layout &mask, uint64_t x_address,
                const Layout &x, uint64_t scores, double scale) {
  const Layout packed = Layout::contiguous(x, AIOCANN_F32);
  const Broadcast split(x, mask);
  return launch.call(ACLNN(aclnnAdd), launch.tensor(split.of_small(mask_address, mask)),
                     launch.tensor(split.of_big(x_address, x)), launch.scalar(scale),
                     launch.tensor(split.of_big(scores, packed)));
}

bool is_biased(const NodeView &node) { return node.has(1) && node.params[1].f > 0; }

/// One for each head, in float32: filled one by one, which leaves no host memory that must not be reused before the
/// device has read it.
Status fill_slopes(Launch &launch, uint64_t address, double max_bias, int64_t n_heads) {
  Status status;
  for (int64_t head = 0; head < n_heads && status.is_ok(); ++head) {
    View one;
    one.address = address + static_cast<uint64_t>(head) * sizeof(float);
    one.push(1, sizeof(float));
    status = launch.call(ACLNN(aclnnInplaceFillScalar), launch.tensor(one),
                         launch.scalar(alibi_slope(max_bias, n_heads, head)));
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

Layout biased_mask(const Layout &mask, int64_t n_rows, int64_t n_heads, int32_t dtype) {
  Layout biased = first_rows(mask, n_rows);
  biased.ne[2] = n_heads;
  return Layout::contiguous(biased, dtype);
}

Status bias_mask(Launch &launch, uint64_t mask_address, const Layout &mask, double max_bias,
                 uint64_t to, const Layout &biased) {
  const int64_t n_heads = biased.ne[2];
  ConstantKey key(ConstantKey::kSlopes, AIOCANN_F32, n_heads);
  key.params[0].f = max_bias;
  Layout slopes;
  slopes.ne[2] = n_heads;
  slopes = Layout::contiguous(slopes, AIOCANN_F32);
  uint64_t address = 0;
  Status status = launch.constant(key, f32_bytes(slopes), &address, [&](uint64_t at) {
    return fill_slopes(launch, at, max_bias, n_heads);
  });
  if (!status.is_ok()) return status;
  const Layout rows = first_rows(mask, biased.ne[1]);
  const Broadcast split(biased, rows);
  return launch.call(ACLNN(aclnnMul), launch.tensor(split.of_small(mask_address, rows)),
                     launch.tensor(split.of_big(address, slopes)),
                     launch.tensor(split.of_big(to, biased)));
}

void temps_soft_max(const NodeView &node, const Layout &out, Temps *temps) {
  if (is_plain(node)) return;
  temps->add(f32_bytes(out));  // the scores
  if (node.src[0]->dtype != AIOCANN_F32)
    temps->add(f32_bytes(out));  // x, then the result, in float32
  if (is_biased(node))
    temps->add(own_bytes(biased_mask(*node.src[1], out.ne[1], out.ne[2], AIOCANN_F32)));
}

Status launch_soft_max(Launch &launch) {
  if (is_plain(launch.node())) {
    return launch.call(ACLNN(aclnnSoftmax), launch.src_tensor(0), kLastAxis, launch.out_tensor());
  }
  const double scale = launch.number(0);
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
  } else {
    uint64_t mask_address = launch.src_address(1);
    Layout mask = first_rows(launch.src(1), x_layout.ne[1]);
    if (is_biased(launch.node())) {
      const Layout biased = biased_mask(mask, mask.ne[1], x_layout.ne[2], AIOCANN_F32);
      const uint64_t to = launch.temp(is_wide ? 1 : 2);
      status = bias_mask(launch, mask_address, mask, launch.number(1), to, biased);
      if (!status.is_ok()) return status;
      mask_address = to;
      mask = biased;
    }
    status = add_mask(launch, mask_address, mask, x_address, x_layout, scores, scale);
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
