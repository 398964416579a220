// late.cpp: the lists of what is late. Their lock is held for list work only.
#include "sim/late.hpp"

#include <algorithm>
#include <list>
#include <mutex>
#include <vector>

#include "sim/stream.hpp"
#include "sim/timer.hpp"

namespace aiocann::sim {
namespace {

struct LateCallback {
  uint64_t id;
  uint64_t timer;  ///< 0: none
  PendingCallback callback;
  std::function<void(const PendingCallback &)> deliver;  ///< empty: lost
};

struct Late {
  std::mutex mutex;
  std::vector<Ref<Pause>> pauses;
  std::list<LateCallback> callbacks;
  uint64_t last_id = 0;
};

Late &late() {
  static Late *const leaked = new Late();
  return *leaked;
}

void settle(const LateCallback &entry) {
  if (entry.deliver)
    entry.deliver(entry.callback);
  else if (entry.callback.blocked != nullptr)
    entry.callback.blocked->resume_after_callback();
}

/// Takes entry `id` out and delivers it, unless somebody else did.
void deliver_late(uint64_t id) {
  std::list<LateCallback> taken;
  {
    std::lock_guard<std::mutex> lock(late().mutex);
    auto &all = late().callbacks;
    const auto found =
        std::find_if(all.begin(), all.end(), [id](const LateCallback &c) { return c.id == id; });
    if (found == all.end()) return;
    taken.splice(taken.begin(), all, found);
  }
  settle(taken.front());
}

}  // namespace

Ref<Pause> begin_pause(uint64_t ms) {
  Ref<Pause> pause(new Pause());
  std::lock_guard<std::mutex> lock(late().mutex);
  late().pauses.push_back(pause);
  if (ms != 0) pause->timer = Timer::instance().after_ms(ms, [pause] { pause->gate.open(); });
  return pause;
}

void end_pause(const Ref<Pause> &pause) {
  std::lock_guard<std::mutex> lock(late().mutex);
  auto &all = late().pauses;
  all.erase(std::remove_if(all.begin(), all.end(),
                           [&pause](const Ref<Pause> &p) { return p.get() == pause.get(); }),
            all.end());
  if (pause->timer != 0) Timer::instance().cancel(pause->timer);
}

void post_late(const PendingCallback &callback, int64_t ms,
               std::function<void(const PendingCallback &)> deliver) {
  std::lock_guard<std::mutex> lock(late().mutex);
  const uint64_t id = ++late().last_id;
  late().callbacks.push_back(LateCallback{id, 0, callback, std::move(deliver)});
  if (ms < 0) return;
  late().callbacks.back().timer =
      Timer::instance().after_ms(static_cast<uint64_t>(ms), [id] { deliver_late(id); });
}

void post_lost(const PendingCallback &callback) { post_late(callback, -1, nullptr); }

bool withdraw_late(const Stream *blocked) {
  std::lock_guard<std::mutex> lock(late().mutex);
  auto &all = late().callbacks;
  const auto found = std::find_if(all.begin(), all.end(), [blocked](const LateCallback &c) {
    return c.callback.blocked == blocked;
  });
  if (found == all.end()) return false;
  if (found->timer != 0) Timer::instance().cancel(found->timer);
  all.erase(found);
  return true;
}

void let_go() {
  std::vector<Ref<Pause>> pauses;
  std::list<LateCallback> callbacks;
  {
    std::lock_guard<std::mutex> lock(late().mutex);
    pauses = late().pauses;
    callbacks.swap(late().callbacks);
  }
  for (const LateCallback &entry : callbacks) {
    if (entry.timer != 0) Timer::instance().cancel(entry.timer);
    settle(entry);
  }
  for (const Ref<Pause> &pause : pauses) pause->gate.open();
}

}  // namespace aiocann::sim
