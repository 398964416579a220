#include "core/completion.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "core/device.hpp"
#include "core/inbox.hpp"
#include "core/inquiry.hpp"
#include "core/lane.hpp"
#include "core/reactor.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"

namespace aiocann::core {
namespace {

/// Only a safety net: a closing lane wakes the reactor by a callback, which may get lost with everything else.
constexpr int32_t kReportTimeoutMs = 1000;
constexpr int32_t kReportTimeout = 507012;

void nap_us(int64_t us) {
  timespec pause{us / 1000000, us % 1000000 * 1000};
  nanosleep(&pause, nullptr);
}

void reached(Op *op, Settler &settler) {
  op->stream->marker_passed(op, settler);
  settler.run();
  op->release();
}

// ---- callbacks of reports --------------------------------------------------------------------------------

/// aclrtSubscribeReport, aclrtLaunchCallback, aclrtProcessReport. Callbacks run inside await().
class ReportFamily final : public Completion {
 public:
  ReportFamily(const acl::Api &api, Device *device, uint64_t thread_id,
               aclrtCallbackBlockType block)
      : Completion(api, device), thread_id_(thread_id), block_(block) {}

  int32_t subscribe(void *raw, const char **call) override {
    *call = "aclrtSubscribeReport";
    return api_.aclrtSubscribeReport(thread_id_, raw);
  }
  void unsubscribe(void *raw) override { api_.aclrtUnSubscribeReport(thread_id_, raw); }
  int32_t probe(void *raw) override {
    return api_.aclrtLaunchCallback([](void *) {}, nullptr, block_, raw);
  }
  const char *call() const override { return "aclrtLaunchCallback"; }
  int32_t place(Op *op) override {
    Ticket *ticket = tickets_.take(op);
    const int32_t code =
        api_.aclrtLaunchCallback(on_marker, ticket, block_, op->stream->marker_raw);
    if (code != 0) tickets_.give_back(ticket);
    return code;
  }
  void forget(const Stream *stream) override { tickets_.cancel(stream->id); }
  void resume(uint64_t thread_id) override { thread_id_ = thread_id; }
  void close() override { tickets_.close(); }

  // The last callback is of another function: so it is not left behind unprocessed, when its stream is
  // unsubscribed, by a thread that had ended for the sake of a marker.
  void interrupt(void *internal_raw, std::atomic<bool> *stop) override {
    auto on_stop = [](void *flag) {
      static_cast<std::atomic<bool> *>(flag)->store(true, std::memory_order_release);
    };
    // Refused: await() returns when its time is over.
    if (internal_raw == nullptr ||
        api_.aclrtLaunchCallback(on_stop, stop, ACL_CALLBACK_NO_BLOCK, internal_raw) != 0) {
      stop->store(true, std::memory_order_release);
    }
  }

  bool await(Settler &settler) override {
    current = this;
    const int32_t code = api_.aclrtProcessReport(kReportTimeoutMs);
    if (first_ != nullptr) {
      device_->apply_faults();
      while (Ticket *ticket = first_) {
        first_ = ticket->next;
        Op *op = Tickets::claim(ticket);
        if (op == nullptr) continue;  // cancelled in between
        tickets_.give_back(ticket);
        reached(op, settler);
      }
      last_ = nullptr;
    }
    // Anything but "nothing came": do not spin over it. The watchdog of the lane finds what we miss.
    if (code != 0 && code != kReportTimeout) nap_us(10000);
    return code != kReportTimeout;
  }

 private:
  static void on_marker(void *argument) {
    auto *ticket = static_cast<Ticket *>(argument);
    ReportFamily *self = current;
    if (self == nullptr) return;  // no thread of ours: the watchdog finds what it told
    ticket->next = nullptr;
    (self->first_ != nullptr ? self->last_->next : self->first_) = ticket;
    self->last_ = ticket;
  }
  static thread_local ReportFamily *current;
  uint64_t thread_id_;
  const aclrtCallbackBlockType block_;
  Tickets tickets_;
  Ticket *first_ = nullptr,
         *last_ = nullptr;  ///< reached by the last report. Thread: the reactor's
};

thread_local ReportFamily *ReportFamily::current = nullptr;

// ---- families that reach the reactor from other threads ----------------------------------------------------

/// What is told lies in a list; the reactor sleeps on a futex.
class ListFamily : public Completion {
 public:
  using Completion::Completion;
  int32_t subscribe(void *, const char **) override { return 0; }
  void unsubscribe(void *) override {}
  void interrupt(void *, std::atomic<bool> *stop) override {
    stop->store(true, std::memory_order_seq_cst);
    arrivals_.nudge();
  }
  void resume(uint64_t) override { arrivals_.take_nudge(); }
  void close() override {
    for (Ticket *ticket = arrivals_.close(); ticket != nullptr;) {
      Ticket *next = ticket->next;
      ticket->arrived->release();
      tickets_.give_back(ticket);
      ticket = next;
    }
    tickets_.close();
  }

 protected:
  /// Thread: any. Takes over a reference of op.
  void arrive(Ticket *ticket, Op *op) {
    ticket->arrived = op;
    if (arrivals_.push(ticket)) return;
    op->release();
    tickets_.give_back(ticket);
  }

  Tickets tickets_;
  Inbox<Ticket> arrivals_;  ///< nudged while the reactor is to stop
};

/// aclrtLaunchHostFunc. Its functions run on a thread of the driver, one after the other for all streams of the
/// device: they do no more than hand the ticket over.
class HostFuncFamily final : public ListFamily {
 public:
  using ListFamily::ListFamily;
  const char *call() const override { return "aclrtLaunchHostFunc"; }
  int32_t probe(void *raw) override {
    return api_.aclrtLaunchHostFunc(raw, [](void *) {}, nullptr);
  }
  int32_t place(Op *op) override {
    Ticket *ticket = tickets_.take(op);
    const int32_t code = api_.aclrtLaunchHostFunc(op->stream->marker_raw, on_marker, ticket);
    if (code != 0) tickets_.give_back(ticket);
    return code;
  }
  void forget(const Stream *stream) override { tickets_.cancel(stream->id); }

  bool await(Settler &settler) override {
    Ticket *ticket = arrivals_.take();
    if (ticket == nullptr) {
      arrivals_.sleep_us(-1);
      ticket = arrivals_.take();
    }
    if (ticket != nullptr) device_->apply_faults();
    while (ticket != nullptr) {
      Ticket *next = ticket->next;
      Op *op = ticket->arrived;
      tickets_.give_back(ticket);
      reached(op, settler);
      ticket = next;
    }
    return true;
  }

 private:
  static void on_marker(void *argument) {
    auto *ticket = static_cast<Ticket *>(argument);
    Op *op = Tickets::claim(ticket);
    if (op == nullptr) return;  // cancelled: too late for everything
    // Until we are done with it: op keeps its runtime, and so the device and this family.
    op->retain();
    auto &self = static_cast<HostFuncFamily &>(op->stream->device->reactor->completion());
    self.arrive(ticket, op);
    op->release();
  }
};

/// aclrtQueryEventStatus. Only the oldest marker of a stream is asked for. At first in turns of the processor, then
/// at intervals that grow with what has been waited already: what takes long is noticed a sixteenth later at most,
/// and costs little meanwhile.
class QueryFamily final : public ListFamily {
 public:
  using ListFamily::ListFamily;
  const char *call() const override { return "aclrtRecordEvent"; }
  bool needs_event() const override { return true; }
  int32_t place(Op *op) override {
    Ticket *ticket = tickets_.take(op);
    arrive(ticket, Tickets::claim(ticket));
    return 0;
  }
  void forget(const Stream *) override {}
  void close() override {
    for (Queue &queue : queues_) {
      for (Op *op : queue.ops) op->release();
    }
    queues_.clear();
    ListFamily::close();
  }

  bool await(Settler &settler) override {
    const bool some_new = take_arrivals();
    if (queues_.empty()) {
      arrivals_.sleep_us(-1);
      return true;
    }
    const int64_t now = now_us();
    if (ask(settler) || some_new) {
      changed_us_ = now;
      return true;
    }
    const int64_t waited = now - changed_us_;
    if (waited < kSpinUs) {
      sched_yield();
    } else {
      arrivals_.sleep_us(std::clamp(waited / 16, kShortestUs, kLongestUs));
    }
    return true;
  }

 private:
  static constexpr int64_t kSpinUs = 50, kShortestUs = 20, kLongestUs = 10000;
  struct Queue {
    const Stream *stream;  ///< kept by its ops
    std::deque<Op *> ops;  ///< Owns: a reference each
  };

  bool take_arrivals() {
    Ticket *ticket = arrivals_.take();
    const bool any = ticket != nullptr;
    while (ticket != nullptr) {
      Ticket *next = ticket->next;
      Op *op = ticket->arrived;
      tickets_.give_back(ticket);
      auto queue = std::find_if(queues_.begin(), queues_.end(),
                                [op](const Queue &each) { return each.stream == op->stream; });
      if (queue == queues_.end()) queue = queues_.insert(queue, Queue{op->stream, {}});
      queue->ops.push_back(op);
      ticket = next;
    }
    return any;
  }

  bool ask(Settler &settler) {
    bool any = false;
    for (size_t i = 0; i < queues_.size();) {
      std::deque<Op *> &ops = queues_[i].ops;
      while (!ops.empty()) {
        Op *op = ops.front();
        const Answer answer = inquire(op->stream, op, false, settler);
        if (answer == Answer::kRunning) break;
        any = true;
        ops.pop_front();
        if (answer == Answer::kReached) {
          device_->apply_faults();
          op->stream->marker_passed(op, settler);
          settler.run();
        }
        op->release();
      }
      if (!ops.empty()) {
        ++i;
        continue;
      }
      queues_[i] = std::move(queues_.back());
      queues_.pop_back();
    }
    return any;
  }

  std::vector<Queue> queues_;
  int64_t changed_us_ = 0;
};

}  // namespace

bool parse_family(const char *text, Family *family) {
  static constexpr struct {
    const char *name;
    Family family;
  } kNames[] = {{"", Family::kAuto},
                {"auto", Family::kAuto},
                {"callback", Family::kCallback},
                {"callback-block", Family::kCallbackBlock},
                {"host-func", Family::kHostFunc},
                {"query", Family::kQuery}};
  for (const auto &known : kNames) {
    if (std::strcmp(known.name, text != nullptr ? text : "") != 0) continue;
    *family = known.family;
    return true;
  }
  return false;
}

std::unique_ptr<Completion> Completion::make(Family family, const acl::Api &api, Device *device,
                                             uint64_t thread_id) {
  const bool has_reports = api.aclrtSubscribeReport != nullptr &&
                           api.aclrtUnSubscribeReport != nullptr &&
                           api.aclrtLaunchCallback != nullptr && api.aclrtProcessReport != nullptr;
  switch (family) {
    case Family::kCallback:
    case Family::kCallbackBlock:
      if (!has_reports) return nullptr;
      return std::make_unique<ReportFamily>(
          api, device, thread_id,
          family == Family::kCallback ? ACL_CALLBACK_NO_BLOCK : ACL_CALLBACK_BLOCK);
    case Family::kHostFunc:
      if (api.aclrtLaunchHostFunc == nullptr) return nullptr;
      return std::make_unique<HostFuncFamily>(api, device);
    default:
      return std::make_unique<QueryFamily>(api, device);
  }
}

// ---- tickets -----------------------------------------------------------------------------------------------

namespace {

/// Tickets that no device uses. Never freed.
struct Spare {
  std::mutex mutex;  // a leaf
  std::vector<Ticket *> tickets;
  std::vector<std::unique_ptr<Ticket[]>> slabs;
};

Spare &spare() {
  static auto *the_spare = new Spare;
  return *the_spare;
}

/// What a ticket holds between being claimed and being given back.
Op *claimed() { return reinterpret_cast<Op *>(uintptr_t{1}); }

}  // namespace

Ticket *Tickets::take(Op *op) {
  if (free_ == nullptr) free_ = returned_.take();
  if (free_ == nullptr) {
    constexpr size_t kBatch = 64;
    Spare &pool = spare();
    std::lock_guard<std::mutex> guard(pool.mutex);
    if (pool.tickets.size() < kBatch) {
      pool.slabs.push_back(std::make_unique<Ticket[]>(kBatch));
      for (size_t i = 0; i < kBatch; ++i) pool.tickets.push_back(&pool.slabs.back()[i]);
    }
    for (size_t i = 0; i < kBatch; ++i) {
      Ticket *ticket = pool.tickets.back();
      pool.tickets.pop_back();
      all_.push_back(ticket);
      ticket->next = free_;
      free_ = ticket;
    }
  }
  Ticket *ticket = free_;
  free_ = ticket->next;
  ticket->stream = op->stream->id;
  ticket->op.store(op, std::memory_order_release);
  return ticket;
}

Op *Tickets::claim(Ticket *ticket) {
  Op *op = ticket->op.load(std::memory_order_acquire);
  while (op != nullptr && op != claimed()) {
    if (ticket->op.compare_exchange_weak(op, claimed(), std::memory_order_acq_rel)) return op;
  }
  return nullptr;
}

void Tickets::give_back(Ticket *ticket) {
  ticket->op.store(nullptr, std::memory_order_release);
  // Closed: then close() has found it free, or leaves it alone for ever.
  returned_.push(ticket);
}

void Tickets::cancel(uint64_t stream) {
  for (size_t i = 0; i < all_.size();) {
    Op *op = all_[i]->stream == stream ? claim(all_[i]) : nullptr;
    if (op == nullptr) {
      ++i;
      continue;
    }
    // Should its callback come after all, it must find it so: the ticket is never used again.
    op->release();
    all_[i] = all_.back();
    all_.pop_back();
  }
}

void Tickets::close() {
  returned_.close();
  free_ = nullptr;
  Spare &pool = spare();
  std::lock_guard<std::mutex> guard(pool.mutex);
  for (Ticket *ticket : all_) {
    if (ticket->op.load(std::memory_order_acquire) == nullptr) pool.tickets.push_back(ticket);
  }
  all_.clear();
}

}  // namespace aiocann::core
