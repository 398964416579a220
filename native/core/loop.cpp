#include "core/loop.hpp"

#include "core/op.hpp"

using aiocann::core::Delivery;
using aiocann::core::guarded;

void Delivery::discard() {
  aiocann_loop *to = loop;
  loop = nullptr;
  if (embedded_in != nullptr) {
    embedded_in->release();
  } else {
    delete this;
  }
  if (to != nullptr) to->release();
}

extern "C" {

aiocann_loop *aiocann_loop_create(int fd) {
  aiocann_loop *loop = nullptr;
  guarded([&]() -> int32_t {
    loop = new aiocann_loop(fd);
    return 0;
  });
  return loop;
}

int32_t aiocann_loop_drain(aiocann_loop *loop, uint64_t *ids, int32_t max) {
  return loop->drain(ids, max);
}

int32_t aiocann_loop_linger(aiocann_loop *loop) { return loop->linger() ? 1 : 0; }

void aiocann_loop_close(aiocann_loop *loop, aiocann_loop *heir) { loop->close(heir); }

void aiocann_loop_release(aiocann_loop *loop) {
  // Whatever still comes has no reader; closing also ends the use of the caller's eventfd.
  loop->close(nullptr);
  loop->release();
}

uint64_t aiocann_loop_wakes(const aiocann_loop *loop) { return loop->wakes(); }

}  // extern "C"
