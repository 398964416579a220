// sim_subscriber.hpp: a thread that processes callbacks, for tests of the simulator.
#pragma once
#include "sim_rt.hpp"

/// Processes callbacks until it is destroyed; its id is known once the constructor returns.
class Subscriber {
 public:
  explicit Subscriber(int device) {
    thread_ = std::thread([this, device] {
      CHECK_OK(aclrtSetDevice(device));
      id_ = static_cast<uint64_t>(pthread_self());
      while (!stop_.load()) {
        const aclError code = aclrtProcessReport(50);
        CHECK(code == ACL_SUCCESS || code == ACL_ERROR_RT_REPORT_TIMEOUT ||
              code == ACL_ERROR_RT_THREAD_SUBSCRIBE);
        if (code == ACL_ERROR_RT_THREAD_SUBSCRIBE) std::this_thread::yield();
      }
      CHECK_OK(aclrtResetDevice(device));
    });
    while (id_.load() == 0) std::this_thread::yield();
  }
  ~Subscriber() {
    stop_ = true;
    thread_.join();
  }
  uint64_t id() const { return id_.load(); }

 private:
  std::atomic<uint64_t> id_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

template <class Condition>
void wait_until(Condition &&condition) {
  for (int i = 0; !condition(); ++i) {
    CHECK(i < 100000000);
    std::this_thread::yield();
  }
}
