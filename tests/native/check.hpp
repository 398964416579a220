// check.hpp: assertions for the native tests. A failed check says where and what, and ends the
// program with 1; it may be used on any thread.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <type_traits>

namespace check {

template <typename T>
std::string show(const T &value) {
  std::ostringstream out;
  if constexpr (std::is_enum_v<T>) {
    out << static_cast<long long>(value);
  } else if constexpr (std::is_same_v<T, std::nullptr_t>) {
    out << "nullptr";
  } else if constexpr (std::is_same_v<T, bool>) {
    out << (value ? "true" : "false");
  } else if constexpr (std::is_pointer_v<T> && std::is_function_v<std::remove_pointer_t<T>>) {
    out << (value != nullptr ? "function" : "null function");
  } else {
    out << value;
  }
  return out.str();
}

[[noreturn]] inline void fail(const char *file, int line, const std::string &what) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, what.c_str());
  std::fflush(nullptr);
  // Not exit(): another thread may still use what static destructors would take away.
  std::_Exit(1);
}

// Integers of different signedness compare by value, as the reader expects.
template <typename A, typename B>
bool equal(const A &a, const B &b) {
  if constexpr (std::is_integral_v<A> && std::is_integral_v<B>) {
    if constexpr (std::is_signed_v<A> && std::is_unsigned_v<B>) {
      return a >= 0 && static_cast<std::make_unsigned_t<A>>(a) == b;
    } else if constexpr (std::is_unsigned_v<A> && std::is_signed_v<B>) {
      return b >= 0 && a == static_cast<std::make_unsigned_t<B>>(b);
    } else {
      return a == b;
    }
  } else {
    return a == b;
  }
}

template <typename A, typename B>
void equal_or_fail(const char *file, int line, const char *a_text, const char *b_text, const A &a,
                   const B &b) {
  if (!equal(a, b)) {
    fail(file, line,
         std::string(a_text) + " == " + b_text + " (" + show(a) + " and " + show(b) + ")");
  }
}

inline void contains_or_fail(const char *file, int line, const std::string &text,
                             const std::string &part) {
  if (text.find(part) == std::string::npos) {
    fail(file, line, "'" + part + "' is not in: " + text);
  }
}

}  // namespace check

#define CHECK(condition)                             \
  do {                                               \
    if (!(condition)) {                              \
      ::check::fail(__FILE__, __LINE__, #condition); \
    }                                                \
  } while (0)
#define CHECK_EQ(a, b) ::check::equal_or_fail(__FILE__, __LINE__, #a, #b, (a), (b))
/// An ACL call that must succeed, or must answer exactly `code`.
#define CHECK_OK(call) ::check::equal_or_fail(__FILE__, __LINE__, #call, "success", (call), 0)
#define CHECK_CODE(call, code) \
  ::check::equal_or_fail(__FILE__, __LINE__, #call, #code, (call), (code))
#define CHECK_CONTAINS(text, part) ::check::contains_or_fail(__FILE__, __LINE__, (text), (part))
