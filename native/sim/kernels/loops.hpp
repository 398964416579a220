// loops.hpp: the functions of a variant's table, as its *.variant.cpp files share them. See table.hpp.
#pragma once
#include "sim/kernels/table.hpp"

namespace aiocann::sim::AIOCANN_VARIANT {

void f16_to_f32(float *out, const uint16_t *in, size_t n);
void f32_to_f16(uint16_t *out, const float *in, size_t n);
void bf16_to_f32(float *out, const uint16_t *in, size_t n);
void f32_to_bf16(uint16_t *out, const float *in, size_t n);
void round_hf32(float *data, size_t n);

void unary(UnaryOp op, float *out, const float *in, size_t n, float a, float b, float c);
void binary(BinaryOp op, float *out, const float *x, const float *y, size_t n, float alpha);

double sum(const float *in, size_t n);
double sum_squares(const float *in, size_t n, float centre);
double sum_abs(const float *in, size_t n);
float max(const float *in, size_t n);
void accumulate(ReduceOp op, float *acc, const float *in, size_t n);
double exp_shifted(float *out, const float *in, size_t n, float shift);
void normalise(float *out, const float *in, size_t n, float mean, float rstd, const float *weight,
               const float *bias);

void widen(float *out, const void *in, int bits, size_t n);
void quant_arrange(float *out, const float *in, int bits, size_t n);
float quant_dot(const void *w, int bits, const float *x, const float *scale, size_t n,
                size_t group);

void transpose(void *out, const void *in, size_t rows, size_t cols, ptrdiff_t out_stride,
               ptrdiff_t in_stride, size_t item);
void gemm(size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b, size_t ldb,
          float *c, size_t ldc);

}  // namespace aiocann::sim::AIOCANN_VARIANT
