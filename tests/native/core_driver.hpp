// core_driver.hpp: drives the core through aiocann.h as an event loop would: an eventfd, poll, drain. And the
// simulator's controls, taken from the library that the core loads too.
#pragma once
#include <dlfcn.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "aiocann.h"
#include "check.hpp"

namespace core_test {

constexpr int kPatienceMs = 60000;  // a hang is a failure, but a loaded machine is not

/// The simulator's controls.
struct Simulator {
  int32_t (*configure)(const char *, const char *);
  int32_t (*inject)(const char *, const char *, uint64_t, int32_t);
  void (*clear_faults)();
  int32_t (*hold)(int32_t, int32_t);
  int32_t (*release)(int32_t, int32_t);
  void (*let_go)();
  void (*start_anew)();
  int32_t (*lose)(int32_t, int32_t, int32_t);
  int32_t (*restore)(int32_t);
  uint64_t (*counter)(const char *);
  const char *(*last_misuse)();

  static const char *path() {
    const char *path = std::getenv("AIOCANN_SIM_LIBRARY");
    CHECK(path != nullptr);
    return path;
  }
  Simulator() {
    void *library = dlopen(path(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) check::fail(__FILE__, __LINE__, dlerror());
    find(library, "aiocann_sim_configure", &configure);
    find(library, "aiocann_sim_inject", &inject);
    find(library, "aiocann_sim_clear_faults", &clear_faults);
    find(library, "aiocann_sim_hold", &hold);
    find(library, "aiocann_sim_release", &release);
    find(library, "aiocann_sim_let_go", &let_go);
    find(library, "aiocann_sim_reset", &start_anew);
    find(library, "aiocann_sim_lose", &lose);
    find(library, "aiocann_sim_restore", &restore);
    find(library, "aiocann_sim_counter", &counter);
    find(library, "aiocann_sim_last_misuse", &last_misuse);
  }

 private:
  template <typename F>
  static void find(void *library, const char *name, F *out) {
    void *symbol = dlsym(library, name);
    if (symbol == nullptr) check::fail(__FILE__, __LINE__, name);
    *out = reinterpret_cast<F>(symbol);
  }
};

inline Simulator &sim() {
  static auto *simulator = new Simulator;
  return *simulator;
}

/// A setting of the core that the tests are run with, or "".
inline std::string setting(const char *name) {
  const char *value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// The driver's functions behind markers, whichever family tells of them.
inline std::set<std::string> marker_calls() {
  const std::string family = setting("AIOCANN_COMPLETION");
  if (family == "query") return {};
  if (family == "host-func") return {"aclrtLaunchHostFunc"};
  return {"aclrtSubscribeReport", "aclrtLaunchCallback"};
}

/// An event loop. Thread: one.
class Loop {
 public:
  Loop() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), raw(aiocann_loop_create(fd_)) {}
  ~Loop() { close(); }
  Loop(const Loop &) = delete;
  Loop &operator=(const Loop &) = delete;

  void close(aiocann_loop *heir = nullptr) {
    if (raw == nullptr) return;
    if (heir != nullptr) aiocann_loop_close(raw, heir);
    aiocann_loop_release(raw);
    ::close(fd_);
    raw = nullptr;
  }

  /// Waits for deliveries; false: none came in time.
  bool turn(int timeout_ms = kPatienceMs) {
    if (drain()) return true;
    pollfd waiting{fd_, POLLIN, 0};
    if (poll(&waiting, 1, timeout_ms) <= 0) return drain();
    uint64_t count = 0;
    CHECK(read(fd_, &count, sizeof count) == sizeof count);
    drain();
    return true;
  }

  /// Until the op's id has been delivered to this loop.
  void await(aiocann_op *op) {
    while (delivered.count(aiocann_op_id(op)) == 0) CHECK(turn());
    CHECK(aiocann_op_state(op) != 0);
  }

  std::multiset<uint64_t> delivered;
  std::vector<uint64_t> order;

 private:
  bool drain() {
    bool any = false;
    uint64_t ids[64];
    for (;;) {
      const int32_t n = aiocann_loop_drain(raw, ids, 64);
      for (int32_t i = 0; i < n; ++i) {
        delivered.insert(ids[i]);
        order.push_back(ids[i]);
        any = true;
      }
      if (n < 64) return any;
    }
  }
  int fd_;

 public:
  aiocann_loop *raw;
};

inline std::string text(const aiocann_error *error) {
  return error == nullptr ? "" : std::to_string(error->code) + ": " + error->detail;
}

/// The op of a call that must succeed.
inline void accepted(int32_t code) {
  if (code != 0) check::fail("accepted", 0, text(aiocann_last_error()));
}

/// Awaits, checks that it went well, and gives the op up.
inline void finish(Loop &loop, aiocann_op *op) {
  loop.await(op);
  if (aiocann_op_state(op) != 1) check::fail("finish", 0, text(aiocann_op_error(op)));
  aiocann_op_release(op);
}

/// Awaits an op that must fail with code, and gives it up; the detail.
inline std::string fails(Loop &loop, aiocann_op *op, int32_t code, int line = __builtin_LINE()) {
  loop.await(op);
  if (aiocann_op_state(op) != 2) check::fail("the op that fails()", line, "went well");
  const std::string detail = aiocann_op_error(op)->detail;
  if (aiocann_op_error(op)->code != code) check::fail("fails", code, text(aiocann_op_error(op)));
  aiocann_op_release(op);
  return detail;
}

template <typename T>
T *result(Loop &loop, aiocann_op *op) {
  loop.await(op);
  if (aiocann_op_state(op) != 1) check::fail("result", 0, text(aiocann_op_error(op)));
  auto *taken = static_cast<T *>(aiocann_op_take_result(op));
  CHECK(taken != nullptr);
  aiocann_op_release(op);
  return taken;
}

/// Until no device is open: what was released without closing closes in the background.
inline void nothing_open() {
  for (int i = 0; i < 60000 && sim().configure("devices", nullptr) != 0; ++i) usleep(1000);
  CHECK_OK(sim().configure("devices", nullptr));
}

/// An open runtime on n simulated devices.
class Runtime {
 public:
  explicit Runtime(int32_t n_devices, const char *peers = "all", const char *memory = nullptr) {
    CHECK_OK(sim().configure("devices", std::to_string(n_devices).c_str()));
    CHECK_OK(sim().configure("peers", peers));
    CHECK_OK(sim().configure("memory", memory));
    open(n_devices);
  }
  /// On the machine as it is: something that is stuck keeps it from being configured.
  static Runtime *as_it_is(int32_t n_devices) {
    auto *rt = new Runtime;
    rt->open(n_devices);
    return rt;
  }
  ~Runtime() {
    if (raw == nullptr) return;
    close();  // idempotent
    aiocann_runtime_release(raw);
  }

  void open(int32_t n_devices) {
    const aiocann_config config{"sim", Simulator::path(), nullptr, n_devices};
    aiocann_op *op = nullptr;
    accepted(aiocann_runtime_open(&config, loop.raw, &raw, &op));
    finish(loop, op);
    CHECK_EQ(aiocann_runtime_device_count(raw), n_devices);
  }

  void close(int64_t timeout_ms = 30000) {
    // Late ones come in the end, and are lost no more.
    for (int i = 0; i < kPatienceMs && statistics().lost_callbacks != lost; ++i) usleep(1000);
    CHECK_EQ(statistics().lost_callbacks, lost);
    aiocann_op *op = nullptr;
    accepted(aiocann_runtime_close(raw, timeout_ms, loop.raw, &op));
    finish(loop, op);
  }

  aiocann_device *device(int32_t i) { return aiocann_runtime_device(raw, i); }

  aiocann_stream *stream(int32_t i = 0) {
    aiocann_op *op = nullptr;
    accepted(aiocann_stream_create(device(i), -1, loop.raw, &op));
    return result<aiocann_stream>(loop, op);
  }
  void close(aiocann_stream *stream) {
    aiocann_op *op = nullptr;
    accepted(aiocann_stream_close(stream, loop.raw, &op));
    finish(loop, op);
    aiocann_stream_release(stream);
  }
  aiocann_mem *pinned(uint64_t nbytes) {
    aiocann_op *op = nullptr;
    accepted(aiocann_pinned_allocate(raw, nbytes, loop.raw, &op));
    return result<aiocann_mem>(loop, op);
  }
  aiocann_mem *lazy(uint64_t nbytes, int32_t i = 0) {
    aiocann_mem *mem = nullptr;
    accepted(aiocann_device_allocate_lazy(device(i), nbytes, &mem));
    return mem;
  }
  aiocann_mem *allocate(uint64_t nbytes, int32_t i = 0, aiocann_stream *stream = nullptr) {
    aiocann_mem *mem = nullptr;
    aiocann_op *op = nullptr;
    accepted(aiocann_device_allocate(device(i), nbytes, stream, 0, loop.raw, &mem, &op));
    if (op != nullptr) finish(loop, op);
    CHECK(aiocann_mem_address(mem) != 0);
    return mem;
  }
  aiocann_op *copy(aiocann_stream *stream, aiocann_span dst, aiocann_span src, uint64_t nbytes) {
    aiocann_op *op = nullptr;
    accepted(aiocann_stream_memcpy(stream, &dst, &src, nbytes, loop.raw, &op));
    return op;
  }
  aiocann_op *fill(aiocann_stream *stream, aiocann_mem *mem, int value) {
    aiocann_op *op = nullptr;
    accepted(aiocann_stream_memset(stream, mem, 0, value, aiocann_mem_nbytes(mem), loop.raw, &op));
    return op;
  }
  aiocann_op *mark(aiocann_stream *stream, int32_t kind = AIOCANN_MARK_SYNCHRONIZE) {
    aiocann_op *op = nullptr;
    accepted(aiocann_stream_mark(stream, kind, loop.raw, &op));
    return op;
  }
  aiocann_op *wait(aiocann_stream *stream, aiocann_op *on) {
    aiocann_op *op = nullptr;
    accepted(aiocann_stream_wait(stream, on, loop.raw, &op));
    return op;
  }

  aiocann_statistics statistics() {
    aiocann_statistics out;
    aiocann_runtime_statistics(raw, &out);
    return out;
  }
  /// Lanes return memory when they get to it: waits until what `field` counts is `value`.
  void settles_at(uint64_t aiocann_statistics::*field, uint64_t value) {
    for (int i = 0; i < 20000; ++i) {
      if (statistics().*field == value) return;
      // Any command behind the releases brings the lane past them.
      aiocann_op *op = nullptr;
      accepted(
          aiocann_device_memory_info(device(i % aiocann_runtime_device_count(raw)), loop.raw, &op));
      finish(loop, op);
    }
    CHECK_EQ(statistics().*field, value);
  }

  Loop loop;
  aiocann_runtime *raw = nullptr;
  uint64_t lost = 0;  ///< callbacks that the test takes away

 private:
  Runtime() = default;
};

inline aiocann_span of(aiocann_mem *mem, uint64_t offset = 0) { return {mem, offset, nullptr}; }
inline aiocann_span of(void *host) { return {nullptr, 0, host}; }
inline aiocann_span of(std::vector<unsigned char> &host, size_t offset = 0) {
  return {nullptr, 0, host.data() + offset};
}

/// Bytes that differ from place to place and from seed to seed.
inline std::vector<unsigned char> pattern(uint64_t nbytes, uint64_t seed) {
  std::vector<unsigned char> bytes(nbytes);
  uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
  size_t i = 0;
  for (; i + 8 <= nbytes; i += 8) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    std::memcpy(&bytes[i], &x, 8);
  }
  for (; i < nbytes; ++i) bytes[i] = static_cast<unsigned char>(x >> (8 * (i % 8)));
  return bytes;
}

}  // namespace core_test
