#include "core/ops/op_table.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace aiocann::core {
namespace {

// In the order of docs/ops.md. Indices are not part of any contract: everyone looks names up.
const OpRows *const kFamilies[] = {&kElementwiseRows, &kRowRows, &kShapingRows, &kLayerRows};

bool is_310p(const char *soc_name) {
  return soc_name != nullptr && std::strncmp(soc_name, "Ascend310P", 10) == 0;
}

std::string set_text(DtypeSet set) {
  std::string text;
  for (int32_t dtype = AIOCANN_F32; dtype <= AIOCANN_Q8_0; ++dtype) {
    if ((set & dtype_bit(dtype)) == 0) continue;
    if (!text.empty()) text += ' ';
    text += dtype_name(dtype);
  }
  return text;
}

bool is_whole(const Layout &layout) {
  const int64_t size = dtype_size(layout.dtype);
  if (layout.ne[0] % dtype_block(layout.dtype) != 0) return false;
  for (int i = 0; i < kAxes; ++i) {
    if (layout.ne[i] < 0 || layout.nb[i] < 0 || (size > 0 && layout.nb[i] % size != 0))
      return false;
  }
  return layout.extent() != UINT64_MAX && layout.elements() != INT64_MAX;
}

}  // namespace

bool on_310p(const NodeView &node) { return is_310p(node.soc); }

int32_t op_count() {
  int32_t count = 0;
  for (const OpRows *family : kFamilies) count += family->count;
  return count;
}

const OpRow *op_row(int32_t op) {
  if (op < 0) return nullptr;
  for (const OpRows *family : kFamilies) {
    if (op < family->count) return &family->first[op];
    op -= family->count;
  }
  return nullptr;
}

int32_t find_op(const char *name) {
  const int32_t count = op_count();
  for (int32_t op = 0; op < count; ++op) {
    if (std::strcmp(op_row(op)->name, name) == 0) return op;
  }
  return -1;
}

int32_t count_params(const OpRow &row) {
  int32_t count = 0;
  for (const char *at = row.params; *at != '\0'; ++at) count += *at == ':';
  return count;
}

std::string dtypes_text(const OpRow &row) {
  std::string text;
  const char *source = row.sources;
  for (int32_t i = 0; i < row.max_src; ++i) {
    const size_t length = std::strcspn(source, " ?");
    if (i > 0) text += "; ";
    text += std::string(source, length) + ": " + set_text(row.dtypes[i]);
    source += std::strcspn(source, " ");
    source += std::strspn(source, " ");
  }
  return text;
}

std::string NodeView::describe() const {
  std::string text = row->name;
  text += '(';
  for (int i = 0; i < n_src; ++i) {
    if (i > 0) text += ", ";
    text += src[i] == nullptr ? "-" : src[i]->describe();
  }
  return text + ')';
}

Status NodeView::usage(const char *format, ...) const {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  return Status::error(AIOCANN_E_USAGE, "%s: %s", describe().c_str(), text);
}

Status NodeView::unsupported(const char *format, ...) const {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  return Status::error(AIOCANN_E_UNSUPPORTED, "%s: %s", describe().c_str(), text);
}

Status infer(const NodeView &node, const char *soc_name, Layout *out, int64_t *view_offset) {
  const OpRow &row = *node.row;
  if (node.n_src < row.min_src || node.n_src > row.max_src) {
    return Status::error(AIOCANN_E_USAGE, "%s takes %d operands, not %d", row.name, row.max_src,
                         node.n_src);
  }
  for (int32_t i = 0; i < node.n_src; ++i) {
    if (node.src[i] == nullptr) {
      if (i < row.min_src)
        return Status::error(AIOCANN_E_USAGE, "%s: operand %d is missing", row.name, i);
      continue;
    }
    const Layout &src = *node.src[i];
    if ((row.dtypes[i] & dtype_bit(src.dtype)) == 0) {
      return node.unsupported("operand %d cannot be %s; it takes %s", i, dtype_name(src.dtype),
                              set_text(row.dtypes[i]).c_str());
    }
    if (!is_whole(src))
      return node.usage("operand %d has a negative, uneven or endless shape or stride", i);
    if (src.dtype == AIOCANN_BF16 && is_310p(soc_name))
      return node.unsupported("%s has no bf16", soc_name);
  }
  switch (row.out_dtype) {
    case OutDtype::kSame:
      out->dtype = node.src[0]->dtype;
      break;
    case OutDtype::kF32:
      out->dtype = AIOCANN_F32;
      break;
    case OutDtype::kI64:
      out->dtype = AIOCANN_I64;
      break;
    case OutDtype::kI32:
      out->dtype = AIOCANN_I32;
      break;
    case OutDtype::kDst:
      out->dtype = node.last().dtype;
      break;
    case OutDtype::kParameter:
      if (node.params[0].i < 0 || node.params[0].i > AIOCANN_Q8_0) {
        return node.usage("there is no dtype %lld", static_cast<long long>(node.params[0].i));
      }
      out->dtype = static_cast<int32_t>(node.params[0].i);
      if ((kPlain & dtype_bit(out->dtype)) == 0) {
        return node.unsupported("nothing can be cast to %s", dtype_name(out->dtype));
      }
      if (out->dtype == AIOCANN_BF16 && is_310p(soc_name)) {
        return node.unsupported("%s has no bf16", soc_name);
      }
      break;
  }
  *view_offset = 0;
  NodeView seen = node;
  if (soc_name != nullptr) seen.soc = soc_name;
  Status status = row.shape_rule(seen, out, view_offset);
  if (!status.is_ok()) return status;
  // Views and cpy say how their result lies; everything else makes a new, contiguous tensor.
  if (row.launch != nullptr && row.out_dtype != OutDtype::kDst)
    *out = Layout::contiguous(*out, out->dtype);
  if (!is_whole(*out)) return node.usage("the result would be larger than any memory");
  return Status::ok();
}

}  // namespace aiocann::core
