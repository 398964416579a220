// windows.cpp: ops that slide a window: im2col, pool_2d, and convolutions.
#include <algorithm>

#include "core/ops/kernels.hpp"
#include "core/ops/shapes.hpp"

namespace aiocann::core {
namespace {

/// The longest kernel of a transposed convolution that the device takes.
constexpr int64_t kLongestKernel = 255;

/// What a convolution computes in: float32, not less.
constexpr int8_t kKeepType = 0;

View axes(uint64_t address, int32_t dtype) {
  View view;
  view.address = address;
  view.dtype = dtype;
  return view;
}

/// Parameters of im2col.
enum { kDtype, kStride0, kStride1, kPadding0, kPadding1, kDilation0, kDilation1, kIs2d };

int64_t positions(const NodeView &node, int64_t length, int64_t kernel, int axis) {
  const int64_t stride = node.params[kStride0 + axis].i;
  const int64_t reach = node.params[kDilation0 + axis].i * (kernel - 1) + 1;
  const int64_t room = length + 2 * node.params[kPadding0 + axis].i - reach;
  return room < 0 ? 0 : room / stride + 1;
}

}  // namespace

// kernel (oc, ic, kh, kw), x (n, ic, h, w) -> (n, oh, ow, ic * kh * kw); of one axis kernel (oc, ic, kw),
// x (n, ic, w) -> (n, ow, ic * kw).
Status shape_im2col(const NodeView &node, Layout *out, int64_t *) {
  const Layout &kernel = *node.src[0];
  const Layout &x = *node.src[1];
  const bool is_2d = node.params[kIs2d].i != 0;
  for (int axis = 0; axis < (is_2d ? 2 : 1); ++axis) {
    if (node.params[kStride0 + axis].i < 1 || node.params[kDilation0 + axis].i < 1 ||
        node.params[kPadding0 + axis].i < 0) {
      return node.usage("strides and dilations must be at least 1, padding at least 0");
    }
  }
  if ((dtype_bit(out->dtype) & kFloats) == 0)
    return node.unsupported("the result cannot be %s", dtype_name(out->dtype));
  const int channel = is_2d ? 2 : 1;
  if (kernel.ne[channel] != x.ne[channel] || (!is_2d && x.ne[3] != 1)) {
    return node.usage("the kernel is for %lld channels, x has %lld",
                      static_cast<long long>(kernel.ne[channel]),
                      static_cast<long long>(x.ne[channel]));
  }
  const int64_t ow = positions(node, x.ne[0], kernel.ne[0], 0);
  const int64_t oh = is_2d ? positions(node, x.ne[1], kernel.ne[1], 1) : 1;
  if (ow < 1 || oh < 1 || kernel.ne[0] < 1 || (is_2d && kernel.ne[1] < 1))
    return node.usage("the kernel does not fit x");
  out->ne[0] = kernel.ne[0] * (is_2d ? kernel.ne[1] : 1) * kernel.ne[channel];
  out->ne[1] = ow;
  out->ne[2] = is_2d ? oh : x.ne[2];
  out->ne[3] = is_2d ? x.ne[3] : 1;
  out->n_dims = is_2d ? 4 : 3;
  return Status::ok();
}

void temps_im2col(const NodeView &node, const Layout &out, Temps *temps) {
  const Layout &x = *node.src[1];
  if (x.dtype != out.dtype) temps->add(static_cast<uint64_t>(out.elements() * dtype_size(x.dtype)));
}

Status launch_im2col(Launch &launch) {
  const Layout &kernel = launch.src(0), &x = launch.src(1), &out = launch.out();
  const bool is_2d = launch.integer(kIs2d) != 0;
  // One axis: a height of 1. The device is asked for columns in the order of the result.
  View image = axes(launch.src_address(1), x.dtype).push(x.ne[0], x.nb[0]);
  if (is_2d) {
    image.push(x.ne[1], x.nb[1]).push(x.ne[2], x.nb[2]).push(x.ne[3], x.nb[3]);
  } else {
    image.push(1, x.nb[1]).push(x.ne[1], x.nb[1]).push(x.ne[2], x.nb[2]);
  }
  const bool converts = x.dtype != out.dtype;
  const int64_t size = dtype_size(x.dtype);
  const int64_t n = is_2d ? out.ne[3] : out.ne[2];
  const int64_t places = is_2d ? out.ne[1] * out.ne[2] : out.ne[1];
  View columns = axes(converts ? launch.temp(0) : launch.out_address(), x.dtype);
  columns.push(places, out.ne[0] * size).push(out.ne[0], size).push(n, places * out.ne[0] * size);
  const auto pair = [&](int first, int64_t missing) {
    return launch.ints({is_2d ? launch.integer(first + 1) : missing, launch.integer(first)});
  };
  Status status =
      launch.call(ACLNN(aclnnIm2col), launch.tensor(image),
                  launch.ints({is_2d ? kernel.ne[1] : 1, kernel.ne[0]}), pair(kDilation0, 1),
                  pair(kPadding0, 0), pair(kStride0, 1), launch.tensor(columns));
  if (!status.is_ok() || !converts) return status;
  return convert(launch, launch.tensor(launch.temp(0), Layout::contiguous(out, x.dtype)), x.dtype,
                 launch.out_tensor(), out.dtype);
}

// Parameters: average, k0, k1, s0, s1, p0, p1 (0: the last axis).
Status shape_pool_2d(const NodeView &node, Layout *out, int64_t *) {
  const Layout &x = *node.src[0];
  const bool average = node.params[0].i != 0;
  if (!average && on_310p(node)) return node.unsupported("%s has no maxima of windows", node.soc);
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t kernel = node.params[1 + axis].i, stride = node.params[3 + axis].i;
    const int64_t padding = node.params[5 + axis].i;
    if (kernel < 1 || stride < 1 || padding < 0)
      return node.usage("windows and strides must be at least 1, padding at least 0");
    if (padding > kernel / 2) return node.unsupported("padding is more than half of the window");
    const int64_t room = x.ne[axis] + 2 * padding - kernel;
    if (room < 0 || x.ne[axis] == 0) return node.usage("the window does not fit x");
    out->ne[axis] = room / stride + 1;
  }
  for (int axis = 2; axis < kAxes; ++axis) out->ne[axis] = x.ne[axis];
  out->n_dims = std::max(2, x.n_dims);
  return Status::ok();
}

Status launch_pool_2d(Launch &launch) {
  const auto pair = [&](int first) {
    return launch.ints({launch.integer(first + 1), launch.integer(first)});
  };
  aclTensor *x = launch.tensor(View(launch.src_address(0), launch.src(0)), ACL_FORMAT_NCHW);
  aclTensor *out = launch.tensor(View(launch.out_address(), launch.out()), ACL_FORMAT_NCHW);
  if (launch.integer(0) != 0) {
    return launch.call(ACLNN(aclnnAvgPool2d), x, pair(1), pair(3), pair(5), false, true, int64_t{0},
                       kKeepType, out);
  }
  return launch.call(ACLNN(aclnnMaxPool), x, pair(1), pair(3), int64_t{0}, pair(5),
                     launch.ints({1, 1}), int64_t{0}, out);
}

// w (ic, oc, k), x (ic, l) -> (oc, (l - 1) * stride + k).
Status shape_conv_transpose_1d(const NodeView &node, Layout *out, int64_t *) {
  const Layout &w = *node.src[0];
  const Layout &x = *node.src[1];
  if (node.params[0].i < 1) return node.usage("the stride must be at least 1");
  if (w.ne[3] != 1 || x.ne[2] != 1 || x.ne[3] != 1 || w.ne[2] != x.ne[1])
    return node.usage("w must be (ic, oc, k), x (ic, l)");
  if (w.is_empty() || x.is_empty()) return node.usage("an operand has no elements");
  out->ne[0] = (x.ne[0] - 1) * node.params[0].i + w.ne[0];
  out->ne[1] = w.ne[1];
  out->ne[2] = out->ne[3] = 1;
  out->n_dims = 2;
  return Status::ok();
}

void temps_conv_transpose_1d(const NodeView &node, const Layout &out, Temps *temps) {
  if (node.src[0]->ne[0] > kLongestKernel) temps->add(f32_bytes(out));
}

// Long kernels are cut: each part's result is added where it belongs.
Status launch_conv_transpose_1d(Launch &launch) {
  const Layout &w = launch.src(0), &x = launch.src(1), &out = launch.out();
  const int64_t stride = launch.integer(0), size = sizeof(float);
  const View input = axes(launch.src_address(1), x.dtype)
                         .push(x.ne[0], x.nb[0])
                         .push(x.ne[1], x.nb[1])
                         .push(1, x.nb[2]);
  const bool whole = w.ne[0] <= kLongestKernel;
  Status status;
  if (!whole) status = launch.call(ACLNN(aclnnInplaceZero), launch.out_tensor());
  for (int64_t first = 0; first < w.ne[0] && status.is_ok(); first += kLongestKernel) {
    const int64_t taps = std::min(kLongestKernel, w.ne[0] - first);
    const int64_t length = (x.ne[0] - 1) * stride + taps;
    const View kernel =
        axes(launch.src_address(0) + static_cast<uint64_t>(first * w.nb[0]), w.dtype)
            .push(taps, w.nb[0])
            .push(w.ne[1], w.nb[1])
            .push(w.ne[2], w.nb[2]);
    const View part = axes(whole ? launch.out_address() : launch.temp(0), out.dtype)
                          .push(length, size)
                          .push(out.ne[1], length * size)
                          .push(1, length * out.ne[1] * size);
    status =
        launch.call(ACLNN(aclnnConvolution), launch.tensor(input, ACL_FORMAT_NCL),
                    launch.tensor(kernel, ACL_FORMAT_NCL), static_cast<aclTensor *>(nullptr),
                    launch.ints({stride}), launch.ints({0}), launch.ints({1}), true,
                    launch.ints({0}), int64_t{1}, launch.tensor(part, ACL_FORMAT_NCL), kKeepType);
    if (!status.is_ok() || whole) return status;
    const View place = axes(launch.out_address() + static_cast<uint64_t>(first * size), out.dtype)
                           .push(length, size)
                           .push(out.ne[1], out.nb[1])
                           .push(1, out.nb[2]);
    status = launch.call(ACLNN(aclnnInplaceAdd), launch.tensor(place), launch.tensor(part),
                         launch.scalar(1));
  }
  return status;
}

// x (n, channels, k - 1 + l), kernel (channels, k) -> (n, l, channels).
Status shape_ssm_conv(const NodeView &node, Layout *out, int64_t *) {
  const Layout &x = *node.src[0];
  const Layout &kernel = *node.src[1];
  if (kernel.ne[2] != 1 || kernel.ne[3] != 1 || x.ne[3] != 1 || kernel.ne[1] != x.ne[1])
    return node.usage("x must be (n, channels, k - 1 + l), the kernel (channels, k)");
  if (kernel.ne[0] < 1 || x.ne[0] < kernel.ne[0] || kernel.ne[1] < 1)
    return node.usage("the kernel does not fit x");
  out->ne[0] = x.ne[1];
  out->ne[1] = x.ne[0] - kernel.ne[0] + 1;
  out->ne[2] = x.ne[2];
  out->ne[3] = 1;
  out->n_dims = 3;
  return Status::ok();
}

Status launch_ssm_conv(Launch &launch) {
  const Layout &x = launch.src(0), &kernel = launch.src(1), &out = launch.out();
  const View input = axes(launch.src_address(0), x.dtype)
                         .push(x.ne[0], x.nb[0])
                         .push(x.ne[1], x.nb[1])
                         .push(x.ne[2], x.nb[2]);
  const View weight = axes(launch.src_address(1), kernel.dtype)
                          .push(kernel.ne[0], kernel.nb[0])
                          .push(1, kernel.nb[1])
                          .push(kernel.ne[1], kernel.nb[1]);
  const View result = axes(launch.out_address(), out.dtype)
                          .push(out.ne[1], out.nb[1])
                          .push(out.ne[0], out.nb[0])
                          .push(out.ne[2], out.nb[2]);
  return launch.call(ACLNN(aclnnConvolution), launch.tensor(input, ACL_FORMAT_NCL),
                     launch.tensor(weight, ACL_FORMAT_NCL), static_cast<aclTensor *>(nullptr),
                     launch.ints({1}), launch.ints({0}), launch.ints({1}), false, launch.ints({0}),
                     x.ne[1], launch.tensor(result, ACL_FORMAT_NCL), kKeepType);
}

}  // namespace aiocann::core
