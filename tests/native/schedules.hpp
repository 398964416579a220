// schedules.hpp: runs a few threads in every order that makes a difference.
//
// The code under check is the core's own, instantiated with Scheduled in place of Threads: before each access to
// something shared a thread stops, and the explorer says whose turn it is. Threads are fibers of the one real thread, so
// a schedule can be repeated; depth-first search goes through all of them. Of orders that differ only in steps that
// commute (other words, or reads alone) one is tried (sleep sets). Where that is still too much, a
// thread is stopped so and so many times only. A thread that sleeps has no turn until it is woken: if
// nobody has one and somebody is not done, a wake-up was lost.
//
// Memory is sequentially consistent here: that each access is ordered as strongly as it has to be, the stress tests
// under ThreadSanitizer look at.
#pragma once
#include <ucontext.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace schedules {

struct Result {
  std::string failure;  ///< empty: every schedule was fine; else what went wrong, and the schedule
  uint64_t schedules = 0;
};

class Explorer {
 public:
  static constexpr int kAlways = -1;

  static Explorer &get() {
    static Explorer explorer;
    return explorer;
  }

  /// World: made anew for each schedule. kThreads; thread(index) runs on each; finish() when all have ended.
  /// kPreemptions: how often a thread is stopped that could go on; kAlways: as often as there are steps.
  template <typename World>
  Result explore() {
    Result result;
    path_.clear();
    do {
      reset(World::kPreemptions);
      {
        auto world = std::make_unique<World>();
        auto body = [](void *self, int index) { static_cast<World *>(self)->thread(index); };
        if (run(World::kThreads, body, world.get())) {
          ++result.schedules;
          world->finish();
        }
      }
      for (void *block : blocks_) std::free(block);
      blocks_.clear();
      if (!failure_.empty()) {
        result.failure = failure_ + schedule();
        return result;
      }
    } while (advance());
    return result;
  }

  // ---- Thread: a fiber of the world, or its making and its end, which are not scheduled ----

  /// The caller is about to do something with what lies at address (null: with nothing shared). gate: not before it is
  /// true.
  void step(const char *what, const void *address, bool writes, const bool *gate = nullptr) {
    if (running_ < 0) return;
    fibers_[running_].next = {what, address, writes, false, gate};
    leave();
  }

  /// Until another thread has changed something.
  void give_way() {
    Fiber &self = fibers_[running_];
    self.others_moved = false;
    self.next = {"gives way", nullptr, false, true, &self.others_moved};
    leave();
  }

  /// word, a futex, has been looked at in this step.
  void sleep(const void *word) {
    Fiber &self = fibers_[running_];
    self.asleep_on = word;
    self.woken = false;
    step("woke up", nullptr, false, &self.woken);
  }
  void wake_one(const void *word) {
    for (Fiber &fiber : fibers_) {
      if (fiber.asleep_on != word || fiber.woken) continue;
      fiber.woken = true;
      fiber.asleep_on = nullptr;
      return;
    }
  }

  /// Once in a schedule, at each place: a compare-and-swap that may fail for no reason does.
  bool fails_spuriously() {
    if (running_ < 0 || spurious_) return false;
    if (depth_ == path_.size()) path_.push_back({true, 0, 0, 0});
    spurious_ = path_[depth_++].taken == 1;
    return spurious_;
  }

  void require(bool holds, const char *what) {
    if (holds || !failure_.empty()) return;
    failure_ = what;
    if (running_ >= 0) leave();  // for good
  }

  /// Freed when the schedule is over, so that late uses are seen (Atomic), and abandoned schedules leak nothing.
  void *allocate(size_t size) {
    blocks_.push_back(std::calloc(1, size));
    return blocks_.back();
  }

 private:
  struct Step {
    const char *what = "";
    const void *address = nullptr;
    bool writes = false;
    bool clashes = false;  ///< with everything
    const bool *gate = nullptr;
  };
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    Step next;
    bool done = false, others_moved = false, woken = false;
    const void *asleep_on = nullptr;
  };
  struct Choice {
    bool spurious;        ///< taken: 0 or 1. Else it is a thread
    uint32_t candidates;  ///< who could go
    uint32_t asleep;  ///< whose step has been tried from here, or commutes with all since it was
    int taken;
  };
  struct Entry {
    int thread;
    const char *what;
    const void *address;
  };
  static constexpr size_t kStackBytes = 64 << 10, kLongest = 2000;

  void reset(int preemptions) {
    depth_ = 0;
    asleep_ = 0;
    starting_ = true;
    bounded_ = preemptions >= 0;
    preemptions_ = preemptions;
    spurious_ = false;
    failure_.clear();
    log_.clear();
  }

  /// The running thread has said what it is about to do, or is done, or has failed.
  void leave() {
    const int self = running_;
    const int next = starting_ ? -1 : decide();
    if (next == self) return;
    running_ = next;
    swapcontext(&fibers_[self].context, next < 0 ? &scheduler_ : &fibers_[next].context);
  }

  /// Until a thread has nobody to go on to.
  void resume(int index) {
    running_ = index;
    swapcontext(&scheduler_, &fibers_[index].context);
  }

  static void enter() {
    Explorer &self = get();
    self.body_(self.world_, self.running_);
    self.fibers_[self.running_].done = true;
    self.leave();
  }

  /// True: all threads have ended. False: this order is like one that has been tried, or something failed.
  bool run(int n_threads, void (*body)(void *, int), void *world) {
    body_ = body;
    world_ = world;
    fibers_.resize(static_cast<size_t>(n_threads));
    for (int i = 0; i < n_threads; ++i) {
      Fiber &fiber = fibers_[i];
      if (fiber.stack == nullptr) fiber.stack = std::make_unique<char[]>(kStackBytes);
      fiber.done = fiber.others_moved = fiber.woken = false;
      fiber.asleep_on = nullptr;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStackBytes;
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, enter, 0);
      resume(i);  // to its first step
    }
    starting_ = false;
    if (const int first = decide(); first >= 0) resume(first);
    return all_done_;
  }

  /// Whose turn it is. Negative: all threads have ended, or this order is like one that has been tried, or something
  /// failed.
  int decide() {
    uint32_t able = 0;
    all_done_ = true;
    const int n_threads = static_cast<int>(fibers_.size());
    for (int i = 0; i < n_threads; ++i) {
      const Fiber &fiber = fibers_[i];
      if (fiber.done) continue;
      all_done_ = false;
      if (fiber.next.gate == nullptr || *fiber.next.gate) able |= 1u << i;
    }
    if (all_done_) return -1;
    if (failure_.empty() && able == 0) failure_ = "a wake-up was lost: nobody can go on";
    if (failure_.empty() && log_.size() >= kLongest) failure_ = "it does not end";
    if (!failure_.empty()) return -1;

    const int last = log_.empty() ? -1 : log_.back().thread;
    const bool preempts = last >= 0 && (able >> last & 1) != 0;
    if (depth_ == path_.size()) {
      uint32_t candidates = able & ~asleep_;
      if (preempts && preemptions_ == 0) candidates &= 1u << last;
      if (candidates == 0) return -1;
      const bool stays = last >= 0 && (candidates >> last & 1) != 0;
      path_.push_back({false, candidates, asleep_, stays ? last : __builtin_ctz(candidates)});
    }
    const Choice choice = path_[depth_++];
    if (preempts && choice.taken != last) --preemptions_;
    const Step taken = fibers_[choice.taken].next;
    asleep_ = 0;
    for (int i = 0; i < n_threads; ++i) {
      if (!bounded_ && (choice.asleep >> i & 1) != 0 && commute(fibers_[i].next, taken))
        asleep_ |= 1u << i;
      if (i != choice.taken && taken.writes) fibers_[i].others_moved = true;
    }
    log_.push_back({choice.taken, taken.what, taken.address});
    return choice.taken;
  }

  static bool commute(const Step &a, const Step &b) {
    if (a.clashes || b.clashes) return false;
    return a.address != b.address || a.address == nullptr || (!a.writes && !b.writes);
  }

  /// To the next schedule. False: that was the last.
  bool advance() {
    while (!path_.empty()) {
      Choice &last = path_.back();
      if (last.spurious) {
        if (last.taken++ == 0) return true;
      } else {
        last.asleep |= 1u << last.taken;
        if (const uint32_t left = last.candidates & ~last.asleep; left != 0) {
          last.taken = __builtin_ctz(left);
          return true;
        }
      }
      path_.pop_back();
    }
    return false;
  }

  std::string schedule() const {
    std::vector<const void *> seen;
    std::string text;
    for (const Entry &entry : log_) {
      text += "\n  thread " + std::to_string(entry.thread) + " " + entry.what;
      if (entry.address == nullptr) continue;
      size_t name = 0;
      while (name < seen.size() && seen[name] != entry.address) ++name;
      if (name == seen.size()) seen.push_back(entry.address);
      text += " #" + std::to_string(name + 1);
    }
    return text;
  }

  ucontext_t scheduler_;
  std::vector<Fiber> fibers_;
  void (*body_)(void *, int) = nullptr;
  void *world_ = nullptr;
  int running_ = -1;
  bool starting_ = false, all_done_ = false, bounded_ = false;
  int preemptions_ = 0;  ///< left
  uint32_t asleep_ = 0;  ///< see Choice
  std::vector<Choice> path_;
  size_t depth_ = 0;
  bool spurious_ = false;
  std::string failure_;
  std::vector<Entry> log_;
  std::vector<void *> blocks_;
};

inline void require(bool holds, const char *what) { Explorer::get().require(holds, what); }

/// std::atomic, as far as the core uses it where it is checked.
template <typename T>
class Atomic {
 public:
  Atomic(T value) : value_(value) {}  // NOLINT: as that of std::atomic
  Atomic(const Atomic &) = delete;
  Atomic &operator=(const Atomic &) = delete;
  ~Atomic() { alive_ = false; }

  T load(std::memory_order) const {
    touch("reads", false);
    return value_;
  }
  void store(T value, std::memory_order) {
    touch("writes", true);
    value_ = value;
  }
  T exchange(T value, std::memory_order) { return change("exchanges", value); }
  T fetch_add(T by, std::memory_order) {
    touch("adds to", true);
    return set(value_ + by);
  }
  T fetch_sub(T by, std::memory_order) {
    touch("subtracts from", true);
    return set(value_ - by);
  }
  T fetch_or(T bits, std::memory_order) {
    touch("sets bits of", true);
    return set(value_ | bits);
  }
  bool compare_exchange_strong(T &expected, T desired, std::memory_order) {
    touch("compares and swaps", true);
    return swap(expected, desired);
  }
  bool compare_exchange_weak(T &expected, T desired, std::memory_order,
                             std::memory_order = std::memory_order_seq_cst) {
    touch("compares and swaps", true);
    if (Explorer::get().fails_spuriously()) {
      expected = value_;
      return false;
    }
    return swap(expected, desired);
  }
  /// In the step that was begun last.
  T peek() const { return value_; }

 private:
  void touch(const char *what, bool writes) const {
    Explorer::get().step(what, this, writes);
    require(alive_, "something is used that is no more");
  }
  T change(const char *what, T value) {
    touch(what, true);
    return set(value);
  }
  T set(T value) {
    const T before = value_;
    value_ = value;
    return before;
  }
  bool swap(T &expected, T desired) {
    const bool same = value_ == expected;
    expected = value_;
    if (same) value_ = desired;
    return same;
  }
  T value_;
  volatile bool alive_ = true;  // volatile: written for who comes after the end
};

/// Base of what the code under check deletes.
struct Tracked {
  static void *operator new(size_t size) { return Explorer::get().allocate(size); }
  static void operator delete(void *) {}
};

/// An eventfd, with poll() and read() in one.
class EventFd {
 public:
  /// As a number, for the code under check.
  static EventFd &of(int fd) {
    static EventFd all[4];
    return all[fd];
  }
  void open() {
    count_ = 0;
    readable_ = false;
    open_ = true;
  }
  void close() {
    Explorer::get().step("closes eventfd", this, true);
    open_ = false;
  }
  void write() {
    Explorer::get().step("writes eventfd", this, true);
    require(open_, "an eventfd is written that was closed");
    ++count_;
    readable_ = true;
  }
  uint64_t wait_and_read() {
    Explorer::get().step("reads eventfd", this, true, &readable_);
    readable_ = false;
    const uint64_t count = count_;
    count_ = 0;
    return count;
  }
  uint64_t count() const { return count_; }

 private:
  uint64_t count_ = 0;
  bool readable_ = false, open_ = false;
};

/// In place of aiocann::core::Threads.
struct Scheduled {
  template <typename T>
  using Atomic = schedules::Atomic<T>;
  /// Gives up after the second look.
  struct Spin {
    template <typename Done>
    bool wait(Done &&done) {
      return done() || done();
    }
  };
  static void sleep_while(Atomic<uint32_t> &word, uint32_t value, int64_t) {
    Explorer::get().step("sleeps on", &word, true);
    if (word.peek() == value) Explorer::get().sleep(&word);
  }
  static void wake_one(Atomic<uint32_t> &word) {
    Explorer::get().step("wakes who sleeps on", &word, true);
    Explorer::get().wake_one(&word);
  }
  static void write_eventfd(int fd) { EventFd::of(fd).write(); }
  static void give_way() { Explorer::get().give_way(); }
};

}  // namespace schedules
