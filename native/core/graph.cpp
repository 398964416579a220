// graph.cpp: checks a list of nodes against the op table, plans its intermediates, and makes its
// aclnn calls.
#include "core/graph.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <unordered_set>

#include "core/ops/kernels.hpp"
#include "core/ops/plan.hpp"

namespace aiocann::core {
namespace {

/// A tensor of the graph, with its storage found.
struct GraphTensor {
  Layout layout;
  int32_t root = -1;    ///< the tensor that owns the storage; itself when it does
  uint64_t offset = 0;  ///< bytes from the storage's start
  // Of roots only:
  const aiocann_mem *mem = nullptr;  ///< nullptr: the plan places it
  int32_t first = -1;                ///< node that writes it first; -1: none yet
  int32_t last = -1;                 ///< node that uses it last
  uint64_t scratch = 0;              ///< the plan's answer
};

struct GraphNode {
  const OpRow *row = nullptr;
  bool is_skipped = false;  ///< nothing to launch: a view, no elements, or a copy onto itself
  bool overlaps = false;
  int32_t n_src = 0;
  int32_t src[AIOCANN_MAX_SRC] = {-1, -1, -1, -1, -1};
  int32_t out = -1;
  aiocann_param params[AIOCANN_MAX_PARAMS] = {};
  int32_t n_temps = 0;
  uint64_t temps[Temps::kMax] = {};
};

/// Its result is its last operand.
bool writes_dst(const OpRow &row) { return row.out_dtype == OutDtype::kDst; }

/// "node 3, mul_mat(...): what it said", unless it says so already.
void name_node(Status *status, int32_t node, const std::string &description) {
  aiocann_error &error = status->mutate();
  error.node = node;
  const std::string said = error.detail;
  const bool is_named = said.compare(0, description.size(), description) == 0;
  const std::string text = is_named ? said : description + ": " + said;
  std::snprintf(error.detail, sizeof(error.detail), "%s", text.c_str());
}

class PlannedGraph final : public Graph {
 public:
  Status build(const aiocann_tensor *tensors, int32_t n_tensors, const aiocann_node *nodes,
               int32_t n_nodes, const char *soc_name, MemBytes mem_bytes);

  uint64_t scratch_bytes() const override { return scratch_bytes_; }
  int32_t n_nodes() const override { return static_cast<int32_t>(nodes_.size()); }
  std::string describe(int32_t node) const override;
  Status submit(LaunchContext &context) const override;

 private:
  Status add_tensor(const aiocann_tensor *tensors, int32_t n_tensors, int32_t index);
  Status check_bounds(int32_t index, MemBytes mem_bytes) const;
  Status add_node(const aiocann_node &node, int32_t index, const char *soc_name);
  Status check_result(const NodeView &view, const GraphNode &node, const Layout &expected,
                      int64_t offset);
  Status check_overlap(const NodeView &view, GraphNode *node) const;
  Status note_uses(const NodeView &view, const GraphNode &node, int32_t index);
  void plan();
  Status check_functions(const acl::Api &api) const;
  Status submit_node(Launch &launch, LaunchContext &context, const GraphNode &node) const;

  NodeView view_of(const GraphNode &node) const;
  GraphTensor &tensor(int32_t index) { return tensors_[static_cast<size_t>(index)]; }
  const GraphTensor &tensor(int32_t index) const { return tensors_[static_cast<size_t>(index)]; }
  const GraphTensor &root_of(int32_t index) const { return tensor(tensor(index).root); }
  uint64_t address(const LaunchContext &context, int32_t index) const;

  std::vector<GraphTensor> tensors_;
  std::vector<GraphNode> nodes_;
  std::vector<Placement> temps_;  ///< while building: of all nodes, in order
  uint64_t scratch_bytes_ = 0;
  /// The driver whose functions have been found complete for this graph.
  mutable std::atomic<const acl::Api *> checked_{nullptr};
};

Status PlannedGraph::build(const aiocann_tensor *tensors, int32_t n_tensors,
                           const aiocann_node *nodes, int32_t n_nodes, const char *soc_name,
                           MemBytes mem_bytes) {
  if (n_tensors < 0 || n_nodes < 0)
    return Status::error(AIOCANN_E_USAGE, "a negative number of tensors or nodes");
  tensors_.resize(static_cast<size_t>(n_tensors));
  nodes_.reserve(static_cast<size_t>(n_nodes));
  for (int32_t i = 0; i < n_tensors; ++i) {
    Status status = add_tensor(tensors, n_tensors, i);
    if (!status.is_ok()) return status;
  }
  for (int32_t i = 0; i < n_tensors; ++i) {
    Status status = check_bounds(i, mem_bytes);
    if (!status.is_ok()) return status;
  }
  for (int32_t i = 0; i < n_nodes; ++i) {
    Status status = add_node(nodes[i], i, soc_name);
    if (!status.is_ok()) {
      status.mutate().node = i;
      return status;
    }
  }
  plan();
  return Status::ok();
}

Status PlannedGraph::add_tensor(const aiocann_tensor *tensors, int32_t n_tensors, int32_t index) {
  const aiocann_tensor &given = tensors[index];
  if (given.dtype < AIOCANN_F32 || given.dtype > AIOCANN_Q8_0 || given.n_dims < 1 ||
      given.n_dims > kAxes) {
    return Status::error(AIOCANN_E_USAGE, "tensor %d has dtype %d and %d axes", index, given.dtype,
                         given.n_dims);
  }
  const int64_t size = dtype_block_bytes(given.dtype);
  for (int i = 0; i < kAxes; ++i) {
    if (given.ne[i] < 0 || given.nb[i] < 0 || given.nb[i] % size != 0) {
      return Status::error(AIOCANN_E_USAGE, "tensor %d has a negative or uneven shape or stride",
                           index);
    }
  }
  int32_t root = index;
  for (int32_t steps = 0; tensors[root].view_of != -1; ++steps) {
    root = tensors[root].view_of;
    if (root < 0 || root >= n_tensors || steps >= n_tensors) {
      return Status::error(AIOCANN_E_USAGE, "tensor %d is a view of no tensor", index);
    }
  }
  GraphTensor &made = tensor(index);
  made.layout = Layout(given);
  made.root = root;
  made.mem = given.mem;
  const uint64_t base = tensors[root].offset;
  made.offset = root == index ? base : base + given.offset;
  if (made.offset < base || made.offset % static_cast<uint64_t>(size) != 0) {
    return Status::error(AIOCANN_E_USAGE, "tensor %d starts at byte %llu, which %s cannot", index,
                         static_cast<unsigned long long>(made.offset), dtype_name(given.dtype));
  }
  return Status::ok();
}

Status PlannedGraph::check_bounds(int32_t index, MemBytes mem_bytes) const {
  const GraphTensor &it = tensor(index);
  const GraphTensor &root = root_of(index);
  const uint64_t room = root.mem != nullptr ? mem_bytes(root.mem) : root.layout.extent();
  const uint64_t bytes = it.layout.extent();
  if (bytes == UINT64_MAX || (bytes > 0 && (bytes > room || it.offset > room - bytes))) {
    return Status::error(
        AIOCANN_E_USAGE, "tensor %d, %s: %llu bytes at %llu do not fit into %llu", index,
        it.layout.describe().c_str(), static_cast<unsigned long long>(bytes),
        static_cast<unsigned long long>(it.offset), static_cast<unsigned long long>(room));
  }
  return Status::ok();
}

Status PlannedGraph::add_node(const aiocann_node &given, int32_t index, const char *soc_name) {
  GraphNode node;
  node.row = op_row(given.op);
  if (node.row == nullptr)
    return Status::error(AIOCANN_E_USAGE, "node %d: there is no op %d", index, given.op);
  const auto n = static_cast<int32_t>(tensors_.size());
  bool is_sane =
      given.n_src >= 0 && given.n_src <= AIOCANN_MAX_SRC && given.out >= 0 && given.out < n;
  for (int32_t i = 0; is_sane && i < given.n_src; ++i)
    is_sane = given.src[i] >= -1 && given.src[i] < n;
  if (!is_sane) {
    return Status::error(AIOCANN_E_USAGE, "node %d, %s: no such tensor", index, node.row->name);
  }
  node.n_src = given.n_src;
  node.out = given.out;
  std::copy(given.src, given.src + given.n_src, node.src);
  std::copy(given.params, given.params + AIOCANN_MAX_PARAMS, node.params);

  NodeView view = view_of(node);
  Layout expected;
  int64_t offset = 0;
  Status status = infer(view, soc_name, &expected, &offset);
  if (status.is_ok()) status = check_result(view, node, expected, offset);
  if (status.is_ok()) status = check_overlap(view, &node);
  if (status.is_ok()) status = note_uses(view, node, index);
  if (!status.is_ok()) return status;

  node.is_skipped = node.is_skipped || node.row->launch == nullptr || expected.is_empty();
  if (!node.is_skipped && node.row->temps != nullptr) {
    view.overlaps = node.overlaps;
    Temps temps;
    node.row->temps(view, tensor(node.out).layout, &temps);
    node.n_temps = temps.n;
    for (int i = 0; i < temps.n; ++i) temps_.push_back({temps.bytes[i], index, index, 0});
  }
  nodes_.push_back(node);
  return Status::ok();
}

/// The caller's idea of the result must be the table's.
Status PlannedGraph::check_result(const NodeView &view, const GraphNode &node,
                                  const Layout &expected, int64_t offset) {
  const GraphTensor &out = tensor(node.out);
  if (out.layout.dtype != expected.dtype || !out.layout.same_shape(expected)) {
    return view.usage("the result is %s, not %s", expected.describe().c_str(),
                      out.layout.describe().c_str());
  }
  if (!expected.is_empty() && !out.layout.same_strides(expected)) {
    return view.usage("the result %s has other strides than the op gives it",
                      expected.describe().c_str());
  }
  const bool is_shared = node.row->launch == nullptr || writes_dst(*node.row);
  if (is_shared) {
    const GraphTensor &source = tensor(node.src[writes_dst(*node.row) ? node.n_src - 1 : 0]);
    if (out.root != source.root || out.offset != source.offset + static_cast<uint64_t>(offset)) {
      return view.usage("the result must lie in the storage of its operand");
    }
  }
  return Status::ok();
}

/// A result that shares bytes with what it is made from would be wrong, or right by luck.
Status PlannedGraph::check_overlap(const NodeView &view, GraphNode *node) const {
  if (node->row->launch == nullptr) return Status::ok();
  const GraphTensor &out = tensor(node->out);
  const GraphTensor &out_root = root_of(node->out);
  for (int32_t i = 0; i < node->n_src; ++i) {
    if (node->src[i] < 0 || (writes_dst(*node->row) && i == node->n_src - 1)) continue;
    const GraphTensor &src = tensor(node->src[i]);
    const GraphTensor &src_root = root_of(node->src[i]);
    const bool is_same_storage =
        src.root == out.root || (src_root.mem != nullptr && src_root.mem == out_root.mem);
    const bool is_apart = src.offset + src.layout.extent() <= out.offset ||
                          out.offset + out.layout.extent() <= src.offset;
    if (!is_same_storage || is_apart) continue;
    if (node->row->launch != launch_cpy) return view.usage("its result overlaps operand %d", i);
    if (src.offset == out.offset && src.layout.dtype == out.layout.dtype &&
        src.layout.same_shape(out.layout) && src.layout.same_strides(out.layout)) {
      node->is_skipped = true;
    } else {
      node->overlaps = true;
    }
  }
  return Status::ok();
}

Status PlannedGraph::note_uses(const NodeView &view, const GraphNode &node, int32_t index) {
  for (int32_t i = 0; i < node.n_src; ++i) {
    if (node.src[i] < 0) continue;
    GraphTensor &root = tensor(tensor(node.src[i]).root);
    if (root.mem == nullptr && root.first < 0 && !root.layout.is_empty()) {
      return view.usage("operand %d is read before any node has written it", i);
    }
    root.last = index;
  }
  GraphTensor &root = tensor(tensor(node.out).root);
  if (root.first < 0) root.first = index;
  root.last = index;
  return Status::ok();
}

void PlannedGraph::plan() {
  std::vector<Placement> items;
  std::vector<int32_t> owners;
  for (int32_t i = 0; i < static_cast<int32_t>(tensors_.size()); ++i) {
    const GraphTensor &it = tensor(i);
    if (it.root != i || it.mem != nullptr || it.first < 0) continue;
    items.push_back({it.layout.extent(), it.first, it.last, 0});
    owners.push_back(i);
  }
  items.insert(items.end(), temps_.begin(), temps_.end());
  scratch_bytes_ = place(&items, n_nodes());
  for (size_t i = 0; i < owners.size(); ++i) tensor(owners[i]).scratch = items[i].offset;
  size_t next = owners.size();
  for (GraphNode &node : nodes_) {
    for (int32_t i = 0; i < node.n_temps; ++i) node.temps[i] = items[next++].offset;
  }
  temps_ = {};
}

NodeView PlannedGraph::view_of(const GraphNode &node) const {
  NodeView view;
  view.row = node.row;
  view.n_src = node.n_src;
  view.params = node.params;
  view.overlaps = node.overlaps;
  for (int32_t i = 0; i < node.n_src; ++i) {
    view.src[i] = node.src[i] < 0 ? nullptr : &tensor(node.src[i]).layout;
  }
  return view;
}

std::string PlannedGraph::describe(int32_t node) const {
  if (node < 0 || node >= n_nodes()) return "?";
  return view_of(nodes_[static_cast<size_t>(node)]).describe();
}

uint64_t PlannedGraph::address(const LaunchContext &context, int32_t index) const {
  const GraphTensor &root = root_of(index);
  const uint64_t base =
      root.mem != nullptr ? context.address(root.mem) : context.scratch() + root.scratch;
  return base + tensor(index).offset;
}

Status PlannedGraph::check_functions(const acl::Api &api) const {
  if (checked_.load(std::memory_order_relaxed) == &api) return Status::ok();
  std::unordered_set<const OpRow *> checked;
  for (int32_t i = 0; i < n_nodes(); ++i) {
    const GraphNode &node = nodes_[static_cast<size_t>(i)];
    if (node.is_skipped || !checked.insert(node.row).second) continue;
    const char *missing = missing_function(api, *node.row);
    if (missing == nullptr) continue;
    Status status = Status::error(AIOCANN_E_UNSUPPORTED, "%.*s is not in this CANN",
                                  static_cast<int>(std::strcspn(missing, " ")), missing);
    name_node(&status, i, describe(i));
    return status;
  }
  checked_.store(&api, std::memory_order_relaxed);
  return Status::ok();
}

Status PlannedGraph::submit_node(Launch &launch, LaunchContext &context,
                                 const GraphNode &node) const {
  BoundNode bound;
  bound.view = view_of(node);
  bound.out = &tensor(node.out).layout;
  bound.out_address = address(context, node.out);
  bound.temps = node.temps;
  for (int32_t i = 0; i < node.n_src; ++i) {
    if (node.src[i] >= 0) bound.src_address[i] = address(context, node.src[i]);
  }
  return launch.run(bound);
}

Status PlannedGraph::submit(LaunchContext &context) const {
  Status status = check_functions(context.api());
  if (!status.is_ok()) return status;
  Launch launch(context);
  for (int32_t i = 0; i < n_nodes(); ++i) {
    const GraphNode &node = nodes_[static_cast<size_t>(i)];
    if (!node.is_skipped) status = submit_node(launch, context, node);
    // After a failure too: some of the node's tasks may have been launched, and may fault.
    context.launched(i);
    if (!status.is_ok()) {
      name_node(&status, i, describe(i));
      return status;
    }
  }
  return status;
}

}  // namespace

Status Graph::create(const aiocann_tensor *tensors, int32_t n_tensors, const aiocann_node *nodes,
                     int32_t n_nodes, const char *soc_name, std::unique_ptr<Graph> *out,
                     MemBytes mem_bytes) {
  auto graph = std::make_unique<PlannedGraph>();
  Status status = graph->build(tensors, n_tensors, nodes, n_nodes, soc_name, mem_bytes);
  if (status.is_ok()) *out = std::move(graph);
  return status;
}

}  // namespace aiocann::core
