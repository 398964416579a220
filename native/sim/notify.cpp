// notify.cpp: setting and taking notifies.
#include "sim/notify.hpp"

#include "sim/device.hpp"

namespace aiocann::sim {

void Notify::release() {
  if (refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  header.store(nullptr);
  shared.reset();
  own_word.store(0);
  device->notifies.release(this);
}

void Notify::share(std::shared_ptr<SharedBlock> block, bool is_import) {
  if (!is_import) block->header().word.store(own_word.exchange(0));
  shared = std::move(block);
  header.store(&shared->header());
  gate.open();  // whoever waits must poll from now on
}

void Notify::set() {
  word().store(1);
  gate.open();
}

bool Notify::take() {
  uint32_t set = 1;
  return word().compare_exchange_strong(set, 0);
}

}  // namespace aiocann::sim
