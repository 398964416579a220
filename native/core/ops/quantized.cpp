// quantized.cpp: products with weights of quantized blocks. On the device the quants of the whole tensor lie before
// its scales (core/blocks.hpp). aclnn's product takes and gives float16.
#include "core/blocks.hpp"
#include "core/ops/kernels.hpp"

namespace aiocann::core {
namespace {

/// Rows of weights that aclnn's product takes at once: no more than 65535; whole blocks of memory too.
constexpr int64_t kRows = 65504;

/// A matrix (n, k) of weights.
struct Weights {
  uint64_t quants, scales;
  int32_t dtype;
  int64_t n, k;

  uint64_t row_bytes() const {
    return static_cast<uint64_t>(k / kBlock) * block_form(dtype).quants;
  }
  uint64_t quant_bytes() const { return static_cast<uint64_t>(n) * row_bytes(); }
  int64_t groups() const { return k / kBlock; }
  uint64_t scale_bytes() const { return static_cast<uint64_t>(n * groups()) * 2; }
};

/// The first matrix of a tensor.
Weights first_matrix(uint64_t address, const Layout &w) {
  Weights first{address, 0, w.dtype, w.ne[1], w.ne[0]};
  first.scales = address + first.quant_bytes() * static_cast<uint64_t>(w.ne[2] * w.ne[3]);
  return first;
}

Weights matrix_at(Weights first, int64_t i) {
  first.quants += first.quant_bytes() * static_cast<uint64_t>(i);
  first.scales += first.scale_bytes() * static_cast<uint64_t>(i);
  return first;
}

/// A row-major matrix of float16, a part of its columns.
View halves(uint64_t address, int64_t rows, int64_t columns, int64_t row_length) {
  View view;
  view.address = address;
  view.dtype = AIOCANN_F16;
  return view.push(columns, 2).push(rows, row_length * 2);
}

/// y (m, n) = x (m, k) times w transposed.
Status multiply(Launch &launch, const Weights &w, uint64_t x, int64_t m, uint64_t y) {
  const aclTensor *none = nullptr;
  Status status;
  for (int64_t from = 0; from < w.n && status.is_ok(); from += kRows) {
    const int64_t n = w.n - from < kRows ? w.n - from : kRows;
    View scales;
    scales.address = w.scales + static_cast<uint64_t>(from * w.groups()) * 2;
    scales.dtype = AIOCANN_F16;
    scales.push(n, w.groups() * 2).push(w.groups(), 2);
    // One group is no group: one scale for each column.
    const int group = w.groups() == 1 ? 0 : static_cast<int>(kBlock);
    status = launch.call(
        ACLNN(aclnnWeightQuantBatchMatmulV2), launch.tensor(halves(x, m, w.k, w.k)),
        launch.quants(w.quants + w.row_bytes() * static_cast<uint64_t>(from), w.dtype, n, w.k),
        launch.tensor(scales), none, none, none, none, group,
        launch.tensor(halves(y + static_cast<uint64_t>(from) * 2, m, n, w.n)));
  }
  return status;
}

Layout in_halves(const Layout &layout) { return Layout::contiguous(layout, AIOCANN_F16); }

bool is_ready(const Layout &x) { return x.dtype == AIOCANN_F16 && x.is_contiguous(); }

// Temporaries: first the result in float16, then x, where it has to be made.

Status halve_inputs(Launch &launch, uint64_t *address) {
  const Layout &x = launch.src(1);
  *address = launch.src_address(1);
  if (is_ready(x)) return Status::ok();
  *address = launch.temp(1);
  return convert(launch, launch.src_tensor(1), x.dtype, launch.tensor(*address, in_halves(x)),
                 AIOCANN_F16);
}

Status widen_result(Launch &launch) {
  return convert(launch, launch.tensor(launch.temp(0), in_halves(launch.out())), AIOCANN_F16,
                 launch.out_tensor(), AIOCANN_F32);
}

}  // namespace

void temps_quantized(const NodeView &node, const Layout &out, Temps *temps) {
  temps->add(own_bytes(in_halves(out)));
  if (!is_ready(*node.src[1])) temps->add(own_bytes(in_halves(*node.src[1])));
}

Status launch_quantized(Launch &launch) {
  const Layout &w = launch.src(0), &x = launch.src(1);
  if (launch.out().is_empty()) return Status::ok();
  uint64_t inputs = 0;
  Status status = halve_inputs(launch, &inputs);
  const Weights first = first_matrix(launch.src_address(0), w);
  const uint64_t results = launch.temp(0);
  if (w.ne[2] == 1 && w.ne[3] == 1) {
    if (status.is_ok()) status = multiply(launch, first, inputs, x.rows(), results);
    return status.is_ok() ? widen_result(launch) : status;
  }
  const uint64_t x_bytes = static_cast<uint64_t>(x.ne[0] * x.ne[1]) * 2;
  const uint64_t y_bytes = static_cast<uint64_t>(w.ne[1] * x.ne[1]) * 2;
  for (int64_t i3 = 0; i3 < x.ne[3]; ++i3) {
    for (int64_t i2 = 0; i2 < x.ne[2] && status.is_ok(); ++i2) {
      const int64_t of_w = i3 / (x.ne[3] / w.ne[3]) * w.ne[2] + i2 / (x.ne[2] / w.ne[2]);
      const auto at = static_cast<uint64_t>(i3 * x.ne[2] + i2);
      status = multiply(launch, matrix_at(first, of_w), inputs + at * x_bytes, x.ne[1],
                        results + at * y_bytes);
    }
  }
  return status.is_ok() ? widen_result(launch) : status;
}

// The quants and scales of the matrices that one token uses come last.
void temps_quantized_id(const NodeView &node, const Layout &out, Temps *temps) {
  temps_quantized(node, out, temps);
  const Layout &w = *node.src[0];
  const Weights one = first_matrix(0, w);
  const auto used = static_cast<uint64_t>(node.src[2]->ne[0]);
  temps->add(one.quant_bytes() * used);
  temps->add(one.scale_bytes() * used);
}

Status launch_quantized_id(Launch &launch) {
  const Layout &w = launch.src(0), &x = launch.src(1), &ids = launch.src(2);
  if (launch.out().is_empty()) return Status::ok();
  uint64_t inputs = 0;
  Status status = halve_inputs(launch, &inputs);
  const int gathered = is_ready(x) ? 1 : 2;
  const int64_t used = ids.ne[0];
  const Weights first = first_matrix(launch.src_address(0), w);
  const Weights chosen{launch.temp(gathered), launch.temp(gathered + 1), w.dtype, w.ne[1], w.ne[0]};
  for (int64_t token = 0; token < ids.ne[1]; ++token) {
    const auto table = [](uint64_t address, int32_t dtype, uint64_t bytes, int64_t rows) {
      View view;
      view.address = address;
      view.dtype = dtype;
      const int64_t size = dtype_size(dtype);
      const auto length = static_cast<int64_t>(bytes);
      return view.push(length / size, size).push(rows, length);
    };
    View index;
    index.address = launch.src_address(2) + static_cast<uint64_t>(token * ids.nb[1]);
    index.dtype = ids.dtype;
    index.push(used, ids.nb[0]);
    const auto choose = [&](uint64_t from, uint64_t to, int32_t dtype, uint64_t bytes) {
      if (!status.is_ok()) return;
      status = launch.call(ACLNN(aclnnIndexSelect),
                           launch.tensor(table(from, dtype, bytes, w.ne[2])), int64_t{0},
                           launch.tensor(index), launch.tensor(table(to, dtype, bytes, used)));
    };
    choose(first.quants, chosen.quants, AIOCANN_I8, first.quant_bytes());
    choose(first.scales, chosen.scales, AIOCANN_F16, first.scale_bytes());
    for (int64_t i = 0; i < used && status.is_ok(); ++i) {
      const int64_t row = x.ne[1] == 1 ? token : token * used + i;
      status =
          multiply(launch, matrix_at(chosen, i), inputs + static_cast<uint64_t>(row * w.ne[0]) * 2,
                   1, launch.temp(0) + static_cast<uint64_t>((token * used + i) * w.ne[1]) * 2);
    }
    if (!status.is_ok()) return status;
  }
  return widen_result(launch);
}

}  // namespace aiocann::core
