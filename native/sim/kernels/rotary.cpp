#include "sim/kernels/rotary.hpp"

#include "sim/aclnn/executor.hpp"
#include "sim/kernels/row_access.hpp"

namespace aiocann::sim {
namespace {

/// Both members of a pair are read before either is written: the result may lie where x does.
void rotate(float *y, const float *x, const float *cos, const float *sin, size_t first,
            size_t second) {
  const float a = x[first], b = x[second];
  y[first] = a * cos[first] - b * sin[first];
  y[second] = b * cos[second] + a * sin[second];
}

}  // namespace

int rotary_kernel(ExecContext &context, const void *args) {
  const auto &op = *static_cast<const OpArgs *>(args);
  const RotaryMode mode = op.as<RotaryParams>().mode;
  const View &out = op.views[0];
  const int n_outer = out.shape.rank - 1;
  const int64_t length = out.shape.dim[n_outer];
  const auto half = static_cast<size_t>(length / 2);
  parallel_chunks(context, outer_part(out, n_outer).count(), rows_per_task(length),
                  [&](int64_t begin, int64_t end) {
                    RowReader<float> xs(op.views[1], n_outer), cosines(op.views[2], n_outer),
                        sines(op.views[3], n_outer);
                    RowWriter<float> writer(out, n_outer);
                    for (int64_t row = begin; row < end; ++row) {
                      const float *x = xs.row(row), *cos = cosines.row(row), *sin = sines.row(row);
                      float *y = writer.begin(row);
                      if (mode == RotaryMode::kHalf) {
                        for (size_t i = 0; i < half; ++i) rotate(y, x, cos, sin, i, i + half);
                      } else {
                        for (size_t i = 0; i < half; ++i) rotate(y, x, cos, sin, 2 * i, 2 * i + 1);
                      }
                      writer.end();
                    }
                  });
  return 0;
}

}  // namespace aiocann::sim
