// Fills of words, copies in batches, reductions, random numbers, and time limits of operators.
#include <math.h>

#include "sim_rt.hpp"

namespace {

void words() {
  uint32_t *memory = static_cast<uint32_t *>(device_memory(64));
  CHECK_OK(aclrtMemset(memory, 64, 0, 64));
  CHECK_OK(aclrtMemsetD32(memory, 64, 0x01020304, 3));
  CHECK_EQ(memory[2], 0x01020304u);
  CHECK_EQ(memory[3], 0u);
  aclrtStream stream = new_stream();
  CHECK_OK(aclrtMemsetD32Async(memory, 64, 7, 16, stream));
  sync(stream);
  CHECK_EQ(memory[15], 7u);
  CHECK_OK(aclrtMemsetD32(memory, 64, 1, 0));
  CHECK_CODE(aclrtMemsetD32(memory, 64, 1, 17), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtMemsetD32(reinterpret_cast<char *>(memory) + 2, 32, 1, 1),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtMemsetD32(nullptr, 64, 1, 1), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtMemsetD32Async(memory, 1 << 20, 1, 1000, stream), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(memory));
}

void batches() {
  char *host = static_cast<char *>(pinned_memory(64));
  char *device = static_cast<char *>(device_memory(64));
  for (char i = 0; i < 64; ++i) host[static_cast<int>(i)] = i;
  void *dsts[] = {device, device + 8}, *srcs[] = {host + 1, host + 2};
  size_t capacities[] = {8, 8}, sizes[] = {1, 2}, indexes[] = {0}, failed = 7;
  aclrtMemcpyBatchAttr attrs[2] = {};
  attrs[0].dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
  attrs[0].srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST};
  CHECK_OK(aclrtMemcpyBatch(dsts, capacities, srcs, sizes, 2, attrs, indexes, 1, &failed));
  CHECK_EQ(failed, SIZE_MAX);
  CHECK_EQ(device[0] + device[9], 4);
  aclrtStream stream = new_stream();
  attrs[1].dstLoc = {0, ACL_MEM_LOCATION_TYPE_HOST};
  attrs[1].srcLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
  CHECK_OK(aclrtMemcpyBatchAsync(srcs, capacities, dsts, sizes, 2, attrs + 1, indexes, 1, &failed,
                                 stream));
  sync(stream);
  size_t both[] = {0, 1};
  CHECK_CODE(aclrtMemcpyBatch(dsts, capacities, srcs, sizes, 2, attrs, both, 2, &failed),
             ACL_ERROR_RT_PARAM_INVALID);  // one direction for all
  sizes[1] = 9;
  CHECK_CODE(aclrtMemcpyBatch(dsts, capacities, srcs, sizes, 2, attrs, indexes, 1, &failed),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_EQ(failed, 1);
  CHECK_CODE(aclrtMemcpyBatchV2(dsts, capacities, srcs, sizes, 0, attrs, indexes, 1),
             ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(
      aclrtMemcpyBatchAsyncV2(nullptr, capacities, srcs, sizes, 2, attrs, indexes, 1, stream),
      ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(device));
  CHECK_OK(aclrtFreeHost(host));
}

void reductions() {
  aclrtStream stream = new_stream();
  float *ours = static_cast<float *>(device_memory(4096 * 4));
  float *theirs = static_cast<float *>(device_memory(4096 * 4));
  for (int i = 0; i < 4096; ++i) ours[i] = static_cast<float>(i), theirs[i] = 100.5f;
  const auto reduce = [&](aclrtReduceKind kind, aclDataType type) {
    CHECK_OK(aclrtReduceAsync(ours, theirs, 4096 * 4, kind, type, stream, nullptr));
    sync(stream);
  };
  reduce(ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT);
  CHECK_EQ(ours[4095], 4195.5f);
  reduce(ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN, ACL_FLOAT);
  CHECK_EQ(ours[4095], 100.5f);
  reduce(ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX, ACL_FLOAT);
  CHECK_EQ(ours[0], 100.5f);
  // Integers wrap in their own type.
  auto *bytes = reinterpret_cast<int8_t *>(ours);
  auto *more = reinterpret_cast<int8_t *>(theirs);
  bytes[0] = 127;
  more[0] = 2;
  CHECK_OK(aclrtReduceAsync(bytes, more, 1, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT8, stream,
                            nullptr));
  sync(stream);
  CHECK_EQ(static_cast<int>(bytes[0]), -127);
  auto *halves = reinterpret_cast<aclFloat16 *>(ours);
  auto *more_halves = reinterpret_cast<aclFloat16 *>(theirs);
  halves[0] = aclFloatToFloat16(1.5f);
  more_halves[0] = aclFloatToFloat16(2.25f);
  CHECK_OK(aclrtReduceAsync(halves, more_halves, 2, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT16,
                            stream, nullptr));
  sync(stream);
  CHECK_EQ(aclFloat16ToFloat(halves[0]), 3.75f);
  CHECK_CODE(aclrtReduceAsync(ours, theirs, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_DOUBLE, stream,
                              nullptr),
             ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtReduceAsync(ours, theirs, 8, static_cast<aclrtReduceKind>(9), ACL_FLOAT, stream,
                              nullptr),
             ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtReduceAsync(ours, theirs, 3, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, stream,
                              nullptr),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(ours));
  CHECK_OK(aclrtFree(theirs));
}

template <class T>
void reduce_one(aclDataType type, T ours, T theirs, T expected, aclrtReduceKind kind) {
  T *dst = static_cast<T *>(device_memory(sizeof(T)));
  T *src = static_cast<T *>(device_memory(sizeof(T)));
  CHECK_OK(aclrtMemcpy(dst, sizeof(T), &ours, sizeof(T), ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK_OK(aclrtMemcpy(src, sizeof(T), &theirs, sizeof(T), ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK_OK(aclrtReduceAsync(dst, src, sizeof(T), kind, type, nullptr, nullptr));
  sync(nullptr);
  T found{};
  CHECK_OK(aclrtMemcpy(&found, sizeof(T), dst, sizeof(T), ACL_MEMCPY_DEVICE_TO_HOST));
  CHECK_EQ(static_cast<double>(found), static_cast<double>(expected));
  CHECK_OK(aclrtFree(dst));
  CHECK_OK(aclrtFree(src));
}

void reductions_of_every_type() {
  const struct {
    aclrtReduceKind kind;
    int expected;  ///< of 5 and 3
  } rows[] = {{ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, 8},
              {ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX, 5},
              {ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN, 3},
              {ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL, 3}};
  CHECK_EQ(ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, 10);
  const auto half = [](int value) { return aclFloatToFloat16(static_cast<float>(value)); };
  const auto bfloat = [](int value) {  // whole numbers this small need no rounding
    const float wide = static_cast<float>(value);
    uint32_t bits = 0;
    memcpy(&bits, &wide, sizeof bits);
    return static_cast<uint16_t>(bits >> 16);
  };
  for (const auto &[kind, expected] : rows) {
    reduce_one<int8_t>(ACL_INT8, 5, 3, static_cast<int8_t>(expected), kind);
    reduce_one<int16_t>(ACL_INT16, 5, 3, static_cast<int16_t>(expected), kind);
    reduce_one<int32_t>(ACL_INT32, 5, 3, expected, kind);
    reduce_one<float>(ACL_FLOAT, 5, 3, static_cast<float>(expected), kind);
    reduce_one<uint16_t>(ACL_FLOAT16, half(5), half(3), half(expected), kind);
    reduce_one<uint16_t>(ACL_BF16, bfloat(5), bfloat(3), bfloat(expected), kind);
  }
}

template <class T>
aclrtRandomParaInfo plain(T value) {
  aclrtRandomParaInfo info = {};
  memcpy(info.valueOrAddr, &value, sizeof value);
  info.size = sizeof value;
  return info;
}

void random_numbers() {
  constexpr size_t kNumbers = 20000;
  float *out = static_cast<float *>(device_memory(kNumbers * 4));
  aclrtStream stream = new_stream();
  aclrtRandomNumTaskInfo task = {};
  task.dataType = ACL_FLOAT;
  task.randomNumFuncParaInfo.funcType = ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS;
  task.randomNumFuncParaInfo.paramInfo.uniformDisInfo = {plain(2.0f), plain(4.0f)};
  task.randomResultAddr = out;
  task.randomSeed = plain(uint64_t{42});
  task.randomNum = plain(uint64_t{kNumbers});
  const auto run = [&] {
    CHECK_OK(aclrtRandomNumAsync(&task, stream, nullptr));
    sync(stream);
  };
  const auto moments = [&](double *mean, double *deviation) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < kNumbers; ++i) sum += out[i], squares += double{out[i]} * out[i];
    *mean = sum / kNumbers;
    *deviation = sqrt(squares / kNumbers - *mean * *mean);
  };
  double mean = 0, deviation = 0;
  run();
  for (size_t i = 0; i < kNumbers; ++i) CHECK(out[i] >= 2 && out[i] <= 4);
  moments(&mean, &deviation);
  CHECK(fabs(mean - 3) < 0.05 && fabs(deviation - 0.577) < 0.02);
  const float first = out[0], last = out[kNumbers - 1];
  run();  // the same seed, the same numbers
  CHECK(out[0] == first && out[kNumbers - 1] == last);
  task.randomSeed = plain(uint64_t{43});
  run();
  CHECK(out[0] != first);
  task.randomNumFuncParaInfo.funcType = ACL_RT_RANDOM_NUM_FUNC_TYPE_NORMAL_DIS;
  task.randomNumFuncParaInfo.paramInfo.normalDisInfo = {plain(1.0f), plain(2.0f)};
  run();
  moments(&mean, &deviation);
  CHECK(fabs(mean - 1) < 0.08 && fabs(deviation - 2) < 0.08);
  task.randomNumFuncParaInfo.funcType = ACL_RT_RANDOM_NUM_FUNC_TYPE_TRUNCATED_NORMAL_DIS;
  run();
  for (size_t i = 0; i < kNumbers; ++i) CHECK(out[i] >= -3.001f && out[i] <= 5.001f);
  task.randomNumFuncParaInfo.funcType = ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK;
  task.randomNumFuncParaInfo.paramInfo.dropoutBitmaskInfo = {plain(0.25f)};
  run();
  int kept = 0;
  for (size_t i = 0; i < kNumbers / 8; ++i)
    kept += __builtin_popcount(reinterpret_cast<uint8_t *>(out)[i]);
  CHECK(kept > 14500 && kept < 15500);
  task.randomNum = plain(uint64_t{1} << 40);
  CHECK_OK(aclrtRandomNumAsync(&task, stream, nullptr));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_AICORE_EXCEPTION);  // beyond the memory
  task.dataType = ACL_INT8;
  CHECK_CODE(aclrtRandomNumAsync(&task, stream, nullptr), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtRandomNumAsync(nullptr, stream, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(out));
}

void time_limits() {
  uint32_t ms = 0;
  uint64_t actual = 0;
  CHECK_OK(aclrtGetOpExecuteTimeout(&ms));
  CHECK_EQ(ms, 1091000);
  CHECK_OK(aclrtSetOpExecuteTimeOut(3));
  CHECK_OK(aclrtGetOpExecuteTimeout(&ms));
  CHECK_EQ(ms, 3000);
  CHECK_OK(aclrtSetOpExecuteTimeOutWithMs(5));
  CHECK_OK(aclrtGetOpExecuteTimeout(&ms));
  CHECK_EQ(ms, 5);
  CHECK_OK(aclrtSetOpExecuteTimeOutV2(7000, &actual));
  CHECK_EQ(actual, 7000);
  CHECK_OK(aclrtSetOpExecuteTimeOutV2(UINT64_MAX, &actual));
  CHECK_EQ(actual, 1091000000);
  CHECK_OK(aclrtSetOpExecuteTimeOut(0));  // the longest
  CHECK_OK(aclrtGetOpExecuteTimeout(&ms));
  CHECK_EQ(ms, 1091000);
  CHECK_CODE(aclrtGetOpExecuteTimeout(nullptr), ACL_ERROR_INVALID_PARAM);
}

}  // namespace

int main() {
  start(1, "64M");
  words();
  batches();
  reductions();
  reductions_of_every_type();
  random_numbers();
  time_limits();
  return 0;
}
