// acl_config.cpp: reading JSON, of which few values matter.
#include "sim/acl_config.hpp"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "sim/error.hpp"

namespace aiocann::sim {
namespace {

constexpr int kMaxNesting = 10;  ///< of objects, and likewise of arrays
constexpr off_t kMaxBytes = 10 << 20;

/// Checks a text and collects its scalar values as they are written, by path ("a.b"); those of arrays are skipped.
class Reader {
 public:
  explicit Reader(const std::string &text) : at_(text.c_str()) {}

  bool read() { return value("", true) && (skip_spaces(), *at_ == '\0'); }
  const std::map<std::string, std::string> &values() const { return values_; }

 private:
  void skip_spaces() {
    while (*at_ != '\0' && strchr(" \t\r\n", *at_) != nullptr) ++at_;
  }

  bool take(char c) {
    skip_spaces();
    if (*at_ != c) return false;
    ++at_;
    return true;
  }

  bool string(std::string *out) {
    if (!take('"')) return false;
    for (; *at_ != '"'; ++at_) {
      if (static_cast<unsigned char>(*at_) < ' ') return false;  // the end of the text, too
      if (*at_ == '\\' && strchr("\"\\/bfnrtu", *++at_) == nullptr) return false;
      *out += *at_;
    }
    ++at_;
    return true;
  }

  bool value(const std::string &path, bool is_kept) {
    skip_spaces();
    if (*at_ == '{' || *at_ == '[') return members(path, is_kept);
    std::string text;
    if (*at_ == '"') {
      if (!string(&text)) return false;
      text = '"' + text + '"';
    } else {
      while (isalnum(static_cast<unsigned char>(*at_)) || strchr("+-.", *at_) != nullptr) {
        if (*at_ == '\0') break;
        text += *at_++;
      }
      char *end = nullptr;
      const bool is_word = text == "true" || text == "false" || text == "null";
      if (!is_word && (text.empty() || (strtod(text.c_str(), &end), *end != '\0'))) return false;
    }
    if (is_kept) values_[path] = text;
    return true;
  }

  bool members(const std::string &path, bool is_kept) {
    const bool is_object = *at_++ == '{';
    const char close = is_object ? '}' : ']';
    int &depth = is_object ? objects_ : arrays_;
    if (++depth > kMaxNesting) return false;
    if (!take(close)) {
      do {
        std::string name;
        if (is_object && !(string(&name) && take(':'))) return false;
        if (!value(path.empty() ? name : path + "." + name, is_kept && is_object)) return false;
      } while (take(','));
      if (!take(close)) return false;
    }
    --depth;
    return true;
  }

  const char *at_;
  int objects_ = 0, arrays_ = 0;  ///< that are open
  std::map<std::string, std::string> values_;
};

/// "0" or a positive number without leading zeros, in quotes.
bool parse_device(const std::string &value, int32_t *device) {
  if (value.size() < 3 || value.front() != '"') return false;
  const std::string digits = value.substr(1, value.size() - 2);
  if (digits.find_first_not_of("0123456789") != std::string::npos) return false;
  if (digits.size() > 1 && digits[0] == '0') return false;
  errno = 0;
  const long number = strtol(digits.c_str(), nullptr, 10);
  if (errno != 0 || number > std::numeric_limits<int32_t>::max()) return false;
  *device = static_cast<int32_t>(number);
  return true;
}

}  // namespace

aclError read_acl_config(const char *path, std::string *text) {
  text->clear();
  if (path == nullptr || *path == '\0') return ACL_SUCCESS;
  struct stat info;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > kMaxBytes || !file)
    return fail(ACL_ERROR_INVALID_FILE, "aclInit: configuration file '%s' cannot be read", path);
  if (info.st_size != 0) content << file.rdbuf();  // an empty file says nothing
  *text = content.str();
  return ACL_SUCCESS;
}

aclError parse_acl_config(const std::string &text, AclConfig *config) {
  *config = AclConfig{};
  if (text.empty()) return ACL_SUCCESS;
  Reader reader(text);
  if (!reader.read())
    return fail(ACL_ERROR_PARSE_FILE,
                "aclInit: the configuration file is not JSON, or nested too deeply");
  for (const auto &[path, value] : reader.values()) {
    if (path == "defaultDevice.default_device" && !parse_device(value, &config->default_device))
      return fail(ACL_ERROR_INVALID_PARAM,
                  "aclInit: default_device is %s: expected the id of a device, in quotes",
                  value.c_str());
    if (path == "err_msg_mode" && value != "\"0\"" && value != "\"1\"")
      return fail(ACL_ERROR_INVALID_PARAM, "aclInit: err_msg_mode is %s: expected \"0\" or \"1\"",
                  value.c_str());
    if (path == "err_msg_mode") config->errors_per_process = value == "\"1\"";
  }
  return ACL_SUCCESS;
}

}  // namespace aiocann::sim
