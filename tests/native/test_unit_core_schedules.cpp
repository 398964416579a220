// The wake-up protocols and an op's state, in all schedules of a few threads; and that the explorer finds what would be
// wrong: for each kind of mistake a variant that makes it.

#include <chrono>
#include <cstdio>

#include "check.hpp"
#include "core/basic_loop.hpp"
#include "core/inbox.hpp"
#include "core/stack.hpp"
#include "core/state_word.hpp"
#include "schedules.hpp"

using namespace aiocann::core;
using schedules::EventFd;
using schedules::Explorer;
using schedules::require;
using schedules::Scheduled;

namespace {

// It would see one thread only, and does not follow it from stack to stack.
#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

constexpr int kAlways = Explorer::kAlways;
constexpr auto kOrder = std::memory_order_seq_cst;

template <typename World>
void is_sound(const char *name) {
  const auto start = std::chrono::steady_clock::now();
  const schedules::Result result = Explorer::get().explore<World>();
  if (!result.failure.empty()) check::fail(__FILE__, __LINE__, name + (": " + result.failure));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%s: %llu schedules, %.2f s\n", name,
              static_cast<unsigned long long>(result.schedules), took.count());
  CHECK(result.schedules > 1);
}

template <typename World>
void is_caught(const char *name, const char *failure) {
  const schedules::Result result = Explorer::get().explore<World>();
  if (result.failure.empty()) check::fail(__FILE__, __LINE__, std::string(name) + " passes");
  CHECK_CONTAINS(result.failure, failure);
}

struct Node {
  Node *next = nullptr;
  int taken = 0;
};

int count_taken(Node *node) {
  int count = 0;
  for (; node != nullptr; ++count) {
    Node *next = node->next;
    require(++node->taken == 1, "a node is taken twice");
    node = next;
  }
  return count;
}

// ---- an inbox: pushes and nudges against the owner's sleep -------------------------------------------------

template <typename Box, int kNodes, int kStops>
struct Inboxes {
  static constexpr int kThreads = 3, kPreemptions = kStops;
  Box inbox;
  Node nodes[kNodes];

  void thread(int index) {
    if (index == 0) return owner();
    if (index == 1) {
      for (Node &node : nodes) require(inbox.push(&node), "an open inbox refuses");
    } else {
      inbox.nudge();
    }
  }
  void owner() {
    int taken = 0;
    bool nudged = false;
    while (taken < kNodes || !nudged) {
      const bool now_nudged = inbox.take_nudge();
      const int some = count_taken(inbox.take());
      nudged |= now_nudged;
      taken += some;
      if (!now_nudged && some == 0) inbox.sleep_us(-1);
    }
  }
  void finish() {}
};

using SoundInbox = Inbox<Node, Scheduled>;

struct SleepsBlindly : SoundInbox {
  void sleep_us(int64_t timeout) {
    parker_.announce();
    parker_.park(timeout);
  }
};
struct LooksBeforeAnnouncing : SoundInbox {
  void sleep_us(int64_t timeout) {
    if (has_news()) return;
    parker_.announce();
    parker_.park(timeout);
  }
};
struct WakesBeforePushing : SoundInbox {
  bool push(Node *node) {
    parker_.wake();
    return nodes_.push(node);
  }
};

// ---- a lane's end: closing and stopping are told to a thread that may be about to sleep (Lane::run) --------

template <typename Box>
struct Closing {
  static constexpr int kThreads = 2, kPreemptions = 4;
  Box inbox;
  schedules::Atomic<bool> closing{false}, stop_asked{false};
  Node node;             // pushed before: closing does not overtake it
  bool drained = false;  // as under the lane's gate

  void thread(int index) { index == 0 ? lane() : closer(); }
  void lane() {
    for (;;) {
      inbox.take_nudge();
      const bool worked = count_taken(inbox.take()) > 0;
      if (closing.load(kOrder) && inbox.empty()) drained = true;
      if (stop_asked.load(kOrder)) return;
      if (!worked) inbox.sleep_us(-1);
    }
  }
  void closer() {
    inbox.push(&node);
    closing.store(true, kOrder);
    inbox.nudge();
    Explorer::get().step("waits for the drained lane", nullptr, false, &drained);
    require(node.taken == 1, "closing overtakes what was pushed before");
    stop_asked.store(true, kOrder);
    inbox.nudge();
  }
  void finish() {}
};

struct SaysEmpty : SoundInbox {
  bool empty() const { return true; }
};
struct WakesWithoutNudging : SoundInbox {
  void nudge() { parker_.wake(); }
};

// ---- closing a stack ---------------------------------------------------------------------------------------

template <typename List>
struct Stacks {
  static constexpr int kThreads = 3, kPreemptions = kAlways;
  List stack;
  Node nodes[3];
  int kept = 0, taken = 0;

  void thread(int index) {
    if (index == 0) {
      taken += count_taken(stack.take());
      taken += count_taken(stack.close());
      require(stack.close() == nullptr, "a second close gives something");
      return;
    }
    if (index == 1) kept += stack.push(&nodes[2]) ? 1 : 0;
    kept += stack.push(&nodes[index - 1]) ? 1 : 0;
  }
  void finish() { require(kept == taken, "a node is lost, or pushed in vain"); }
};

using SoundStack = Stack<Node, Scheduled>;

struct ClosesInTwoSteps : SoundStack {
  Node *close() {
    Node *rest = take();
    head_.store(closed_mark(), kOrder);
    return rest;
  }
};

// ---- a loop that polls its eventfd -------------------------------------------------------------------------

constexpr int kFd = 1, kHeirFd = 2;
int live_loops = 0;

template <typename Loop>
struct NodeOf : schedules::Tracked {
  NodeOf *next = nullptr;
  Loop *loop = nullptr;
  uint64_t id = 0;

  NodeOf(Loop *to, uint64_t number) : loop(to), id(number) { to->retain(); }
  void discard() {
    Loop *to = loop;
    delete this;
    to->release();
  }
};

template <typename Loop>
struct LoopBase : BasicLoop<Loop, NodeOf<Loop>, Scheduled>, schedules::Tracked {
  using Base = BasicLoop<Loop, NodeOf<Loop>, Scheduled>;
  using Node = NodeOf<Loop>;
  explicit LoopBase(int fd) : Base(fd) { ++live_loops; }
  ~LoopBase() { --live_loops; }
};

struct SoundLoop : LoopBase<SoundLoop> {
  using LoopBase::LoopBase;
};

template <typename Loop, int kMax, bool kLingers, int kIds = 3, int kStops = 2>
struct Polling {
  static constexpr int kThreads = kIds, kPreemptions = kStops;
  Loop *loop;
  NodeOf<Loop> *nodes[kIds];
  int seen[kIds] = {};
  uint64_t polls = 0;

  Polling() {
    live_loops = 0;
    EventFd::of(kFd).open();
    loop = new Loop(kFd);
    for (uint64_t i = 0; i < kIds; ++i) nodes[i] = new NodeOf<Loop>(loop, i);
  }
  void thread(int index) {
    if (index == 0) return drainer();
    if (index == 1) loop->push(nodes[kIds - 1]);
    loop->push(nodes[index - 1]);
  }
  void drainer() {
    for (int total = 0; total < kIds;) {
      if (!kLingers || !loop->linger()) {
        const uint64_t count = EventFd::of(kFd).wait_and_read();
        require(kLingers || count == 1, "the eventfd was written twice for one sleep");
        ++polls;
      }
      uint64_t ids[kMax];
      for (int32_t n = kMax; n == kMax; total += n) {
        n = loop->drain(ids, kMax);
        for (int32_t i = 0; i < n; ++i) require(++seen[ids[i]] == 1, "an id comes twice");
      }
    }
  }
  void finish() {
    const uint64_t unread = EventFd::of(kFd).count();
    if (!kLingers) require(loop->wakes() == polls && unread == 0, "a write was not needed");
    loop->close(nullptr);
    loop->release();
    require(live_loops == 0, "a loop is left");
  }
};

struct ArmsBlindly : LoopBase<ArmsBlindly> {
  using LoopBase::LoopBase;
  int32_t drain(uint64_t *ids, int32_t max) {
    int32_t count = 0;
    Node *node = head_.load(kOrder);
    if (!is_mark(node) && node != nullptr)
      node = Stack<Node, Scheduled>::reversed(head_.exchange(nullptr, kOrder));
    while (!is_mark(node) && count < max) {
      Node *next = node->next;
      ids[count++] = node->id;
      node->discard();
      node = next;
    }
    if (head_.load(kOrder) == nullptr) head_.store(armed_mark(), kOrder);
    return count;
  }
};
struct AlwaysWrites : LoopBase<AlwaysWrites> {
  using LoopBase::LoopBase;
  bool push(Node *node) {
    if (!Base::push(node)) Scheduled::write_eventfd(fd_);
    return true;
  }
};
struct LingersAndArmsBlindly : LoopBase<LingersAndArmsBlindly> {
  using LoopBase::LoopBase;
  bool linger() {
    Node *head = armed_mark();
    if (!head_.compare_exchange_strong(head, nullptr, kOrder)) return !is_mark(head);
    if (head_.load(kOrder) != nullptr) return true;
    head_.store(armed_mark(), kOrder);
    return false;
  }
};
struct LingersUnarmed : LoopBase<LingersUnarmed> {
  using LoopBase::LoopBase;
  bool linger() {
    Node *head = armed_mark();
    if (!head_.compare_exchange_strong(head, nullptr, kOrder)) return !is_mark(head);
    return head_.load(kOrder) != nullptr;
  }
};

// ---- a loop that closes while others push ------------------------------------------------------------------

/// The caller closes the eventfd right after. Thread 0 owns the loop; its heir is drained at the end.
template <typename Loop, int kHeir, int kIds = 3, int kStops = 2>
struct Leaving {
  static constexpr int kThreads = kIds, kPreemptions = kStops;
  Loop *loop, *heir;
  NodeOf<Loop> *nodes[kIds];
  int seen[kIds] = {};
  bool handed_on = false;

  Leaving() {
    live_loops = 0;
    EventFd::of(kFd).open();
    EventFd::of(kHeirFd).open();
    loop = new Loop(kFd);
    heir = new Loop(kHeir);
    for (uint64_t i = 0; i < kIds; ++i) nodes[i] = new NodeOf<Loop>(loop, i);
  }
  void thread(int index) {
    if (index == 0) {
      drain_one();
      loop->close(heir);
      EventFd::of(kFd).close();
      loop->release();
      return;
    }
    if (index == 1) loop->push(nodes[kIds - 1]);
    loop->push(nodes[index - 1]);
  }
  void drain_one() {
    uint64_t id;
    if (loop->drain(&id, 1) == 1) ++seen[id];
  }
  void finish() {
    uint64_t ids[8];
    const int32_t n = heir->drain(ids, 8);
    for (int32_t i = 0; i < n; ++i) ++seen[ids[i]];
    for (int count : seen) require(count == 1, "an id is lost, or comes twice");
    const uint64_t written = EventFd::of(kHeirFd).count();
    require(written == (kHeir == kHeirFd && n > 0 ? 1u : 0u), "the heir is not woken once");
    heir->close(nullptr);
    heir->release();
    require(live_loops == 0, "a loop is left");
  }
};

struct DoesNotAwaitWriters : LoopBase<DoesNotAwaitWriters> {
  using LoopBase::LoopBase;
  void close(DoesNotAwaitWriters *heir) {
    if (heir != nullptr) {
      heir->retain();
      heir_ = heir;
    }
    Node *node = head_.exchange(closed_mark(), kOrder);
    node = is_mark(node) ? nullptr : node;
    while (node != nullptr) {
      Node *next = node->next;
      forward(node);
      node = next;
    }
  }
};
struct NamesItsHeirLate : LoopBase<NamesItsHeirLate> {
  using LoopBase::LoopBase;
  void close(NamesItsHeirLate *heir) {
    Node *node = head_.exchange(closed_mark(), kOrder);
    while (writers_.load(kOrder) != 0) Scheduled::give_way();
    if (heir != nullptr) {
      heir->retain();
      heir_ = heir;
    }
    node = is_mark(node) ? nullptr : node;
    while (node != nullptr) {
      Node *next = node->next;
      forward(node);
      node = next;
    }
  }
};

// ---- an op: settled, watched and abandoned at once ---------------------------------------------------------

template <typename State, typename Watchers>
struct Ops {
  static constexpr int kThreads = 4, kPreemptions = 3;
  SoundLoop *home, *watching;
  State state;
  Watchers watchers;
  NodeOf<SoundLoop> *home_node, *watch_node;
  int abandoned = 0, reaped = 0, home_seen = 0, watch_seen = 0;
  bool told_at_once = false;

  Ops() {
    live_loops = 0;
    EventFd::of(kFd).open();
    home = new SoundLoop(kFd);
    watching = new SoundLoop(-1);
    home_node = new NodeOf<SoundLoop>(home, 1);
    watch_node = new NodeOf<SoundLoop>(watching, 1);
  }
  void thread(int index) {
    switch (index) {
      case 0:
        return settle();
      case 1:
        return watch();
      case 2:
        for (int i = 0; i < 2; ++i) abandoned += state.abandon() ? 1 : 0;
        return;
      default:
        return await();
    }
  }
  void settle() {
    reaped += state.settle(true) ? 1 : 0;
    for (NodeOf<SoundLoop> *node = watchers.close(); node != nullptr;) {
      NodeOf<SoundLoop> *next = node->next;
      node->loop->push(node);
      node = next;
    }
    home->push(home_node);
  }
  void watch() {
    told_at_once = state.settled() || !watchers.push(watch_node);
    if (!told_at_once) return;
    require(state.outcome() == 2, "who is told at once finds it unsettled");
    watch_node->discard();
  }
  void await() {
    EventFd::of(kFd).wait_and_read();
    uint64_t id;
    home_seen += home->drain(&id, 1);
    require(state.outcome() == 2, "who is told finds it unsettled");
  }
  void finish() {
    uint64_t ids[4];
    watch_seen += watching->drain(ids, 4);
    require(home_seen == 1 && home->drain(ids, 4) == 0, "not delivered once to its home");
    require(watch_seen == (told_at_once ? 0 : 1), "not told once to who watches");
    require(abandoned == reaped, "abandoned and reaped are not both or neither");
    for (SoundLoop *loop : {home, watching}) {
      loop->close(nullptr);
      loop->release();
    }
    require(live_loops == 0, "a loop is left");
  }
};

using SoundState = StateWord<Scheduled>;
using SoundWatchers = Stack<NodeOf<SoundLoop>, Scheduled>;

struct AbandonsBlindly : SoundState {
  bool abandon() {
    if (word_.load(kOrder) != 0) return false;
    word_.fetch_or(kAbandoned, kOrder);
    return true;
  }
};
struct CountsTwice : SoundState {
  bool abandon() {
    const uint32_t before = word_.fetch_or(kAbandoned, kOrder);
    return (before & kSettled) == 0;
  }
};
struct StaysOpen : SoundWatchers {
  NodeOf<SoundLoop> *close() { return take(); }
};

}  // namespace

int main() {
  if (kThreadSanitizer) {
    std::puts("skipped under ThreadSanitizer");
    return 0;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  is_sound<Inboxes<SoundInbox, 1, kAlways>>("inbox");
  is_sound<Inboxes<SoundInbox, 2, 2>>("inbox, two nodes");
  is_caught<Inboxes<SleepsBlindly, 1, kAlways>>("sleeping without a second look", "lost");
  is_caught<Inboxes<LooksBeforeAnnouncing, 1, kAlways>>("looking before announcing", "lost");
  is_caught<Inboxes<WakesBeforePushing, 1, kAlways>>("waking before pushing", "lost");

  is_sound<Closing<SoundInbox>>("closing a lane");
  is_caught<Closing<SaysEmpty>>("closing without looking at the inbox", "overtakes");
  is_caught<Closing<WakesWithoutNudging>>("closing without a nudge", "lost");

  is_sound<Stacks<SoundStack>>("closing a stack");
  is_caught<Stacks<ClosesInTwoSteps>>("closing a stack in two steps", "a node is lost");

  is_sound<Polling<SoundLoop, 8, false, 2, kAlways>>("loop, one other");
  is_sound<Polling<SoundLoop, 8, true, 2, kAlways>>("loop that lingers, one other");
  is_sound<Polling<SoundLoop, 8, false>>("loop");
  is_sound<Polling<SoundLoop, 1, false>>("loop, one id at a time");
  is_sound<Polling<SoundLoop, 8, true>>("loop that lingers");
  is_caught<Polling<ArmsBlindly, 8, false>>("arming blindly", "lost");
  is_caught<Polling<AlwaysWrites, 8, false>>("writing for each push", "written twice");
  is_caught<Polling<LingersAndArmsBlindly, 8, true>>("arming blindly after lingering", "lost");
  is_caught<Polling<LingersUnarmed, 8, true>>("sleeping unarmed after lingering", "lost");

  is_sound<Leaving<SoundLoop, -1, 2, kAlways>>("closing a loop, one other");
  is_sound<Leaving<SoundLoop, -1>>("closing a loop");
  is_sound<Leaving<SoundLoop, kHeirFd>>("closing a loop, its heir polls");
  is_caught<Leaving<DoesNotAwaitWriters, -1>>("not waiting for writers", "was closed");
  is_caught<Leaving<NamesItsHeirLate, -1>>("naming the heir late", "an id is lost");

  is_sound<Ops<SoundState, SoundWatchers>>("op");
  is_caught<Ops<AbandonsBlindly, SoundWatchers>>("abandoning blindly", "both or neither");
  is_caught<Ops<CountsTwice, SoundWatchers>>("abandoning twice", "both or neither");
  is_caught<Ops<SoundState, StaysOpen>>("watchers that stay open", "not told once");
}
