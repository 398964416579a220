// Matrix products against double, in every layout, with OpenBLAS and (AIOCANN_SIM_BLAS=builtin) without.
#include <cstdlib>
#include <cstring>

#include "nn_fixture.hpp"

using namespace nn;

namespace {

/// Inputs as the cube unit sees them.
double seen(double x, aclDataType dtype, int cube_math_type) {
  if (dtype != ACL_FLOAT) return x;
  if (cube_math_type == 2) return rounded(x, ACL_FLOAT16);
  if (cube_math_type == 1 || cube_math_type == 3) return round_to(x, 12, -200, INFINITY);
  return x;
}

/// Every `step`th element.
void check_product(Tensor &out, int64_t k, const std::function<double(int64_t, int64_t)> &term,
                   int64_t step = 1) {
  const auto got = out.read();
  const double slack = std::sqrt(static_cast<double>(k) + 1) * 12e-7;
  for (int64_t i = 0; i < out.count(); i += step) {
    double exact = 0;
    for (int64_t p = 0; p < k; ++p) exact += term(i, p);
    const double value = got[static_cast<size_t>(i)];
    const bool good = is_right(value, exact, out.dtype(), 2, slack);
    if (!good)
      std::fprintf(stderr, "element %lld: %.9g, not %.9g (k %lld, type %d)\n",
                   static_cast<long long>(i), value, exact, static_cast<long long>(k), out.dtype());
    CHECK(good);
  }
}

void mm() {
  for (int round = 0; round < 160; ++round) {
    const int64_t limit = round % 16 == 0 ? 300 : 40;
    const int64_t m = pick(1, limit), k = pick(1, limit), n = pick(1, limit);
    const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
    const aclDataType dtype = types[round % 3];
    const aclDataType out_type = round % 5 == 0 ? ACL_FLOAT : dtype;
    const int cube = dtype == ACL_FLOAT ? round % 4 : 0;
    const Layout layout = round % 2 == 0 ? Layout::kRow : Layout::kRandom;
    Tensor a({m, k}, dtype, layout), b({k, n}, dtype, layout), c({m, n}, out_type, layout);
    a.random();
    b.random();
    execute(
        [&](auto *w, auto *e) {
          return aclnnMmGetWorkspaceSize(a, b, c, static_cast<int8_t>(cube), w, e);
        },
        aclnnMm);
    check_product(
        c, k,
        [&](int64_t i, int64_t p) {
          return seen(a.at({i / n, p}), dtype, cube) * seen(b.at({p, i % n}), dtype, cube);
        },
        limit > 100 ? 31 : 1);
  }
}

/// As attention has them: heads that lie side by side in a row, one factor transposed.
void attention() {
  const int64_t batch = 3, length = 37, heads = 12, width = 32;
  Tensor q({batch, length, heads, width}, ACL_FLOAT), k({batch, length, heads, width}, ACL_FLOAT);
  q.random();
  k.random();
  const Dims view = {batch, heads, length, width}, turned = {batch, heads, width, length};
  const Dims q_strides = {length * heads * width, width, heads * width, 1};
  const Dims k_strides = {length * heads * width, width, 1, heads * width};
  const int64_t storage = batch * length * heads * width;
  aclTensor *left = aclCreateTensor(view.data(), 4, ACL_FLOAT, q_strides.data(), 0, ACL_FORMAT_ND,
                                    &storage, 1, q.address());
  aclTensor *right = aclCreateTensor(turned.data(), 4, ACL_FLOAT, k_strides.data(), 0,
                                     ACL_FORMAT_ND, &storage, 1, k.address());
  Tensor scores({batch, heads, length, length}, ACL_FLOAT);
  execute(
      [&](auto *w, auto *e) { return aclnnMatmulGetWorkspaceSize(left, right, scores, 0, w, e); },
      aclnnMatmul);
  check_product(
      scores, width,
      [&](int64_t i, int64_t p) {
        const int64_t column = i % length, row = i / length % length,
                      head = i / (length * length) % heads;
        const int64_t b = i / (length * length * heads);
        return q.at({b, row, head, p}) * k.at({b, column, head, p});
      },
      3);
  CHECK_OK(aclDestroyTensor(left));
  CHECK_OK(aclDestroyTensor(right));
}

void batches() {
  for (int round = 0; round < 40; ++round) {
    const int64_t m = pick(1, 12), k = pick(1, 30), n = pick(1, 12), batch = pick(1, 5);
    const bool wide_a = round % 3 != 1, wide_b = round % 3 != 2;
    const Layout layout = round % 2 == 0 ? Layout::kRow : Layout::kRandom;
    Tensor a({wide_a ? batch : 1, m, k}, ACL_FLOAT, layout),
        b({wide_b ? batch : 1, k, n}, ACL_FLOAT, layout);
    Tensor c({batch, m, n}, ACL_FLOAT, layout);
    a.random();
    b.random();
    execute([&](auto *w, auto *e) { return aclnnBatchMatMulGetWorkspaceSize(a, b, c, 0, w, e); },
            aclnnBatchMatMul);
    check_product(c, k, [&](int64_t i, int64_t p) {
      const int64_t at = i / (m * n);
      return a.at({wide_a ? at : 0, i / n % m, p}) * b.at({wide_b ? at : 0, p, i % n});
    });
    // Six axes, batch axes broadcast against each other.
    Tensor x({2, 1, 3, 1, m, k}, ACL_FLOAT, layout), y({1, 2, 3, 2, k, n}, ACL_FLOAT, layout);
    Tensor z({2, 2, 3, 2, m, n}, ACL_FLOAT, layout);
    x.random();
    y.random();
    execute([&](auto *w, auto *e) { return aclnnMatmulGetWorkspaceSize(x, y, z, 0, w, e); },
            aclnnMatmul);
    check_product(z, k, [&](int64_t i, int64_t p) {
      const int64_t row = i / n % m, column = i % n, at = i / (m * n);
      return x.at({at / 12, 0, at / 2 % 3, 0, row, p}) *
             y.at({0, at / 6 % 2, at / 2 % 3, at % 2, p, column});
    });
  }
}

void vectors() {
  for (const Layout layout : {Layout::kRow, Layout::kRandom}) {
    const int64_t m = 23, k = 77, n = 31;
    Tensor a({m, k}, ACL_FLOAT, layout), b({k, n}, ACL_FLOAT, layout), v({k}, ACL_FLOAT, layout),
        u({k}, ACL_FLOAT, layout);
    Tensor av({m}, ACL_FLOAT, layout), vb({n}, ACL_FLOAT, layout), uv({}, ACL_FLOAT),
        mv({m}, ACL_FLOAT, layout);
    Tensor many({3, 2, m, k}, ACL_FLOAT, layout), many_v({3, 2, m}, ACL_FLOAT, layout);
    for (Tensor *t : {&a, &b, &v, &u, &many}) t->random();
    execute([&](auto *w, auto *e) { return aclnnMatmulGetWorkspaceSize(a, v, av, 0, w, e); },
            aclnnMatmul);
    check_product(av, k, [&](int64_t i, int64_t p) { return a.at({i, p}) * v[p]; });
    execute([&](auto *w, auto *e) { return aclnnMatmulGetWorkspaceSize(v, b, vb, 0, w, e); },
            aclnnMatmul);
    check_product(vb, k, [&](int64_t i, int64_t p) { return v[p] * b.at({p, i}); });
    execute([&](auto *w, auto *e) { return aclnnMatmulGetWorkspaceSize(u, v, uv, 0, w, e); },
            aclnnMatmul);
    check_product(uv, k, [&](int64_t, int64_t p) { return u[p] * v[p]; });
    execute([&](auto *w, auto *e) { return aclnnMvGetWorkspaceSize(a, v, mv, 0, w, e); }, aclnnMv);
    check_product(mv, k, [&](int64_t i, int64_t p) { return a.at({i, p}) * v[p]; });
    execute([&](auto *w, auto *e) { return aclnnMatmulGetWorkspaceSize(many, v, many_v, 0, w, e); },
            aclnnMatmul);
    check_product(many_v, k, [&](int64_t i, int64_t p) { return many[i * k + p] * v[p]; });
  }
}

/// Larger than a tile in both directions.
void tiles() {
  const int64_t m = 600, k = 65, n = 1100;
  Tensor a({m, k}, ACL_FLOAT), b({k, n}, ACL_FLOAT), c({m, n}, ACL_FLOAT), again({m, n}, ACL_FLOAT);
  a.random();
  b.random();
  execute([&](auto *w, auto *e) { return aclnnMatmulGetWorkspaceSize(a, b, c, 0, w, e); },
          aclnnMatmul);
  check_product(
      c, k, [&](int64_t i, int64_t p) { return a[i / n * k + p] * b[p * n + i % n]; }, 53);
  execute([&](auto *w, auto *e) { return aclnnMatmulGetWorkspaceSize(a, b, again, 0, w, e); },
          aclnnMatmul);
  CHECK(c.read() == again.read());
}

void special_values() {
  Tensor a({2, 2}, ACL_FLOAT), b({2, 2}, ACL_FLOAT), c({2, 2}, ACL_FLOAT);
  const double left[] = {INFINITY, 1, 0, 2}, right[] = {1, 0, 1, NAN};
  a.fill([&](int64_t i) { return left[i]; });
  b.fill([&](int64_t i) { return right[i]; });
  execute([&](auto *w, auto *e) { return aclnnMmGetWorkspaceSize(a, b, c, 0, w, e); }, aclnnMm);
  const auto got = c.read();
  CHECK(got[0] == INFINITY && std::isnan(got[1]) && got[2] == 2 && std::isnan(got[3]));
  // No columns to multiply: zeros.
  Tensor x({3, 0}, ACL_FLOAT), y({0, 4}, ACL_FLOAT), z({3, 4}, ACL_FLOAT), none({0, 4}, ACL_FLOAT),
      no_rows({0, 3}, ACL_FLOAT), p({3, 4}, ACL_FLOAT);
  z.random();
  execute([&](auto *w, auto *e) { return aclnnMmGetWorkspaceSize(x, y, z, 0, w, e); }, aclnnMm);
  check_values(z, [](int64_t) { return 0.0; });
  execute([&](auto *w, auto *e) { return aclnnMmGetWorkspaceSize(no_rows, p, none, 0, w, e); },
          aclnnMm);
}

void refusals() {
  Tensor a({2, 3}, ACL_FLOAT), b({3, 4}, ACL_FLOAT), c({2, 4}, ACL_FLOAT), h({3, 4}, ACL_BF16),
      i({3, 4}, ACL_INT32);
  Tensor deep({1, 2, 3}, ACL_FLOAT), v({3}, ACL_FLOAT);
  const auto mm = [&](const aclTensor *x, const aclTensor *y, aclTensor *z, int cube) {
    return [=](auto *w, auto *e) {
      return aclnnMmGetWorkspaceSize(x, y, z, static_cast<int8_t>(cube), w, e);
    };
  };
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnMm", mm(nullptr, b, c, 0));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnMm", mm(a, a, c, 0));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnMm", mm(a, b, a, 0));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnMm", mm(a, b, c, 5));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnMm", mm(a, b, c, -1));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnMm", mm(a, h, c, 0));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnMm", mm(a, i, c, 0));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnMm", mm(deep, b, c, 0));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnBatchMatMul",
         [&](auto *w, auto *e) { return aclnnBatchMatMulGetWorkspaceSize(a, b, c, 0, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnMv",
         [&](auto *w, auto *e) { return aclnnMvGetWorkspaceSize(a, a, v, 0, w, e); });
}

}  // namespace

int main(int, char **argv) {
  mm();
  attention();
  batches();
  vectors();
  tiles();
  special_values();
  refusals();
  // Once more without OpenBLAS, in a process of its own: the choice is made once.
  if (std::getenv("AIOCANN_SIM_BLAS") == nullptr) {
    setenv("AIOCANN_SIM_BLAS", "builtin", 1);
    CHECK_EQ(std::system((std::string("\"") + argv[0] + "\"").c_str()), 0);
  }
  return 0;
}
