// Graphs of ops against a driver that only records: what is refused, what is called, and that nothing leaks on any
// path of failure.
#include <memory>

#include "ops_fake.hpp"

using aiocann::core::Graph;
using aiocann::core::Status;
using fake::Builder;

namespace {

constexpr uint64_t kA = 0x100000, kB = 0x200000, kC = 0x300000;

struct Fixture {
  fake::Driver driver;
  aiocann::acl::Api api;
  Fixture() : api(fake::make_api()) { fake::driver = &driver; }
  ~Fixture() { fake::driver = nullptr; }

  void check_nothing_left(const fake::Lane &lane) const {
    CHECK_EQ(driver.objects.size(), 0u);
    CHECK_EQ(driver.executors.size(), 0u);
    CHECK_EQ(lane.tensors, 0);
    CHECK_EQ(lane.executors, 0);
  }
};

/// One node of many kinds, with sub-calls and temporaries.
Builder many_nodes() {
  Builder b;
  const int32_t ids = b.leaf(AIOCANN_I32, {2, 7}, kA);
  const int32_t table = b.leaf(AIOCANN_F16, {30, 16}, kB);
  const int32_t mask = b.leaf(AIOCANN_F16, {2, 1, 7, 7}, kC);
  const int32_t x = b.value(AIOCANN_F32, {2, 7, 16});
  b.node("get_rows", {table, ids}, x);
  const int32_t n = b.value(AIOCANN_F32, {2, 7, 16});
  b.node("norm", {x}, n).params[0].f = 1e-5;
  const int32_t scores = b.value(AIOCANN_F32, {2, 7, 7});
  b.node("mul_mat", {n, x}, scores);
  const int32_t heads = b.view(scores, {2, 1, 7, 7}, 0);
  aiocann_node &reshape = b.node("reshape", {scores}, heads);
  const int64_t shape[] = {7, 7, 1, 2};
  for (int i = 0; i < 4; ++i) reshape.params[i].i = shape[i];
  const int32_t shares = b.value(AIOCANN_F32, {2, 1, 7, 7});
  aiocann_node &soft = b.node("soft_max", {heads, mask}, shares);
  soft.params[0].f = 0.5;
  soft.params[1].f = 8;
  const int32_t half = b.value(AIOCANN_F16, {2, 1, 7, 7});
  b.node("cast", {shares}, half).params[0].i = AIOCANN_F16;
  const int32_t unit = b.value(AIOCANN_F16, {2, 1, 7, 7});
  b.node("l2_norm", {half}, unit).params[0].f = 1e-6;
  const int32_t rms = b.value(AIOCANN_F16, {2, 1, 7, 7});
  b.node("rms_norm", {unit}, rms).params[0].f = 1e-6;
  const int32_t out = b.leaf(AIOCANN_F16, {2, 1, 7, 7}, 0x400000);
  aiocann_node &scale = b.node("scale", {rms}, out);
  scale.params[0].f = 2;
  scale.params[1].f = 1;
  return b;
}

void test_everything_is_destroyed() {
  Fixture f;
  f.driver.workspace = 64;
  std::unique_ptr<Graph> graph = many_nodes().graph();
  CHECK(graph->scratch_bytes() > 0);
  fake::Lane lane(f.api);
  CHECK(graph->submit(lane).is_ok());
  f.check_nothing_left(lane);
  CHECK_EQ(lane.nodes.size(), static_cast<size_t>(graph->n_nodes()));
  CHECK(f.driver.calls.size() > 15);
}

// TRAP (scope): temporaries returned to the pool before their consumer was enqueued. Here they are planned: all
// tensors of one node that it writes or reads are apart, unless they are the same.
void test_trap_scope_temporaries_do_not_overlap() {
  Fixture f;
  std::unique_ptr<Graph> graph = many_nodes().graph();
  fake::Lane lane(f.api);
  CHECK(graph->submit(lane).is_ok());
  for (const fake::Call &call : f.driver.calls) {
    CHECK(!call.tensors.empty());
    const fake::Tensor &out = call.tensors.back();
    const bool in_place = call.name.find("Inplace") != std::string::npos;
    for (size_t i = 0; i + 1 < call.tensors.size() && !in_place; ++i) {
      const fake::Tensor &in = call.tensors[i];
      const auto end = [](const fake::Tensor &t) {
        return t.data + static_cast<uint64_t>(t.storage) * (t.dtype == ACL_FLOAT16 ? 2 : 4);
      };
      CHECK(end(in) <= out.data || end(out) <= in.data);
    }
  }
}

// TRAP: op SQR wrote into its node, so that computing one graph twice failed.
void test_trap_sqr_computing_twice_is_the_same() {
  Fixture f;
  Builder b;
  const int32_t x = b.leaf(AIOCANN_F32, {5}, kA);
  b.node("sqr", {x}, b.leaf(AIOCANN_F32, {5}, kB));
  std::unique_ptr<Graph> graph = b.graph();
  fake::Lane lane(f.api);
  CHECK(graph->submit(lane).is_ok());
  CHECK(graph->submit(lane).is_ok());
  CHECK_EQ(f.driver.calls.size(), 2u);
  for (const fake::Call &call : f.driver.calls) {
    CHECK_EQ(call.name, std::string("aclnnMulGetWorkspaceSize"));
    CHECK_EQ(call.tensors[0].data, kA);
    CHECK_EQ(call.tensors[1].data, kA);
    CHECK_EQ(call.tensors[2].data, kB);
  }
}

void test_every_phase_may_fail() {
  for (int at = 0;; ++at) {
    Fixture f;
    f.driver.workspace = 64;
    f.driver.fail_phase = at;
    std::unique_ptr<Graph> graph = many_nodes().graph();
    fake::Lane lane(f.api);
    const Status status = graph->submit(lane);
    f.check_nothing_left(lane);
    if (status.is_ok()) {
      CHECK(at > 30);
      return;
    }
    CHECK_EQ(status.code(), 161002);
    CHECK_EQ(std::string(status.get()->call), f.driver.failed);
    CHECK_EQ(status.get()->node, lane.nodes.back());
    CHECK_CONTAINS(status.get()->detail, graph->describe(status.get()->node));
    CHECK_CONTAINS(status.get()->detail, "the driver's own words");
  }
}

void test_every_descriptor_may_fail() {
  for (int at = 0;; ++at) {
    Fixture f;
    f.driver.fail_creation = at;
    std::unique_ptr<Graph> graph = many_nodes().graph();
    fake::Lane lane(f.api);
    const Status status = graph->submit(lane);
    f.check_nothing_left(lane);
    if (status.is_ok()) {
      CHECK(at > 40);
      return;
    }
    CHECK_EQ(status.code(), static_cast<int32_t>(AIOCANN_E_NO_MEMORY));
    CHECK_CONTAINS(status.get()->detail, "returned NULL");
  }
}

void test_every_workspace_may_fail() {
  for (int at = 0;; ++at) {
    Fixture f;
    f.driver.workspace = 64;
    std::unique_ptr<Graph> graph = many_nodes().graph();
    fake::Lane lane(f.api);
    lane.fail_workspace = at;
    const Status status = graph->submit(lane);
    f.check_nothing_left(lane);
    if (status.is_ok()) {
      CHECK(at > 15);
      return;
    }
    CHECK_EQ(status.code(), static_cast<int32_t>(AIOCANN_E_NO_MEMORY));
    CHECK_CONTAINS(status.get()->detail, "no room");
  }
}

void test_a_missing_function_is_told_before_anything_runs() {
  Fixture f;
  f.api.aclnnRmsNorm = nullptr;
  std::unique_ptr<Graph> graph = many_nodes().graph();
  fake::Lane lane(f.api);
  const Status status = graph->submit(lane);
  CHECK_EQ(status.code(), static_cast<int32_t>(AIOCANN_E_UNSUPPORTED));
  CHECK_CONTAINS(status.get()->detail,
                 "rms_norm(f16 (2, 1, 7, 7)): aclnnRmsNorm is not in this CANN");
  CHECK_EQ(status.get()->node, 7);
  CHECK_EQ(f.driver.calls.size(), 0u);
}

void test_data_is_aligned_and_views_are_offsets() {
  Fixture f;
  Builder b;
  const int32_t x = b.leaf(AIOCANN_F32, {4, 5}, kA);
  const int32_t row = b.view(x, {5}, 20);
  aiocann_node &view = b.node("view", {x}, row);
  const int64_t params[] = {5, -1, -1, -1, 0, 0, 0, 20};
  for (int i = 0; i < 8; ++i) view.params[i].i = params[i];
  b.node("neg", {row}, b.leaf(AIOCANN_F32, {5}, kB));
  std::unique_ptr<Graph> graph = b.graph();
  fake::Lane lane(f.api);
  CHECK(graph->submit(lane).is_ok());
  const fake::Tensor &in = f.driver.calls[0].tensors[0];
  CHECK_EQ(in.data, kA);
  CHECK_EQ(in.offset, 5);
  CHECK_EQ(in.shape.back(), 5);
}

void test_broadcast_splits_an_axis() {
  Fixture f;
  Builder b;
  const int32_t a = b.leaf(AIOCANN_F32, {2, 6, 4}, kA);
  const int32_t c = b.leaf(AIOCANN_F32, {3, 4}, kB);
  b.node("add", {a, c}, b.leaf(AIOCANN_F32, {2, 6, 4}, kC));
  fake::Lane lane(f.api);
  CHECK(b.graph()->submit(lane).is_ok());
  const fake::Call &call = f.driver.calls[0];
  CHECK(call.tensors[0].shape == (std::vector<int64_t>{1, 2, 2, 3, 4}));
  CHECK(call.tensors[0].strides == (std::vector<int64_t>{48, 24, 12, 4, 1}));
  CHECK(call.tensors[1].shape == (std::vector<int64_t>{1, 1, 1, 3, 4}));
  CHECK(call.tensors[2].shape == call.tensors[0].shape);
}

void test_mul_mat_picks_the_narrowest_call() {
  struct Case {
    std::vector<int64_t> w, x, out;
    const char *call;
  };
  const Case cases[] = {
      {{3, 4}, {5, 4}, {5, 3}, "aclnnMmGetWorkspaceSize"},
      {{3, 4}, {2, 5, 4}, {2, 5, 3}, "aclnnMmGetWorkspaceSize"},
      {{2, 3, 4}, {2, 5, 4}, {2, 5, 3}, "aclnnBatchMatMulGetWorkspaceSize"},
      {{2, 3, 4}, {6, 5, 4}, {6, 5, 3}, "aclnnMatmulGetWorkspaceSize"},
      {{2, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 3}, "aclnnMatmulGetWorkspaceSize"},
  };
  for (const Case &c : cases) {
    Fixture f;
    Builder b;
    const int32_t w = b.leaf(AIOCANN_F32, c.w, kA);
    const int32_t x = b.leaf(AIOCANN_F32, c.x, kB);
    b.node("mul_mat", {w, x}, b.leaf(AIOCANN_F32, c.out, kC));
    fake::Lane lane(f.api);
    CHECK(b.graph()->submit(lane).is_ok());
    CHECK_EQ(f.driver.calls.size(), 1u);
    CHECK_EQ(f.driver.calls[0].name, std::string(c.call));
  }
}

void test_a_result_over_its_operand_is_refused() {
  Builder b;
  const int32_t x = b.leaf(AIOCANN_F32, {4, 4}, kA);
  b.node("soft_max", {x}, b.leaf(AIOCANN_F32, {4, 4}, kA)).params[0].f = 1;
  CHECK_CONTAINS(b.refusal(AIOCANN_E_USAGE), "soft_max(f32 (4, 4)): its result overlaps operand 0");
}

void test_reading_before_writing_is_refused() {
  Builder b;
  b.node("neg", {b.value(AIOCANN_F32, {4})}, b.leaf(AIOCANN_F32, {4}, kA));
  CHECK_CONTAINS(b.refusal(AIOCANN_E_USAGE), "operand 0 is read before any node has written it");
}

void test_the_result_must_be_the_tables() {
  Builder wrong_shape;
  wrong_shape.node("neg", {wrong_shape.leaf(AIOCANN_F32, {4}, kA)},
                   wrong_shape.leaf(AIOCANN_F32, {5}, kB));
  CHECK_CONTAINS(wrong_shape.refusal(AIOCANN_E_USAGE), "the result is f32 (4,), not f32 (5,)");
  Builder wrong_dtype;
  wrong_dtype.node("neg", {wrong_dtype.leaf(AIOCANN_F32, {4}, kA)},
                   wrong_dtype.leaf(AIOCANN_F16, {4}, kB));
  CHECK_CONTAINS(wrong_dtype.refusal(AIOCANN_E_USAGE), "not f16 (4,)");
}

void test_nonsense_is_refused() {
  {
    Builder b;
    const int32_t x = b.leaf(AIOCANN_F32, {1 << 19}, kA);  // two mebibytes in one
    b.node("neg", {x}, b.leaf(AIOCANN_F32, {1 << 19}, kB));
    CHECK_CONTAINS(b.refusal(AIOCANN_E_USAGE), "do not fit into");
  }
  {
    Builder b;
    const int32_t x = b.value(AIOCANN_F32, {4});
    b.at(x).view_of = x;
    b.node("neg", {x}, b.leaf(AIOCANN_F32, {4}, kA));
    CHECK_CONTAINS(b.refusal(AIOCANN_E_USAGE), "is a view of no tensor");
  }
  {
    Builder b;
    b.node("neg", {b.leaf(AIOCANN_F32, {4}, kA)}, 7);
    CHECK_CONTAINS(b.refusal(AIOCANN_E_USAGE), "no such tensor");
  }
  {
    Builder b;
    b.node("neg", {b.leaf(AIOCANN_F32, {4}, kA)}, b.leaf(AIOCANN_F32, {4}, kB));
    b.nodes[0].op = 1000;
    CHECK_CONTAINS(b.refusal(AIOCANN_E_USAGE), "there is no op 1000");
  }
  {
    Builder b;
    const int32_t x = b.leaf(AIOCANN_F32, {4}, kA);
    b.at(x).nb[0] = 3;
    b.node("neg", {x}, b.leaf(AIOCANN_F32, {4}, kB));
    CHECK_CONTAINS(b.refusal(AIOCANN_E_USAGE), "uneven");
  }
}

void test_310p_has_no_bf16() {
  Builder b;
  const int32_t x = b.leaf(AIOCANN_BF16, {4}, kA);
  b.node("neg", {x}, b.leaf(AIOCANN_BF16, {4}, kB));
  CHECK_CONTAINS(b.refusal(AIOCANN_E_UNSUPPORTED, "Ascend310P3"), "Ascend310P3 has no bf16");
  b.graph();
}

void test_nothing_to_do_launches_nothing() {
  Fixture f;
  Builder b;
  const int32_t x = b.leaf(AIOCANN_F32, {0, 4}, kA);
  b.node("neg", {x}, b.leaf(AIOCANN_F32, {0, 4}, kB));
  const int32_t y = b.leaf(AIOCANN_F32, {4}, kC);
  b.node("cpy", {y, y}, y);
  fake::Lane lane(f.api);
  CHECK(b.graph()->submit(lane).is_ok());
  CHECK_EQ(f.driver.calls.size(), 0u);
  CHECK_EQ(lane.nodes.size(), 2u);
}

void test_cpy_over_itself_goes_through_a_temporary() {
  Fixture f;
  Builder b;
  const int32_t x = b.leaf(AIOCANN_F32, {8}, kA);
  const int32_t head = b.view(x, {6}, 0);
  const int32_t tail = b.view(x, {6}, 8);
  b.node("cpy", {head, tail}, tail);
  fake::Lane lane(f.api);
  CHECK(b.graph()->submit(lane).is_ok());
  CHECK_EQ(f.driver.calls.size(), 2u);
}

int count(const Fixture &f, const char *name) {
  int n = 0;
  for (const fake::Call &call : f.driver.calls) n += call.name == name;
  return n;
}

constexpr const char *kFill = "aclnnInplaceFillScalarGetWorkspaceSize";

void rms_norm(Builder *b, int32_t dtype, int64_t width) {
  const int32_t x = b->leaf(dtype, {3, width}, kA);
  b->node("rms_norm", {x}, b->leaf(dtype, {3, width}, kB)).params[0].f = 1e-6;
}

void test_constants_are_filled_once_for_all_that_they_depend_on() {
  Fixture f;
  Builder b;
  for (int again = 0; again < 2; ++again) {
    for (int64_t width : {8, 16}) {
      for (int32_t dtype : {AIOCANN_F32, AIOCANN_F16}) rms_norm(&b, dtype, width);
    }
  }
  std::unique_ptr<Graph> graph = b.graph();
  fake::Lane lane(f.api), other(f.api);
  CHECK(graph->submit(lane).is_ok());
  CHECK(graph->submit(lane).is_ok());
  CHECK_EQ(count(f, kFill), 4);
  CHECK_EQ(count(f, "aclnnRmsNormGetWorkspaceSize"), 16);
  // Another stream has its own.
  CHECK(graph->submit(other).is_ok());
  CHECK_EQ(count(f, kFill), 8);
}

void test_a_constant_that_was_not_filled_is_forgotten() {
  for (int phase = 0; phase < 2; ++phase) {
    Fixture f;
    Builder b;
    rms_norm(&b, AIOCANN_F32, 8);
    std::unique_ptr<Graph> graph = b.graph();
    fake::Lane lane(f.api);
    f.driver.fail_phase = phase;
    CHECK(!graph->submit(lane).is_ok());
    CHECK(lane.constants.empty());
    CHECK(graph->submit(lane).is_ok());
    CHECK_EQ(lane.constants.size(), 1u);
    f.check_nothing_left(lane);
  }
}

void test_every_constant_may_lack_memory() {
  for (int at = 0;; ++at) {
    Fixture f;
    std::unique_ptr<Graph> graph = many_nodes().graph();
    fake::Lane lane(f.api);
    lane.fail_constant = at;
    const Status status = graph->submit(lane);
    f.check_nothing_left(lane);
    if (status.is_ok()) {
      CHECK_EQ(at, 2);
      return;
    }
    CHECK_EQ(status.code(), AIOCANN_E_NO_MEMORY);
  }
}

void test_scratch_is_shared_by_the_dead() {
  Builder b;
  int32_t x = b.leaf(AIOCANN_F32, {1024}, kA);
  for (int i = 0; i < 20; ++i) {
    const int32_t y = i < 19 ? b.value(AIOCANN_F32, {1024}) : b.leaf(AIOCANN_F32, {1024}, kB);
    b.node("neg", {x}, y);
    x = y;
  }
  CHECK_EQ(b.graph()->scratch_bytes(), 2 * 4096u);
}

}  // namespace

int main() {
  test_everything_is_destroyed();
  test_trap_scope_temporaries_do_not_overlap();
  test_trap_sqr_computing_twice_is_the_same();
  test_every_phase_may_fail();
  test_every_descriptor_may_fail();
  test_every_workspace_may_fail();
  test_a_missing_function_is_told_before_anything_runs();
  test_data_is_aligned_and_views_are_offsets();
  test_broadcast_splits_an_axis();
  test_mul_mat_picks_the_narrowest_call();
  test_a_result_over_its_operand_is_refused();
  test_reading_before_writing_is_refused();
  test_the_result_must_be_the_tables();
  test_nonsense_is_refused();
  test_310p_has_no_bf16();
  test_nothing_to_do_launches_nothing();
  test_cpy_over_itself_goes_through_a_temporary();
  test_constants_are_filled_once_for_all_that_they_depend_on();
  test_a_constant_that_was_not_filled_is_forgotten();
  test_every_constant_may_lack_memory();
  test_scratch_is_shared_by_the_dead();
  return 0;
}
