// callback.cpp: delivery of host callbacks to the threads that run them.
#include "sim/callback.hpp"

#include <pthread.h>

#include <algorithm>
#include <map>

#include "sim/entry.hpp"
#include "sim/faults.hpp"
#include "sim/late.hpp"
#include "sim/lookup.hpp"
#include "sim/stream.hpp"

namespace aiocann::sim {
namespace {

constexpr int kMaxSubscribers = 1024;

/// Threads by id; entries stay, n_streams says whether one is in use.
using Subscribers = std::map<uint64_t, Subscriber *>;

struct Registry {
  std::mutex mutex;
  Subscribers reports, host_funcs;
};

/// What a thread can subscribe to: callbacks (aclrtSubscribeReport) or host functions (aclrtSubscribeHostFunc).
struct Family {
  const char *what;
  Subscribers Registry::*threads;
  std::atomic<Subscriber *> Stream::*of_stream;
};

constexpr Family kReports{"callbacks", &Registry::reports, &Stream::subscriber};
constexpr Family kHostFuncs{"host functions", &Registry::host_funcs, &Stream::host_subscriber};

Registry &registry() {
  static Registry *const leaked = new Registry();
  return *leaked;
}

void run_callbacks(const std::vector<PendingCallback> &callbacks) {
  for (const PendingCallback &callback : callbacks) {
    callback.fn(callback.data);
    count(g_counters.callbacks);
    if (callback.blocked != nullptr) callback.blocked->resume_after_callback();
  }
}

/// With the registry's lock held.
void end_subscription(Stream *stream, const Family &family) {
  Subscriber *const subscriber = (stream->*family.of_stream).exchange(nullptr);
  if (subscriber->n_streams.fetch_sub(1) != 1) return;
  // Nobody can process these any more.
  for (const PendingCallback &callback : subscriber->list.take_now()) {
    misuse(
        "the last stream of a callback thread was unsubscribed before its callbacks were "
        "processed");
    if (callback.blocked != nullptr) callback.blocked->resume_after_callback();
  }
  subscriber->list.interrupt();
}

/// With the registry's lock held.
aclError subscribe(Registry &known, const Family &family, uint64_t thread, Stream *stream) {
  Subscribers &threads = known.*family.threads;
  Subscriber *&subscriber = threads[thread];
  if (subscriber == nullptr) subscriber = new Subscriber();
  if (subscriber->n_streams.load() == 0) {
    const auto in_use = std::count_if(threads.begin(), threads.end(), [](const auto &entry) {
      return entry.second != nullptr && entry.second->n_streams.load() > 0;
    });
    if (in_use >= kMaxSubscribers) {
      return fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "%d threads are subscribed already",
                  kMaxSubscribers);
    }
    subscriber->device = stream->device();
  } else if (subscriber->device != stream->device()) {
    return fail(
        ACL_ERROR_RT_THREAD_SUBSCRIBE,
        "thread %llu is subscribed to streams of another device: one thread serves one device",
        static_cast<unsigned long long>(thread));
  }
  subscriber->n_streams.fetch_add(1);
  (stream->*family.of_stream).store(subscriber);
  return ACL_SUCCESS;
}

aclError already_subscribed(const Stream *stream, const Family &family) {
  return fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, "stream %d already has a thread for its %s",
              stream->id(), family.what);
}

aclError unsubscribe(const Family &family, uint64_t thread, Stream *stream) {
  Registry &known = registry();
  std::lock_guard<std::mutex> lock(known.mutex);
  Subscriber *const subscriber = (stream->*family.of_stream).load();
  if (subscriber == nullptr) {
    return fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, "no thread is subscribed to the %s of stream %d",
                family.what, stream->id());
  }
  const Subscribers &threads = known.*family.threads;
  const auto entry = threads.find(thread);
  if (entry == threads.end() || entry->second != subscriber) {
    return fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "thread %llu is not the one subscribed to stream %d",
                static_cast<unsigned long long>(thread), stream->id());
  }
  end_subscription(stream, family);
  return ACL_SUCCESS;
}

/// Runs what there is for the calling thread, waiting for something up to `timeout` milliseconds.
aclError process(const Family &family, int32_t timeout) {
  Subscriber *subscriber = nullptr;
  {
    Registry &known = registry();
    std::lock_guard<std::mutex> lock(known.mutex);
    const Subscribers &threads = known.*family.threads;
    const auto entry = threads.find(static_cast<uint64_t>(pthread_self()));
    if (entry != threads.end() && entry->second->n_streams.load() > 0) subscriber = entry->second;
  }
  if (subscriber == nullptr) {
    return fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "this thread is not subscribed to any stream");
  }
  if (subscriber->device->primary.load() == nullptr && current_context() == nullptr) {
    return fail(ACL_ERROR_RT_CONTEXT_NULL,
                "device %d is not set, and this thread has no context of its own",
                subscriber->device->index);
  }
  const Deadline deadline = Deadline::after_ms(timeout);
  while (true) {
    const std::vector<PendingCallback> callbacks = subscriber->list.take(deadline);
    if (!callbacks.empty()) {
      run_callbacks(callbacks);
      return ACL_SUCCESS;
    }
    if (subscriber->n_streams.load() == 0) {
      return fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "this thread was unsubscribed while it waited");
    }
    if (deadline.has_passed())
      return fail(ACL_ERROR_RT_REPORT_TIMEOUT, "no callback within %d ms", timeout);
  }
}

/// The default stream takes no subscription of this family.
aclError find_host_func_stream(aclrtStream handle, Stream **stream) {
  if (handle == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "the stream is NULL");
  return find_stream(handle, stream);
}

aclError bad_timeout(aclError code, int32_t timeout) {
  return fail(code, "timeout %d: expected -1 or more than 0 milliseconds", timeout);
}

}  // namespace

void CallbackList::push(const PendingCallback &callback) {
  {
    std::lock_guard<SpinLock> guard(lock_);
    list_.push_back(callback);
    pending_.fetch_add(1, std::memory_order_seq_cst);
  }
  word_.fetch_add(1, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst) != 0) futex_wake(word_);
}

void CallbackList::interrupt() {
  word_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(word_);
}

std::vector<PendingCallback> CallbackList::take_now() {
  std::vector<PendingCallback> taken;
  std::lock_guard<SpinLock> guard(lock_);
  taken.swap(list_);
  pending_.fetch_sub(static_cast<uint32_t>(taken.size()));
  return taken;
}

std::vector<PendingCallback> CallbackList::take(const Deadline &deadline) {
  const uint32_t entered = word_.load(std::memory_order_seq_cst);
  const auto has_some = [this] { return pending_.load(std::memory_order_seq_cst) != 0; };
  if (!has_some() && !spin_for(kHostSpinNs, has_some)) {
    sleeping_.fetch_add(1, std::memory_order_seq_cst);
    while (!has_some() && word_.load(std::memory_order_seq_cst) == entered) {
      if (!futex_wait(word_, entered, deadline)) break;
    }
    sleeping_.fetch_sub(1, std::memory_order_seq_cst);
  }
  return take_now();
}

bool CallbackList::withdraw(const Stream *blocked) {
  std::lock_guard<SpinLock> guard(lock_);
  const auto found = std::find_if(list_.begin(), list_.end(), [blocked](const PendingCallback &c) {
    return c.blocked == blocked;
  });
  if (found == list_.end()) return false;
  list_.erase(found);
  pending_.fetch_sub(1);
  return true;
}

std::shared_ptr<HostFuncThread> HostFuncThread::start() {
  auto self = std::make_shared<HostFuncThread>();
  auto *owner = new std::shared_ptr<HostFuncThread>(self);
  pthread_t thread;
  const int rc = pthread_create(
      &thread, nullptr,
      [](void *argument) -> void * {
        const std::unique_ptr<std::shared_ptr<HostFuncThread>> held(
            static_cast<std::shared_ptr<HostFuncThread> *>(argument));
        (*held)->work();
        return nullptr;
      },
      owner);
  if (rc != 0) {
    delete owner;
    return nullptr;
  }
  pthread_setname_np(thread, "aiocann-hostfn");
  pthread_detach(thread);
  return self;
}

void HostFuncThread::work() {
  while (!stopping_.load()) run_callbacks(list_.take(Deadline::never()));
}

void HostFuncThread::stop() {
  stopping_.store(true);
  list_.interrupt();
}

bool post_callback(Stream *stream, const CallbackTask &callback, Stream *blocked,
                   std::optional<int64_t> late_ms) {
  Subscriber *subscriber = stream->subscriber.load();
  if (subscriber == nullptr) {
    misuse("stream %d was unsubscribed before its callback ran: the callback is lost",
           stream->id());
    return false;
  }
  const PendingCallback pending{callback.fn, callback.data, blocked};
  if (!late_ms) {
    subscriber->list.push(pending);
    return true;
  }
  post_late(pending, *late_ms, [subscriber](const PendingCallback &late) {
    // Unsubscribed since: nobody can run it.
    if (subscriber->n_streams.load() > 0)
      subscriber->list.push(late);
    else if (late.blocked != nullptr)
      late.blocked->resume_after_callback();
  });
  return true;
}

/// To the thread that is subscribed now, else to the context's own.
static void deliver_host_func(const PendingCallback &pending) {
  Stream *const stream = pending.blocked;
  {
    // With the lock: whoever ends the subscription afterwards finds the function in the list.
    std::lock_guard<std::mutex> lock(registry().mutex);
    if (Subscriber *const subscriber = stream->host_subscriber.load()) {
      subscriber->list.push(pending);
      return;
    }
  }
  std::shared_ptr<HostFuncThread> thread;
  {
    std::lock_guard<std::mutex> lock(stream->context()->mutex);
    thread = stream->context()->host_funcs;
  }
  thread->post(pending);
}

void post_host_func(Stream *stream, const HostFuncTask &host, std::optional<int64_t> late_ms) {
  const PendingCallback pending{host.fn, host.data, stream};
  if (!late_ms)
    deliver_host_func(pending);
  else
    post_late(pending, *late_ms, deliver_host_func);
}

void withdraw_callback(Stream *stream) {
  if (withdraw_late(stream)) {
    stream->resume_after_callback();
    return;
  }
  for (Subscriber *subscriber : {stream->subscriber.load(), stream->host_subscriber.load()}) {
    if (subscriber != nullptr && subscriber->list.withdraw(stream)) {
      stream->resume_after_callback();
      return;
    }
  }
  std::shared_ptr<HostFuncThread> thread;
  {
    std::lock_guard<std::mutex> lock(stream->context()->mutex);
    thread = stream->context()->host_funcs;
  }
  if (thread != nullptr && thread->withdraw(stream)) stream->resume_after_callback();
}

void drop_subscription(Stream *stream) {
  Registry &known = registry();
  std::lock_guard<std::mutex> lock(known.mutex);
  for (const Family *family : {&kReports, &kHostFuncs}) {
    if ((stream->*family->of_stream).load() == nullptr) continue;
    misuse("stream %d was destroyed while a thread was still subscribed to its %s", stream->id(),
           family->what);
    end_subscription(stream, *family);
  }
}

}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
  ACL_ENTRY();
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  Registry &known = registry();
  std::lock_guard<std::mutex> lock(known.mutex);
  if (target->subscriber.load() != nullptr || target->has_host_func.load())
    return already_subscribed(target, kReports);
  return subscribe(known, kReports, threadId, target);
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
  ACL_ENTRY();
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  return unsubscribe(kReports, threadId, target);
}

aclError aclrtSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream) {
  ACL_ENTRY();
  Stream *target = nullptr;
  if (const aclError code = find_host_func_stream(exeStream, &target)) return code;
  Registry &known = registry();
  std::lock_guard<std::mutex> lock(known.mutex);
  if (target->host_subscriber.load() != nullptr) return already_subscribed(target, kHostFuncs);
  return subscribe(known, kHostFuncs, hostFuncThreadId, target);
}

aclError aclrtUnSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream) {
  ACL_ENTRY();
  Stream *target = nullptr;
  if (const aclError code = find_host_func_stream(exeStream, &target)) return code;
  return unsubscribe(kHostFuncs, hostFuncThreadId, target);
}

aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType,
                             aclrtStream stream) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(fn);
  if (blockType != ACL_CALLBACK_NO_BLOCK && blockType != ACL_CALLBACK_BLOCK) {
    return fail(ACL_ERROR_INVALID_PARAM, "block type %d is neither 0 (no block) nor 1 (block)",
                static_cast<int>(blockType));
  }
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  if (target->subscriber.load() == nullptr) {
    return fail(ACL_ERROR_RT_STREAM_NO_CB_REG,
                "no thread is subscribed to the callbacks of stream %d", target->id());
  }
  return target->submit(CallbackTask{fn, userData, blockType == ACL_CALLBACK_BLOCK});
}

aclError aclrtProcessReport(int32_t timeout) {
  ACL_ENTRY();
  if (timeout < -1 || timeout == 0) return bad_timeout(ACL_ERROR_INVALID_PARAM, timeout);
  return process(kReports, timeout);
}

aclError aclrtProcessHostFunc(int32_t timeout) {
  ACL_ENTRY();
  if (timeout < -1 || timeout == 0) return bad_timeout(ACL_ERROR_RT_PARAM_INVALID, timeout);
  return process(kHostFuncs, timeout);
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(fn);
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  Context *context = target->context();
  {
    std::lock_guard<std::mutex> lock(context->mutex);
    if (context->host_funcs == nullptr) context->host_funcs = HostFuncThread::start();
    if (context->host_funcs == nullptr) {
      return fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "cannot start the host-function thread");
    }
  }
  target->has_host_func.store(true);
  return target->submit(HostFuncTask{fn, args});
}
