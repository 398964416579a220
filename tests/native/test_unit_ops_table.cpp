// The op table: that its rows are whole, and what its rules answer.
#include <cstring>
#include <set>
#include <sstream>

#include "ops_fake.hpp"

using fake::Builder;

namespace {

struct Answer {
  int32_t code = 0;
  aiocann_tensor out = {};
  std::string text;

  std::vector<int64_t> shape() const {
    std::vector<int64_t> axes;
    for (int i = out.n_dims - 1; i >= 0; --i) axes.push_back(out.ne[i]);
    return axes;
  }
};

using Shape = std::vector<int64_t>;

aiocann_param f(double value) {
  aiocann_param param;
  param.f = value;
  return param;
}
aiocann_param i(int64_t value) {
  aiocann_param param;
  param.i = value;
  return param;
}

Answer ask(const char *op, const std::vector<aiocann_tensor> &srcs,
           std::vector<aiocann_param> params = {}, const char *soc = nullptr) {
  params.resize(AIOCANN_MAX_PARAMS);
  std::vector<const aiocann_tensor *> pointers;
  for (const aiocann_tensor &src : srcs) pointers.push_back(&src);
  Answer answer;
  answer.code =
      aiocann_op_infer(aiocann::core::find_op(op), pointers.data(),
                       static_cast<int32_t>(pointers.size()), params.data(), soc, &answer.out);
  if (answer.code != 0) answer.text = aiocann_last_error()->detail;
  return answer;
}

aiocann_tensor f32(const Shape &shape) { return Builder::contiguous(AIOCANN_F32, shape); }
aiocann_tensor f16(const Shape &shape) { return Builder::contiguous(AIOCANN_F16, shape); }
aiocann_tensor bf16(const Shape &shape) { return Builder::contiguous(AIOCANN_BF16, shape); }
aiocann_tensor i32(const Shape &shape) { return Builder::contiguous(AIOCANN_I32, shape); }

#define CHECK_SHAPE(answer, ...)         \
  do {                                   \
    const Answer got = (answer);         \
    CHECK_EQ(got.text, std::string());   \
    CHECK(got.shape() == (__VA_ARGS__)); \
  } while (0)
#define CHECK_USAGE(answer, part)                              \
  do {                                                         \
    const Answer got = (answer);                               \
    CHECK_EQ(got.code, static_cast<int32_t>(AIOCANN_E_USAGE)); \
    CHECK_CONTAINS(got.text, part);                            \
  } while (0)
#define CHECK_UNSUPPORTED(answer, part)                              \
  do {                                                               \
    const Answer got = (answer);                                     \
    CHECK_EQ(got.code, static_cast<int32_t>(AIOCANN_E_UNSUPPORTED)); \
    CHECK_CONTAINS(got.text, part);                                  \
  } while (0)

void test_rows_are_whole() {
  std::set<std::string> known;
#define ACL_SYMBOL(name, since)
#define ACLNN_SYMBOL(name) known.insert(#name);
#include "acl_symbols.inc"
  std::set<std::string> names;
  for (int32_t op = 0; op < aiocann_op_table_size(); ++op) {
    const aiocann_op_info &row = *aiocann_op_table_row(op);
    CHECK(names.insert(row.name).second);
    CHECK(row.n_params <= AIOCANN_MAX_PARAMS);
    CHECK(row.min_src >= 0 && row.min_src <= row.max_src && row.max_src <= AIOCANN_MAX_SRC);
    CHECK(std::strlen(row.summary) > 0 && std::strlen(row.shape) > 0);
    CHECK_EQ(std::strlen(row.dtypes) > 0, row.max_src > 0);
    std::istringstream sources(row.sources);
    int32_t n_sources = 0, n_optional = 0;
    for (std::string name; sources >> name; ++n_sources) n_optional += name.back() == '?';
    CHECK_EQ(n_sources, row.max_src);
    CHECK_EQ(n_sources - n_optional, row.min_src);
    std::istringstream functions(row.aclnn);
    int32_t n_functions = 0;
    for (std::string name; functions >> name; ++n_functions) {
      CHECK_EQ(known.count(name), 1u);
      CHECK_EQ(known.count(name + "GetWorkspaceSize"), 1u);
    }
    CHECK_EQ(row.is_view != 0, n_functions == 0);
  }
  CHECK(aiocann_op_table_row(-1) == nullptr);
  CHECK(aiocann_op_table_row(aiocann_op_table_size()) == nullptr);
}

void test_binary() {
  CHECK_SHAPE(ask("add", {f32({2, 6, 4}), f32({3, 4})}), Shape{2, 6, 4});
  CHECK_SHAPE(ask("mul", {f32({4}), f32({1})}), Shape{4});
  CHECK_SHAPE(ask("sub", {f32({4}), f32({1, 4})}), Shape{1, 4});
  CHECK_USAGE(ask("add", {f32({4}), f32({2, 4})}), "; swap them");
  CHECK_USAGE(ask("add", {f32({2, 6, 4}), f32({4, 4})}),
              "add(f32 (2, 6, 4), f32 (4, 4)): the second");
  CHECK_EQ(ask("div", {f16({4}), f32({4})}).out.dtype, static_cast<int32_t>(AIOCANN_F16));
  CHECK_EQ(ask("div", {f32({4}), bf16({4})}).out.dtype, static_cast<int32_t>(AIOCANN_F32));
  CHECK_UNSUPPORTED(ask("add", {f16({4}), bf16({4})}), "do not mix");
  CHECK_UNSUPPORTED(ask("add", {i32({4}), f32({4})}),
                    "operand 0 cannot be i32; it takes f32 f16 bf16");
  CHECK_USAGE(ask("add", {f32({4})}), "add takes 2 operands, not 1");
}

void test_mul_mat() {
  CHECK_SHAPE(ask("mul_mat", {f16({384, 64}), f32({4, 7, 64})}), Shape{4, 7, 384});
  CHECK_SHAPE(ask("mul_mat", {f32({3, 4}), f32({4})}), Shape{3});
  CHECK_SHAPE(ask("mul_mat", {f32({2, 3, 4}), f32({6, 5, 4})}), Shape{6, 5, 3});
  CHECK_SHAPE(ask("mul_mat", {f32({1, 1, 3, 4}), f32({5, 4})}), Shape{1, 1, 5, 3});
  CHECK_EQ(ask("mul_mat", {f16({3, 4}), f16({5, 4})}).out.dtype, static_cast<int32_t>(AIOCANN_F32));
  CHECK_USAGE(ask("mul_mat", {f32({3, 4}), f32({5, 6})}), "the last axes differ (4 and 6)");
  CHECK_USAGE(ask("mul_mat", {f32({2, 3, 4}), f32({5, 5, 4})}), "axis -3");
  CHECK_USAGE(ask("mul_mat", {f32({4}), f32({5, 4})}), "2 axes or more");
  CHECK_USAGE(ask("mul_mat", {f32({3, 0}), f32({5, 0})}), "no elements");
  CHECK_USAGE(ask("mul_mat", {f32({3, 4}), f32({5, 4})}, {i(4)}), "cube_math_type is 4");
  CHECK_UNSUPPORTED(ask("mul_mat", {i32({3, 4}), f32({5, 4})}), "cannot be i32");
}

void test_soft_max() {
  CHECK_SHAPE(ask("soft_max", {f32({2, 3, 5, 7})}, {f(1), f(0)}), Shape{2, 3, 5, 7});
  CHECK_SHAPE(ask("soft_max", {f32({2, 3, 5, 7}), f16({2, 1, 1, 7})}, {f(1), f(0)}),
              Shape{2, 3, 5, 7});
  CHECK_SHAPE(ask("soft_max", {f32({2, 3, 5, 7}), f32({32, 7})}, {f(1), f(8)}), Shape{2, 3, 5, 7});
  CHECK_USAGE(ask("soft_max", {f32({5, 7}), f32({4, 7})}, {f(1), f(0)}), "the mask must have");
  CHECK_USAGE(ask("soft_max", {f32({5, 7})}, {f(1), f(8)}), "max_bias needs a mask");
  CHECK_USAGE(ask("soft_max", {f32({5, 7})}, {f(1), f(-1)}), "must not be negative");
  CHECK_UNSUPPORTED(ask("soft_max", {f32({5, 7}), bf16({5, 7})}, {f(1), f(0)}),
                    "operand 1 cannot be bf16");
}

void test_get_rows() {
  CHECK_SHAPE(ask("get_rows", {f16({30, 16}), i32({2, 7})}), Shape{2, 7, 16});
  CHECK_SHAPE(ask("get_rows", {f32({2, 30, 16}), i32({2, 7})}), Shape{2, 7, 16});
  CHECK_EQ(ask("get_rows", {f16({30, 16}), i32({7})}).out.dtype, static_cast<int32_t>(AIOCANN_F32));
  CHECK_USAGE(ask("get_rows", {f32({3, 30, 16}), i32({2, 7})}), "leading axes");
  CHECK_USAGE(ask("get_rows", {f32({30, 16}), i32({1, 1, 2, 7})}), "at most 3");
  CHECK_UNSUPPORTED(ask("get_rows", {f32({30, 16}), f32({7})}), "it takes i32 i64");
}

void test_reductions() {
  CHECK_SHAPE(ask("sum", {f32({3, 4})}), Shape{1});
  CHECK_SHAPE(ask("sum_rows", {f32({3, 4})}), Shape{3, 1});
  CHECK_SHAPE(ask("mean", {f16({2, 3, 4})}), Shape{2, 3, 1});
  CHECK_USAGE(ask("sum", {f32({3, 0})}), "no elements");
  CHECK_USAGE(ask("norm", {f32({3, 0})}, {f(1e-5)}), "no elements");
  CHECK_SHAPE(ask("norm", {f32({0, 4})}, {f(1e-5)}), Shape{0, 4});
}

void test_conversions() {
  CHECK_EQ(ask("cast", {f32({4})}, {i(AIOCANN_BF16)}).out.dtype,
           static_cast<int32_t>(AIOCANN_BF16));
  CHECK_UNSUPPORTED(ask("cast", {f32({4})}, {i(AIOCANN_Q8_0)}), "cast to q8_0");
  CHECK_USAGE(ask("cast", {f32({4})}, {i(77)}), "there is no dtype 77");
  CHECK_UNSUPPORTED(ask("cast", {f32({4})}, {i(AIOCANN_BF16)}, "Ascend310P3"), "has no bf16");
  aiocann_tensor dst = f16({4});
  dst.offset = 64;
  const Answer copied = ask("cpy", {f32({2, 2}), dst});
  CHECK_EQ(copied.out.offset, 64u);
  CHECK(copied.shape() == Shape{4});
  CHECK_USAGE(ask("cpy", {f32({3}), dst}), "3 elements do not fill 4");
}

void test_gates_and_groups() {
  CHECK_SHAPE(ask("swiglu", {f16({3, 8})}, {i(1)}), Shape{3, 4});
  CHECK_SHAPE(ask("reglu", {f32({3, 8}), f32({3, 8})}, {i(0)}), Shape{3, 8});
  CHECK_USAGE(ask("geglu", {f32({3, 7})}, {i(0)}), "no pair of halves");
  CHECK_USAGE(ask("geglu", {f32({3, 8}), f32({3, 8})}, {i(1)}), "swapped");
  CHECK_UNSUPPORTED(ask("geglu", {f32({3, 8}), f16({3, 8})}, {i(0)}), "the dtypes differ");
  CHECK_SHAPE(ask("group_norm", {f32({6, 4, 5})}, {i(3), f(1e-5)}), Shape{6, 4, 5});
  CHECK_UNSUPPORTED(ask("group_norm", {f32({6, 4, 5})}, {i(4), f(1e-5)}), "do not divide");
  CHECK_USAGE(ask("group_norm", {f32({6, 4, 5})}, {i(3), f(0)}), "eps");
}

void test_padding() {
  const auto pad = [](Shape widths) {
    std::vector<aiocann_param> params;
    for (const int64_t width : widths) params.push_back(i(width));
    return ask("pad", {f32({3, 4})}, params);
  };
  CHECK_SHAPE(pad({1, 2, 0, 0, 0, 0, 0, 0}), Shape{3, 7});
  CHECK_SHAPE(pad({0, 0, 0, 0, 1, 0, 0, 0}), Shape{2, 3, 4});
  CHECK_USAGE(pad({0, 0, -1, 0, 0, 0, 0, 0}), "axis -2 cannot be padded with -1 and 0");
  CHECK_USAGE(pad({INT64_MAX, 0, 0, 0, 0, 0, 0, 0}), "cannot be padded");
  CHECK_SHAPE(ask("pad_reflect_1d", {f32({3, 4})}, {i(3), i(1)}), Shape{3, 8});
  CHECK_USAGE(ask("pad_reflect_1d", {f32({3, 4})}, {i(4), i(1)}), "less than the 4");
  CHECK_SHAPE(ask("upscale", {f32({3, 4, 5})}, {i(8), i(2)}), Shape{3, 8, 2});
  CHECK_SHAPE(ask("repeat", {f32({4})}, {i(8), i(3), i(-1), i(-1)}), Shape{3, 8});
  CHECK_USAGE(ask("repeat", {f32({4})}, {i(6), i(-1), i(-1), i(-1)}), "whole number of times");
  CHECK_SHAPE(ask("diag", {f32({2, 1, 4})}), Shape{2, 4, 4});
  CHECK_EQ(ask("count_equal", {i32({4}), i32({4})}).out.dtype, static_cast<int32_t>(AIOCANN_I64));
  CHECK_USAGE(ask("count_equal", {i32({4}), i32({5})}), "the shapes differ");
}

void test_writing_into_parts() {
  const aiocann_tensor dst = bf16({2, 9, 8});
  const Answer rows = ask("set_rows", {f32({2, 5, 8}), i32({5}), dst});
  CHECK(rows.shape() == (Shape{2, 9, 8}));
  CHECK_EQ(rows.out.dtype, static_cast<int32_t>(AIOCANN_BF16));
  CHECK_USAGE(ask("set_rows", {f32({2, 5, 8}), i32({4}), dst}), "one number for each row");
  CHECK_USAGE(ask("set_rows", {f32({3, 5, 8}), i32({5}), dst}), "may differ in the number");
  CHECK_UNSUPPORTED(ask("set_rows", {i32({2, 5, 8}), i32({5}), dst}), "operand 0 cannot be i32");
  CHECK_SHAPE(ask("set", {f32({3, 4}), f32({2, 2})}, {i(16), i(0), i(0), i(24)}), Shape{3, 4});
  CHECK_USAGE(ask("set", {f32({3, 4}), f32({2, 2})}, {i(16), i(0), i(0), i(28)}), "end outside");
  CHECK_USAGE(ask("acc", {f32({3, 4}), f32({2, 2})}, {i(6), i(0), i(0), i(0)}), "multiples of 4");
  CHECK_USAGE(ask("acc", {f32({3, 4}), f32({2, 2})}, {i(INT64_MAX - 3), i(0), i(0), i(0)}),
              "end outside");
  CHECK_SHAPE(ask("concat", {f32({3, 4}), f32({2, 4})}, {i(1)}), Shape{5, 4});
  CHECK_USAGE(ask("concat", {f32({3, 4}), f32({2, 5})}, {i(1)}), "another axis");
  CHECK_SHAPE(ask("out_prod", {f16({4, 3}), f32({2, 4, 5})}), Shape{2, 5, 3});
  CHECK_USAGE(ask("out_prod", {f32({4, 3}), f32({3, 5})}), "last axes but one differ");
}

void test_views() {
  CHECK_SHAPE(ask("reshape", {f32({2, 6})}, {i(4), i(3), i(-1), i(-1)}), Shape{3, 4});
  CHECK_USAGE(ask("reshape", {f32({2, 6})}, {i(5), i(-1), i(-1), i(-1)}),
              "12 elements cannot take the shape (5,)");
  const Answer permuted = ask("permute", {f32({2, 3, 4})}, {i(1), i(0), i(2), i(3)});
  CHECK(permuted.shape() == (Shape{2, 4, 3}));
  CHECK_EQ(permuted.out.nb[0], 16);
  CHECK_USAGE(ask("reshape", {permuted.out}, {i(24), i(-1), i(-1), i(-1)}), "use cont first");
  CHECK_USAGE(ask("permute", {f32({2, 3})}, {i(0), i(0), i(2), i(3)}), "each of the 2 axes once");
  CHECK_SHAPE(ask("transpose", {f32({2, 3, 4})}), Shape{2, 4, 3});
  CHECK_USAGE(ask("transpose", {f32({4})}), "only one axis");

  const Answer part =
      ask("view", {f32({4, 5})}, {i(2), i(3), i(-1), i(-1), i(20), i(0), i(0), i(28)});
  CHECK(part.shape() == (Shape{3, 2}));
  CHECK_EQ(part.out.offset, 28u);
  CHECK_EQ(part.out.nb[1], 20);
  CHECK_USAGE(ask("view", {f32({4, 5})}, {i(2), i(3), i(-1), i(-1), i(20), i(0), i(0), i(40)}),
              "ends outside");
  CHECK_USAGE(ask("view", {f32({4})}, {i(2), i(-1), i(-1), i(-1), i(0), i(0), i(0), i(3)}),
              "multiple of 4");
  CHECK_USAGE(ask("view", {f32({4})}, {i(INT64_MAX), i(INT64_MAX), i(-1), i(-1), i(INT64_MAX - 3)}),
              "view");
}

void test_310p() {
  CHECK_UNSUPPORTED(ask("neg", {bf16({4})}, {}, "Ascend310P3"), "Ascend310P3 has no bf16");
  CHECK_SHAPE(ask("neg", {bf16({4})}, {}, "Ascend910B3"), Shape{4});
  CHECK_SHAPE(ask("neg", {f16({4})}, {}, "Ascend310P3"), Shape{4});
}

void test_nonsense() {
  aiocann_tensor bad = f32({4});
  bad.ne[0] = -4;
  CHECK_USAGE(ask("neg", {bad}), "negative");
  bad = f32({4});
  bad.n_dims = 5;
  CHECK_USAGE(ask("neg", {bad}), "5 axes");
  bad = f32({4});
  bad.dtype = 99;
  CHECK_USAGE(ask("neg", {bad}), "dtype 99");
  bad = f32({INT64_MAX / 4, 8});
  CHECK_USAGE(ask("neg", {bad}), "endless");
  aiocann_tensor out;
  CHECK_EQ(aiocann_op_infer(-1, nullptr, 0, nullptr, nullptr, &out),
           static_cast<int32_t>(AIOCANN_E_USAGE));
}

}  // namespace

int main() {
  test_rows_are_whole();
  test_binary();
  test_mul_mat();
  test_soft_max();
  test_get_rows();
  test_reductions();
  test_conversions();
  test_gates_and_groups();
  test_padding();
  test_writing_into_parts();
  test_views();
  test_310p();
  test_nonsense();
  return 0;
}
