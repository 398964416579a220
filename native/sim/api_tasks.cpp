// api_tasks.cpp: fills of words, copies in batches, reductions and random numbers: tasks that no operator library makes.
#include <math.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "sim/copy.hpp"
#include "sim/entry.hpp"
#include "sim/kernels/convert.hpp"
#include "sim/lookup.hpp"
#include "sim/machine.hpp"
#include "sim/task.hpp"

namespace aiocann::sim {
namespace {

constexpr size_t kBlock = 1024;

// ---- words ----

struct FillArgs {
  uint32_t *words;
  uint32_t value;
  size_t n;
};

int fill_words(ExecContext &, const void *args) {
  const auto &fill = *static_cast<const FillArgs *>(args);
  std::fill(fill.words, fill.words + fill.n, fill.value);
  return 0;
}

aclError check_words(const char *function, const void *pointer, size_t bytes, size_t n) {
  if (const aclError code = require_hbm_soc(function)) return code;
  if (reinterpret_cast<uintptr_t>(pointer) % 4 != 0)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is not aligned to 4 bytes", function, pointer);
  if (n > bytes / 4)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %zu words are more than %zu bytes", function, n,
                bytes);
  const Location where = machine().locate(pointer);
  if (where.arena != nullptr && where.arena->check(pointer, 4 * n) != Arena::Check::kOutside)
    return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %zu words at %p are not within one allocated block",
              function, n, pointer);
}

// ---- batches ----

struct Batch {
  void **dsts;
  size_t *capacities;
  void **srcs;
  size_t *sizes;
  size_t n;
  aclrtMemcpyBatchAttr *attrs;
  size_t *attr_indexes;
  size_t n_attrs;
};

/// All of one direction: what the first one says.
aclError check_batch(const char *function, const Batch &batch, aclrtMemcpyKind *kind) {
  if (const aclError code = require_hbm_soc(function)) return code;
  if (batch.dsts == nullptr || batch.capacities == nullptr || batch.srcs == nullptr ||
      batch.sizes == nullptr || batch.attrs == nullptr || batch.attr_indexes == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: a list is NULL", function);
  }
  if (batch.n == 0 || batch.n_attrs == 0 || batch.n_attrs > batch.n)
    return fail(ACL_ERROR_INVALID_PARAM, "%s: %zu copies with %zu attributes", function, batch.n,
                batch.n_attrs);
  if (batch.attr_indexes[0] != 0)
    return fail(ACL_ERROR_INVALID_PARAM, "%s: the first attribute is not for the first copy",
                function);
  for (size_t i = 0; i < batch.n_attrs; ++i) {
    const bool to_device = batch.attrs[i].dstLoc.type == ACL_MEM_LOCATION_TYPE_DEVICE;
    const bool from_device = batch.attrs[i].srcLoc.type == ACL_MEM_LOCATION_TYPE_DEVICE;
    const aclrtMemcpyKind own = to_device ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_DEVICE_TO_HOST;
    if (to_device == from_device || (i > 0 && own != *kind))
      return fail(ACL_ERROR_RT_PARAM_INVALID,
                  "%s: all copies go from host to device, or all from device to host", function);
    if (i > 0 &&
        (batch.attr_indexes[i] <= batch.attr_indexes[i - 1] || batch.attr_indexes[i] >= batch.n))
      return fail(ACL_ERROR_INVALID_PARAM, "%s: the attributes' indexes do not ascend", function);
    *kind = own;
  }
  return ACL_SUCCESS;
}

/// `copy` one after the other; `fail_index`: the first that failed.
template <class Copy>
aclError for_batch(const Batch &batch, size_t *fail_index, Copy &&copy) {
  if (fail_index != nullptr) *fail_index = SIZE_MAX;
  for (size_t i = 0; i < batch.n; ++i) {
    const aclError code = copy(i);
    if (code == ACL_SUCCESS) continue;
    if (fail_index != nullptr) *fail_index = i;
    return code;
  }
  return ACL_SUCCESS;
}

// ---- reductions ----

struct ReduceArgs {
  void *dst;
  const void *src;
  size_t n;
  aclrtReduceKind kind;
  aclDataType type;
};

template <class T>
T combine(aclrtReduceKind kind, T a, T b) {
  switch (kind) {
    case ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM:
      return a + b;
    case ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX:
      return std::max(a, b);
    case ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN:
      return std::min(a, b);
    default:  // ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL
      return b;
  }
}

template <class T>
void reduce(const ReduceArgs &args) {
  T ours[kBlock], theirs[kBlock];
  const size_t item = size_of(args.type);
  for (size_t begin = 0; begin < args.n; begin += kBlock) {
    const size_t n = std::min(kBlock, args.n - begin);
    char *const at = static_cast<char *>(args.dst) + begin * item;
    read_elements(ours, at, args.type, n);
    read_elements(theirs, static_cast<const char *>(args.src) + begin * item, args.type, n);
    for (size_t i = 0; i < n; ++i) ours[i] = combine(args.kind, ours[i], theirs[i]);
    write_elements(at, args.type, ours, n);
  }
}

int run_reduce(ExecContext &, const void *args) {
  const auto &reduction = *static_cast<const ReduceArgs *>(args);
  if (is_float(reduction.type))
    reduce<float>(reduction);
  else
    reduce<int64_t>(reduction);
  return 0;
}

// ---- random numbers ----

/// The numbers of the device's generator are not published: these are others with the same distributions. They
/// depend on seed, counter and place alone.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

/// In (0, 1).
double unit(uint64_t key, uint64_t place) {
  return (static_cast<double>(mix(key ^ mix(place)) >> 11) + 0.5) * 0x1p-53;
}

uint64_t word_of(const aclrtRandomParaInfo &info) {
  uint64_t value = 0;
  memcpy(&value, info.valueOrAddr, sizeof info.valueOrAddr);
  if (info.isAddr == 0) return value;
  uint64_t found = 0;
  memcpy(&found, reinterpret_cast<const void *>(value), std::min<size_t>(info.size, sizeof found));
  return found;
}

double number_of(const aclrtRandomParaInfo &info, aclDataType type) {
  const uint64_t word = word_of(info);
  double value = 0;
  read_elements(&value, &word, type, 1);
  return value;
}

int run_random(ExecContext &, const void *args) {
  const auto &task = *static_cast<const aclrtRandomNumTaskInfo *>(args);
  uint64_t counter = 0;
  if (task.randomCounterAddr != nullptr) memcpy(&counter, task.randomCounterAddr, sizeof counter);
  const uint64_t key = mix(word_of(task.randomSeed)) ^ mix(~counter);
  const uint64_t n = word_of(task.randomNum);
  const auto &parameters = task.randomNumFuncParaInfo.paramInfo;
  const aclrtRandomNumFuncType function = task.randomNumFuncParaInfo.funcType;
  if (function == ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK) {
    const double kept = 1 - number_of(parameters.dropoutBitmaskInfo.dropoutRation, task.dataType);
    auto *const bits = static_cast<uint8_t *>(task.randomResultAddr);
    memset(bits, 0, (n + 7) / 8);
    for (uint64_t i = 0; i < n; ++i) {
      if (unit(key, i) < kept) bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | 1u << i % 8);
    }
    return 0;
  }
  const bool uniform = function == ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS;
  const double a = uniform ? number_of(parameters.uniformDisInfo.min, task.dataType)
                           : number_of(parameters.normalDisInfo.mean, task.dataType);
  const double b = uniform ? number_of(parameters.uniformDisInfo.max, task.dataType)
                           : number_of(parameters.normalDisInfo.stddev, task.dataType);
  char *const out = static_cast<char *>(task.randomResultAddr);
  const size_t item = size_of(task.dataType);
  for (uint64_t i = 0; i < n; ++i) {
    double value = a + (b - a) * unit(key, i);
    for (uint64_t turn = 0; !uniform; ++turn) {
      const double radius = sqrt(-2 * log(unit(key, 2 * i + (turn << 48))));
      const double normal = radius * cos(2 * M_PI * unit(key, 2 * i + 1 + (turn << 48)));
      value = a + b * normal;
      if (function == ACL_RT_RANDOM_NUM_FUNC_TYPE_NORMAL_DIS || fabs(normal) <= 2) break;
    }
    write_elements(out + i * item, task.dataType, &value, 1);
  }
  return 0;
}

// ---- time limits of operators ----

std::atomic<uint64_t> g_execute_timeout_us{
    0};  ///< told back; kernels are never cut short. 0: the longest

uint64_t longest_timeout_us() { return machine().config().soc->ddr_only ? 547000000 : 1091000000; }

uint64_t execute_timeout_us() {
  const uint64_t wished = g_execute_timeout_us.load(), longest = longest_timeout_us();
  return wished == 0 ? longest : std::min(wished, longest);
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N) {
  ACL_ENTRY();
  if (N == 0) return ACL_SUCCESS;
  REQUIRE_NOT_NULL(ptr);
  if (const aclError code = check_words("aclrtMemsetD32", ptr, memSize, N)) return code;
  std::fill(static_cast<uint32_t *>(ptr), static_cast<uint32_t *>(ptr) + N, value);
  return ACL_SUCCESS;
}

aclError aclrtMemsetD32Async(void *ptr, size_t memSize, uint32_t value, size_t N,
                             aclrtStream stream) {
  ACL_ENTRY();
  if (N == 0) return ACL_SUCCESS;
  REQUIRE_NOT_NULL(ptr);
  if (const aclError code = check_words("aclrtMemsetD32Async", ptr, memSize, N)) return code;
  KernelTask task;
  task.name = "aclrtMemsetD32Async";
  task.fn = fill_words;
  task.args = std::make_shared<const FillArgs>(FillArgs{static_cast<uint32_t *>(ptr), value, N});
  task.operands = {Operand{ptr, 4 * N, true}};
  return submit_kernel(stream, std::move(task));
}

aclError aclrtMemcpyBatch(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
                          size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
                          size_t numAttrs, size_t *failIndex) {
  ACL_ENTRY();
  const Batch batch{dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs};
  aclrtMemcpyKind kind = ACL_MEMCPY_DEFAULT;
  if (const aclError code = check_batch("aclrtMemcpyBatch", batch, &kind)) return code;
  return for_batch(batch, failIndex, [&](size_t i) {
    return aclrtMemcpy(dsts[i], destMaxs[i], srcs[i], sizes[i], kind);
  });
}

aclError aclrtMemcpyBatchV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
                            size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
                            size_t numAttrs) {
  ACL_ENTRY();
  return aclrtMemcpyBatch(dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs,
                          nullptr);
}

aclError aclrtMemcpyBatchAsync(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
                               size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
                               size_t numAttrs, size_t *failIndex, aclrtStream stream) {
  ACL_ENTRY();
  const Batch batch{dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs};
  aclrtMemcpyKind kind = ACL_MEMCPY_DEFAULT;
  if (const aclError code = check_batch("aclrtMemcpyBatchAsync", batch, &kind)) return code;
  return for_batch(batch, failIndex, [&](size_t i) {
    return aclrtMemcpyAsync(dsts[i], destMaxs[i], srcs[i], sizes[i], kind, stream);
  });
}

aclError aclrtMemcpyBatchAsyncV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
                                 size_t numBatches, aclrtMemcpyBatchAttr *attrs,
                                 size_t *attrsIndexes, size_t numAttrs, aclrtStream stream) {
  ACL_ENTRY();
  return aclrtMemcpyBatchAsync(dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes,
                               numAttrs, nullptr, stream);
}

aclError aclrtReduceAsync(void *dst, const void *src, uint64_t count, aclrtReduceKind kind,
                          aclDataType type, aclrtStream stream, void *reserve) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(dst);
  REQUIRE_NOT_NULL(src);
  if (reserve != nullptr) return fail(ACL_ERROR_INVALID_PARAM, "reserve must be NULL");
  if (kind < ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM || kind > ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL)
    return fail(ACL_ERROR_INVALID_PARAM, "reduction %d is not known", static_cast<int>(kind));
  const bool is_310p = machine().config().soc->ddr_only;
  const DTypeSet supported =
      is_310p ? DTypeSet::of(ACL_FLOAT, ACL_FLOAT16, ACL_INT16)
              : DTypeSet::of(ACL_INT8, ACL_INT16, ACL_INT32, ACL_FLOAT16, ACL_FLOAT, ACL_BF16);
  if (!supported.has(type))
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtReduceAsync: %s is not supported",
                name_of(type));
  if (count == 0 || count % size_of(type) != 0)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtReduceAsync: %llu bytes are no whole elements",
                static_cast<unsigned long long>(count));
  KernelTask task;
  task.name = "aclrtReduceAsync";
  task.fn = run_reduce;
  task.args =
      std::make_shared<const ReduceArgs>(ReduceArgs{dst, src, count / size_of(type), kind, type});
  task.operands = {Operand{src, count, false}, Operand{dst, count, true}};
  return submit_kernel(stream, std::move(task));
}

aclError aclrtRandomNumAsync(const aclrtRandomNumTaskInfo *taskInfo, const aclrtStream stream,
                             void *reserve) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(taskInfo);
  REQUIRE_NOT_NULL(taskInfo->randomResultAddr);
  if (reserve != nullptr) return fail(ACL_ERROR_INVALID_PARAM, "reserve must be NULL");
  const int function = static_cast<int>(taskInfo->randomNumFuncParaInfo.funcType);
  if (function < ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK ||
      function > ACL_RT_RANDOM_NUM_FUNC_TYPE_TRUNCATED_NORMAL_DIS) {
    return fail(ACL_ERROR_INVALID_PARAM, "random function %d is not known", function);
  }
  constexpr DTypeSet kSupported =
      DTypeSet::of(ACL_INT32, ACL_INT64, ACL_UINT32, ACL_UINT64, ACL_BF16, ACL_FLOAT16, ACL_FLOAT);
  if (!kSupported.has(taskInfo->dataType))
    return fail(ACL_ERROR_RT_PARAM_INVALID, "random numbers of type %s are not supported",
                name_of(taskInfo->dataType));
  KernelTask task;
  task.name = "aclrtRandomNumAsync";
  task.fn = run_random;
  task.args = std::make_shared<const aclrtRandomNumTaskInfo>(*taskInfo);
  if (taskInfo->randomNum.isAddr == 0) {
    const uint64_t n = word_of(taskInfo->randomNum);
    const uint64_t bytes = function == ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK
                               ? (n + 7) / 8
                               : n * size_of(taskInfo->dataType);
    task.operands = {Operand{taskInfo->randomResultAddr, bytes, true}};
  }
  return submit_kernel(stream, std::move(task));
}

aclError aclrtSetOpExecuteTimeOut(uint32_t timeout) {
  ACL_ENTRY();
  g_execute_timeout_us.store(timeout * uint64_t{1000000});
  return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout) {
  ACL_ENTRY();
  g_execute_timeout_us.store(timeout * uint64_t{1000});
  return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(actualTimeout);
  if (const aclError code = machine().prepare()) return code;
  g_execute_timeout_us.store(timeout);
  *actualTimeout = execute_timeout_us();
  return ACL_SUCCESS;
}

aclError aclrtGetOpExecuteTimeout(uint32_t *const timeoutMs) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(timeoutMs);
  if (const aclError code = machine().prepare()) return code;
  *timeoutMs = static_cast<uint32_t>(execute_timeout_us() / 1000);
  return ACL_SUCCESS;
}
