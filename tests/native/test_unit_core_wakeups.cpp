// The wake-up protocols under stress: a lost wake-up would hang, a double delivery would be counted.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "check.hpp"
#include "core/inbox.hpp"
#include "core/loop.hpp"
#include "core/stack.hpp"

using namespace aiocann::core;

namespace {

struct Node {
  Node *next = nullptr;
  int thread = 0, number = 0;
};

// Many threads push, one sleeps between: everything arrives, each thread's in its order.
void pushing() {
  constexpr int kThreads = 4, kEach = 20000;
  Inbox<Node> inbox;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        CHECK(inbox.push(new Node{nullptr, t, i}));
        if (i % 97 == 0) std::this_thread::yield();
      }
    });
  }
  std::vector<int> seen(kThreads, 0);
  int total = 0;
  while (total < kThreads * kEach) {
    Node *node = inbox.take();
    if (node == nullptr) inbox.sleep_us(-1);
    while (node != nullptr) {
      Node *next = node->next;
      CHECK_EQ(node->number, seen[node->thread]++);
      delete node;
      ++total;
      node = next;
    }
  }
  for (std::thread &thread : threads) thread.join();
}

// A push lands in a list that is taken, or fails: never both, never neither.
void closing_a_stack() {
  for (int round = 0; round < 300; ++round) {
    Stack<Node> stack;
    std::atomic<int> kept{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        while (!go.load()) {
        }
        for (int i = 0; i < 50; ++i) {
          auto *node = new Node;
          if (stack.push(node)) {
            kept.fetch_add(1);
          } else {
            delete node;
          }
        }
      });
    }
    go.store(true);
    int taken = 0;
    Node *node = stack.close();
    for (std::thread &thread : threads) thread.join();
    while (node != nullptr) {
      Node *next = node->next;
      delete node;
      ++taken;
      node = next;
    }
    CHECK_EQ(taken, kept.load());
    CHECK(stack.close() == nullptr);
  }
}

Delivery *delivery(aiocann_loop *loop, uint64_t id) {
  auto *node = new Delivery;
  node->loop = loop;
  node->id = id;
  loop->retain();
  return node;
}

// A loop that polls its eventfd and nothing else gets all, and is woken at most once per parked period.
void parked_loop() {
  constexpr int kThreads = 3, kEach = 15000;
  const int fd = eventfd(0, EFD_NONBLOCK);
  auto *loop = aiocann_loop_create(fd);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        loop->push(delivery(loop, static_cast<uint64_t>(t) << 32 | static_cast<uint64_t>(i)));
        if (i % 61 == 0) std::this_thread::yield();
      }
    });
  }
  std::vector<uint64_t> next(kThreads, 0);
  uint64_t polls = 0;
  for (int total = 0; total < kThreads * kEach;) {
    pollfd waiting{fd, POLLIN, 0};
    CHECK_EQ(poll(&waiting, 1, 60000), 1);
    ++polls;
    uint64_t count = 0;
    CHECK(read(fd, &count, sizeof count) == sizeof count);
    CHECK_EQ(count, 1);
    uint64_t ids[100];
    for (int32_t n = 100; n == 100;) {
      n = aiocann_loop_drain(loop, ids, 100);
      for (int32_t i = 0; i < n; ++i) CHECK_EQ(ids[i] & 0xffffffff, next[ids[i] >> 32]++);
      total += n;
    }
  }
  for (std::thread &thread : threads) thread.join();
  CHECK_EQ(aiocann_loop_wakes(loop), polls);
  aiocann_loop_release(loop);
  close(fd);
}

// It closes while others push: every id comes out once, here or at the heir; the eventfd may go at once.
void closing_a_loop() {
  for (int round = 0; round < 200; ++round) {
    const int fd = eventfd(0, EFD_NONBLOCK);
    auto *loop = aiocann_loop_create(fd);
    auto *heir = aiocann_loop_create(-1);
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      loop->retain();
      threads.emplace_back([loop, t] {
        for (int i = 0; i < 40; ++i) loop->push(delivery(loop, static_cast<uint64_t>(t * 40 + i)));
        loop->release();
      });
    }
    std::vector<int> seen(120, 0);
    uint64_t ids[16];
    const int32_t early = aiocann_loop_drain(loop, ids, 16);
    for (int32_t i = 0; i < early; ++i) ++seen[ids[i]];
    aiocann_loop_close(loop, heir);
    close(fd);
    aiocann_loop_release(loop);
    for (std::thread &thread : threads) thread.join();
    for (int32_t n = 16; n == 16;) {
      n = aiocann_loop_drain(heir, ids, 16);
      for (int32_t i = 0; i < n; ++i) ++seen[ids[i]];
    }
    for (int count : seen) CHECK_EQ(count, 1);
    aiocann_loop_release(heir);
  }
}

}  // namespace

int main() {
  pushing();
  closing_a_stack();
  parked_loop();
  closing_a_loop();
}
