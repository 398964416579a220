// Settings of the machine: environment, aiocann_sim_configure, and what a bad value says.
#include <stdlib.h>

#include "sim_rt.hpp"

namespace {

uint32_t device_count() {
  uint32_t count = 0;
  CHECK_OK(aclrtGetDeviceCount(&count));
  return count;
}

/// With this in the environment initialisation fails, and says which variable has which value and what is accepted.
void bad_variable(const char *name, const char *value, const char *accepted) {
  CHECK_EQ(setenv(name, value, 1), 0);
  uint32_t count = 77;
  CHECK_CODE(aclInit(nullptr), ACL_ERROR_INVALID_PARAM);
  const std::string text = recent();
  CHECK_CONTAINS(text, name);
  CHECK_CONTAINS(text, "'" + std::string(value) + "'");
  CHECK_CONTAINS(text, accepted);
  CHECK_CODE(aclrtGetDeviceCount(&count), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(count, 77);
  CHECK_CODE(aclrtSetDevice(0), ACL_ERROR_INVALID_PARAM);
  CHECK(aclrtGetSocName() == nullptr);
  CHECK_EQ(unsetenv(name), 0);
  (void)recent();
}

void bad_environment() {
  for (const char *value : {"", "0", "65", "-1", "two", "2 ", "1.5", "99999999999999999999"}) {
    bad_variable("AIOCANN_SIM_DEVICES", value, "from 1 to 64");
  }
  bad_variable("AIOCANN_SIM_SOC", "Ascend910", "Ascend910B2");
  for (const char *value : {"", "lots", "1T", "0", "12MM", "3M", "-5G"}) {
    bad_variable("AIOCANN_SIM_MEMORY", value, "suffixes K, M, G");
  }
  bad_variable("AIOCANN_SIM_THREADS", "none", "a whole number");
  for (const char *value : {"", "some", "0-0", "0-64", "0", "0-"}) {
    bad_variable("AIOCANN_SIM_PEERS", value, "'all', 'none'");
  }
  bad_variable("AIOCANN_SIM_MAX_STREAMS", "5000", "from 1 to 4096");
}

void environment() {
  CHECK_EQ(device_count(), 1);
  CHECK_EQ(setenv("AIOCANN_SIM_DEVICES", "5", 1), 0);
  CHECK_EQ(device_count(), 5);
  CHECK_EQ(setenv("AIOCANN_SIM_SOC", "Ascend310P3", 1), 0);
  CHECK_EQ(setenv("AIOCANN_SIM_MEMORY", "64MiB", 1), 0);
  CHECK_EQ(std::string(aclrtGetSocName()), "Ascend310P3");
  CHECK_OK(aclrtSetDevice(4));
  size_t free = 0, total = 0;
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));  // no HBM: answers for DDR
  CHECK_EQ(total, 64 * kMiB);
  CHECK_EQ(free, total);
  CHECK_OK(aclrtGetMemInfo(ACL_DDR_MEM, &free, &total));
  CHECK_EQ(total, 64 * kMiB);
  uint32_t available = 0;
  CHECK_OK(aclrtGetStreamAvailableNum(&available));
  CHECK_EQ(available, 1023);  // the default stream is one of 1024
  CHECK_CODE(aclrtSetStreamFailureMode(nullptr, 1), ACL_ERROR_RT_PARAM_INVALID);
  aclrtStream stream = new_stream();
  CHECK_CODE(aclrtStreamAbort(stream), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  // An open device fixes the machine.
  CHECK_EQ(setenv("AIOCANN_SIM_DEVICES", "2", 1), 0);
  CHECK_EQ(device_count(), 5);
  CHECK_CODE(aiocann_sim_configure("devices", "3"), ACL_ERROR_RT_CONTEXT_RELEASE_ERROR);
  CHECK_CONTAINS(std::string(aiocann_sim_last_error()), "while a device is open");
  CHECK_OK(aclrtResetDevice(4));
  CHECK_EQ(device_count(), 2);
  for (const char *name : {"AIOCANN_SIM_DEVICES", "AIOCANN_SIM_SOC", "AIOCANN_SIM_MEMORY"})
    unsetenv(name);
}

void configuration() {
  CHECK_EQ(setenv("AIOCANN_SIM_DEVICES", "2", 1), 0);
  configure("devices", "4");  // wins over the environment
  CHECK_EQ(device_count(), 4);
  CHECK_EQ(std::string(aiocann_sim_setting("devices")), "4");
  configure("peers", "0-1,3-2");
  CHECK_EQ(std::string(aiocann_sim_setting("peers")), "0-1,3-2");
  configure("devices", "2");  // of the pairs, those that exist count
  CHECK_EQ(std::string(aiocann_sim_setting("peers")), "0-1");
  configure("peers", "0-7,7-0");
  CHECK_EQ(std::string(aiocann_sim_setting("peers")), "none");
  configure("devices", "8");
  CHECK_EQ(std::string(aiocann_sim_setting("peers")), "0-7,7-0");
  configure("peers", nullptr);
  configure("devices", nullptr);
  CHECK_EQ(device_count(), 2);
  CHECK_EQ(std::string(aiocann_sim_setting("peers")), "0-1,1-0");
  configure("peers", "none");
  int32_t can = -1;
  CHECK_OK(aclrtDeviceCanAccessPeer(&can, 0, 1));
  CHECK_EQ(can, 0);
  CHECK_CODE(aiocann_sim_configure("memory", "abc"), ACL_ERROR_INVALID_PARAM);
  CHECK_CONTAINS(std::string(aiocann_sim_last_error()), "simulator setting memory is 'abc'");
  CHECK_CODE(aiocann_sim_configure("colour", "red"), ACL_ERROR_INVALID_PARAM);
  CHECK_CONTAINS(std::string(aiocann_sim_last_error()), "expected one of devices, soc");
  CHECK_CODE(aiocann_sim_configure(nullptr, "1"), ACL_ERROR_INVALID_PARAM);
  CHECK(aiocann_sim_setting("colour") == nullptr);
  CHECK(aiocann_sim_setting(nullptr) == nullptr);

  configure("max_streams", "3");
  configure("max_events", "2");
  configure("pinned_memory", "1M");
  configure("threads", "3");
  CHECK_OK(aclrtSetDevice(0));
  CHECK_EQ(counter("threads"), 3);
  aclrtStream stream = nullptr;
  CHECK_OK(aclrtCreateStream(&stream));
  CHECK_OK(aclrtCreateStream(&stream));
  CHECK_CODE(aclrtCreateStream(&stream), ACL_ERROR_RT_NO_STREAM_RESOURCE);
  aclrtEvent event = nullptr;
  CHECK_OK(aclrtCreateEvent(&event));
  CHECK_OK(aclrtCreateEvent(&event));
  CHECK_CODE(aclrtCreateEvent(&event), ACL_ERROR_RT_NO_EVENT_RESOURCE);
  void *pinned = nullptr;
  CHECK_CODE(aclrtMallocHost(&pinned, 2 * kMiB), ACL_ERROR_RT_MEMORY_ALLOCATION);
  CHECK_OK(aclrtResetDevice(0));
}

void capabilities() {
  for (const char *key : {"devices", "soc", "memory", "peers", "max_streams", "max_events"})
    configure(key, nullptr);
  configure("soc", "Ascend910_9391");
  int64_t value = 0;
  CHECK_OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_CUBE_CORE_NUM, &value));
  CHECK_EQ(value, 24);
  CHECK_OK(aclrtGetDeviceInfo(1, ACL_DEV_ATTR_VECTOR_CORE_NUM, &value));
  CHECK_EQ(value, 48);
  CHECK_OK(aclrtGetDeviceInfo(1, ACL_DEV_ATTR_PHY_CHIP_ID, &value));
  CHECK_EQ(value, 1);
  CHECK_OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, &value));
  CHECK(value > 0);
  CHECK_CODE(aclrtGetDeviceInfo(2, ACL_DEV_ATTR_CUBE_CORE_NUM, &value),
             ACL_ERROR_RT_INVALID_DEVICEID);
  CHECK_CODE(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_CUBE_CORE_NUM, nullptr), ACL_ERROR_INVALID_PARAM);
  for (const int attribute : {0, 103, 213, 303, 410, 9999}) {
    CHECK_CODE(aclrtGetDeviceInfo(0, static_cast<aclrtDevAttr>(attribute), &value),
               ACL_ERROR_RT_PARAM_INVALID);
  }
  const struct {
    int first, last;
    int64_t value;  ///< -1: some
  } rows[] = {{1, 1, 6},     {101, 102, 24}, {201, 201, 48}, {202, 212, 0},   {301, 302, -1},
              {401, 405, 0}, {406, 409, 0},  {501, 501, 0},  {601, 601, 2201}};
  for (const auto &row : rows) {
    for (int attribute = row.first; attribute <= row.last; ++attribute) {
      CHECK_OK(aclrtGetDeviceInfo(0, static_cast<aclrtDevAttr>(attribute), &value));
      if (row.value >= 0)
        CHECK_EQ(value, row.value);
      else
        CHECK(value > 0);
    }
  }
  CHECK_OK(aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, &value));
  CHECK_EQ(value, 24);
  CHECK_OK(aclGetDeviceCapability(0, ACL_DEVICE_INFO_VECTOR_CORE_NUM, &value));
  CHECK_EQ(value, 48);
  CHECK_OK(aclGetDeviceCapability(0, ACL_DEVICE_INFO_L2_SIZE, &value));
  CHECK(value > 0);
  CHECK_CODE(aclGetDeviceCapability(0, static_cast<aclDeviceInfo>(50), &value),
             ACL_ERROR_INVALID_PARAM);
  int32_t supported = -1;
  CHECK_OK(aclrtGetDeviceCapability(0, ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV, &supported));
  CHECK_EQ(supported, ACL_DEV_FEATURE_NOT_SUPPORT);
  CHECK_OK(aclrtGetDeviceCapability(0, ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV, &supported));
  CHECK_CODE(aclrtGetDeviceCapability(0, static_cast<aclrtDevFeatureType>(3), &supported),
             ACL_ERROR_INVALID_PARAM);
}

/// Super nodes: only A3 is part of one, and its devices reach each other without being asked to.
void super_nodes() {
  int64_t value = -1;
  CHECK_OK(aclrtGetDeviceInfo(1, ACL_DEV_ATTR_SUPER_POD_DEVICE_ID, &value));
  CHECK_EQ(value, 1);
  const auto copy_between_devices = [] {
    CHECK_OK(aclrtSetDevice(1));
    void *theirs = device_memory(64);
    CHECK_OK(aclrtMemset(theirs, 64, 6, 64));
    CHECK_OK(aclrtSetDevice(0));
    void *mine = device_memory(64);
    const aclError code =
        aclrtMemcpyAsync(mine, 64, theirs, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, nullptr);
    CHECK_OK(aclrtSynchronizeStream(nullptr));
    char byte = 0;
    if (code == ACL_SUCCESS) CHECK_OK(aclrtMemcpy(&byte, 1, mine, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(byte, code == ACL_SUCCESS ? 6 : 0);
    for (int32_t device : {0, 1}) CHECK_OK(aclrtResetDeviceForce(device));
    return code;
  };
  CHECK_OK(copy_between_devices());
  configure("peers", "none");
  CHECK_CODE(copy_between_devices(), ACL_ERROR_RT_PARAM_INVALID);
  configure("peers", nullptr);
  configure("soc", "Ascend910B3");
  CHECK_CODE(copy_between_devices(), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_SUPER_POD_ID, &value),
             ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

/// Devices that are visible with this list and four devices; a list that lets none be seen says why.
std::vector<int32_t> visible(const char *list, const char *complaint = "") {
  CHECK_EQ(setenv("ASCEND_RT_VISIBLE_DEVICES", list, 1), 0);
  std::vector<int32_t> ids;
  uint32_t count = 0;
  if (*complaint != '\0') {
    CHECK_CODE(aclrtGetDeviceCount(&count), ACL_ERROR_RT_NO_DEVICE);
    CHECK_CONTAINS(recent(), complaint);
    CHECK_CODE(aclrtSetDevice(0), ACL_ERROR_RT_INVALID_DEVICEID);
  } else {
    CHECK_OK(aclrtGetDeviceCount(&count));
  }
  for (uint32_t i = 0; i < count; ++i) {
    int32_t id = -1;
    CHECK_OK(aclrtGetLogicDevIdByUserDevId(static_cast<int32_t>(i), &id));
    ids.push_back(id);
  }
  (void)recent();
  return ids;
}

void visible_devices_of_every_kind() {
  using Ids = std::vector<int32_t>;
  configure("devices", "4");
  CHECK(visible("0,1,2,3") == (Ids{0, 1, 2, 3}));
  CHECK(visible("1,3") == (Ids{1, 3}));
  CHECK(visible("2") == (Ids{2}));
  // Reading stops at what is not a device, a space included.
  CHECK(visible("1, 2") == (Ids{1}));
  CHECK(visible("0,x,2") == (Ids{0}));
  CHECK(visible("0,1.5") == (Ids{0}));
  CHECK(visible("0,-1") == (Ids{0}));
  CHECK(visible("1,3,4") == (Ids{1, 3}));
  CHECK(visible("0,99999999999999999999") == (Ids{0}));
  CHECK(visible("0,,1") == (Ids{0}));
  CHECK(visible("0,") == (Ids{0}));
  CHECK(visible("0,1,2,3,3") == (Ids{0, 1, 2, 3}));  // complete before the mistake
  // A list that is wrong as a whole.
  CHECK(visible("2,1", "ascending order").empty());
  CHECK(visible("0,2,1,3", "ascending order").empty());
  CHECK(visible("1,1", "twice").empty());
  for (const char *list : {"", " ", " 0", ",0", "x", "-1", "4", "all"})
    CHECK(visible(list, "from 0 to 3").empty());
  CHECK_EQ(unsetenv("ASCEND_RT_VISIBLE_DEVICES"), 0);
  CHECK_EQ(device_count(), 4);
}

void an_older_cann() {
  CHECK_EQ(std::string(aiocann_sim_setting("cann")), "9.1");
  CHECK_EQ(aiocann_sim_hidden("aclrtLaunchHostFunc"), 0);
  configure("cann", "8.1");
  CHECK_EQ(std::string(aiocann_sim_setting("cann")), "8.1");
  for (const char *name : {"aclrtLaunchHostFunc", "aclrtCreateNotify", "aclFinalizeReference"})
    CHECK_EQ(aiocann_sim_hidden(name), 1);
  for (const char *name : {"aclrtMalloc", "aclnnAdd", "not a function"})
    CHECK_EQ(aiocann_sim_hidden(name), 0);
  CHECK_EQ(aiocann_sim_hidden(nullptr), 0);
  int32_t major = 0, minor = 0, patch = -1;
  CHECK_OK(aclrtGetVersion(&major, &minor, &patch));
  CHECK_EQ(minor, 13);
  configure("cann", nullptr);
  // What a folder of libraries says is less than what the environment or the program says.
  CHECK_OK(aiocann_sim_play_cann("8.1"));
  CHECK_EQ(std::string(aiocann_sim_setting("cann")), "8.1");
  CHECK_EQ(aiocann_sim_hidden("aclrtLaunchHostFunc"), 1);
  CHECK_EQ(setenv("AIOCANN_SIM_CANN", "9.1", 1), 0);
  CHECK_EQ(aiocann_sim_hidden("aclrtLaunchHostFunc"), 0);
  CHECK_EQ(unsetenv("AIOCANN_SIM_CANN"), 0);
  configure("cann", "9.1");
  CHECK_EQ(aiocann_sim_hidden("aclrtLaunchHostFunc"), 0);
  configure("cann", nullptr);
  for (const char *bad : {"7.0", static_cast<const char *>(nullptr)})
    CHECK_CODE(aiocann_sim_play_cann(bad), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aiocann_sim_hidden("aclrtLaunchHostFunc"), 1);
  CHECK_OK(aiocann_sim_play_cann("9.1"));
  CHECK_EQ(setenv("AIOCANN_SIM_HIDE", "aclnnAdd,aclrtLaunchCallback", 1), 0);
  CHECK_EQ(aiocann_sim_hidden("aclnnAdd"), 1);
  CHECK_EQ(aiocann_sim_hidden("aclrtLaunchCallback"), 1);
  CHECK_EQ(aiocann_sim_hidden("aclrtLaunchHostFunc"), 0);
  CHECK_EQ(unsetenv("AIOCANN_SIM_HIDE"), 0);
  CHECK_CODE(aiocann_sim_configure("hide", "aclrtMalloc,aclrtMallock"), ACL_ERROR_INVALID_PARAM);
  CHECK_CONTAINS(std::string(aiocann_sim_last_error()), "'aclrtMallock' is not one");
  CHECK_CODE(aiocann_sim_configure("cann", "7.0"), ACL_ERROR_INVALID_PARAM);
  CHECK_CONTAINS(std::string(aiocann_sim_last_error()), "8.1 or 9.1");
}

void memory_can_be_scarce() {
  configure("memory", "4M");
  CHECK_OK(aclrtSetDevice(0));
  size_t free = 0, total = 0;
  CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  CHECK_EQ(total, 4 * kMiB);
  void *first = device_memory(2 * kMiB - 64), *second = nullptr;
  CHECK_OK(aclrtMalloc(&second, 2 * kMiB - 64, ACL_MEM_MALLOC_HUGE_ONLY));
  void *third = nullptr;
  CHECK_CODE(aclrtMalloc(&third, 1, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
  CHECK_CONTAINS(recent(), "0 of 4194304 are free");
  CHECK_OK(aclrtFree(first));
  CHECK_OK(aclrtMalloc(&third, 1, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(aclrtResetDevice(0));
}

}  // namespace

int main() {
  bad_environment();
  environment();
  configuration();
  capabilities();
  super_nodes();
  visible_devices_of_every_kind();
  an_older_cann();
  memory_can_be_scarce();
  return 0;
}
