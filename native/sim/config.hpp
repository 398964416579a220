// config.hpp: which machine to simulate: SoC profiles, and the settings from aiocann_sim_configure and the environment.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace aiocann::sim {

constexpr int kMaxDevices = 64;
constexpr uint32_t kStreamCapacity =
    4096;  ///< most streams that any device can be configured to have
constexpr uint32_t kEventCapacity = 131072;  ///< likewise events
constexpr uint32_t kNotifyCapacity = 8192;

struct SocProfile {
  const char *name;
  int32_t ai_cores, vector_cores, ai_cpus;
  uint64_t memory_bytes, l2_bytes;
  uint32_t max_streams, max_events, max_notifies;
  bool bf16;
  bool ddr_only;  ///< no HBM: aclrtGetMemInfo answers HBM questions with DDR
  bool
      is_a3;  ///< part of a super node: devices that can reach each other may, without asking first
};

/// nullptr for a name that is not in the table.
const SocProfile *find_soc(const std::string &name);

struct Config {
  int devices = 1;
  const SocProfile *soc = nullptr;
  uint64_t memory_bytes = 0;
  bool memory_was_set =
      false;  ///< else a smaller address range is taken where the wished one cannot be had
  int threads = 1;
  uint64_t peers[kMaxDevices] = {};  ///< bit p of row d: device d can reach the memory of device p
  uint32_t max_streams = 0, max_events = 0;
  uint64_t pinned_bytes = 0;
  bool is_strict = false;
  bool is_cann_81 = false;  ///< behave as CANN 8.1
};

/// Raw texts by key; absent: not set.
using Settings = std::map<std::string, std::string>;

bool is_setting(const std::string &key);
const std::vector<std::string> &setting_names();
/// "AIOCANN_SIM_MAX_STREAMS" for "max_streams".
std::string variable_of(const std::string &key);
/// See aiocann_sim_play_cann; false for a version that is not played.
bool play_cann(const char *version);
/// What is played, overlaid with the environment and then with what aiocann_sim_configure set.
Settings effective_settings(const Settings &configured);
/// Empty text on success; otherwise which setting has which bad value and what is accepted.
std::string parse_settings(const Settings &settings, const Settings &configured, Config *config);
/// The value in force as text.
std::string describe_setting(const Config &config, const Settings &settings,
                             const std::string &key);

/// Does a machine with these settings lack the function (settings "cann" and "hide")?
bool is_hidden(const Settings &settings, const std::string &function);

/// ASCEND_RT_VISIBLE_DEVICES: user id -> logical id. Unset: all. `complaint`: why none is left.
std::vector<int> parse_visible_devices(const char *text, int devices, std::string *complaint);

}  // namespace aiocann::sim
