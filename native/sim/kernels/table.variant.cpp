#include "sim/kernels/loops.hpp"

namespace aiocann::sim::AIOCANN_VARIANT {

#define AIOCANN_TEXT(x) #x
#define AIOCANN_NAME(x) AIOCANN_TEXT(x)

extern const KernelTable kTable;
const KernelTable kTable = {
    AIOCANN_NAME(AIOCANN_VARIANT),
    f16_to_f32,
    f32_to_f16,
    bf16_to_f32,
    f32_to_bf16,
    round_hf32,
    unary,
    binary,
    sum,
    sum_squares,
    sum_abs,
    max,
    accumulate,
    exp_shifted,
    normalise,
    widen,
    quant_arrange,
    quant_dot,
    transpose,
    gemm,
};

}  // namespace aiocann::sim::AIOCANN_VARIANT
