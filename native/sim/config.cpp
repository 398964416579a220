// config.cpp: SoC table and parsing. No value is ever replaced by a default because it could not be read.
#include "sim/config.hpp"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <atomic>

namespace aiocann::sim {
namespace {

constexpr uint64_t kGiB = 1ull << 30;
constexpr uint64_t kMiB = 1ull << 20;
constexpr uint64_t kDdr310P = 24000000000 / (2 * kMiB) * (2 * kMiB);

constexpr SocProfile kSocs[] = {
    {"Ascend910B1", 24, 48, 6, 64 * kGiB, 192 * kMiB, 1984, 65536, 8192, true, false, false},
    {"Ascend910B2", 24, 48, 6, 64 * kGiB, 192 * kMiB, 1984, 65536, 8192, true, false, false},
    {"Ascend910B2C", 24, 48, 6, 64 * kGiB, 192 * kMiB, 1984, 65536, 8192, true, false, false},
    {"Ascend910B3", 20, 40, 6, 64 * kGiB, 192 * kMiB, 1984, 65536, 8192, true, false, false},
    {"Ascend910B4", 20, 40, 6, 32 * kGiB, 96 * kMiB, 1984, 65536, 8192, true, false, false},
    {"Ascend910B4-1", 20, 40, 6, 64 * kGiB, 168 * kMiB, 1984, 65536, 8192, true, false, false},
    {"Ascend910_9362", 20, 40, 6, 64 * kGiB, 168 * kMiB, 1984, 65536, 8192, true, false, true},
    {"Ascend910_9372", 20, 40, 6, 64 * kGiB, 192 * kMiB, 1984, 65536, 8192, true, false, true},
    {"Ascend910_9381", 24, 48, 6, 64 * kGiB, 192 * kMiB, 1984, 65536, 8192, true, false, true},
    {"Ascend910_9382", 24, 48, 6, 64 * kGiB, 192 * kMiB, 1984, 65536, 8192, true, false, true},
    {"Ascend910_9391", 24, 48, 6, 64 * kGiB, 192 * kMiB, 1984, 65536, 8192, true, false, true},
    {"Ascend910_9392", 24, 48, 6, 64 * kGiB, 192 * kMiB, 1984, 65536, 8192, true, false, true},
    {"Ascend310P1", 10, 8, 8, kDdr310P, 16 * kMiB, 1024, 1023, 1024, false, true, false},
    {"Ascend310P3", 8, 7, 7, kDdr310P, 16 * kMiB, 1024, 1023, 1024, false, true, false},
};
constexpr const char *kDefaultSoc = "Ascend910B2";
constexpr uint64_t kSmallestMemory = 4 * kMiB;
constexpr uint64_t kLargestMemory = 1024 * kGiB;
constexpr const char *kCann81 = "8.1";
constexpr const char *kNewestCann = "9.1";
std::atomic<const char *> g_played_cann{nullptr};

std::string soc_names() {
  std::string names;
  for (const SocProfile &soc : kSocs) names += (names.empty() ? "" : ", ") + std::string(soc.name);
  return names;
}

/// Digits, then for sizes at most one of K, M, G (and an optional B or iB).
bool parse_number(const std::string &text, bool is_size, uint64_t *value) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return false;
  errno = 0;
  char *end = nullptr;
  const unsigned long long number = strtoull(text.c_str(), &end, 10);
  if (errno != 0) return false;
  int shift = 0;
  if (is_size && *end != '\0') {
    const char *letter = strchr("kKmMgG", *end);
    if (letter == nullptr) return false;
    shift = strchr("kK", *end) ? 10 : strchr("mM", *end) ? 20 : 30;
    ++end;
    if (*end == 'i' && end[1] == 'B')
      end += 2;
    else if (*end == 'B')
      ++end;
  }
  if (*end != '\0' || (number << shift) >> shift != number) return false;
  *value = number << shift;
  return true;
}

int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

std::vector<std::string> split(const std::string &text) {
  std::vector<std::string> parts;
  size_t start = 0;
  while (true) {
    const size_t comma = std::min(text.find(',', start), text.size());
    parts.push_back(text.substr(start, comma - start));
    if (comma == text.size()) return parts;
    start = comma + 1;
  }
}

/// "all", "none", or pairs "a-b" separated by commas. Pairs may name devices that are configured later, if at all.
bool parse_peers(const std::string &text, int devices, uint64_t *rows) {
  const uint64_t everyone = devices == 64 ? UINT64_MAX : (1ull << devices) - 1;
  for (int d = 0; d < kMaxDevices; ++d) rows[d] = 0;
  if (text == "none") return true;
  if (text == "all") {
    for (int d = 0; d < devices; ++d) rows[d] = everyone & ~(1ull << d);
    return true;
  }
  for (const std::string &pair : split(text)) {
    const size_t dash = pair.find('-');
    uint64_t from = 0, to = 0;
    if (dash == std::string::npos || !parse_number(pair.substr(0, dash), false, &from) ||
        !parse_number(pair.substr(dash + 1), false, &to)) {
      return false;
    }
    if (from >= kMaxDevices || to >= kMaxDevices || from == to) return false;
    const uint64_t n = static_cast<uint64_t>(devices);
    if (from < n && to < n) rows[from] |= 1ull << to;
  }
  return true;
}

struct Function {
  const char *name;
  const char *since;
};

constexpr Function kFunctions[] = {
#define ACL_SYMBOL(name, since) {#name, since},
#define ACLNN_SYMBOL(name) {#name, "8.1"},
#include "acl_symbols.inc"
};

const Function *find_function(const std::string &name) {
  for (const Function &function : kFunctions) {
    if (name == function.name) return &function;
  }
  return nullptr;
}

/// Collects the first complaint.
class Parser {
 public:
  Parser(const Settings &settings, const Settings &configured)
      : settings_(settings), configured_(configured) {}

  bool has(const char *key) const { return settings_.count(key) != 0; }
  const std::string &text(const char *key) const { return settings_.at(key); }

  uint64_t number(const char *key, uint64_t low, uint64_t high, bool is_size, uint64_t fallback) {
    if (!has(key)) return fallback;
    uint64_t value = 0;
    if (parse_number(text(key), is_size, &value) && value >= low && value <= high) return value;
    complain(key, "a whole number from " + std::to_string(low) + " to " + std::to_string(high) +
                      (is_size ? " bytes (suffixes K, M, G)" : ""));
    return fallback;
  }

  void complain(const char *key, const std::string &accepted) {
    if (!complaint_.empty()) return;
    const std::string name =
        configured_.count(key) != 0 ? "simulator setting " + std::string(key) : variable_of(key);
    complaint_ = name + " is '" + text(key) + "': expected " + accepted;
  }

  const std::string &complaint() const { return complaint_; }

 private:
  const Settings &settings_;
  const Settings &configured_;
  std::string complaint_;
};

}  // namespace

const SocProfile *find_soc(const std::string &name) {
  for (const SocProfile &soc : kSocs) {
    if (name == soc.name) return &soc;
  }
  return nullptr;
}

const std::vector<std::string> &setting_names() {
  static const auto *const names = new std::vector<std::string>{
      "devices",    "soc",           "memory", "threads", "peers", "max_streams",
      "max_events", "pinned_memory", "cann",   "hide",    "strict"};
  return *names;
}

bool is_setting(const std::string &key) {
  const auto &names = setting_names();
  return std::find(names.begin(), names.end(), key) != names.end();
}

std::string variable_of(const std::string &key) {
  std::string variable = "AIOCANN_SIM_" + key;
  for (char &c : variable) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return variable;
}

bool play_cann(const char *version) {
  for (const char *known : {kCann81, kNewestCann}) {
    if (version == nullptr || strcmp(version, known) != 0) continue;
    g_played_cann.store(known);
    return true;
  }
  return false;
}

Settings effective_settings(const Settings &configured) {
  Settings settings = configured;
  for (const std::string &key : setting_names()) {
    if (settings.count(key) != 0) continue;
    const char *value = getenv(variable_of(key).c_str());
    if (value != nullptr) settings[key] = value;
  }
  if (const char *played = g_played_cann.load()) settings.emplace("cann", played);
  return settings;
}

std::string parse_settings(const Settings &settings, const Settings &configured, Config *config) {
  Parser parser(settings, configured);
  config->devices = static_cast<int>(parser.number("devices", 1, kMaxDevices, false, 1));
  config->soc = find_soc(parser.has("soc") ? parser.text("soc") : kDefaultSoc);
  if (config->soc == nullptr) {
    parser.complain("soc", "one of " + soc_names());
    return parser.complaint();
  }
  config->memory_was_set = parser.has("memory");
  config->memory_bytes =
      parser.number("memory", kSmallestMemory, kLargestMemory, true, config->soc->memory_bytes);
  config->memory_bytes &= ~(2 * kMiB - 1);
  config->threads = static_cast<int>(
      parser.number("threads", 1, 1024, false, static_cast<uint64_t>(usable_cores())));
  const std::string peers = parser.has("peers") ? parser.text("peers") : "all";
  if (!parse_peers(peers, config->devices, config->peers)) {
    parser.complain("peers", "'all', 'none', or pairs of different device ids below " +
                                 std::to_string(kMaxDevices) + " such as '0-1,1-0'");
  }
  config->max_streams = static_cast<uint32_t>(
      parser.number("max_streams", 1, kStreamCapacity, false, config->soc->max_streams));
  config->max_events = static_cast<uint32_t>(
      parser.number("max_events", 1, kEventCapacity, false, config->soc->max_events));
  config->pinned_bytes =
      parser.number("pinned_memory", kMiB, 64 * kLargestMemory, true, 256 * kGiB);
  config->is_strict = parser.has("strict") && parser.text("strict") == "1";
  if (parser.has("strict") && !config->is_strict && parser.text("strict") != "0") {
    parser.complain("strict", "0 or 1");
  }
  config->is_cann_81 = parser.has("cann") && parser.text("cann") == kCann81;
  if (parser.has("cann") && !config->is_cann_81 && parser.text("cann") != kNewestCann) {
    parser.complain("cann", std::string(kCann81) + " or " + kNewestCann);
  }
  if (parser.has("hide") && !parser.text("hide").empty()) {
    for (const std::string &name : split(parser.text("hide"))) {
      if (find_function(name) != nullptr) continue;
      parser.complain("hide",
                      "names of ACL functions with commas between, and '" + name + "' is not one");
    }
  }
  return parser.complaint();
}

bool is_hidden(const Settings &settings, const std::string &function) {
  const Function *known = find_function(function);
  if (known == nullptr) return false;
  const auto cann = settings.find("cann");
  if (cann != settings.end() && cann->second == kCann81 && strcmp(known->since, kCann81) != 0) {
    return true;
  }
  const auto hide = settings.find("hide");
  if (hide == settings.end()) return false;
  const std::vector<std::string> names = split(hide->second);
  return std::find(names.begin(), names.end(), function) != names.end();
}

std::string describe_setting(const Config &config, const Settings &settings,
                             const std::string &key) {
  if (key == "cann") return config.is_cann_81 ? kCann81 : kNewestCann;
  if (key == "strict") return config.is_strict ? "1" : "0";
  if (key == "hide") return settings.count(key) != 0 ? settings.at(key) : "";
  if (key == "devices") return std::to_string(config.devices);
  if (key == "soc") return config.soc->name;
  if (key == "memory") return std::to_string(config.memory_bytes);
  if (key == "threads") return std::to_string(config.threads);
  if (key == "max_streams") return std::to_string(config.max_streams);
  if (key == "max_events") return std::to_string(config.max_events);
  if (key == "pinned_memory") return std::to_string(config.pinned_bytes);
  std::string pairs;
  for (int d = 0; d < config.devices; ++d) {
    for (int p = 0; p < config.devices; ++p) {
      if ((config.peers[d] >> p & 1) == 0) continue;
      pairs += (pairs.empty() ? "" : ",") + std::to_string(d) + "-" + std::to_string(p);
    }
  }
  return pairs.empty() ? "none" : pairs;
}

std::vector<int> parse_visible_devices(const char *text, int devices, std::string *complaint) {
  std::vector<int> visible;
  complaint->clear();
  if (text == nullptr) {
    for (int d = 0; d < devices; ++d) visible.push_back(d);
    return visible;
  }
  // Reading stops at the first token that is not the id of a device; ids in a wrong order void all of them.
  for (const std::string &token : split(text)) {
    uint64_t id = 0;
    if (!parse_number(token, false, &id) || id >= static_cast<uint64_t>(devices)) break;
    if (!visible.empty() && static_cast<int>(id) <= visible.back()) {
      *complaint = static_cast<int>(id) == visible.back() ? "must not name a device twice"
                                                          : "must be in ascending order";
      return {};
    }
    visible.push_back(static_cast<int>(id));
    if (visible.size() == static_cast<size_t>(devices)) break;
  }
  if (visible.empty())
    *complaint = "must begin with an id from 0 to " + std::to_string(devices - 1);
  return visible;
}

}  // namespace aiocann::sim
