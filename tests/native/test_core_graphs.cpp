// Graphs through the core: computed in stream order with scratch memory that is used again; faults name the node.
#include <cmath>

#include "core_driver.hpp"

using namespace core_test;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

int32_t op_named(const char *name) {
  for (int32_t i = 0; i < aiocann_op_table_size(); ++i) {
    if (std::strcmp(aiocann_op_table_row(i)->name, name) == 0) return i;
  }
  check::fail(__FILE__, __LINE__, name);
}

aiocann_tensor vector_of(int64_t n, aiocann_mem *mem) {
  aiocann_tensor t{};
  t.dtype = AIOCANN_F32;
  t.n_dims = 1;
  for (int i = 0; i < 4; ++i) {
    t.ne[i] = i == 0 ? n : 1;
    t.nb[i] = i == 0 ? 4 : 4 * n;
  }
  t.mem = mem;
  t.view_of = -1;
  return t;
}

aiocann_node node(const char *op, int32_t a, int32_t b, int32_t out) {
  aiocann_node made{};
  made.op = op_named(op);
  made.n_src = 2;
  made.src[0] = a;
  made.src[1] = b;
  made.src[2] = made.src[3] = -1;
  made.out = out;
  return made;
}

/// out = (a + b) * (a + b) + a, over intermediates.
aiocann_graph *chain(Runtime &rt, int64_t n, aiocann_mem *a, aiocann_mem *b, aiocann_mem *out,
                     int32_t device = 0) {
  const aiocann_tensor tensors[] = {vector_of(n, a), vector_of(n, b), vector_of(n, nullptr),
                                    vector_of(n, nullptr), vector_of(n, out)};
  const aiocann_node nodes[] = {node("add", 0, 1, 2), node("mul", 2, 2, 3), node("add", 3, 0, 4)};
  aiocann_graph *graph = nullptr;
  accepted(aiocann_graph_create(rt.device(device), tensors, 5, nodes, 3, &graph));
  return graph;
}

aiocann_op *compute(Runtime &rt, aiocann_graph *graph, aiocann_stream *stream) {
  aiocann_op *op = nullptr;
  accepted(aiocann_graph_compute(graph, stream, rt.loop.raw, &op));
  return op;
}

void computes_in_stream_order() {
  Runtime rt(1);
  constexpr int64_t kN = 50000;
  aiocann_stream *streams[] = {rt.stream(), rt.stream()};
  for (int round = 0; round < 20; ++round) {
    std::vector<float> x(kN), y(kN), results[2];
    for (int64_t i = 0; i < kN; ++i) {
      x[i] = static_cast<float>((i * 7 + round) % 100);
      y[i] = static_cast<float>((i * 13) % 50);
    }
    std::vector<aiocann_op *> ops;
    for (int s = 0; s < 2; ++s) {
      results[s].resize(kN);
      aiocann_mem *a = rt.lazy(kN * 4), *b = rt.lazy(kN * 4), *out = rt.lazy(kN * 4);
      ops.push_back(rt.copy(streams[s], of(a), of(x.data()), kN * 4));
      ops.push_back(rt.copy(streams[s], of(b), of(y.data()), kN * 4));
      aiocann_graph *graph = chain(rt, kN, a, b, out);
      CHECK(aiocann_graph_scratch_bytes(graph) >= kN * 4);
      ops.push_back(compute(rt, graph, streams[s]));
      accepted(aiocann_graph_compute(graph, streams[s], nullptr, nullptr));
      ops.push_back(rt.copy(streams[s], of(results[s].data()), of(out), kN * 4));
      // Everything is dropped at once: the ops keep what they need.
      aiocann_graph_release(graph);
      for (aiocann_mem *mem : {a, b, out}) aiocann_mem_release(mem);
    }
    for (aiocann_op *op : ops) finish(rt.loop, op);
    for (int64_t i = 0; i < kN; ++i) {
      const float expected = (x[i] + y[i]) * (x[i] + y[i]) + x[i];
      CHECK_EQ(results[0][i], expected);
      CHECK_EQ(results[1][i], expected);
    }
  }
  rt.settles_at(&aiocann_statistics::live_buffers, 0);
  for (aiocann_stream *stream : streams) rt.close(stream);
  rt.settles_at(&aiocann_statistics::pool_used_bytes, 0);
  CHECK_EQ(rt.statistics().live_tensors, 0);
  CHECK_EQ(rt.statistics().live_executors, 0);
  // Forty computations, one segment: scratch is handed on from each to the next.
  CHECK_EQ(rt.statistics().pool_reserved_bytes, 32 * kMiB);
}

// A block that was dropped while commands that use it are still in the stream's FIFO is not the scratch memory of a
// graph that is ahead of them there.
void scratch_waits_for_the_fifo() {
  Runtime rt(1);
  constexpr int64_t kN = 100000;
  aiocann_stream *stream = rt.stream();
  aiocann_mem *x = rt.allocate(kN * 4), *out = rt.allocate(kN * 4), *filler = rt.allocate(1024);
  aiocann_graph *graph = chain(rt, kN, x, x, out);
  const uint64_t nbytes = aiocann_graph_scratch_bytes(graph);  // a block that would fit
  finish(rt.loop, rt.fill(stream, x, 0));
  finish(rt.loop, compute(rt, graph, stream));
  for (int round = 0; round < 5; ++round) {
    aiocann_mem *dropped = rt.allocate(nbytes, 0, stream), *kept = rt.allocate(nbytes, 0, stream);
    finish(rt.loop, rt.fill(stream, dropped, 7));
    CHECK_OK(sim().hold(0, -1));
    std::vector<aiocann_op *> ops;
    for (int i = 0; i < 600; ++i) {  // more than the driver gets at once
      accepted(aiocann_stream_memset(stream, filler, 0, i, 1024, nullptr, nullptr));
    }
    ops.push_back(compute(rt, graph, stream));
    ops.push_back(rt.copy(stream, of(kept), of(dropped), nbytes));
    aiocann_mem_release(dropped);
    for (int i = 0; i < 3; ++i) {  // the lane has seen all that
      aiocann_op *info = nullptr;
      accepted(aiocann_device_memory_info(rt.device(0), rt.loop.raw, &info));
      finish(rt.loop, info);
    }
    CHECK_OK(sim().release(0, -1));
    std::vector<unsigned char> back(nbytes);
    ops.push_back(rt.copy(stream, of(back), of(kept), nbytes));
    for (aiocann_op *op : ops) finish(rt.loop, op);
    CHECK(back == std::vector<unsigned char>(nbytes, 7));
    aiocann_mem_release(kept);
  }
  aiocann_graph_release(graph);
  for (aiocann_mem *mem : {x, out, filler}) aiocann_mem_release(mem);
  rt.close(stream);
}

void faults_name_the_node() {
  Runtime rt(2);
  aiocann_stream *stream = rt.stream(0), *other = rt.stream(1);
  aiocann_mem *a = rt.lazy(4000, 0), *out = rt.lazy(4000, 0), *there = rt.lazy(4000, 1),
              *result = rt.lazy(4000, 1);
  aiocann_graph *graph = chain(rt, 1000, a, a, out),
                *fine = chain(rt, 1000, there, there, result, 1);
  CHECK_OK(sim().inject("kernel", "aclnnMul", 1, 0));
  aiocann_op *op = compute(rt, graph, stream);
  rt.loop.await(op);
  CHECK_EQ(aiocann_op_state(op), 2);
  CHECK_EQ(aiocann_op_error(op)->code, 507015);
  CHECK_EQ(aiocann_op_error(op)->is_fault, 1);
  CHECK_EQ(aiocann_op_error(op)->node, 1);
  const uint64_t id = aiocann_op_id(op);
  aiocann_op_release(op);
  op = compute(rt, graph, stream);
  rt.loop.await(op);
  CHECK_EQ(aiocann_op_error(op)->code, AIOCANN_E_PREDECESSOR);
  CHECK_EQ(aiocann_op_error(op)->cause_op, id);
  CHECK_EQ(std::string(aiocann_op_error(op)->cause_kind), "graph");
  aiocann_op_release(op);
  finish(rt.loop, compute(rt, fine, other));
  aiocann_graph_release(graph);
  aiocann_graph_release(fine);
  for (aiocann_mem *mem : {a, out, there, result}) aiocann_mem_release(mem);
  rt.close(stream);
  rt.close(other);
}

void failures_before_anything_runs() {
  Runtime rt(2, "all", "128M");
  aiocann_stream *stream = rt.stream(0);
  aiocann_mem *a = rt.lazy(4000, 0), *there = rt.lazy(4000, 1), *pinned = rt.pinned(4000);
  aiocann_mem *out = rt.lazy(4000, 0);
  // Memory of another device, or of the host.
  for (aiocann_mem *wrong : {there, pinned}) {
    const aiocann_tensor tensors[] = {vector_of(1000, a), vector_of(1000, wrong),
                                      vector_of(1000, a)};
    const aiocann_node nodes[] = {node("add", 0, 1, 2)};
    aiocann_graph *graph = nullptr;
    CHECK_EQ(aiocann_graph_create(rt.device(0), tensors, 3, nodes, 1, &graph), AIOCANN_E_USAGE);
    CHECK_CONTAINS(aiocann_last_error()->detail, "Tensor 1");
  }
  // A stream of another device.
  aiocann_graph *graph = chain(rt, 1000, a, a, out);
  aiocann_stream *elsewhere = rt.stream(1);
  aiocann_op *op = nullptr;
  CHECK_EQ(aiocann_graph_compute(graph, elsewhere, rt.loop.raw, &op), AIOCANN_E_USAGE);
  aiocann_graph_release(graph);
  // No room for the intermediates; the stream is as good as before.
  aiocann_mem *big = rt.allocate(40 * kMiB), *big_out = rt.allocate(40 * kMiB);
  graph = chain(rt, 10 * kMiB, big, big, big_out);
  fails(rt.loop, compute(rt, graph, stream), AIOCANN_E_NO_MEMORY);
  finish(rt.loop, rt.mark(stream));
  aiocann_graph_release(graph);
  // A call of the second node fails: the first has been launched, and is waited for.
  graph = chain(rt, 1000, a, a, out);
  CHECK_OK(sim().inject("call", "aclnnMulGetWorkspaceSize", 1, 561000));
  op = compute(rt, graph, stream);
  rt.loop.await(op);
  CHECK_EQ(aiocann_op_error(op)->code, 561000);
  CHECK_EQ(aiocann_op_error(op)->node, 1);
  aiocann_op_release(op);
  sim().clear_faults();
  finish(rt.loop, compute(rt, graph, stream));
  aiocann_graph_release(graph);
  CHECK_EQ(rt.statistics().live_tensors, 0);
  CHECK_EQ(rt.statistics().live_executors, 0);
  for (aiocann_mem *mem : {a, there, pinned, big, big_out, out}) aiocann_mem_release(mem);
  rt.close(stream);
  rt.close(elsewhere);
}

}  // namespace

int main() {
  computes_in_stream_order();
  scratch_waits_for_the_fifo();
  faults_name_the_node();
  failures_before_anything_runs();
}
