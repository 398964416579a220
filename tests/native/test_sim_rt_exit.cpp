// How a process ends: with work in flight, from static destructors, and in a forked child.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_rt.hpp"

namespace {

/// Runs `body` in a child that must end by itself, with 0. Called before this process uses ACL, except where said.
template <class Body>
void in_child(Body &&body) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60);  // a child that hangs is a failure, not a stuck test
    body();
    exit(0);
  }
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status));
  CHECK_EQ(WEXITSTATUS(status), 0);
}

void queue_much(aclrtStream stream, int tasks = 2000) {
  void *memory = device_memory(64 * kMiB);
  for (int i = 0; i < tasks; ++i)
    CHECK_OK(aclrtMemsetAsync(memory, 64 * kMiB, i, 64 * kMiB, stream));
}

void exit_with_work_in_flight() {
  in_child([] {
    start(1);
    queue_much(new_stream());
  });
}

void exit_with_streams_blocked_and_held() {
  in_child([] {
    start(2);
    aclrtStream stream = new_stream();
    aclrtEvent never = nullptr;
    CHECK_OK(aclrtCreateEventWithFlag(&never, ACL_EVENT_SYNC));
    CHECK_OK(aclrtStreamWaitEvent(stream, never));
    CHECK_OK(aiocann_sim_hold(0, -1));
    queue_much(new_stream());
  });
}

struct AtExit {
  bool armed = false;
  aclrtStream stream = nullptr;
  ~AtExit() {
    if (!armed) return;
    // The workers are gone by now: this must come back, well or not.
    (void)aclrtSynchronizeStream(stream);
    (void)aclrtDestroyStreamForce(stream);
    (void)aclrtResetDeviceForce(0);
    (void)aclFinalize();
  }
};
AtExit g_at_exit;  // older than the simulator's own exit handler, so destroyed after it

void acl_calls_from_static_destructors() {
  in_child([] {
    start(1);
    g_at_exit.stream = new_stream();
    g_at_exit.armed = true;
    queue_much(g_at_exit.stream);
  });
}

/// Another thread waits for the device while main returns.
void exit_while_a_thread_synchronises() {
  in_child([] {
    start(1);
    aclrtStream stream = new_stream();
    CHECK_OK(aiocann_sim_hold(0, -1));
    queue_much(stream);
    std::atomic<bool> inside{false};
    std::thread([&inside, stream] {
      CHECK_OK(aclrtSetDevice(0));
      inside = true;
      (void)aclrtSynchronizeStream(stream);
    }).detach();
    while (!inside.load()) std::this_thread::yield();
    exit(0);
  });
}

void a_forked_child_that_uses_no_acl_ends_normally() {
  start(1);
  aclrtStream stream = new_stream();
  queue_much(stream, 20);
  in_child([] {});
  // One that does is told, and does not hang.
  in_child([stream] {
    CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INTERNAL_ERROR);
    CHECK_CONTAINS(recent(), "forked");
    CHECK_CODE(aclrtSetDevice(0), ACL_ERROR_RT_INTERNAL_ERROR);
  });
  sync(stream);  // the parent goes on
  CHECK_OK(aclrtResetDevice(0));
}

}  // namespace

int main() {
  exit_with_work_in_flight();
  exit_with_streams_blocked_and_held();
  acl_calls_from_static_destructors();
  exit_while_a_thread_synchronises();
  a_forked_child_that_uses_no_acl_ends_normally();
  return 0;
}
