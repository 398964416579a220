// What programs set and ask: stream attributes and configurations, limits, saturation, versions, callbacks on states,
// allocators of their own, descriptions of buffers.
#include "sim_rt.hpp"

namespace {

void stream_attributes() {
  aclrtStream stream = new_stream();
  aclrtStreamAttrValue value = {};
  value.userCustomTag = 77;
  CHECK_OK(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value));
  value.streamPriority = 5;
  CHECK_OK(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_PRIORITY, &value));
  value.streamPriority = 8;
  CHECK_CODE(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_PRIORITY, &value),
             ACL_ERROR_RT_PARAM_INVALID);
  value.cacheOpInfoSwitch = 1;
  CHECK_OK(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &value));
  value.overflowSwitch = 2;
  CHECK_CODE(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, &value),
             ACL_ERROR_RT_PARAM_INVALID);
  value.overflowSwitch = 1;
  CHECK_OK(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, &value));
  CHECK_OK(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value));
  CHECK_EQ(value.userCustomTag, 77);
  CHECK_OK(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_PRIORITY, &value));
  CHECK_EQ(value.streamPriority, 5);
  CHECK_OK(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &value));
  CHECK_EQ(value.cacheOpInfoSwitch, 1);
  CHECK_OK(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &value));
  CHECK_EQ(value.failureMode, 0);
  uint32_t flag = 0, priority = 0;
  CHECK_OK(aclrtGetStreamOverflowSwitch(stream, &flag));
  CHECK_EQ(flag, 1);
  CHECK_OK(aclrtStreamGetPriority(stream, &priority));
  CHECK_EQ(priority, 5);
  CHECK_OK(aclrtSetStreamOverflowSwitch(stream, 0));
  CHECK_CODE(aclrtSetStreamOverflowSwitch(stream, 2), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtSetStreamAttribute(stream, static_cast<aclrtStreamAttr>(9), &value),
             ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_PRIORITY, nullptr),
             ACL_ERROR_INVALID_PARAM);
  // Not while it captures.
  CHECK_OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  CHECK_CODE(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value),
             ACL_ERROR_RT_STREAM_CAPTURED);
  CHECK_CODE(aclrtSetStreamOverflowSwitch(stream, 0), ACL_ERROR_RT_STREAM_CAPTURED);
  aclmdlRI model = nullptr;
  CHECK_OK(aclmdlRICaptureEnd(stream, &model));
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtDestroyStream(stream));
}

void streams_from_a_configuration() {
  aclrtStreamConfigHandle *handle = aclrtCreateStreamConfigHandle();
  CHECK(handle != nullptr);
  const uint32_t priority = 3;
  const size_t flag = ACL_STREAM_FAST_LAUNCH;
  CHECK_OK(aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_PRIORITY, &priority, sizeof priority));
  CHECK_OK(aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_FLAG, &flag, sizeof flag));
  CHECK_CODE(aclrtSetStreamConfigOpt(handle, ACL_RT_STREAM_PRIORITY, &priority, 8),
             ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtSetStreamConfigOpt(handle, static_cast<aclrtStreamConfigAttr>(9), &flag, 8),
             ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtSetStreamConfigOpt(nullptr, ACL_RT_STREAM_FLAG, &flag, sizeof flag),
             ACL_ERROR_INVALID_PARAM);
  aclrtStream stream = nullptr;
  CHECK_CODE(aclrtCreateStreamV2(&stream, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtCreateStreamV2(&stream, handle));
  uint32_t got = 0;
  CHECK_OK(aclrtStreamGetPriority(stream, &got));
  CHECK_EQ(got, 3);
  CHECK_OK(aclrtStreamGetFlags(stream, &got));
  CHECK_EQ(got, ACL_STREAM_FAST_LAUNCH);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyStreamConfigHandle(handle));
  CHECK_CODE(aclrtDestroyStreamConfigHandle(nullptr), ACL_ERROR_INVALID_PARAM);
}

void limits_of_resources() {
  uint32_t value = 0;
  CHECK_OK(aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, &value));
  CHECK_EQ(value, 24);
  CHECK_OK(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, 8));
  CHECK_CODE(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_VECTOR_CORE, 49), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_VECTOR_CORE, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtGetDeviceResLimit(0, static_cast<aclrtDevResLimitType>(2), &value),
             ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtGetDeviceResLimit(5, ACL_RT_DEV_RES_CUBE_CORE, &value),
             ACL_ERROR_RT_INVALID_DEVICEID);
  CHECK_OK(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &value));
  CHECK_EQ(value, 8);
  CHECK_OK(aclrtResetDeviceResLimit(0));
  CHECK_OK(aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, &value));
  CHECK_EQ(value, 24);
}

void saturation_and_overflow() {
  aclrtFloatOverflowMode mode = ACL_RT_OVERFLOW_MODE_UNDEF;
  CHECK_OK(aclrtGetDeviceSatMode(&mode));
  CHECK_EQ(mode, ACL_RT_OVERFLOW_MODE_SATURATION);
  CHECK_OK(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN));
  CHECK_OK(aclrtGetDeviceSatMode(&mode));
  CHECK_EQ(mode, ACL_RT_OVERFLOW_MODE_INFNAN);
  CHECK_CODE(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_UNDEF), ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION));
  char *status = static_cast<char *>(device_memory(64));
  memset(status, 1, 64);
  CHECK_CODE(aclrtGetOverflowStatus(status, 63, nullptr), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtGetOverflowStatus(status, 64, nullptr));
  sync(nullptr);
  for (int i = 0; i < 64; ++i) CHECK_EQ(status[i], 0);
  CHECK_OK(aclrtResetOverflowStatus(nullptr));
  CHECK_OK(aclrtFree(status));
}

void versions_and_status() {
  char package[] = "runtime", other[] = "nothing", text[ACL_PKG_VERSION_MAX_SIZE] = "";
  int32_t number = 0, compatible = -1;
  CHECK_OK(aclsysGetVersionStr(package, text));
  CHECK_EQ(std::string(text), "9.1.0");
  CHECK_OK(aclsysGetVersionNum(package, &number));
  CHECK(number > 0);
  CHECK_CODE(aclsysGetVersionStr(other, text), ACL_ERROR_INVALID_FILE);
  aclCANNPackageVersion version;
  CHECK_OK(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &version));
  CHECK_EQ(std::string(version.majorVersion), "9");
  CHECK_OK(aclrtCheckArchCompatibility("Ascend910B4", &compatible));
  CHECK_EQ(compatible, 1);
  CHECK_OK(aclrtCheckArchCompatibility("Ascend310P3", &compatible));
  CHECK_EQ(compatible, 0);
  aclrtDeviceStatus status;
  CHECK_OK(aclrtQueryDeviceStatus(0, &status));
  CHECK_EQ(status, ACL_RT_DEVICE_STATUS_NORMAL);
  CHECK_OK(aiocann_sim_lose(1, 0, 0));
  CHECK_OK(aclrtQueryDeviceStatus(1, &status));
  CHECK_EQ(status, ACL_RT_DEVICE_STATUS_ABNORMAL);
  aclrtErrorInfo error;
  CHECK_OK(aclrtGetErrorVerbose(1, &error));
  CHECK_EQ(error.errorType, ACL_RT_ERROR_OTHERS);
  CHECK_OK(aclrtGetErrorVerbose(0, &error));
  CHECK_EQ(error.errorType, ACL_RT_NO_ERROR);
  CHECK_OK(aclrtResetDeviceForce(1));
  aclrtUtilizationInfo utilization = {};
  CHECK_OK(aclrtGetDeviceUtilizationRate(0, &utilization));
  CHECK(utilization.memoryUtilization >= 0 && utilization.memoryUtilization <= 100);
  const aclCannAttr *attributes = nullptr;
  size_t n = 0;
  int32_t value = 0;
  CHECK_OK(aclGetCannAttributeList(&attributes, &n));
  CHECK_EQ(n, 2);
  CHECK_OK(aclGetCannAttribute(ACL_CANN_ATTR_BF16, &value));
  CHECK_EQ(value, 1);
  CHECK_CODE(aclGetCannAttribute(ACL_CANN_ATTR_UNDEFINED, &value), ACL_ERROR_INVALID_PARAM);
}

struct Told {
  int created = 0, destroyed = 0;
  std::vector<int> devices;
};

void states_are_told() {
  Told told;
  const auto on_stream = [](aclrtStream, aclrtStreamState state, void *args) {
    auto &seen = *static_cast<Told *>(args);
    ++(state == ACL_RT_STREAM_STATE_CREATE_POST ? seen.created : seen.destroyed);
  };
  const auto on_device = [](int32_t device, aclrtDeviceState state, void *args) {
    static_cast<Told *>(args)->devices.push_back(10 * device + static_cast<int>(state));
  };
  CHECK_OK(aclrtRegStreamStateCallback("test", on_stream, &told));
  CHECK_CODE(aclrtRegStreamStateCallback("test", on_stream, &told), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtRegStreamStateCallback("", on_stream, &told), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtRegStreamStateCallback("else", nullptr, &told), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtRegDeviceStateCallback("test", on_device, &told));
  CHECK_OK(aclrtDestroyStream(new_stream()));
  CHECK_EQ(told.created, 1);
  CHECK_EQ(told.destroyed, 1);
  CHECK_OK(aclrtSetDevice(1));
  CHECK_EQ(told.created, 2);  // the default stream
  CHECK_OK(aclrtResetDevice(1));
  CHECK_EQ(told.destroyed, 2);
  CHECK(told.devices == (std::vector<int>{10, 11, 12, 13}));
  CHECK_OK(aclrtRegStreamStateCallback("test", nullptr, nullptr));
  CHECK_OK(aclrtRegDeviceStateCallback("test", nullptr, nullptr));
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtDestroyStream(new_stream()));
  CHECK_EQ(told.created, 2);
}

int g_initialized = 0, g_finalized = 0;
aclError on_init(const char *, size_t, void *) {
  ++g_initialized;
  return 0;
}
aclError on_finalize(void *) {
  ++g_finalized;
  return 0;
}

void initialisation_is_told() {
  CHECK_OK(aclInitCallbackRegister(ACL_REG_TYPE_OTHER, on_init, nullptr));
  CHECK_EQ(g_initialized, 1);  // initialised already: at once
  CHECK_OK(aclFinalizeCallbackRegister(ACL_REG_TYPE_OTHER, on_finalize, nullptr));
  CHECK_OK(aclFinalize());
  CHECK_EQ(g_finalized, 1);
  CHECK_OK(aclInit(nullptr));
  CHECK_EQ(g_initialized, 2);
  CHECK_OK(aclInitCallbackUnRegister(ACL_REG_TYPE_OTHER, on_init));
  CHECK_OK(aclFinalizeCallbackUnRegister(ACL_REG_TYPE_OTHER, on_finalize));
  CHECK_CODE(aclInitCallbackUnRegister(ACL_REG_TYPE_OTHER, on_init), ACL_ERROR_INVALID_PARAM);
}

void allocators_of_the_program() {
  aclrtStream stream = new_stream();
  aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
  int object = 0;
  CHECK_CODE(aclrtAllocatorRegister(stream, desc), ACL_ERROR_INVALID_PARAM);  // not complete
  CHECK_OK(aclrtAllocatorSetObjToDesc(desc, &object));
  CHECK_OK(aclrtAllocatorSetAllocFuncToDesc(
      desc, [](aclrtAllocator, size_t) -> void * { return nullptr; }));
  CHECK_OK(aclrtAllocatorSetFreeFuncToDesc(desc, [](aclrtAllocator, aclrtAllocatorBlock) {}));
  CHECK_OK(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(
      desc, [](aclrtAllocatorBlock block) -> void * { return block; }));
  CHECK_CODE(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtAllocatorRegister(stream, desc));
  CHECK_OK(aclrtAllocatorDestroyDesc(desc));
  aclrtAllocatorDesc found = nullptr;
  aclrtAllocator allocator = nullptr;
  aclrtAllocatorAllocFunc allocate = nullptr;
  aclrtAllocatorFreeFunc release = nullptr;
  aclrtAllocatorGetAddrFromBlockFunc address = nullptr;
  CHECK_OK(aclrtAllocatorGetByStream(stream, &found, &allocator, &allocate, &release, nullptr,
                                     &address));
  CHECK_EQ(allocator, static_cast<void *>(&object));
  CHECK(allocate != nullptr && release != nullptr && address(&object) == &object);
  CHECK_OK(aclrtAllocatorUnregister(stream));
  CHECK_CODE(
      aclrtAllocatorGetByStream(stream, &found, &allocator, &allocate, &release, nullptr, nullptr),
      ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtDestroyStream(stream));
}

void data_buffers() {
  int data = 0;
  aclDataBuffer *buffer = aclCreateDataBuffer(&data, 4);
  CHECK_EQ(aclGetDataBufferAddr(buffer), static_cast<void *>(&data));
  CHECK_EQ(aclGetDataBufferSize(buffer), 4);
  CHECK_OK(aclUpdateDataBuffer(buffer, nullptr, 0));
  CHECK_EQ(aclGetDataBufferSizeV2(buffer), 0);
  CHECK_OK(aclDestroyDataBuffer(buffer));
  CHECK(aclGetDataBufferAddr(nullptr) == nullptr);
}

}  // namespace

int main() {
  start(2, "64M");
  stream_attributes();
  streams_from_a_configuration();
  limits_of_resources();
  saturation_and_overflow();
  versions_and_status();
  states_are_told();
  initialisation_is_told();
  allocators_of_the_program();
  data_buffers();
  return 0;
}
