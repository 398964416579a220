// api_query.cpp: what a program can ask about devices, their ids and their peers; small data helpers.
#include <string.h>

#include "sim/entry.hpp"
#include "sim/lookup.hpp"
#include "sim/machine.hpp"
#include "sim/pool.hpp"

namespace aiocann::sim {
namespace {

aclError find_pair(int32_t a, int32_t b, Device **first, Device **second) {
  if (const aclError code = find_device(a, first)) return code;
  return find_device(b, second);
}

bool is_reachable(const Device *from, const Device *to) {
  return (machine().config().peers[from->index] >> to->index & 1) != 0;
}

/// Logical and physical ids are the same here: one machine, its devices numbered from 0.
aclError find_logical(int32_t id, Device **device) {
  if (const aclError code = machine().prepare()) return code;
  if (id >= 0 && id < machine().device_count()) {
    *device = machine().by_index(id);
    return ACL_SUCCESS;
  }
  return fail(ACL_ERROR_RT_INVALID_DEVICEID, "device %d does not exist: there are %d", id,
              machine().device_count());
}

aclError user_of(int32_t id, int32_t *user) {
  Device *device = nullptr;
  if (const aclError code = find_logical(id, &device)) return code;
  const int found = machine().user_id(device);
  if (found < 0) {
    return fail(ACL_ERROR_RT_INVALID_DEVICEID, "device %d is hidden by ASCEND_RT_VISIBLE_DEVICES",
                id);
  }
  *user = found;
  return ACL_SUCCESS;
}

aclError logical_of(int32_t user, int32_t *id) {
  Device *device = nullptr;
  if (const aclError code = find_device(user, &device)) return code;
  *id = device->index;
  return ACL_SUCCESS;
}

uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(value);
  Device *device = nullptr;
  if (const aclError code = find_device(static_cast<int32_t>(deviceId), &device)) return code;
  const SocProfile &soc = *machine().config().soc;
  switch (static_cast<int>(attr)) {
    case ACL_DEV_ATTR_AICPU_CORE_NUM:
      *value = soc.ai_cpus;
      break;
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM:
      *value = soc.ai_cores;
      break;
    case ACL_DEV_ATTR_VECTOR_CORE_NUM:
      *value = soc.vector_cores;
      break;
    case ACL_DEV_ATTR_WARP_SIZE:  // of devices that run threads in warps: 0 on all others
    case ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE:
    case ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE:
    case ACL_DEV_ATTR_MAX_GRID_DIM_X:
    case ACL_DEV_ATTR_MAX_GRID_DIM_Y:
    case ACL_DEV_ATTR_MAX_GRID_DIM_Z:
    case ACL_DEV_ATTR_MAX_BLOCK_PER_GRID:
    case ACL_DEV_ATTR_MAX_THREADS_PER_BLOCK:
    case ACL_DEV_ATTR_MAX_BLOCK_DIM_X:
    case ACL_DEV_ATTR_MAX_BLOCK_DIM_Y:
    case ACL_DEV_ATTR_MAX_BLOCK_DIM_Z:
      *value = 0;
      break;
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
      *value = static_cast<int64_t>(device->memory.capacity());
      break;
    case ACL_DEV_ATTR_L2_CACHE_SIZE:
      *value = static_cast<int64_t>(soc.l2_bytes);
      break;
    case ACL_DEV_ATTR_SMP_ID:
      *value = 0;
      break;
    case ACL_DEV_ATTR_PHY_CHIP_ID:
      *value = device->index;
      break;
    case ACL_DEV_ATTR_SUPER_POD_DEVICE_ID:
    case ACL_DEV_ATTR_SUPER_POD_SERVER_ID:
    case ACL_DEV_ATTR_SUPER_POD_ID:
      if (!soc.is_a3)
        return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s is not part of a super node", soc.name);
      *value = attr == ACL_DEV_ATTR_SUPER_POD_DEVICE_ID ? device->index : 0;
      break;
    case ACL_DEV_ATTR_CUST_OP_PRIVILEGE:  // controlled
    case ACL_DEV_ATTR_MAINBOARD_ID:
    case ACL_DEV_ATTR_HD_CONNECT_TYPE:  // PCIe
    case ACL_DEV_ATTR_DEVICE_FORM_FACTOR:
    case ACL_DEV_ATTR_IS_VIRTUAL:
      *value = 0;
      break;
    case ACL_DEV_ATTR_NPU_ARCH:
      *value = soc.ddr_only ? 2002 : 2201;
      break;
    default:
      return fail(ACL_ERROR_RT_PARAM_INVALID, "device attribute %d does not exist",
                  static_cast<int>(attr));
  }
  return ACL_SUCCESS;
}

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t *value) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(value);
  Device *device = nullptr;
  if (const aclError code = find_device(static_cast<int32_t>(deviceId), &device)) return code;
  const SocProfile &soc = *machine().config().soc;
  switch (deviceInfo) {
    case ACL_DEVICE_INFO_AI_CORE_NUM:
      *value = soc.ai_cores;
      return ACL_SUCCESS;
    case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
      *value = soc.vector_cores;
      return ACL_SUCCESS;
    case ACL_DEVICE_INFO_L2_SIZE:
      *value = static_cast<int64_t>(soc.l2_bytes);
      return ACL_SUCCESS;
    default:
      return fail(ACL_ERROR_INVALID_PARAM, "device info %d is not known",
                  static_cast<int>(deviceInfo));
  }
}

aclError aclrtGetDeviceCapability(int32_t deviceId, aclrtDevFeatureType devFeatureType,
                                  int32_t *value) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(value);
  Device *device = nullptr;
  if (const aclError code = find_device(deviceId, &device)) return code;
  if (devFeatureType != ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV &&
      devFeatureType != ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV) {
    return fail(ACL_ERROR_INVALID_PARAM, "device feature %d is not known",
                static_cast<int>(devFeatureType));
  }
  *value = ACL_DEV_FEATURE_NOT_SUPPORT;
  return ACL_SUCCESS;
}

aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(active);
  Device *device = nullptr;
  if (const aclError code = find_device(deviceId, &device)) return code;
  if (flags != nullptr) *flags = 0;
  *active = device->primary.load() != nullptr ? 1 : 0;
  return ACL_SUCCESS;
}

aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId, int32_t *const phyDevId) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(phyDevId);
  Device *device = nullptr;
  if (const aclError code = find_logical(logicDevId, &device)) return code;
  *phyDevId = device->index;
  return ACL_SUCCESS;
}

aclError aclrtGetLogicDevIdByPhyDevId(const int32_t phyDevId, int32_t *const logicDevId) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(logicDevId);
  Device *device = nullptr;
  if (const aclError code = find_logical(phyDevId, &device)) return code;
  *logicDevId = device->index;
  return ACL_SUCCESS;
}

aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevId, int32_t *const logicDevId) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(logicDevId);
  return logical_of(userDevId, logicDevId);
}

aclError aclrtGetPhyDevIdByUserDevId(const int32_t userDevId, int32_t *const phyDevId) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(phyDevId);
  return logical_of(userDevId, phyDevId);
}

aclError aclrtGetUserDevIdByLogicDevId(const int32_t logicDevId, int32_t *const userDevid) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(userDevid);
  return user_of(logicDevId, userDevid);
}

aclError aclrtGetUserDevIdByPhyDevId(const int32_t phyDevId, int32_t *const userDevId) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(userDevId);
  return user_of(phyDevId, userDevId);
}

aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(canAccessPeer);
  if (deviceId == peerDeviceId) {
    return fail(ACL_ERROR_INVALID_PARAM, "device %d is not its own peer", deviceId);
  }
  Device *device = nullptr, *peer = nullptr;
  if (const aclError code = find_pair(deviceId, peerDeviceId, &device, &peer)) return code;
  *canAccessPeer = is_reachable(device, peer) ? 1 : 0;
  return ACL_SUCCESS;
}

/// The current device and its peer, checked as both calls below do.
static aclError find_peer(int32_t peer_id, Device **device, Device **peer) {
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  *device = context->device;
  if (machine().user_id(*device) == peer_id) {
    return fail(ACL_ERROR_INVALID_PARAM, "device %d is the current one, not a peer", peer_id);
  }
  return find_device(peer_id, peer);
}

aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
  ACL_ENTRY();
  if (flags != 0) return fail(ACL_ERROR_FEATURE_UNSUPPORTED, "flags must be 0, not %u", flags);
  Device *device = nullptr, *peer = nullptr;
  if (const aclError code = find_peer(peerDeviceId, &device, &peer)) return code;
  if (!is_reachable(device, peer)) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "device %d cannot reach the memory of device %d",
                machine().user_id(device), peerDeviceId);
  }
  device->peers_enabled.fetch_or(1ull << peer->index);
  return ACL_SUCCESS;
}

aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId) {
  ACL_ENTRY();
  Device *device = nullptr, *peer = nullptr;
  if (const aclError code = find_peer(peerDeviceId, &device, &peer)) return code;
  device->peers_enabled.fetch_and(~(1ull << peer->index));
  return ACL_SUCCESS;
}

aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t *status) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(status);
  Device *device = nullptr, *peer = nullptr;
  if (const aclError code = find_pair(deviceId, peerDeviceId, &device, &peer)) return code;
  *status = static_cast<int32_t>(device->peers_enabled.load() >> peer->index & 1);
  return ACL_SUCCESS;
}

size_t aclDataTypeSize(aclDataType dataType) {
  switch (static_cast<int>(dataType)) {
    case ACL_BOOL:
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_UINT1:
    case ACL_INT4:
    case ACL_HIFLOAT8:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0:
    case ACL_FLOAT6_E3M2:
    case ACL_FLOAT6_E2M3:
    case ACL_FLOAT4_E2M1:
    case ACL_FLOAT4_E1M2:
      return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
      return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32:
      return 4;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE:
    case ACL_COMPLEX64:
      return 8;
    case ACL_COMPLEX128:
      return 16;
    default:
      return 0;
  }
}

float aclFloat16ToFloat(aclFloat16 value) {
  const uint32_t sign = static_cast<uint32_t>(value & 0x8000) << 16;
  const uint32_t exponent = value >> 10 & 0x1f;
  const uint32_t mantissa = value & 0x3ff;
  float result;
  if (exponent == 0) {
    result = static_cast<float>(mantissa) * 0x1p-24f;
  } else {
    // Exponent 31 is read like any other: infinity becomes 65536, as the real function has it.
    const uint32_t bits = (exponent + 112) << 23 | mantissa << 13;
    memcpy(&result, &bits, sizeof result);
  }
  const uint32_t bits = bits_of(result) | sign;
  memcpy(&result, &bits, sizeof result);
  return result;
}

aclFloat16 aclFloatToFloat16(float value) {
  constexpr uint32_t kLargest = 0x7bff;  // 65504: infinity, NaN and overflow saturate
  const uint32_t bits = bits_of(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude >= 0x477ff000) return static_cast<aclFloat16>(sign | kLargest);
  if (magnitude < 0x38800000) {  // below the smallest normal half: count in steps of 2^-24
    float absolute;
    memcpy(&absolute, &magnitude, sizeof absolute);
    // Adding 0.5 leaves the steps of 2^-24 in the low bits of the sum, rounded to nearest even.
    const float shifted = absolute + 0.5f;
    return static_cast<aclFloat16>(sign | (bits_of(shifted) - 0x3f000000));
  }
  const uint32_t odd = magnitude >> 13 & 1;
  return static_cast<aclFloat16>(sign | ((magnitude + 0xfff + odd - (112u << 23)) >> 13));
}
