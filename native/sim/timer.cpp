// timer.cpp: the thread behind timer.hpp. Leaked, like the workers.
#include "sim/timer.hpp"

#include <pthread.h>

#include "sim/futex.hpp"

namespace aiocann::sim {

Timer &Timer::instance() {
  static Timer *const leaked = new Timer();
  return *leaked;
}

/// With the lock held.
void Timer::start() {
  if (is_started_) return;
  pthread_t thread;
  const int rc = pthread_create(
      &thread, nullptr,
      [](void *) -> void * {
        instance().work();
        return nullptr;
      },
      nullptr);
  if (rc != 0) return;  // the next call tries again
  pthread_setname_np(thread, "aiocann-timer");
  pthread_detach(thread);
  is_started_ = true;
}

uint64_t Timer::after_ns(uint64_t ns, std::function<void()> fn) {
  const uint64_t when = now_ns() + ns;
  uint64_t id = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    id = ++last_id_;
    calls_.emplace(std::make_pair(when, id), std::move(fn));
    times_.emplace(id, when);
    start();
    word_.fetch_add(1);
  }
  futex_wake(word_);
  return id;
}

bool Timer::cancel(uint64_t id) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto time = times_.find(id);
  if (time == times_.end()) return false;
  calls_.erase({time->second, id});
  times_.erase(time);
  return true;
}

void Timer::work() {
  while (true) {
    const uint32_t seen = word_.load();
    std::function<void()> due;
    Deadline next = Deadline::never();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!calls_.empty()) {
        const auto first = calls_.begin();
        next = Deadline::at_ns(first->first.first);
        if (next.has_passed()) {
          due = std::move(first->second);
          times_.erase(first->first.second);
          calls_.erase(first);
        }
      }
    }
    if (due)
      due();
    else
      futex_wait(word_, seen, next);
  }
}

}  // namespace aiocann::sim
