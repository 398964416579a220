// Im2col, pooling and convolutions against double.
#include <cstring>

#include "nn_fixture.hpp"

using namespace nn;

namespace {

constexpr aclDataType kTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};

void im2col() {
  for (int round = 0; round < 45; ++round) {
    const aclDataType dtype = kTypes[round % 3];
    const Layout layout = round % 2 == 0 ? Layout::kRow : Layout::kRandom;
    const bool batched = round % 4 != 0;
    const int64_t n = batched ? pick(1, 3) : 1, c = pick(1, 4), h = pick(4, 12), w = pick(4, 12);
    const Dims kernel = {pick(1, 3), pick(1, 3)}, dilation = {pick(1, 2), pick(1, 2)},
               padding = {pick(0, 2), pick(0, 3)}, stride = {pick(1, 3), pick(1, 3)};
    const auto results = [&](size_t d, int64_t length) {
      return (length + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1;
    };
    const int64_t oh = results(0, h), ow = results(1, w), taps = kernel[0] * kernel[1];
    Tensor x(batched ? Dims{n, c, h, w} : Dims{c, h, w}, dtype, layout);
    Tensor y(batched ? Dims{n, c * taps, oh * ow} : Dims{c * taps, oh * ow}, dtype, layout);
    x.random();
    Ints k(kernel), d(dilation), p(padding), s(stride);
    execute([&](auto *ws, auto *e) { return aclnnIm2colGetWorkspaceSize(x, k, d, p, s, y, ws, e); },
            aclnnIm2col);
    check_values(
        y,
        [&](int64_t i) {
          const int64_t column = i % ow, row = i / ow % oh, tap = i / (ow * oh) % taps;
          const int64_t plane = i / (ow * oh * taps);
          const int64_t r = row * stride[0] + tap / kernel[1] * dilation[0] - padding[0];
          const int64_t q = column * stride[1] + tap % kernel[1] * dilation[1] - padding[1];
          if (r < 0 || r >= h || q < 0 || q >= w) return 0.0;
          return x[(plane * h + r) * w + q];
        },
        0, 0);
  }
  Tensor x({1, 1, 4, 4}, ACL_FLOAT), y({1, 4, 9}, ACL_FLOAT), z({1, 4, 8}, ACL_FLOAT),
      h({1, 4, 9}, ACL_FLOAT16), i({1, 1, 4, 4}, ACL_INT32);
  Ints two({2, 2}), one({1, 1}), none({0, 0}), single({1}), negative({-1, 0});
  const auto plan = [&](aclTensor *in, aclIntArray *k, aclIntArray *d, aclIntArray *p,
                        aclIntArray *s, aclTensor *out) {
    return [=](uint64_t *w, aclOpExecutor **e) {
      return aclnnIm2colGetWorkspaceSize(in, k, d, p, s, out, w, e);
    };
  };
  const char *op = "aclnnIm2col";
  refuse(ACLNN_ERR_PARAM_NULLPTR, op, plan(nullptr, two, one, none, one, y));
  refuse(ACLNN_ERR_PARAM_NULLPTR, op, plan(x, nullptr, one, none, one, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, single, one, none, one, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, two, none, none, one, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, two, one, negative, one, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, two, one, none, one, z));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, two, one, none, one, h));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(i, two, one, none, one, y));
}

int64_t pooled(int64_t length, int64_t k, int64_t before, int64_t after, int64_t s, bool ceil) {
  int64_t n = (length + before + after - k + (ceil ? s - 1 : 0)) / s + 1;
  if (ceil && (n - 1) * s >= length + before) --n;
  return n;
}

void pools() {
  for (int round = 0; round < 60; ++round) {
    const bool average = round % 2 == 0;
    const aclDataType dtype = kTypes[round / 2 % (average ? 3 : 2)];
    const Layout layout = round % 4 < 2 ? Layout::kRow : Layout::kRandom;
    const bool batched = round % 5 != 0, ceil = round % 3 == 0, inside = round % 7 < 3;
    const int64_t divisor = average && round % 6 == 0 ? 3 : 0;
    const Dims kernel = {pick(1, 4), pick(1, 4)}, stride = {pick(1, 3), pick(1, 3)};
    Dims before(2), after(2);
    for (size_t d = 0; d < 2; ++d) {
      before[d] = pick(0, kernel[d] / 2);
      after[d] = average ? before[d] : pick(0, kernel[d] - before[d]);
    }
    const int64_t n = batched ? pick(1, 2) : 1, c = pick(1, 3), h = pick(4, 11), w = pick(4, 11);
    const int64_t oh = pooled(h, kernel[0], before[0], after[0], stride[0], ceil);
    const int64_t ow = pooled(w, kernel[1], before[1], after[1], stride[1], ceil);
    Tensor x(batched ? Dims{n, c, h, w} : Dims{c, h, w}, dtype, layout);
    Tensor y(batched ? Dims{n, c, oh, ow} : Dims{c, oh, ow}, dtype, layout);
    x.fill([&](int64_t i) { return i % 37 == 36 && !average ? NAN : uniform(-3, 3); });
    Ints k(kernel), s(stride), p(before), all({before[0], before[1], after[0], after[1]}),
        ones({1, 1});
    if (average) {
      execute(
          [&](auto *ws, auto *e) {
            return aclnnAvgPool2dGetWorkspaceSize(x, k, s, p, ceil, !inside, divisor, 0, y, ws, e);
          },
          aclnnAvgPool2d);
    } else {
      execute(
          [&](auto *ws, auto *e) {
            return aclnnMaxPoolGetWorkspaceSize(x, k, s, 0, all, ones, ceil ? 1 : 0, y, ws, e);
          },
          aclnnMaxPool);
    }
    check_values(
        y,
        [&](int64_t i) {
          const int64_t r0 = i / ow % oh * stride[0] - before[0], plane = i / (ow * oh);
          const int64_t c0 = i % ow * stride[1] - before[1];
          double sum = 0, largest = -INFINITY;
          int64_t counted = 0;
          for (int64_t r = std::max<int64_t>(0, r0); r < std::min(h, r0 + kernel[0]); ++r) {
            for (int64_t q = std::max<int64_t>(0, c0); q < std::min(w, c0 + kernel[1]); ++q) {
              const double value = x[(plane * h + r) * w + q];
              sum += value;
              ++counted;
              if (std::isnan(value) || value > largest) largest = value;
              if (std::isnan(value)) return value;
            }
          }
          if (!average) return largest;
          const int64_t padded = (std::min(r0 + kernel[0], h + after[0]) - r0) *
                                 (std::min(c0 + kernel[1], w + after[1]) - c0);
          return sum / static_cast<double>(divisor != 0 ? divisor : inside ? counted : padded);
        },
        8, 1e-6);
  }
  Tensor x({1, 2, 4, 4}, ACL_FLOAT), y({1, 2, 2, 2}, ACL_FLOAT), z({1, 2, 3, 2}, ACL_FLOAT),
      i({1, 2, 4, 4}, ACL_INT32);
  Ints two({2, 2}), none({0, 0}), wide({2, 2}), three({1, 1, 1}), ones({1, 1}), zero({0, 2});
  const auto average = [&](aclTensor *in, aclIntArray *k, aclIntArray *s, aclIntArray *p,
                           aclTensor *out) {
    return [=](uint64_t *w, aclOpExecutor **e) {
      return aclnnAvgPool2dGetWorkspaceSize(in, k, s, p, false, true, 0, 0, out, w, e);
    };
  };
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnAvgPool2d", average(nullptr, two, two, none, y));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnAvgPool2d", average(i, two, two, none, y));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnAvgPool2d", average(x, zero, two, none, y));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnAvgPool2d", average(x, two, two, wide, y));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnAvgPool2d", average(x, two, two, none, z));
  const auto maximum = [&](aclTensor *in, aclIntArray *k, int64_t automatic, aclIntArray *p,
                           aclIntArray *d, aclTensor *out) {
    return [=, &two](uint64_t *w, aclOpExecutor **e) {
      return aclnnMaxPoolGetWorkspaceSize(in, k, two, automatic, p, d, 0, out, w, e);
    };
  };
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnMaxPool", maximum(x, nullptr, 0, none, ones, y));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnMaxPool", maximum(i, two, 0, none, ones, y));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnMaxPool", maximum(x, two, 1, none, ones, y));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnMaxPool", maximum(x, two, 0, three, ones, y));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnMaxPool", maximum(x, two, 0, wide, ones, y));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnMaxPool", maximum(x, two, 0, none, two, y));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnMaxPool", maximum(x, two, 0, none, ones, z));
}

void convolutions() {
  for (int round = 0; round < 90; ++round) {
    const aclDataType dtype = kTypes[round % 3];
    const Layout layout = round % 2 == 0 ? Layout::kRow : Layout::kRandom;
    const size_t spatial = static_cast<size_t>(round % 5 == 4 ? 3 : 1 + round % 2);
    const bool transposed = round % 4 >= 2, biased = round % 3 == 0;
    const int64_t groups = round % 7 == 0 ? 4 : pick(1, 2);
    const int64_t in_group = round % 7 == 0 ? 1 : pick(1, 3);
    const int64_t out_group = round % 14 == 0 ? 1 : pick(1, 3);
    const int64_t n = pick(1, 2), in_c = groups * in_group, out_c = groups * out_group;
    Dims in = {n, in_c}, out = {n, out_c};
    Dims kernel = transposed ? Dims{in_c, out_group} : Dims{out_c, in_group};
    Dims stride, padding, dilation, more;
    for (size_t d = 0; d < spatial; ++d) {
      const bool is_long = spatial == 1 && round % 9 == 0;
      const int64_t length = is_long ? pick(600, 1500) : pick(4, 9), k = pick(1, 3);
      stride.push_back(pick(1, 3));
      dilation.push_back(pick(1, 2));
      padding.push_back(pick(0, k - 1));
      more.push_back(transposed ? pick(0, stride[d] - 1) : 0);
      in.push_back(length);
      kernel.push_back(k);
      const int64_t reach = dilation[d] * (k - 1) + 1;
      out.push_back(transposed ? (length - 1) * stride[d] - 2 * padding[d] + reach + more[d]
                               : (length + 2 * padding[d] - reach) / stride[d] + 1);
    }
    Tensor x(in, dtype, layout), w(kernel, dtype, layout), b({out_c}, dtype), y(out, dtype, layout);
    x.random();
    w.random();
    b.random();
    Ints s(stride), p(padding), d(dilation), o(more);
    execute(
        [&](auto *ws, auto *e) {
          return aclnnConvolutionGetWorkspaceSize(x, w, biased ? b.get() : nullptr, s, p, d,
                                                  transposed, o, groups, y, 0, ws, e);
        },
        aclnnConvolution);
    // Every product is added where it belongs, whichever way the convolution goes.
    std::vector<double> want(static_cast<size_t>(y.count()));
    for (int64_t i = 0; i < y.count(); ++i)
      want[static_cast<size_t>(i)] = biased ? b[i / (count(out) / n / out_c) % out_c] : 0;
    const Dims &small = transposed ? in : out, &large = transposed ? out : in;
    const int64_t positions = count(Dims(small.begin() + 2, small.end()));
    const int64_t taps = count(Dims(kernel.begin() + 2, kernel.end()));
    for (int64_t image = 0; image < n; ++image) {
      for (int64_t position = 0; position < positions; ++position) {
        for (int64_t tap = 0; tap < taps; ++tap) {
          Dims near(spatial), far(spatial), k(spatial);
          bool inside = true;
          int64_t p_rest = position, t_rest = tap;
          for (size_t a = spatial; a-- > 0;) {
            near[a] = p_rest % small[a + 2];
            p_rest /= small[a + 2];
            k[a] = t_rest % kernel[a + 2];
            t_rest /= kernel[a + 2];
            far[a] = near[a] * stride[a] + k[a] * dilation[a] - padding[a];
            inside = inside && far[a] >= 0 && far[a] < large[a + 2];
          }
          if (!inside) continue;
          for (int64_t co = 0; co < out_c; ++co) {
            for (int64_t ci = 0; ci < in_group; ++ci) {
              const int64_t channel = co / out_group * in_group + ci;
              Dims from = {image, channel}, to = {image, co};
              Dims weight = transposed ? Dims{channel, co % out_group} : Dims{co, ci};
              const Dims &in_place = transposed ? near : far, &out_place = transposed ? far : near;
              from.insert(from.end(), in_place.begin(), in_place.end());
              to.insert(to.end(), out_place.begin(), out_place.end());
              weight.insert(weight.end(), k.begin(), k.end());
              int64_t flat = 0;
              for (size_t a = 0; a < to.size(); ++a) flat = flat * out[a] + to[a];
              want[static_cast<size_t>(flat)] += x.at(from) * w.at(weight);
            }
          }
        }
      }
    }
    check_values(y, [&](int64_t i) { return want[static_cast<size_t>(i)]; }, 8, 4e-6);
  }

  Tensor x({1, 2, 8}, ACL_FLOAT), w({3, 2, 3}, ACL_FLOAT), y({1, 3, 6}, ACL_FLOAT),
      z({1, 3, 7}, ACL_FLOAT), i({1, 2, 8}, ACL_INT32), b({2}, ACL_FLOAT), flat({2, 8}, ACL_FLOAT);
  Ints one({1}), zero({0}), two({1, 1});
  const auto plan = [&](aclTensor *in, aclTensor *weight, aclTensor *bias, aclIntArray *s,
                        bool transposed, aclIntArray *o, int64_t groups, aclTensor *out) {
    return [=, &zero, &one](uint64_t *ws, aclOpExecutor **e) {
      return aclnnConvolutionGetWorkspaceSize(in, weight, bias, s, zero, one, transposed, o, groups,
                                              out, 0, ws, e);
    };
  };
  const char *op = "aclnnConvolution";
  refuse(ACLNN_ERR_PARAM_NULLPTR, op, plan(nullptr, w, nullptr, one, false, zero, 1, y));
  refuse(ACLNN_ERR_PARAM_NULLPTR, op, plan(x, nullptr, nullptr, one, false, zero, 1, y));
  refuse(ACLNN_ERR_PARAM_NULLPTR, op, plan(x, w, nullptr, nullptr, false, zero, 1, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(i, w, nullptr, one, false, zero, 1, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(flat, w, nullptr, one, false, zero, 1, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, w, b, one, false, zero, 1, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, w, nullptr, two, false, zero, 1, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, w, nullptr, zero, false, zero, 1, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, w, nullptr, one, false, zero, 2, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, w, nullptr, one, false, zero, 0, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, w, nullptr, one, false, zero, 1, z));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, w, nullptr, one, true, one, 1, z));
  // The device takes no longer kernels than this: dispatch cuts them.
  Tensor wide({2, 3, 256}, ACL_FLOAT), result({1, 3, 263}, ACL_FLOAT);
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, wide, nullptr, one, true, zero, 1, result));
}

}  // namespace

int main() {
  im2col();
  pools();
  convolutions();
  return 0;
}
