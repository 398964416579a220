// matmul.cpp: products. out (..., m, n) = x (..., m, k) times w (..., n, k) transposed.
#include <utility>

#include "core/ops/kernels.hpp"

namespace aiocann::core {
namespace {

struct Product {
  View w, x, out;
};

/// May the rows of all batches of x be taken as one tall matrix?
bool rows_are_even(const Layout &x) {
  return (x.ne[2] == 1 || x.nb[2] == x.nb[1] * x.ne[1]) &&
         (x.ne[3] == 1 || x.nb[3] == (x.ne[2] == 1 ? x.nb[1] * x.ne[1] : x.nb[2] * x.ne[2]));
}

View matrix(uint64_t address, const Layout &layout, int64_t rows) {
  View view;
  view.address = address;
  view.dtype = layout.dtype;
  return view.push(layout.ne[0], layout.nb[0]).push(rows, layout.nb[1]);
}

/// Adds a batch axis to the three views. Of x, `repeats` neighbours in a row share one matrix of w.
void push_batch(Product *p, int i, const Layout &w, const Layout &x, const Layout &out) {
  const int64_t repeats = w.ne[i] == 0 ? 1 : x.ne[i] / w.ne[i];
  if (w.ne[i] > 1 && repeats > 1) {
    p->w.push(1, w.nb[i]).push(w.ne[i], w.nb[i]);
    p->x.push(repeats, x.nb[i]).push(w.ne[i], x.nb[i] * repeats);
    p->out.push(repeats, out.nb[i]).push(w.ne[i], out.nb[i] * repeats);
  } else {
    p->w.push(w.ne[i], w.nb[i]);
    p->x.push(x.ne[i], x.nb[i]);
    p->out.push(out.ne[i], out.nb[i]);
  }
}

/// Puts a contiguous float32 copy into a temporary, and its layout and address in the place of the original's.
Status widen(Launch &launch, int temp, Layout *layout, uint64_t *address) {
  const Layout wide = Layout::contiguous(*layout, AIOCANN_F32);
  Status status = launch.call(ACLNN(aclnnCast), launch.tensor(*address, *layout), ACL_FLOAT,
                              launch.tensor(launch.temp(temp), wide));
  *layout = wide;
  *address = launch.temp(temp);
  return status;
}

struct Factor {
  Layout layout;
  uint64_t address;
};

Factor factor(const Launch &launch, int i) { return {launch.src(i), launch.src_address(i)}; }

Factor transposed(Factor it) {
  std::swap(it.layout.ne[0], it.layout.ne[1]);
  std::swap(it.layout.nb[0], it.layout.nb[1]);
  return it;
}

Status multiply(Launch &launch, Factor weights, Factor inputs, int8_t cube_math_type);

}  // namespace

// The result is float32, and aclnn gives a product the wider dtype of its two sides: x is widened,
// which is exact. So is w where it is bf16, which aclnn does not combine with float32.
void temps_mul_mat(const NodeView &node, const Layout &out, Temps *temps) {
  const Layout &w = *node.src[0];
  if (is_quantized(w)) return temps_quantized(node, out, temps);
  const Layout &x = *node.src[1];
  if (x.dtype != AIOCANN_F32) temps->add(f32_bytes(x));
  if (w.dtype == AIOCANN_BF16) temps->add(f32_bytes(w));
}

Status launch_mul_mat(Launch &launch) {
  if (is_quantized(launch.src(0))) return launch_quantized(launch);
  return multiply(launch, factor(launch, 0), factor(launch, 1),
                  static_cast<int8_t>(launch.integer(0)));
}

Status launch_out_prod(Launch &launch) {
  return multiply(launch, transposed(factor(launch, 0)), transposed(factor(launch, 1)), 0);
}

namespace {

Status multiply(Launch &launch, Factor weights, Factor inputs, int8_t cube_math_type) {
  const Layout &out = launch.out();
  Layout w = weights.layout, x = inputs.layout;
  uint64_t w_address = weights.address, x_address = inputs.address;
  int next_temp = 0;
  Status status;
  if (x.dtype != AIOCANN_F32) status = widen(launch, next_temp++, &x, &x_address);
  if (status.is_ok() && w.dtype == AIOCANN_BF16)
    status = widen(launch, next_temp++, &w, &w_address);
  if (!status.is_ok()) return status;

  const bool one_matrix = w.ne[2] == 1 && w.ne[3] == 1;
  const bool one_product = one_matrix && rows_are_even(x) && rows_are_even(out);
  Product p;
  p.w = matrix(w_address, w, w.ne[1]);
  std::swap(p.w.ne[0], p.w.ne[1]);
  std::swap(p.w.nb[0], p.w.nb[1]);
  p.x = matrix(x_address, x, one_product ? x.rows() : x.ne[1]);
  p.out = matrix(launch.out_address(), out, one_product ? out.rows() : out.ne[1]);
  if (one_product) {
    return launch.call(ACLNN(aclnnMm), launch.tensor(p.x), launch.tensor(p.w), launch.tensor(p.out),
                       cube_math_type);
  }
  push_batch(&p, 2, w, x, out);
  if (x.ne[3] != 1) push_batch(&p, 3, w, x, out);
  if (p.x.n == 3 && w.ne[2] == x.ne[2]) {
    return launch.call(ACLNN(aclnnBatchMatMul), launch.tensor(p.x), launch.tensor(p.w),
                       launch.tensor(p.out), cube_math_type);
  }
  return launch.call(ACLNN(aclnnMatmul), launch.tensor(p.x), launch.tensor(p.w),
                     launch.tensor(p.out), cube_math_type);
}

/// The matrices that one token uses: (used, n, k).
Layout chosen(const Layout &experts, int64_t used, int32_t dtype) {
  Layout some = experts;
  some.ne[2] = used;
  return Layout::contiguous(some, dtype);
}

}  // namespace

// The chosen matrices; they and x in float32, where they have to be.
void temps_mul_mat_id(const NodeView &node, const Layout &out, Temps *temps) {
  const Layout &w = *node.src[0];
  if (is_quantized(w)) return temps_quantized_id(node, out, temps);
  const int64_t used = node.src[2]->ne[0];
  temps->add(own_bytes(chosen(w, used, w.dtype)));
  if (node.src[1]->dtype != AIOCANN_F32) temps->add(f32_bytes(*node.src[1]));
  if (w.dtype == AIOCANN_BF16) temps->add(own_bytes(chosen(w, used, AIOCANN_F32)));
}

// Token by token: its matrices are gathered, then each is multiplied with its row of x.
Status launch_mul_mat_id(Launch &launch) {
  if (is_quantized(launch.src(0))) return launch_quantized_id(launch);
  const Layout &w = launch.src(0), &ids = launch.src(2), &out = launch.out();
  Layout x = launch.src(1);
  uint64_t x_address = launch.src_address(1);
  int next_temp = 1;
  Status status;
  if (x.dtype != AIOCANN_F32) status = widen(launch, next_temp++, &x, &x_address);
  const int64_t used = ids.ne[0];
  for (int64_t token = 0; token < ids.ne[1] && status.is_ok(); ++token) {
    Layout some = chosen(w, used, w.dtype);
    uint64_t address = launch.temp(0);
    const auto batch = [](uint64_t where, const Layout &layout) {
      View view = matrix(where, layout, layout.ne[1]);
      return view.push(layout.ne[2], layout.nb[2]);
    };
    View index;
    index.address = launch.src_address(2) + static_cast<uint64_t>(token * ids.nb[1]);
    index.dtype = ids.dtype;
    index.push(used, ids.nb[0]);
    status = launch.call(ACLNN(aclnnIndexSelect), launch.tensor(batch(launch.src_address(0), w)),
                         int64_t{0}, launch.tensor(index), launch.tensor(batch(address, some)));
    if (status.is_ok() && w.dtype == AIOCANN_BF16)
      status = widen(launch, next_temp, &some, &address);
    if (!status.is_ok()) return status;
    View turned = batch(address, some);
    std::swap(turned.ne[0], turned.ne[1]);
    std::swap(turned.nb[0], turned.nb[1]);
    // (used or 1, 1, k) and (used, 1, n)
    const auto rows = [](uint64_t where, const Layout &layout, int64_t at) {
      View view;
      view.address = where + static_cast<uint64_t>(at * layout.nb[2]);
      view.dtype = layout.dtype;
      return view.push(layout.ne[0], layout.nb[0])
          .push(1, layout.nb[1])
          .push(layout.ne[1], layout.nb[1]);
    };
    status = launch.call(ACLNN(aclnnBatchMatMul), launch.tensor(rows(x_address, x, token)),
                         launch.tensor(turned),
                         launch.tensor(rows(launch.out_address(), out, token)), int8_t{0});
  }
  return status;
}

}  // namespace aiocann::core
