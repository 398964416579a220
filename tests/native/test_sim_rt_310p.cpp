// The SoC without HBM: what it has less of, and what it does not have at all.
#include <sys/mman.h>

#include "sim_rt.hpp"

namespace {

void fewer_resources() {
  CHECK_EQ(std::string(aclrtGetSocName()), "Ascend310P3");
  int64_t value = 0;
  CHECK_OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_AICORE_CORE_NUM, &value));
  CHECK_EQ(value, 8);
  CHECK_OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_VECTOR_CORE_NUM, &value));
  CHECK_EQ(value, 7);
  CHECK_OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_NPU_ARCH, &value));
  CHECK_EQ(value, 2002);
  // Questions about HBM are answered for the memory that there is.
  for (const aclrtMemAttr attr : {ACL_DDR_MEM, ACL_HBM_MEM, ACL_HBM_MEM_HUGE, ACL_DDR_MEM_NORMAL}) {
    size_t free = 0, total = 0;
    CHECK_OK(aclrtGetMemInfo(attr, &free, &total));
    CHECK_EQ(total, 64 * kMiB);
  }
  std::vector<aclrtStream> streams(1023);  // the default stream is the 1024th
  for (aclrtStream &stream : streams) stream = new_stream();
  aclrtStream stream = nullptr;
  CHECK_CODE(aclrtCreateStream(&stream), ACL_ERROR_RT_NO_STREAM_RESOURCE);
  for (aclrtStream made : streams) CHECK_OK(aclrtDestroyStream(made));
  std::vector<aclrtEvent> events(1023);
  for (aclrtEvent &event : events) event = new_event();
  aclrtEvent event = nullptr;
  CHECK_CODE(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC), ACL_ERROR_RT_NO_EVENT_RESOURCE);
  for (aclrtEvent made : events) CHECK_OK(aclrtDestroyEvent(made));
  uint32_t ms = 0;
  CHECK_OK(aclrtGetOpExecuteTimeout(&ms));
  CHECK_EQ(ms, 547000);
  CHECK_OK(aclrtSetOpExecuteTimeOut(2000));  // more than there is
  CHECK_OK(aclrtGetOpExecuteTimeout(&ms));
  CHECK_EQ(ms, 547000);
}

void streams_do_less() {
  aclrtStream stream = new_stream();
  CHECK_CODE(aclrtStreamAbort(stream), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  aclrtStreamAttrValue value = {};
  CHECK_CODE(aclrtSetStreamFailureMode(nullptr, 1), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtSetStreamAttribute(nullptr, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value),
             ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtGetStreamAttribute(nullptr, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value),
             ACL_ERROR_RT_PARAM_INVALID);
  value.userCustomTag = 3;
  CHECK_OK(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value));
  CHECK_OK(aclrtDestroyStream(stream));
}

void events_do_less() {
  aclrtEvent event = new_event(), ipc = nullptr;
  CHECK_CODE(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtRecordEventWithFlag(event, nullptr, 0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtStreamWaitEventWithFlag(nullptr, event, 0, 0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtSetOpWaitTimeout(1), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_OK(aclrtDestroyEvent(event));
}

void memory_does_less() {
  char *memory = static_cast<char *>(device_memory(kKiB)),
       *pinned = static_cast<char *>(pinned_memory(kKiB));
  void *pointer = nullptr;
  CHECK_CODE(aclrtMemAllocManaged(&pointer, 64, ACL_RT_MEM_ATTACH_GLOBAL),
             ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtMemsetD32(memory, kKiB, 1, 1), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtMemsetD32Async(memory, kKiB, 1, 1, nullptr), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtValueWrite(memory, 1, 0, nullptr), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtValueWait(memory, 1, 0, nullptr), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  void *host = mmap(nullptr, 4 * kKiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(host != MAP_FAILED);
  CHECK_CODE(aclrtHostRegister(host, 4 * kKiB, ACL_HOST_REGISTER_MAPPED, &pointer),
             ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtHostRegisterV2(host, 4 * kKiB, ACL_HOST_REG_MAPPED),
             ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtHostUnregister(host), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_EQ(munmap(host, 4 * kKiB), 0);
  void *dsts[] = {memory}, *srcs[] = {pinned};
  size_t capacities[] = {8}, sizes[] = {8}, indexes[] = {0}, failed = 0;
  aclrtMemcpyBatchAttr attr = {};
  attr.dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
  CHECK_CODE(aclrtMemcpyBatch(dsts, capacities, srcs, sizes, 1, &attr, indexes, 1, &failed),
             ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(
      aclrtMemcpyBatchAsync(dsts, capacities, srcs, sizes, 1, &attr, indexes, 1, &failed, nullptr),
      ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  // Rows between host and device alone.
  memset(pinned, 5, kKiB);
  CHECK_OK(aclrtMemcpy2dAsync(memory, 32, pinned, 32, 16, 4, ACL_MEMCPY_HOST_TO_DEVICE, nullptr));
  CHECK_CODE(
      aclrtMemcpy2dAsync(memory + 512, 32, memory, 32, 16, 4, ACL_MEMCPY_DEVICE_TO_DEVICE, nullptr),
      ACL_ERROR_RT_PARAM_INVALID);
  sync(nullptr);
  // Shared between processes is what was allocated for that.
  char key[65];
  CHECK_CODE(aclrtIpcMemGetExportKey(memory, kKiB, key, sizeof key, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtMalloc(&pointer, kKiB, ACL_MEM_MALLOC_HUGE_FIRST_P2P));
  CHECK_OK(aclrtIpcMemGetExportKey(pointer, kKiB, key, sizeof key, 0));
  CHECK_OK(aclrtIpcMemClose(key));
  for (void *made : {static_cast<void *>(memory), pointer}) CHECK_OK(aclrtFree(made));
  CHECK_OK(aclrtFreeHost(pinned));
}

void graphs_are_not_updated() {
  aclrtStream stream = new_stream();
  char *pinned = static_cast<char *>(pinned_memory(64));
  aclmdlRI model = nullptr;
  aclrtTaskGrp group = nullptr;
  CHECK_OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  CHECK_OK(aclrtMemsetAsync(pinned, 64, 7, 64, stream));
  CHECK_OK(aclmdlRICaptureTaskGrpBegin(stream));
  CHECK_OK(aclmdlRICaptureTaskGrpEnd(stream, &group));
  CHECK_OK(aclmdlRICaptureEnd(stream, &model));
  CHECK_CODE(aclmdlRICaptureTaskUpdateBegin(stream, group), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  sync(stream);
  CHECK_EQ(pinned[63], 7);
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFreeHost(pinned));
}

void fewer_types() {
  int32_t bf16 = -1;
  CHECK_OK(aclGetCannAttribute(ACL_CANN_ATTR_BF16, &bf16));
  CHECK_EQ(bf16, 0);
  void *a = device_memory(64), *b = device_memory(64);
  const auto reduce = [a, b](aclDataType type) {
    return aclrtReduceAsync(a, b, 64, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, type, nullptr, nullptr);
  };
  CHECK_OK(aclrtMemset(a, 64, 0, 64));
  CHECK_OK(aclrtMemset(b, 64, 0, 64));
  for (const aclDataType type : {ACL_FLOAT, ACL_FLOAT16, ACL_INT16}) CHECK_OK(reduce(type));
  for (const aclDataType type : {ACL_INT8, ACL_INT32, ACL_BF16})
    CHECK_CODE(reduce(type), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  sync(nullptr);
  const int64_t dims[] = {4};
  aclTensor *x = aclCreateTensor(dims, 1, ACL_BF16, nullptr, 0, ACL_FORMAT_ND, dims, 1, a);
  uint64_t size = 0;
  aclOpExecutor *executor = nullptr;
  CHECK_CODE(aclnnInplaceExpGetWorkspaceSize(x, &size, &executor), ACLNN_ERR_PARAM_INVALID);
  CHECK_CONTAINS(recent(), "BF16");
  CHECK_OK(aclDestroyTensor(x));
  for (void *made : {a, b}) CHECK_OK(aclrtFree(made));
}

/// Operators that it does not have say so, whatever else is wrong.
void fewer_operators() {
  const int64_t shape[] = {1, 1, 4, 4}, pair[] = {2, 2};
  aclTensor *x =
      aclCreateTensor(shape, 4, ACL_FLOAT16, nullptr, 0, ACL_FORMAT_ND, shape, 4, nullptr);
  aclTensor *listed =
      aclCreateTensor(shape, 4, ACL_FLOAT16, nullptr, 0, ACL_FORMAT_ND, shape, 4, nullptr);
  aclIntArray *two = aclCreateIntArray(pair, 2);
  aclTensorList *list = aclCreateTensorList(&listed, 1);
  uint64_t size = 0;
  aclOpExecutor *executor = nullptr;
  CHECK_CODE(aclnnMaxPoolGetWorkspaceSize(x, two, two, 0, two, two, 0, x, &size, &executor),
             ACLNN_ERR_RUNTIME_ERROR);
  CHECK_CODE(aclnnWeightQuantBatchMatmulV2GetWorkspaceSize(x, x, x, nullptr, nullptr, nullptr,
                                                           nullptr, 0, x, &size, &executor),
             ACLNN_ERR_RUNTIME_ERROR);
  char layout[] = "BNSD";
  CHECK_CODE(aclnnFusedInferAttentionScoreV2GetWorkspaceSize(
                 x, list, list, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                 nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                 nullptr, nullptr, nullptr, nullptr, nullptr, 1, 1, 0, 0, layout, 1, 0, 0, 0, 0,
                 false, 0, 0, x, nullptr, &size, &executor),
             ACLNN_ERR_RUNTIME_ERROR);
  CHECK_OK(aclDestroyTensorList(list));
  CHECK_OK(aclDestroyIntArray(two));
  CHECK_OK(aclDestroyTensor(x));
}

}  // namespace

int main() {
  configure("soc", "Ascend310P3");
  start(1, "64M");
  fewer_resources();
  streams_do_less();
  events_do_less();
  memory_does_less();
  graphs_are_not_updated();
  fewer_types();
  fewer_operators();
  CHECK_OK(aclrtResetDevice(0));
  CHECK_OK(aclFinalize());
  return 0;
}
