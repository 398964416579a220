// api_device_more.cpp: what programs set and ask per device beside the basics: limits, saturation, versions, callbacks.
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "sim/entry.hpp"
#include "sim/lookup.hpp"
#include "sim/machine.hpp"

namespace aiocann::sim {
namespace {

/// Set by programs, told back to them; simulated kernels do not depend on it.
struct DeviceSettings {
  std::mutex mutex;
  uint32_t limits[kMaxDevices][2] = {};  ///< cores that kernels may use, by kind; 0: all
  aclrtFloatOverflowMode overflow[kMaxDevices] = {};  ///< saturation unless told otherwise
};

DeviceSettings &settings() {
  static DeviceSettings *const leaked = [] {
    auto *made = new DeviceSettings();
    std::fill(std::begin(made->overflow), std::end(made->overflow),
              ACL_RT_OVERFLOW_MODE_SATURATION);
    return made;
  }();
  return *leaked;
}

uint32_t cores_of(aclrtDevResLimitType type) {
  const SocProfile &soc = *machine().config().soc;
  return static_cast<uint32_t>(type == ACL_RT_DEV_RES_CUBE_CORE ? soc.ai_cores : soc.vector_cores);
}

aclError check_limit_type(aclrtDevResLimitType type) {
  if (type == ACL_RT_DEV_RES_CUBE_CORE || type == ACL_RT_DEV_RES_VECTOR_CORE) return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_PARAM, "resource type %d is not 0 or 1", static_cast<int>(type));
}

uint32_t limit_of(const Device *device, aclrtDevResLimitType type) {
  std::lock_guard<std::mutex> lock(settings().mutex);
  const uint32_t limit = settings().limits[device->index][type];
  return limit != 0 ? limit : cores_of(type);
}

/// "Ascend910B" for Ascend910B2: parts whose kernels are the same.
std::string family_of(const std::string &soc) {
  for (const char *family : {"Ascend910B", "Ascend910_93", "Ascend310P"}) {
    if (soc.compare(0, strlen(family), family) == 0) return family;
  }
  return "";
}

constexpr const char *kPackageVersion = "9.1.0";
constexpr const char *kPackageVersion81 = "8.1.RC1";
constexpr int32_t kPackageNumber = 90100000;

aclError check_package(const char *name) {
  for (const char *known : {"runtime", "driver", "toolkit", "opp", "nnal", "compiler", "hccl"}) {
    if (strcmp(name, known) == 0) return ACL_SUCCESS;
  }
  return fail(ACL_ERROR_INVALID_FILE, "package '%s' is not installed", name);
}

constexpr aclCannAttr kCannAttributes[] = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16};

bool has_attribute(aclCannAttr attr) {
  const SocProfile &soc = *machine().config().soc;
  return attr == ACL_CANN_ATTR_BF16 ? soc.bf16 : !soc.ddr_only;
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclrtDeviceGetBareTgid(int32_t *pid) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(pid);
  *pid = getpid();
  return ACL_SUCCESS;
}

aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(deviceStatus);
  Device *device = nullptr;
  if (const aclError code = find_device(deviceId, &device)) return code;
  *deviceStatus =
      device->lost.load() == 0 ? ACL_RT_DEVICE_STATUS_NORMAL : ACL_RT_DEVICE_STATUS_ABNORMAL;
  return ACL_SUCCESS;
}

aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo *utilizationInfo) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(utilizationInfo);
  Device *device = nullptr;
  if (const aclError code = find_device(deviceId, &device)) return code;
  const uint64_t total = std::max<uint64_t>(1, device->memory.capacity());
  utilizationInfo->cubeUtilization = utilizationInfo->vectorUtilization = 0;
  utilizationInfo->aicpuUtilization = 0;
  utilizationInfo->memoryUtilization =
      static_cast<int32_t>(100 * device->memory.used_bytes() / total);
  return ACL_SUCCESS;
}

aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t *value) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(value);
  if (const aclError code = check_limit_type(type)) return code;
  Device *device = nullptr;
  if (const aclError code = find_device(deviceId, &device)) return code;
  *value = limit_of(device, type);
  return ACL_SUCCESS;
}

aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value) {
  ACL_ENTRY();
  if (const aclError code = check_limit_type(type)) return code;
  Device *device = nullptr;
  if (const aclError code = find_device(deviceId, &device)) return code;
  if (value == 0 || value > cores_of(type)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "limit %u is not from 1 to %u", value, cores_of(type));
  }
  std::lock_guard<std::mutex> lock(settings().mutex);
  settings().limits[device->index][type] = value;
  return ACL_SUCCESS;
}

aclError aclrtResetDeviceResLimit(int32_t deviceId) {
  ACL_ENTRY();
  Device *device = nullptr;
  if (const aclError code = find_device(deviceId, &device)) return code;
  std::lock_guard<std::mutex> lock(settings().mutex);
  for (uint32_t &limit : settings().limits[device->index]) limit = 0;
  return ACL_SUCCESS;
}

aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(value);
  if (const aclError code = check_limit_type(type)) return code;
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  *value = limit_of(context->device, type);
  return ACL_SUCCESS;
}

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
  ACL_ENTRY();
  if (mode != ACL_RT_OVERFLOW_MODE_SATURATION && mode != ACL_RT_OVERFLOW_MODE_INFNAN) {
    return fail(ACL_ERROR_INVALID_PARAM, "overflow mode %d is not 0 or 1", static_cast<int>(mode));
  }
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  std::lock_guard<std::mutex> lock(settings().mutex);
  settings().overflow[context->device->index] = mode;
  return ACL_SUCCESS;
}

aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(mode);
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  std::lock_guard<std::mutex> lock(settings().mutex);
  *mode = settings().overflow[context->device->index];
  return ACL_SUCCESS;
}

aclError aclrtCheckArchCompatibility(const char *socVersion, int32_t *canCompatible) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(socVersion);
  REQUIRE_NOT_NULL(canCompatible);
  if (const aclError code = machine().prepare()) return code;
  const std::string asked = family_of(socVersion);
  *canCompatible = !asked.empty() && asked == family_of(machine().config().soc->name) ? 1 : 0;
  return ACL_SUCCESS;
}

aclError aclsysGetVersionStr(char *pkgName, char *versionStr) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(pkgName);
  REQUIRE_NOT_NULL(versionStr);
  if (const aclError code = machine().prepare()) return code;
  if (const aclError code = check_package(pkgName)) return code;
  memset(versionStr, 0, ACL_PKG_VERSION_MAX_SIZE);
  strncpy(versionStr, machine().config().is_cann_81 ? kPackageVersion81 : kPackageVersion,
          ACL_PKG_VERSION_MAX_SIZE - 1);
  return ACL_SUCCESS;
}

aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(pkgName);
  REQUIRE_NOT_NULL(versionNum);
  if (const aclError code = check_package(pkgName)) return code;
  *versionNum = kPackageNumber;
  return ACL_SUCCESS;
}

aclError aclsysGetCANNVersion(aclCANNPackageName, aclCANNPackageVersion *version) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(version);
  if (const aclError code = machine().prepare()) return code;
  const bool is_81 = machine().config().is_cann_81;
  *version = aclCANNPackageVersion{};
  strcpy(version->version, is_81 ? kPackageVersion81 : kPackageVersion);
  strcpy(version->majorVersion, is_81 ? "8" : "9");
  strcpy(version->minorVersion, "1");
  strcpy(version->releaseVersion, is_81 ? "RC1" : "0");
  return ACL_SUCCESS;
}

aclError aclGetCannAttributeList(const aclCannAttr **cannAttrList, size_t *num) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(cannAttrList);
  REQUIRE_NOT_NULL(num);
  if (const aclError code = machine().prepare()) return code;
  static thread_local std::vector<aclCannAttr> shown;
  shown.clear();
  for (const aclCannAttr attr : kCannAttributes) {
    if (has_attribute(attr)) shown.push_back(attr);
  }
  *cannAttrList = shown.data();
  *num = shown.size();
  return ACL_SUCCESS;
}

aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t *value) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(value);
  if (const aclError code = machine().prepare()) return code;
  const auto *const end = std::end(kCannAttributes);
  if (std::find(std::begin(kCannAttributes), end, cannAttr) == end)
    return fail(ACL_ERROR_INVALID_PARAM, "attribute %d is not known", static_cast<int>(cannAttr));
  *value = has_attribute(cannAttr) ? 1 : 0;
  return ACL_SUCCESS;
}

/// Faults leave no details behind here.
aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(errorInfo);
  Device *device = nullptr;
  if (const aclError code = find_device(deviceId, &device)) return code;
  memset(errorInfo, 0, sizeof *errorInfo);
  errorInfo->errorType = device->lost.load() == 0 ? ACL_RT_NO_ERROR : ACL_RT_ERROR_OTHERS;
  return ACL_SUCCESS;
}
