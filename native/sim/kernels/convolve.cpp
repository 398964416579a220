#include "sim/kernels/convolve.hpp"

#include <algorithm>
#include <vector>

#include "sim/aclnn/executor.hpp"
#include "sim/kernels/copy.hpp"
#include "sim/kernels/row_access.hpp"

namespace aiocann::sim {
namespace {

/// Positions of the result (or, transposed, of the input) that one product covers.
constexpr int64_t kPositions = 512;
/// Channels that are written together, where each has a window of its own.
constexpr int64_t kBand = 32;
/// Multiplications per task.
constexpr int64_t kWork = int64_t{1} << 20;

struct Extent {
  explicit Extent(const View &view)
      : d(view.shape.dim[2]), h(view.shape.dim[3]), w(view.shape.dim[4]) {}
  int64_t count() const { return d * h * w; }
  int64_t d, h, w;
};

/// A whole tensor as float32, rounded as the cube unit would see it.
std::vector<float> as_floats(const View &view, MatmulRounding rounding) {
  RowReader<float> reader(view, 0);
  std::vector<float> numbers(static_cast<size_t>(view.count()));
  if (numbers.empty()) return numbers;
  std::copy_n(reader.row(0), numbers.size(), numbers.data());
  if (view.dtype != ACL_FLOAT) return numbers;
  if (rounding == MatmulRounding::kF16) requantise(numbers.data(), ACL_FLOAT16, numbers.size());
  if (rounding == MatmulRounding::kHf32) table().round_hf32(numbers.data(), numbers.size());
  return numbers;
}

/// Whether a tensor can be read where it is.
bool is_plain(const View &view, MatmulRounding rounding) {
  return view.dtype == ACL_FLOAT && rounding == MatmulRounding::kNone &&
         reinterpret_cast<uintptr_t>(view.data) % sizeof(float) == 0 &&
         Loop::in_order(&view, 1).is_row(0);
}

/// Calls visit(tap, position of the small side, position of the large side, count, step) for all runs of elements
/// that a tap of the window connects; positions [begin, end) of the small side in rows of its last axis. The small
/// side is what windows are counted by: the result of a convolution, the input of a transposed one.
template <class Visit>
void for_taps(const Window *window, const Extent &small, const Extent &large, int64_t begin,
              int64_t end, Visit visit) {
  int64_t tap = 0;
  for (int64_t kd = 0; kd < window[0].size; ++kd) {
    for (int64_t kh = 0; kh < window[1].size; ++kh) {
      for (int64_t kw = 0; kw < window[2].size; ++kw, ++tap) {
        int64_t first, last;
        window[2].valid(kw, large.w, small.w, &first, &last);
        for (int64_t row = begin / small.w; row * small.w < end; ++row) {
          const int64_t d =
              row / small.h * window[0].stride + kd * window[0].dilation - window[0].before;
          const int64_t h =
              row % small.h * window[1].stride + kh * window[1].dilation - window[1].before;
          if (d < 0 || d >= large.d || h < 0 || h >= large.h) continue;
          const int64_t from = std::max(first, begin - row * small.w);
          const int64_t to = std::min(last, end - row * small.w);
          if (from >= to) continue;
          const int64_t w = from * window[2].stride + kw * window[2].dilation - window[2].before;
          visit(tap, row * small.w + from, (d * large.h + h) * large.w + w, to - from,
                window[2].stride);
        }
      }
    }
  }
}

/// Everything that all tasks of a convolution share.
struct Job {
  const ConvolveParams &p;
  const View &out;
  const float *input;
  std::vector<float> weight, bias;
  Extent out_extent, in_extent;
  int64_t n_taps;
  int64_t in_channels, out_channels;  ///< of one group
  int64_t position_step = 0;          ///< between positions of the result; 0: not one number
};

void finish(const Job &job, float *row, int64_t n, int64_t channel) {
  if (!job.p.has_bias) return;
  table().unary(UnaryOp::kShift, row, row, static_cast<size_t>(n),
                job.bias[static_cast<size_t>(channel)], 0, 0);
}

/// One tile of positions of the result of one group of one image: weight [out, in * taps] times columns.
void forward_tile(const Job &job, int64_t image, int64_t group, int64_t begin, int64_t end) {
  const int64_t n = end - begin, depth = job.in_channels * job.n_taps;
  std::vector<float> columns(static_cast<size_t>(depth * n), 0.0f),
      product(static_cast<size_t>(job.out_channels * n));
  const int64_t first = (image * job.p.groups + group) * job.in_channels;
  for (int64_t c = 0; c < job.in_channels; ++c) {
    const float *from = job.input + (first + c) * job.in_extent.count();
    float *to = columns.data() + c * job.n_taps * n;
    for_taps(job.p.window, job.out_extent, job.in_extent, begin, end,
             [&](int64_t tap, int64_t small, int64_t large, int64_t count, int64_t step) {
               float *row = to + tap * n + small - begin;
               for (int64_t i = 0; i < count; ++i) row[i] = from[large + i * step];
             });
  }
  Gemm gemm;
  gemm.m = job.out_channels;
  gemm.n = n;
  gemm.k = depth;
  gemm.a = job.weight.data() + group * job.out_channels * depth;
  gemm.a_row = depth;
  gemm.a_col = 1;
  gemm.b = columns.data();
  gemm.b_row = n;
  gemm.b_col = 1;
  gemm.c = product.data();
  gemm.ldc = n;
  run_gemm(gemm);
  View result = row_part(job.out, 1);
  result.data += image * job.out.stride[0] * static_cast<int64_t>(size_of(job.out.dtype));
  for (int64_t c = 0; c < job.out_channels; ++c) {
    const int64_t channel_out = group * job.out_channels + c;
    float *row = product.data() + c * n;
    finish(job, row, n, channel_out);
    View line = row_part(result, 1);
    line.data =
        result.data + channel_out * result.stride[0] * static_cast<int64_t>(size_of(job.out.dtype));
    const Loop loop = Loop::in_order(&line, 1);
    Writer<float> writer(loop, 0, line);
    for (int64_t at = 0; at < n; at += static_cast<int64_t>(kBlock)) {
      const auto count = static_cast<size_t>(std::min<int64_t>(n - at, kBlock));
      std::copy_n(row + at, count, writer.begin(begin + at));
      writer.end(begin + at, count);
    }
  }
}

/// Channels that each have one window of their own: nothing to multiply matrices for. Neighbouring channels of a tile
/// are written together, as they may lie side by side.
void depthwise_tile(const Job &job, int64_t image, int64_t channel, int64_t channels, int64_t begin,
                    int64_t end) {
  const int64_t n = end - begin;
  std::vector<float> result(static_cast<size_t>(channels * n), 0.0f);
  for (int64_t c = 0; c < channels; ++c) {
    const float *from = job.input + (image * job.p.groups + channel + c) * job.in_extent.count();
    const float *weight = job.weight.data() + (channel + c) * job.n_taps;
    float *row = result.data() + c * n;
    for_taps(job.p.window, job.out_extent, job.in_extent, begin, end,
             [&](int64_t tap, int64_t small, int64_t large, int64_t count, int64_t step) {
               float *to = row + small - begin;
               const float *x = from + large, factor = weight[tap];
               if (step == 1) {
                 for (int64_t i = 0; i < count; ++i) to[i] += x[i] * factor;
               } else {
                 for (int64_t i = 0; i < count; ++i) to[i] += x[i * step] * factor;
               }
             });
    finish(job, row, n, channel + c);
  }
  // The positions of the result as one axis: the caller has seen that they are one.
  View to = job.out, packed;
  const int64_t steps[] = {job.out.stride[1], job.position_step};
  const auto item = static_cast<int64_t>(size_of(job.out.dtype));
  to.data += (image * job.out.stride[0] + channel * steps[0] + begin * steps[1]) * item;
  packed.data = reinterpret_cast<char *>(result.data());
  packed.dtype = ACL_FLOAT;
  to.shape.rank = packed.shape.rank = 2;
  to.shape.dim[0] = packed.shape.dim[0] = channels;
  to.shape.dim[1] = packed.shape.dim[1] = n;
  std::copy_n(steps, 2, to.stride);
  packed.stride[0] = n;
  packed.stride[1] = 1;
  Inline here;
  copy_view(here, to, packed);
}

/// One channel of the result of one image of a transposed convolution: the products [taps, positions of the input]
/// are added up where their windows lie, in a fixed order.
void backward_channel(const Job &job, int64_t image, int64_t channel_out, float *to) {
  const int64_t group = channel_out / job.out_channels, within = channel_out % job.out_channels;
  const int64_t positions = job.in_extent.count();
  std::fill_n(to, job.out_extent.count(), 0.0f);
  // weight [in, out, taps] at this channel: rows of taps, `pitch` apart.
  const int64_t pitch = job.out_channels * job.n_taps;
  const float *weight = job.weight.data() + group * job.in_channels * pitch + within * job.n_taps;
  const float *from = job.input + (image * job.p.groups + group) * job.in_channels * positions;
  std::vector<float> product(static_cast<size_t>(job.n_taps * std::min(positions, kPositions)));
  for (int64_t begin = 0; begin < positions; begin += kPositions) {
    const int64_t n = std::min(kPositions, positions - begin);
    Gemm gemm;
    gemm.m = job.n_taps;
    gemm.n = n;
    gemm.k = job.in_channels;
    gemm.a = weight;
    gemm.a_row = 1;
    gemm.a_col = pitch;
    gemm.b = from + begin;
    gemm.b_row = positions;
    gemm.b_col = 1;
    gemm.c = product.data();
    gemm.ldc = n;
    run_gemm(gemm);
    for_taps(job.p.window, job.in_extent, job.out_extent, begin, begin + n,
             [&](int64_t tap, int64_t small, int64_t large, int64_t count, int64_t step) {
               const float *row = product.data() + tap * n + small - begin;
               for (int64_t i = 0; i < count; ++i) to[large + i * step] += row[i];
             });
  }
  finish(job, to, job.out_extent.count(), channel_out);
}

}  // namespace

int convolve_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const auto &p = op.as<ConvolveParams>();
  const View &out = op.views[0], &in = op.views[1], &weight = op.views[2];
  int64_t n_taps = 1;
  for (const Window &window : p.window) n_taps *= window.size;
  std::vector<float> copied;
  if (!is_plain(in, p.rounding)) copied = as_floats(in, p.rounding);
  Job job{p,
          out,
          copied.empty() ? reinterpret_cast<const float *>(in.data) : copied.data(),
          as_floats(weight, p.rounding),
          p.has_bias ? as_floats(op.views[3], MatmulRounding::kNone) : std::vector<float>(),
          Extent(out),
          Extent(in),
          n_taps,
          in.shape.dim[1] / p.groups,
          out.shape.dim[1] / p.groups};
  const int64_t images = out.shape.dim[0], positions = job.out_extent.count();
  if (p.transposed) {
    const int64_t work =
        std::max<int64_t>(1, job.in_extent.count() * job.n_taps * (job.in_channels + 1));
    parallel_chunks(context, images * out.shape.dim[1], std::max<int64_t>(1, kWork / work),
                    [&](int64_t begin, int64_t end) {
                      RowWriter<float> writer(out, 2);
                      for (int64_t i = begin; i < end; ++i) {
                        backward_channel(job, i / out.shape.dim[1], i % out.shape.dim[1],
                                         writer.begin(i));
                        writer.end();
                      }
                    });
    return 0;
  }
  const View place = row_part(out, 2);
  const Loop places = Loop::in_order(&place, 1);
  if (places.rank == 1) job.position_step = places.stride[0][0];
  const int64_t tiles = (positions + kPositions - 1) / kPositions;
  if (job.in_channels == 1 && job.out_channels == 1 && job.position_step != 0) {
    const int64_t bands = (p.groups + kBand - 1) / kBand;
    parallel_chunks(context, images * bands * tiles, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t tile = i % tiles * kPositions, band = i / tiles % bands * kBand;
        depthwise_tile(job, i / tiles / bands, band, std::min(kBand, p.groups - band), tile,
                       std::min(positions, tile + kPositions));
      }
    });
    return 0;
  }
  const int64_t work = std::max<int64_t>(
      1, std::min(positions, kPositions) * job.n_taps * job.in_channels * (job.out_channels + 1));
  parallel_chunks(context, images * p.groups * tiles, std::max<int64_t>(1, kWork / work),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      const int64_t tile = i % tiles * kPositions;
                      forward_tile(job, i / (tiles * p.groups), i / tiles % p.groups, tile,
                                   std::min(positions, tile + kPositions));
                    }
                  });
  return 0;
}

}  // namespace aiocann::sim
