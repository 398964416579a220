// ops_windows.cpp: im2col, pooling, convolution.
#include "sim/aclnn/check.hpp"
#include "sim/aclnn/executor.hpp"
#include "sim/kernels/convolve.hpp"
#include "sim/kernels/windows.hpp"

namespace aiocann::sim {
namespace {

/// Longer axes and larger steps mean nothing to any device.
constexpr int64_t kLongest = int64_t{1} << 24;

/// The longest rows and columns of the kernels of transposed convolutions.
constexpr int64_t kLongestTransposed = 255;

/// The values of an array, all within [low, kLongest].
void check_values(Check *check, const aclIntArray *array, const char *what, int64_t low) {
  if (check->failed()) return;
  for (const int64_t value : array->values) {
    check->that(value >= low && value <= kLongest, "%s has %lld", what,
                static_cast<long long>(value));
  }
}

void check_length(Check *check, const aclIntArray *array, const char *what,
                  std::initializer_list<size_t> lengths) {
  if (check->failed()) return;
  bool good = false;
  for (const size_t length : lengths) good |= array->values.size() == length;
  check->that(good, "%s has %zu values", what, array->values.size());
}

/// Value `axis` of an array that may give one for all axes, or none.
int32_t value_at(const aclIntArray *array, size_t axis, int32_t missing) {
  const auto &values = array->values;
  if (values.empty()) return missing;
  return static_cast<int32_t>(values[values.size() == 1 ? 0 : axis]);
}

/// Results along one axis; 0 and less: the window does not fit.
int64_t results_along(const Window &window, int64_t length, int64_t after, bool ceil_mode) {
  const int64_t reach = int64_t{window.dilation} * (window.size - 1) + 1;
  const int64_t room = length + window.before + after - reach;
  if (room < 0 && !(ceil_mode && room > -window.stride)) return 0;
  int64_t n = (room + (ceil_mode ? window.stride - 1 : 0)) / window.stride + 1;
  if (ceil_mode && (n - 1) * window.stride >= length + window.before) --n;
  return n;
}

/// [c, h, w] as [1, c, h, w].
View with_batch(View view) {
  if (view.shape.rank != 3) return view;
  for (int d = 3; d > 0; --d) {
    view.shape.dim[d] = view.shape.dim[d - 1];
    view.stride[d] = view.stride[d - 1];
  }
  view.shape.dim[0] = 1;
  view.stride[0] = 0;
  view.shape.rank = 4;
  return view;
}

/// The shape of a result: that of the input, but for the last two axes.
Shape spatial(const Shape &shape, int64_t height, int64_t width) {
  Shape result = shape;
  result.dim[shape.rank - 2] = height;
  result.dim[shape.rank - 1] = width;
  return result;
}

aclnnStatus plan_pool(const char *name, const aclTensor *self, const aclTensor *out,
                      const PoolParams &p, uint64_t *workspace, aclOpExecutor **executor) {
  Planner plan(name, workspace, executor);
  const int x = plan.input(self), y = plan.output(out);
  const View in = view_of(self), to = view_of(out);
  plan.write(y, with_batch(to));
  plan.read(x, with_batch(in));
  plan.need_workspace(straightening(in, self->dtype));
  return plan.finish(to.count() == 0 ? nullptr : pool_kernel, p);
}

/// A tensor of one, two or three spatial axes as one of three.
View with_depth(const View &view) {
  View wide = view;
  const int missing = 2 + kSpatial - view.shape.rank;
  wide.shape.rank = 2 + kSpatial;
  for (int d = 2 + kSpatial - 1; d >= 2; --d) {
    const bool own = d - missing >= 2;
    wide.shape.dim[d] = own ? view.shape.dim[d - missing] : 1;
    wide.stride[d] = own ? view.stride[d - missing] : 0;
  }
  return wide;
}

/// Where the bias of a convolution is: [c], or c beside axes of length 1.
bool is_bias(const Shape &shape, int64_t channels, int *axis) {
  *axis = shape.rank == 1 ? 0 : 1;
  for (int d = 0; d < shape.rank; ++d) {
    if (shape.dim[d] != (d == *axis ? channels : 1)) return false;
  }
  return true;
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;  // NOLINT: the entry points are this file's whole business

extern "C" {

aclnnStatus aclnnIm2colGetWorkspaceSize(const aclTensor *self, const aclIntArray *kernelSize,
                                        const aclIntArray *dilation, const aclIntArray *padding,
                                        const aclIntArray *stride, const aclTensor *out,
                                        uint64_t *workspaceSize, aclOpExecutor **executor) {
  Check check("aclnnIm2col");
  check.not_null(self, "self")
      .not_null(kernelSize, "kernelSize")
      .not_null(dilation, "dilation")
      .not_null(padding, "padding")
      .not_null(stride, "stride")
      .not_null(out, "out")
      .results(workspaceSize, executor);
  check.tensor(self, "self", kHalfAndFloat, 4, 3).tensor(out, "out", kHalfAndFloat, 3, 2);
  check.same_dtype(self, out);
  check_length(&check, kernelSize, "kernelSize", {2});
  check_length(&check, dilation, "dilation", {2});
  check_length(&check, padding, "padding", {2});
  check_length(&check, stride, "stride", {2});
  check_values(&check, kernelSize, "kernelSize", 1);
  check_values(&check, dilation, "dilation", 1);
  check_values(&check, padding, "padding", 0);
  check_values(&check, stride, "stride", 1);
  if (check.failed()) return check.status();
  const View in = with_batch(view_of(self));
  Im2colParams p;
  Window *windows[] = {&p.rows, &p.columns};
  int64_t results[2];
  for (size_t d = 0; d < 2; ++d) {
    *windows[d] = {value_at(kernelSize, d, 1), value_at(stride, d, 1), value_at(dilation, d, 1),
                   value_at(padding, d, 0)};
    results[d] = results_along(*windows[d], in.shape.dim[d + 2], windows[d]->before, false);
    check.that(results[d] > 0, "the window does not fit axis %zu of length %lld", d,
               static_cast<long long>(in.shape.dim[d + 2]));
  }
  if (check.failed()) return check.status();
  p.out_height = static_cast<int32_t>(results[0]);
  p.out_width = static_cast<int32_t>(results[1]);
  const int64_t channels = in.shape.dim[1], taps = int64_t{p.rows.size} * p.columns.size;
  Shape expected;
  if (self->shape.size() == 4) expected.dim[expected.rank++] = in.shape.dim[0];
  expected.dim[expected.rank++] = channels * taps;
  expected.dim[expected.rank++] = results[0] * results[1];
  check.has_shape(out, "out", expected);
  if (check.failed()) return check.status();

  const View to = view_of(out);
  const int last = to.shape.rank - 1;
  View split = to;  // [n, c, kernel height, kernel width, height, width]
  split.shape.rank = 6;
  const int64_t dims[] = {in.shape.dim[0], channels,   p.rows.size,
                          p.columns.size,  results[0], results[1]};
  const int64_t strides[] = {last == 2 ? to.stride[0] : 0,         to.stride[last - 1] * taps,
                             to.stride[last - 1] * p.columns.size, to.stride[last - 1],
                             to.stride[last] * results[1],         to.stride[last]};
  for (int d = 0; d < 6; ++d) {
    split.shape.dim[d] = dims[d];
    split.stride[d] = strides[d];
  }
  Planner plan(check.op(), workspaceSize, executor);
  const int x = plan.input(self), y = plan.output(out);
  plan.write(y, split);
  plan.read(x, in);
  plan.need_workspace(straightening(view_of(self), self->dtype));
  return plan.finish(to.count() == 0 ? nullptr : im2col_kernel, p);
}
ACLNN_RUN(aclnnIm2col)

aclnnStatus aclnnAvgPool2dGetWorkspaceSize(const aclTensor *self, const aclIntArray *kernelSize,
                                           const aclIntArray *strides, const aclIntArray *paddings,
                                           const bool ceilMode, const bool countIncludePad,
                                           const int64_t divisorOverride, const int8_t cubeMathType,
                                           aclTensor *out, uint64_t *workspaceSize,
                                           aclOpExecutor **executor) {
  Check check("aclnnAvgPool2d");
  check.not_null(self, "self")
      .not_null(kernelSize, "kernelSize")
      .not_null(strides, "strides")
      .not_null(paddings, "paddings")
      .not_null(out, "out")
      .results(workspaceSize, executor);
  check.tensor(self, "self", kHalfAndFloat, 4, 3).tensor(out, "out", kHalfAndFloat, 4, 3);
  check.same_dtype(self, out);
  check_length(&check, kernelSize, "kernelSize", {1, 2});
  check_length(&check, strides, "strides", {0, 1, 2});
  check_length(&check, paddings, "paddings", {1, 2});
  check_values(&check, kernelSize, "kernelSize", 1);
  check_values(&check, strides, "strides", 1);
  check_values(&check, paddings, "paddings", 0);
  check.that(cubeMathType >= 0 && cubeMathType <= 3, "cubeMathType is %d, not 0 to 3",
             static_cast<int>(cubeMathType));
  if (check.failed()) return check.status();
  check.that(cubeMathType != 2 || self->dtype != ACL_BF16, "BF16 cannot be computed as FLOAT16");
  PoolParams p;
  p.average = true;
  p.count_padding = countIncludePad;
  p.divisor = divisorOverride;
  const Shape shape = shape_of(self);
  Window *windows[] = {&p.rows, &p.columns};
  int64_t results[2];
  for (size_t d = 0; d < 2; ++d) {
    const int64_t length = shape.dim[shape.rank - 2 + static_cast<int>(d)];
    const int32_t size = value_at(kernelSize, d, 1);
    *windows[d] = {size, value_at(strides, d, size), 1, value_at(paddings, d, 0)};
    check.that(length > 0, "self is empty");
    check.that(windows[d]->before <= windows[d]->size / 2,
               "padding %d is more than half of the window of %d", windows[d]->before,
               windows[d]->size);
    results[d] = results_along(*windows[d], length, windows[d]->before, ceilMode);
    check.that(results[d] > 0, "the window does not fit axis %zu of length %lld", d,
               static_cast<long long>(length));
  }
  p.after_rows = p.rows.before;
  p.after_columns = p.columns.before;
  if (check.failed()) return check.status();
  check.has_shape(out, "out", spatial(shape, results[0], results[1]));
  if (check.failed()) return check.status();
  return plan_pool(check.op(), self, out, p, workspaceSize, executor);
}
ACLNN_RUN(aclnnAvgPool2d)

aclnnStatus aclnnMaxPoolGetWorkspaceSize(const aclTensor *self, const aclIntArray *kernelShape,
                                         const aclIntArray *strides, const int64_t autoPad,
                                         const aclIntArray *pads, const aclIntArray *dilations,
                                         const int64_t ceilMode, aclTensor *out,
                                         uint64_t *workspaceSize, aclOpExecutor **executor) {
  Check check("aclnnMaxPool");
  check.not_null(self, "self")
      .not_null(kernelShape, "kernelShape")
      .not_null(strides, "strides")
      .not_null(pads, "pads")
      .not_null(dilations, "dilations")
      .not_null(out, "out")
      .results(workspaceSize, executor);
  check.needs_hbm();
  constexpr DTypeSet types = DTypeSet::of(ACL_FLOAT, ACL_FLOAT16);
  check.tensor(self, "self", types, 4, 3).tensor(out, "out", types, 4, 3).same_dtype(self, out);
  check_length(&check, kernelShape, "kernelShape", {1, 2});
  check_length(&check, strides, "strides", {0, 1, 2});
  check_length(&check, pads, "pads", {0, 1, 2, 4});
  check_length(&check, dilations, "dilations", {0, 1, 2, 4});
  check_values(&check, kernelShape, "kernelShape", 1);
  check_values(&check, strides, "strides", 1);
  check_values(&check, pads, "pads", 0);
  check.that(autoPad == 0, "autoPad is %lld, not 0", static_cast<long long>(autoPad));
  if (check.failed()) return check.status();
  for (const int64_t value : dilations->values)
    check.that(value == 1, "dilations has %lld, not 1", static_cast<long long>(value));
  PoolParams p;
  const Shape shape = shape_of(self);
  Window *windows[] = {&p.rows, &p.columns};
  int32_t *after[] = {&p.after_rows, &p.after_columns};
  int64_t results[2];
  for (size_t d = 0; d < 2; ++d) {
    const int64_t length = shape.dim[shape.rank - 2 + static_cast<int>(d)];
    *windows[d] = {value_at(kernelShape, d, 1), value_at(strides, d, 1), 1, value_at(pads, d, 0)};
    // Four: top, left, bottom, right.
    *after[d] =
        pads->values.size() == 4 ? static_cast<int32_t>(pads->values[d + 2]) : windows[d]->before;
    check.that(length > 0 && shape.dim[shape.rank - 3] > 0, "self is empty");
    check.that(windows[d]->before + *after[d] <= windows[d]->size,
               "padding %d and %d are more than the window of %d", windows[d]->before, *after[d],
               windows[d]->size);
    results[d] = results_along(*windows[d], length, *after[d], ceilMode != 0);
    check.that(results[d] > 0, "the window does not fit axis %zu of length %lld", d,
               static_cast<long long>(length));
  }
  if (check.failed()) return check.status();
  check.has_shape(out, "out", spatial(shape, results[0], results[1]));
  if (check.failed()) return check.status();
  return plan_pool(check.op(), self, out, p, workspaceSize, executor);
}
ACLNN_RUN(aclnnMaxPool)

aclnnStatus aclnnConvolutionGetWorkspaceSize(const aclTensor *input, const aclTensor *weight,
                                             const aclTensor *bias, const aclIntArray *stride,
                                             const aclIntArray *padding,
                                             const aclIntArray *dilation, bool transposed,
                                             const aclIntArray *outputPadding, const int64_t groups,
                                             aclTensor *output, int8_t cubeMathType,
                                             uint64_t *workspaceSize, aclOpExecutor **executor) {
  Check check("aclnnConvolution");
  check.not_null(input, "input")
      .not_null(weight, "weight")
      .not_null(stride, "stride")
      .not_null(padding, "padding")
      .not_null(dilation, "dilation")
      .not_null(output, "output")
      .results(workspaceSize, executor);
  if (transposed) check.not_null(outputPadding, "outputPadding");
  check.tensor(input, "input", kHalfAndFloat, 5, 3).tensor(weight, "weight", kHalfAndFloat, 5, 3);
  check.tensor(output, "output", kHalfAndFloat, 5, 3);
  if (bias != nullptr) check.tensor(bias, "bias", kHalfAndFloat, 5, 1);
  if (check.failed()) return check.status();
  const Shape in = shape_of(input), kernel = shape_of(weight);
  const auto n_spatial = static_cast<size_t>(in.rank - 2);
  const aclDataType type = promote(input->dtype, weight->dtype);
  check.that(kernel.rank == in.rank, "input has %d dimensions, weight %d", in.rank, kernel.rank);
  check.that(!transposed || output->dtype == type, "the result is %s, not %s", name_of(type),
             name_of(output->dtype));
  check.that(cubeMathType >= 0 && cubeMathType <= 3, "cubeMathType is %d, not 0 to 3",
             static_cast<int>(cubeMathType));
  check.that(cubeMathType != 2 || type != ACL_BF16, "BF16 cannot be computed as FLOAT16");
  check.that(groups >= 1 && groups <= 65535, "groups is %lld", static_cast<long long>(groups));
  check_length(&check, stride, "stride", {n_spatial});
  check_length(&check, dilation, "dilation", {n_spatial});
  if (n_spatial == 3 || (n_spatial == 1 && transposed)) {
    check_length(&check, padding, "padding", {n_spatial});
  } else {
    check_length(&check, padding, "padding", {n_spatial, 2 * n_spatial});
  }
  check_values(&check, stride, "stride", 1);
  check_values(&check, padding, "padding", 0);
  check_values(&check, dilation, "dilation", 1);
  if (transposed) {
    check_length(&check, outputPadding, "outputPadding", {n_spatial});
    check_values(&check, outputPadding, "outputPadding", 0);
  }
  if (check.failed()) return check.status();
  const int64_t channels_in = in.dim[1];
  const int64_t channels_out = transposed ? kernel.dim[1] * groups : kernel.dim[0];
  if (transposed) {
    check.that(kernel.dim[0] == channels_in, "input has %lld channels, weight is for %lld",
               static_cast<long long>(channels_in), static_cast<long long>(kernel.dim[0]));
    check.that(channels_in % groups == 0, "%lld channels do not make %lld groups",
               static_cast<long long>(channels_in), static_cast<long long>(groups));
  } else {
    check.that(kernel.dim[1] * groups == channels_in, "input has %lld channels, weight is for %lld",
               static_cast<long long>(channels_in), static_cast<long long>(kernel.dim[1] * groups));
    check.that(channels_out % groups == 0, "%lld channels do not make %lld groups",
               static_cast<long long>(channels_out), static_cast<long long>(groups));
  }
  ConvolveParams p;
  p.groups = static_cast<int32_t>(groups);
  p.transposed = transposed;
  p.has_bias = bias != nullptr;
  if (type == ACL_FLOAT) {
    if (cubeMathType == 2) p.rounding = MatmulRounding::kF16;
    if (cubeMathType == 1 || cubeMathType == 3) p.rounding = MatmulRounding::kHf32;
  }
  Shape expected = in;
  expected.dim[1] = channels_out;
  const bool both_sides = padding->values.size() > n_spatial;
  for (size_t d = 0; d < n_spatial && !check.failed(); ++d) {
    const int axis = static_cast<int>(d) + 2;
    Window &window = p.window[kSpatial - n_spatial + d];
    check.that(kernel.dim[axis] >= 1 && kernel.dim[axis] <= kLongest, "weight is empty");
    check.that(!transposed || axis < kernel.rank - 2 || kernel.dim[axis] <= kLongestTransposed,
               "a transposed kernel is %lld long", static_cast<long long>(kernel.dim[axis]));
    if (check.failed()) break;
    window.size = static_cast<int32_t>(kernel.dim[axis]);
    window.stride = static_cast<int32_t>(stride->values[d]);
    window.dilation = static_cast<int32_t>(dilation->values[d]);
    window.before = static_cast<int32_t>(padding->values[both_sides ? 2 * d : d]);
    const int64_t after = both_sides ? padding->values[2 * d + 1] : window.before;
    if (!transposed) {
      expected.dim[axis] = results_along(window, in.dim[axis], after, false);
    } else {
      const int64_t more = outputPadding->values[d];
      check.that(more < window.stride || more < window.dilation,
                 "outputPadding %lld is not below stride or dilation",
                 static_cast<long long>(more));
      expected.dim[axis] = (in.dim[axis] - 1) * window.stride - window.before - after +
                           int64_t{window.dilation} * (window.size - 1) + more + 1;
    }
    check.that(expected.dim[axis] > 0, "the window does not fit axis %d of length %lld", axis,
               static_cast<long long>(in.dim[axis]));
  }
  check.has_shape(output, "output", expected);
  int bias_axis = 0;
  if (bias != nullptr && !check.failed()) {
    const Shape shape = shape_of(bias);
    check.that(is_bias(shape, channels_out, &bias_axis) && (!transposed || shape.rank == 1),
               "bias has shape %s", ShapeText(shape).text);
  }
  if (check.failed()) return check.status();

  Planner plan(check.op(), workspaceSize, executor);
  const int x = plan.input(input), w = plan.input(weight), b = plan.input(bias);
  const int y = plan.output(output);
  const View to = view_of(output);
  plan.write(y, with_depth(to));
  plan.read(x, with_depth(view_of(input)));
  plan.read(w, with_depth(view_of(weight)));
  if (bias != nullptr) {
    View line = view_of(bias);
    line.stride[0] = line.stride[bias_axis];
    line.shape.dim[0] = channels_out;
    line.shape.rank = 1;
    plan.read(b, line);
  }
  plan.need_workspace(static_cast<uint64_t>(in.count() + kernel.count()) * size_of(type));
  return plan.finish(to.count() == 0 ? nullptr : convolve_kernel, p);
}
ACLNN_RUN(aclnnConvolution)

}  // extern "C"
