// pool.cpp: worker threads, their sleep, and parallel loops.
#include "sim/pool.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>

#include "sim/stream.hpp"

namespace aiocann::sim {
namespace {

constexpr uint64_t kSpinNs =
    40000;  ///< before a worker parks: about what waking a parked one costs
constexpr uint64_t kHelperSpinNs = 20000;
constexpr int kWorkerNice = 10;
constexpr int64_t kExitGraceMs = 1000;

/// The code of this library must stay mapped while workers run, whatever the program does with its handle.
void pin_library() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void *>(&pin_library), &info) == 0 || info.dli_fname == nullptr)
    return;
  dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace

/// A parallel loop in progress; lives on its caller's stack. `helpers` counts workers that may still touch it.
struct Pool::Job {
  const std::function<void(size_t)> &body;
  const size_t n;
  std::atomic<size_t> next{0};
  std::atomic<uint32_t> helpers{0};
  Job *previous = nullptr, *following = nullptr;  // list of open loops, under mutex_
};

Pool &Pool::instance() {
  static Pool *const leaked = new Pool();
  return *leaked;
}

void Pool::start(int threads) {
  std::lock_guard<std::mutex> lock(start_mutex_);
  if (started_ == 0) {
    pin_library();
    pthread_atfork(nullptr, nullptr, [] { instance().forked_.store(true); });
    // Registered late, so that it runs before the static destructors of libraries that kernels use.
    atexit([] { instance().stop_at_exit(); });
  }
  wanted_.store(threads);
  for (; started_ < threads; ++started_) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    const int rc = pthread_create(
        &thread, &attributes,
        [](void *index) -> void * {
          instance().work(static_cast<int>(reinterpret_cast<intptr_t>(index)));
          return nullptr;
        },
        reinterpret_cast<void *>(static_cast<intptr_t>(started_)));
    pthread_attr_destroy(&attributes);
    if (rc != 0) break;  // fewer workers are slower, not wrong; none at all is found by the caller
  }
  wanted_.store(std::min(threads, started_));
  surplus_word_.fetch_add(1);
  futex_wake(surplus_word_);
}

void Pool::stop_at_exit() {
  if (is_forked()) return;
  stopping_.store(true);
  // A kernel that still runs may use libraries whose destructors come next. Loops stop handing out indices now.
  const Deadline deadline = Deadline::after_ms(kExitGraceMs);
  while (busy_.load() != 0 && !deadline.has_passed()) sched_yield();
}

/// With mutex_ held.
void Pool::append_ready(Stream *stream) {
  const uint32_t priority = stream->priority();
  ReadyList &list = ready_[priority];
  stream->next_ready = nullptr;
  (list.tail != nullptr ? list.tail->next_ready : list.head) = stream;
  list.tail = stream;
  ready_mask_.fetch_or(1u << priority, std::memory_order_seq_cst);
}

void Pool::schedule(Stream *stream) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    append_ready(stream);
  }
  wake_one();
}

void Pool::schedule_all(Stream *first) {
  if (first == nullptr) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    while (first != nullptr) {
      Stream *next = first->next_ready;
      append_ready(first);
      first = next;
    }
  }
  wake_one();  // who takes one wakes the next
}

void Pool::wake_one() {
  // seq_cst against park(): either the parking worker sees the work, or we see it asleep.
  if (spinners_.load(std::memory_order_seq_cst) != 0) return;
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  wake_word_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(wake_word_, 1);
}

Stream *Pool::take_ready() {
  if (ready_mask_.load(std::memory_order_seq_cst) == 0) return nullptr;
  std::lock_guard<std::mutex> lock(mutex_);
  const uint32_t mask = ready_mask_.load(std::memory_order_relaxed);
  if (mask == 0) return nullptr;
  const int priority = __builtin_ctz(mask);
  ReadyList &list = ready_[priority];
  Stream *stream = list.head;
  list.head = stream->next_ready;
  if (list.head == nullptr) {
    list.tail = nullptr;
    ready_mask_.fetch_and(~(1u << priority), std::memory_order_seq_cst);
  }
  return stream;
}

bool Pool::run_one() {
  if (Stream *stream = take_ready()) {
    if (has_ready()) wake_one();  // a spinner took this one alone: hand the rest on
    stream->run();
    return true;
  }
  return help();
}

/// Whoever takes the last index closes the loop to workers that look for something to do.
size_t Pool::take_index(Job *job) {
  const size_t index = job->next.fetch_add(1);
  if (index + 1 == job->n) open_jobs_.fetch_sub(1, std::memory_order_seq_cst);
  return index;
}

bool Pool::help() {
  if (open_jobs_.load(std::memory_order_seq_cst) == 0) return false;
  Job *job = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (job = jobs_; job != nullptr; job = job->following) {
      if (job->next.load(std::memory_order_relaxed) < job->n) break;
    }
    if (job == nullptr) return false;
    job->helpers.fetch_add(1);
  }
  if (job->next.load(std::memory_order_relaxed) + 1 < job->n) wake_one();
  bool helped = false;
  for (size_t i; (i = take_index(job)) < job->n;) {
    if (!is_stopping()) job->body(i);
    helped = true;
  }
  // After the count reaches 0 the loop may be gone: only the pool's own word is touched then.
  if (job->helpers.fetch_sub(1) == 1) {
    done_word_.fetch_add(1);
    if (done_waiters_.load() != 0) futex_wake(done_word_);
  }
  return helped;
}

void Pool::parallel_for(size_t n, const std::function<void(size_t)> &body) {
  if (n == 0) return;
  if (n == 1 || threads() <= 1) {
    for (size_t i = 0; i < n && !is_stopping(); ++i) body(i);
    return;
  }
  Job job{body, n};
  {
    std::lock_guard<std::mutex> lock(mutex_);
    job.following = jobs_;
    if (jobs_ != nullptr) jobs_->previous = &job;
    jobs_ = &job;
    open_jobs_.fetch_add(1, std::memory_order_seq_cst);
  }
  wake_one();  // each helper wakes the next while indices are left
  for (size_t i; (i = take_index(&job)) < n;) {
    if (!is_stopping()) body(i);
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);  // no helper can join after this
    if (job.previous != nullptr)
      job.previous->following = job.following;
    else
      jobs_ = job.following;
    if (job.following != nullptr) job.following->previous = job.previous;
  }
  const auto all_left = [&job] { return job.helpers.load() == 0; };
  if (spin_for(kHelperSpinNs, all_left)) return;
  done_waiters_.fetch_add(1);
  while (true) {
    const uint32_t seen = done_word_.load();
    if (all_left()) break;
    futex_wait(done_word_, seen);
  }
  done_waiters_.fetch_sub(1);
}

/// Beyond the configured number: asleep where wake_one() does not look.
void Pool::wait_until_wanted(int index) {
  while (true) {
    const uint32_t seen = surplus_word_.load();
    if (index < wanted_.load() || is_stopping()) return;
    futex_wait(surplus_word_, seen);
  }
}

void Pool::park() {
  const uint32_t seen = wake_word_.load(std::memory_order_seq_cst);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  const bool work = ready_mask_.load(std::memory_order_seq_cst) != 0 ||
                    open_jobs_.load(std::memory_order_seq_cst) != 0;
  if (!work) futex_wait(wake_word_, seen);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

void Pool::work(int index) {
  pthread_setname_np(pthread_self(), "aiocann-sim");
  // nice applies to a thread on Linux; refused where raising it is not allowed, which costs nothing but comfort.
  setpriority(PRIO_PROCESS, 0, kWorkerNice);
  while (true) {
    if (index >= wanted_.load(std::memory_order_relaxed)) {
      wake_one();  // it may have been woken in place of one that is wanted
      wait_until_wanted(index);
    }
    busy_.fetch_add(1);
    const bool worked = !is_stopping() && run_one();
    busy_.fetch_sub(1);
    if (is_stopping()) {
      std::atomic<uint32_t> forever{0};
      while (true) futex_wait(forever, 0);
    }
    if (worked) continue;
    spinners_.fetch_add(1, std::memory_order_seq_cst);
    const bool found = spin_for(kSpinNs, [this] {
      return ready_mask_.load(std::memory_order_seq_cst) != 0 ||
             open_jobs_.load(std::memory_order_seq_cst) != 0;
    });
    spinners_.fetch_sub(1, std::memory_order_seq_cst);
    if (!found) park();
  }
}

}  // namespace aiocann::sim
