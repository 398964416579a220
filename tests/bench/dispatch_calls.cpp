// dispatch_calls.cpp: how a C program enqueues tiny ops. dispatch.py builds it as a library and runs it in its own
// process, so that it and aiocann's lane drive the same simulator, by turns.
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "acl/acl.h"
#include "aclnnop/aclnn_ops_math.h"
#include "aclnnop/aclnn_ops_nn.h"

namespace {

constexpr int64_t kRows = 4, kWidth = 64;

void ok(int code, const char *call) {
  if (code == 0) return;
  const char *text = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s: %d: %s\n", call, code, text == nullptr ? "" : text);
  std::exit(1);
}
#define OK(call) ok((call), #call)

aclrtContext context = nullptr;
aclrtStream stream = nullptr;
char *values[2] = {};      ///< each op reads one and writes the other
char *other, *ones, *rms;  ///< what is added, rms_norm's gamma, and what it also writes

aclTensor *tensor(void *data, std::initializer_list<int64_t> shape) {
  int64_t strides[2], stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape.begin()[i];
  }
  return aclCreateTensor(shape.begin(), shape.size(), ACL_FLOAT, strides, 0, ACL_FORMAT_ND,
                         shape.begin(), shape.size(), data);
}

aclTensor *matrix(void *data) { return tensor(data, {kRows, kWidth}); }

template <class GetSize, class Execute, class... Args>
void call(GetSize get_size, Execute execute, Args... args) {
  uint64_t bytes = 0;
  aclOpExecutor *executor = nullptr;
  OK(get_size(args..., &bytes, &executor));
  if (bytes != 0) std::abort();  // none of these asks for any
  OK(execute(nullptr, bytes, executor, stream));
}
#define CALL(function, ...) call(function##GetWorkspaceSize, function, __VA_ARGS__)

void destroy(std::initializer_list<aclTensor *> tensors) {
  for (aclTensor *one : tensors) OK(aclDestroyTensor(one));
}

void add(void *from, void *to) {
  aclTensor *x = matrix(from), *y = matrix(other), *out = matrix(to);
  float one = 1;
  aclScalar *alpha = aclCreateScalar(&one, ACL_FLOAT);
  CALL(aclnnAdd, x, y, alpha, out);
  OK(aclDestroyScalar(alpha));
  destroy({x, y, out});
}

void silu(void *from, void *to) {
  aclTensor *x = matrix(from), *out = matrix(to);
  CALL(aclnnSilu, x, out);
  destroy({x, out});
}

void rms_norm(void *from, void *to) {
  aclTensor *x = matrix(from), *gamma = tensor(ones, {kWidth}), *out = matrix(to);
  aclTensor *rstd = tensor(rms, {kRows, 1});
  CALL(aclnnRmsNorm, x, gamma, 1e-5, out, rstd);
  destroy({x, gamma, out, rstd});
}

void soft_max(void *from, void *to) {
  aclTensor *x = matrix(from), *out = matrix(to);
  CALL(aclnnSoftmax, x, int64_t{-1}, out);
  destroy({x, out});
}

void *allocate() {
  void *block = nullptr;
  OK(aclrtMalloc(&block, kRows * kWidth * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
  return block;
}

}  // namespace

extern "C" {

void dispatch_open(int32_t device) {
  OK(aclrtSetDevice(device));
  OK(aclrtGetCurrentContext(&context));
  OK(aclrtCreateStream(&stream));
  for (char **block : {&values[0], &values[1], &other, &ones, &rms}) {
    *block = static_cast<char *>(allocate());
    aclTensor *filled = matrix(*block);
    float one = 1;
    aclScalar *scalar = aclCreateScalar(&one, ACL_FLOAT);
    CALL(aclnnInplaceFillScalar, filled, scalar);
    OK(aclDestroyScalar(scalar));
    OK(aclDestroyTensor(filled));
  }
  OK(aclrtSynchronizeStream(stream));
}

/// Enqueues n ops, each of the result of the one before: add, or with is_mixed those above in turn. Returns the
/// seconds of CPU time that it took the calling thread, once all of it has run.
double dispatch_enqueue(int32_t n, int32_t is_mixed) {
  constexpr void (*kOps[])(void *, void *) = {add, silu, rms_norm, soft_max};
  OK(aclrtSetCurrentContext(context));
  timespec start, end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
  for (int32_t i = 0; i < n; ++i) kOps[is_mixed ? i % 4 : 0](values[i % 2], values[(i + 1) % 2]);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  OK(aclrtSynchronizeStream(stream));
  return static_cast<double>(end.tv_sec - start.tv_sec) +
         static_cast<double>(end.tv_nsec - start.tv_nsec) * 1e-9;
}

void dispatch_close(int32_t device) {
  OK(aclrtSetCurrentContext(context));
  OK(aclrtDestroyStream(stream));
  for (char *block : {values[0], values[1], other, ones, rms}) OK(aclrtFree(block));
  OK(aclrtResetDevice(device));
}

}  // extern "C"
