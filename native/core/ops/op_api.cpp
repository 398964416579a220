// op_api.cpp: the op table through aiocann.h.
#include <string>
#include <vector>

#include "core/ops/op_table.hpp"

using namespace aiocann::core;

namespace {

/// The rows as C has them, with the texts that they point into. Never destroyed.
struct Infos {
  Infos();
  std::vector<std::string> texts;
  std::vector<aiocann_op_info> rows;
};

Infos::Infos() {
  texts.reserve(static_cast<size_t>(op_count()));
  for (int32_t op = 0; op < op_count(); ++op) {
    const OpRow &row = *op_row(op);
    texts.push_back(dtypes_text(row));
    aiocann_op_info info = {};
    info.name = row.name;
    info.min_src = row.min_src;
    info.max_src = row.max_src;
    info.n_params = count_params(row);
    info.param_names = row.params;
    info.aclnn = row.aclnn;
    info.dtypes = texts.back().c_str();
    info.is_view = row.launch == nullptr ? 1 : 0;
    info.summary = row.summary;
    info.sources = row.sources;
    info.shape = row.shape;
    info.out_dtype = row.out_dtype == OutDtype::kF32         ? "f32"
                     : row.out_dtype == OutDtype::kI64       ? "i64"
                     : row.out_dtype == OutDtype::kI32       ? "i32"
                     : row.out_dtype == OutDtype::kParameter ? "as given"
                     : row.out_dtype == OutDtype::kDst       ? "that of dst"
                                                             : "that of the first";
    info.soc = row.soc;
    rows.push_back(info);
  }
}

int32_t infer_tensor(int32_t op, const aiocann_tensor *const *src, int32_t n_src,
                     const aiocann_param *params, const char *soc_name, aiocann_tensor *out) {
  NodeView node;
  node.row = op_row(op);
  if (node.row == nullptr) return publish(Status::error(AIOCANN_E_USAGE, "there is no op %d", op));
  if (n_src < 0 || n_src > AIOCANN_MAX_SRC) {
    return publish(Status::error(AIOCANN_E_USAGE, "%s: %d operands", node.row->name, n_src));
  }
  Layout sources[AIOCANN_MAX_SRC];
  for (int32_t i = 0; i < n_src; ++i) {
    if (src[i] == nullptr) continue;
    if (src[i]->dtype < AIOCANN_F32 || src[i]->dtype > AIOCANN_Q8_0 || src[i]->n_dims < 1 ||
        src[i]->n_dims > kAxes) {
      return publish(Status::error(AIOCANN_E_USAGE, "%s: operand %d has dtype %d and %d axes",
                                   node.row->name, i, src[i]->dtype, src[i]->n_dims));
    }
    sources[i] = Layout(*src[i]);
    node.src[i] = &sources[i];
  }
  node.n_src = n_src;
  const aiocann_param none[AIOCANN_MAX_PARAMS] = {};
  node.params = params != nullptr ? params : none;
  Layout layout;
  int64_t view_offset = 0;
  Status status = infer(node, soc_name, &layout, &view_offset);
  if (!status.is_ok()) return publish(status);
  *out = {};
  out->dtype = layout.dtype;
  out->n_dims = layout.n_dims;
  for (int i = 0; i < kAxes; ++i) {
    out->ne[i] = layout.ne[i];
    out->nb[i] = layout.nb[i];
  }
  out->view_of = -1;
  if (node.row->launch == nullptr) {
    out->mem = src[0]->mem;
    out->offset = src[0]->offset + static_cast<uint64_t>(view_offset);
  } else if (node.row->out_dtype == OutDtype::kDst) {
    out->mem = src[n_src - 1]->mem;
    out->offset = src[n_src - 1]->offset;
  }
  return 0;
}

}  // namespace

int32_t aiocann_op_table_size(void) { return op_count(); }

const aiocann_op_info *aiocann_op_table_row(int32_t op) {
  const aiocann_op_info *row = nullptr;
  guarded([&]() -> int32_t {
    static const auto *infos = new Infos;
    if (op_row(op) != nullptr) row = &infos->rows[static_cast<size_t>(op)];
    return 0;
  });
  return row;
}

int32_t aiocann_op_infer(int32_t op, const aiocann_tensor *const *src, int32_t n_src,
                         const aiocann_param *params, const char *soc_name, aiocann_tensor *out) {
  return guarded([&] { return infer_tensor(op, src, n_src, params, soc_name, out); });
}
