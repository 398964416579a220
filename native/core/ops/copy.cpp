// copy.cpp: ops that move or convert elements: get_rows, cast, cont, dup, cpy.
#include "core/blocks.hpp"
#include "core/ops/kernels.hpp"

namespace aiocann::core {
namespace {

/// A copy between different shapes that neither side allows by a mere reinterpretation goes through
/// a contiguous temporary; so does one whose source and destination overlap without being the same.
bool cpy_needs_temp(const NodeView &node) {
  const Layout &src = *node.src[0];
  const Layout &dst = *node.src[1];
  return node.overlaps || (!src.same_shape(dst) && !src.is_contiguous() && !dst.is_contiguous());
}

Status gather(Launch &launch, aclTensor *table, aclTensor *ids, aclTensor *out) {
  return launch.call(ACLNN(aclnnGatherV2), table, int64_t{0}, ids, out);
}

View table_of(uint64_t address, const Layout &table) {
  View view;
  view.address = address;
  view.dtype = table.dtype;
  return view.push(table.ne[0], table.nb[0]).push(table.ne[1], table.nb[1]);
}

/// Gathers into `rows`, which has the shape of the result and the dtype of the table.
Status gather_all(Launch &launch, uint64_t table_address, const Layout &table,
                  uint64_t rows_address, const Layout &rows) {
  const Layout &ids = launch.src(1);
  if (table.ne[2] == 1 && table.ne[3] == 1) {
    View index;
    index.address = launch.src_address(1);
    index.dtype = ids.dtype;
    View out;
    out.address = rows_address;
    out.dtype = rows.dtype;
    out.push(rows.ne[0], rows.nb[0]);
    if (ids.is_contiguous() && rows.is_contiguous()) {
      index.push(ids.elements(), ids.nb[0]);
      out.push(ids.elements(), rows.nb[1]);
    } else {
      for (int i = 0; i < kAxes - 1; ++i) {
        index.push(ids.ne[i], ids.nb[i]);
        out.push(rows.ne[i + 1], rows.nb[i + 1]);
      }
    }
    return gather(launch, launch.tensor(table_of(table_address, table)), launch.tensor(index),
                  launch.tensor(out));
  }
  for (int64_t i3 = 0; i3 < ids.ne[2]; ++i3) {
    for (int64_t i2 = 0; i2 < ids.ne[1]; ++i2) {
      const int64_t table_at =
          (table.ne[2] == 1 ? 0 : i2 * table.nb[2]) + (table.ne[3] == 1 ? 0 : i3 * table.nb[3]);
      View index;
      index.address =
          launch.src_address(1) + static_cast<uint64_t>(i2 * ids.nb[1] + i3 * ids.nb[2]);
      index.dtype = ids.dtype;
      index.push(ids.ne[0], ids.nb[0]);
      View out;
      out.address = rows_address + static_cast<uint64_t>(i2 * rows.nb[2] + i3 * rows.nb[3]);
      out.dtype = rows.dtype;
      out.push(rows.ne[0], rows.nb[0]).push(rows.ne[1], rows.nb[1]);
      const uint64_t from = table_address + static_cast<uint64_t>(table_at);
      Status status = gather(launch, launch.tensor(table_of(from, table)), launch.tensor(index),
                             launch.tensor(out));
      if (!status.is_ok()) return status;
    }
  }
  return Status::ok();
}

/// Of Q8_0: the quants and the scales are gathered and widened apart, then multiplied.
struct Q8Rows {
  Layout quants, scales;
  explicit Q8Rows(const Layout &shape) : quants(Layout::contiguous(shape, AIOCANN_I8)) {
    Layout groups = shape;
    groups.ne[0] /= kBlock;
    scales = Layout::contiguous(groups, AIOCANN_F16);
  }
};

Status gather_q8_0(Launch &launch) {
  const Q8Rows table(launch.src(0)), rows(launch.out());
  const uint64_t from = launch.src_address(0);
  const uint64_t scales = from + own_bytes(table.quants);
  Status status = gather_all(launch, from, table.quants, launch.temp(0), rows.quants);
  if (status.is_ok())
    status = gather_all(launch, scales, table.scales, launch.temp(1), rows.scales);
  // (groups, 32) times (groups, 1)
  const auto matrix = [](uint64_t address, int32_t dtype, int64_t columns, int64_t groups) {
    View view;
    view.address = address;
    view.dtype = dtype;
    const int64_t size = dtype_size(dtype);
    return view.push(columns, size).push(groups, columns * size);
  };
  const int64_t groups = rows.scales.elements();
  const auto widen = [&](int temp, int32_t dtype, int wide, int64_t columns) {
    if (!status.is_ok()) return;
    status = convert(launch, launch.tensor(matrix(launch.temp(temp), dtype, columns, groups)),
                     dtype, launch.tensor(matrix(launch.temp(wide), AIOCANN_F32, columns, groups)),
                     AIOCANN_F32);
  };
  widen(0, AIOCANN_I8, 2, kBlock);
  widen(1, AIOCANN_F16, 3, 1);
  if (!status.is_ok()) return status;
  return launch.call(ACLNN(aclnnMul),
                     launch.tensor(matrix(launch.temp(2), AIOCANN_F32, kBlock, groups)),
                     launch.tensor(matrix(launch.temp(3), AIOCANN_F32, 1, groups)),
                     launch.tensor(matrix(launch.out_address(), AIOCANN_F32, kBlock, groups)));
}

}  // namespace

Status convert(Launch &launch, aclTensor *src, int32_t src_dtype, aclTensor *out,
               int32_t out_dtype) {
  if (src_dtype == out_dtype) return launch.call(ACLNN(aclnnInplaceCopy), out, src);
  return launch.call(ACLNN(aclnnCast), src, static_cast<aclDataType>(acl_dtype(out_dtype)), out);
}

void temps_get_rows(const NodeView &node, const Layout &out, Temps *temps) {
  const int32_t dtype = node.src[0]->dtype;
  if (dtype == AIOCANN_Q8_0) {
    const Q8Rows rows(out);
    temps->add(own_bytes(rows.quants));
    temps->add(own_bytes(rows.scales));
    temps->add(f32_bytes(rows.quants));
    temps->add(f32_bytes(rows.scales));
  } else if (dtype != AIOCANN_F32) {
    temps->add(static_cast<uint64_t>(out.elements()) * static_cast<uint64_t>(dtype_size(dtype)));
  }
}

Status launch_get_rows(Launch &launch) {
  const int32_t dtype = launch.src(0).dtype;
  if (dtype == AIOCANN_Q8_0) return gather_q8_0(launch);
  const uint64_t table = launch.src_address(0);
  if (dtype == AIOCANN_F32)
    return gather_all(launch, table, launch.src(0), launch.out_address(), launch.out());
  // The rows are converted, not the table: a table has thousands of rows that nobody asked for.
  const Layout rows = Layout::contiguous(launch.out(), dtype);
  Status status = gather_all(launch, table, launch.src(0), launch.temp(0), rows);
  if (!status.is_ok()) return status;
  return convert(launch, launch.tensor(launch.temp(0), rows), dtype, launch.out_tensor(),
                 AIOCANN_F32);
}

Status launch_copy(Launch &launch) {
  return convert(launch, launch.src_tensor(0), launch.src(0).dtype, launch.out_tensor(),
                 launch.out().dtype);
}

void temps_cpy(const NodeView &node, const Layout &, Temps *temps) {
  if (!cpy_needs_temp(node)) return;
  const Layout &src = *node.src[0];
  temps->add(static_cast<uint64_t>(src.elements()) * static_cast<uint64_t>(dtype_size(src.dtype)));
}

Status launch_cpy(Launch &launch) {
  const Layout &src = launch.src(0);
  const Layout &out = launch.out();
  const uint64_t from = launch.src_address(0);
  const uint64_t to = launch.out_address();
  if (cpy_needs_temp(launch.node())) {
    const Layout packed = Layout::contiguous(src, src.dtype);
    Status status = convert(launch, launch.tensor(from, src), src.dtype,
                            launch.tensor(launch.temp(0), packed), src.dtype);
    if (!status.is_ok()) return status;
    return convert(launch, launch.tensor(launch.temp(0), Layout::contiguous(out, src.dtype)),
                   src.dtype, launch.tensor(to, out), out.dtype);
  }
  if (src.same_shape(out)) {
    return convert(launch, launch.tensor(from, src), src.dtype, launch.tensor(to, out), out.dtype);
  }
  if (src.is_contiguous()) {
    return convert(launch, launch.tensor(from, Layout::contiguous(out, src.dtype)), src.dtype,
                   launch.tensor(to, out), out.dtype);
  }
  return convert(launch, launch.tensor(from, src), src.dtype,
                 launch.tensor(to, Layout::contiguous(src, out.dtype)), out.dtype);
}

}  // namespace aiocann::core
