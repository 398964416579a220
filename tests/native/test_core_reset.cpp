// Starting a device anew: what is closed, what fails, what goes on, and what happens where the driver cannot.
#include "core_driver.hpp"

using namespace core_test;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr int32_t kKernelFault = 507015;
constexpr int32_t kLost = 507010;

aiocann_op *reset(Runtime &rt, int32_t i = 0) {
  aiocann_op *op = nullptr;
  accepted(aiocann_device_reset(rt.device(i), rt.loop.raw, &op));
  return op;
}

/// Device i does all that a device does.
void works(Runtime &rt, int32_t i = 0) {
  aiocann_stream *stream = rt.stream(i), *other = rt.stream(i);
  aiocann_mem *mem = rt.allocate(40 * kMiB, i), *lazy = rt.lazy(4096, i);
  auto bytes = pattern(40 * kMiB, 5);
  std::vector<unsigned char> back(40 * kMiB);
  finish(rt.loop, rt.copy(stream, of(mem), of(bytes), bytes.size()));
  aiocann_op *event = rt.mark(stream, AIOCANN_MARK_RECORD);
  finish(rt.loop, rt.wait(other, event));
  finish(rt.loop, event);
  finish(rt.loop, rt.copy(other, of(back), of(mem), bytes.size()));
  CHECK(back == bytes);
  finish(rt.loop, rt.fill(stream, lazy, 1));
  aiocann_mem_release(mem);
  aiocann_mem_release(lazy);
  rt.close(stream);
  rt.close(other);
}

// After a fault: everything of before is closed and says why; the device works again, and the other never stopped.
void everything_is_closed_and_works_again() {
  Runtime rt(2);
  aiocann_stream *stream = rt.stream(0), *healthy = rt.stream(1);
  aiocann_mem *mem = rt.allocate(4096, 0), *lazy = rt.lazy(4096, 0), *far = rt.allocate(4096, 1);
  aiocann_mem *wrapped = nullptr;
  accepted(aiocann_mem_wrap(rt.device(0), aiocann_mem_address(mem), 64, &wrapped));
  CHECK_OK(sim().inject("copy", "memset", 1, kKernelFault));
  fails(rt.loop, rt.fill(stream, mem, 1), kKernelFault);
  sim().clear_faults();
  CHECK_EQ(aiocann_device_poisoned(rt.device(0)), 1);
  finish(rt.loop, reset(rt));
  CHECK_EQ(aiocann_device_poisoned(rt.device(0)), 0);
  aiocann_op *op = nullptr;
  std::vector<unsigned char> host(4096);
  CHECK_EQ(aiocann_stream_mark(stream, AIOCANN_MARK_RECORD, rt.loop.raw, &op), AIOCANN_E_CLOSED);
  CHECK_CONTAINS(aiocann_last_error()->detail, "reset");
  aiocann_stream *fresh = rt.stream(0);
  for (aiocann_mem *old : {mem, lazy, wrapped}) {
    CHECK_EQ(aiocann_stream_memset(fresh, old, 0, 1, 64, rt.loop.raw, &op), AIOCANN_E_CLOSED);
    CHECK_CONTAINS(aiocann_last_error()->detail, "reset");
    const aiocann_span dst = of(host), src = of(old);
    CHECK_EQ(aiocann_stream_memcpy(healthy, &dst, &src, 64, rt.loop.raw, &op), AIOCANN_E_CLOSED);
  }
  works(rt, 0);
  works(rt, 1);
  finish(rt.loop, rt.fill(healthy, far, 7));
  for (aiocann_mem *each : {mem, lazy, wrapped, far}) aiocann_mem_release(each);
  for (aiocann_stream *each : {stream, fresh, healthy}) rt.close(each);
  CHECK_EQ(rt.statistics().in_flight_ops, 0);
  CHECK_EQ(rt.statistics().live_streams, 0);
}

// Work of every kind in flight, held by the device, and dependants on another one: all of it ends.
void what_is_in_flight_fails() {
  for (const char *family : {"callback", "callback-block", "host-func", "query"}) {
    setenv("AIOCANN_COMPLETION", family, 1);
    Runtime rt(2, "none");
    aiocann_stream *streams[] = {rt.stream(0), rt.stream(0), rt.stream(0), rt.stream(0)};
    aiocann_stream *elsewhere = rt.stream(1);
    aiocann_mem *mem = rt.allocate(40 * kMiB, 0), *far = rt.allocate(40 * kMiB, 1);
    std::vector<unsigned char> host(40 * kMiB), host2(40 * kMiB), small(100);
    CHECK_OK(sim().hold(0, -1));
    std::vector<aiocann_op *> ops;
    for (int i = 0; i < 300; ++i) ops.push_back(rt.fill(streams[0], mem, i));
    for (int i = 0; i < 300; ++i) {
      accepted(aiocann_stream_memset(streams[3], mem, 0, i, 64, nullptr, nullptr));
    }
    ops.push_back(rt.copy(streams[1], of(mem), of(host), 40 * kMiB));
    ops.push_back(rt.copy(streams[1], of(host2), of(mem), 40 * kMiB));
    ops.push_back(rt.copy(streams[2], of(small), of(mem), 100));
    aiocann_op *event = rt.mark(streams[2], AIOCANN_MARK_RECORD);
    ops.push_back(event);
    ops.push_back(rt.copy(streams[2], of(far), of(mem), 40 * kMiB));
    aiocann_op *wait = rt.wait(elsewhere, event), *behind = rt.fill(elsewhere, far, 3);
    usleep(2000);
    finish(rt.loop, reset(rt));
    for (aiocann_op *op : ops) fails(rt.loop, op, AIOCANN_E_CLOSED);
    rt.loop.await(wait);
    rt.loop.await(behind);
    // It was ordered after something that did not happen.
    CHECK_EQ(aiocann_op_error(wait)->code, AIOCANN_E_PREDECESSOR);
    aiocann_op_release(wait);
    aiocann_op_release(behind);
    CHECK_OK(sim().release(0, -1));
    works(rt, 0);
    works(rt, 1);
    aiocann_mem_release(mem);
    aiocann_mem_release(far);
    for (aiocann_stream *stream : streams) rt.close(stream);
    rt.close(elsewhere);
    CHECK_EQ(rt.statistics().in_flight_ops, 0);
    rt.settles_at(&aiocann_statistics::live_buffers, 0);
  }
  unsetenv("AIOCANN_COMPLETION");
}

// Another device is just reading the memory that is to go.
void others_finish_first() {
  Runtime rt(2);
  aiocann_stream *here = rt.stream(0), *there = rt.stream(1);
  aiocann_mem *mem = rt.allocate(64 * kMiB, 0), *far = rt.allocate(64 * kMiB, 1);
  std::vector<unsigned char> back(64 * kMiB);
  finish(rt.loop, rt.fill(here, mem, 9));
  finish(rt.loop, rt.copy(there, of(far), of(mem), 64));  // they know each other
  CHECK_OK(sim().hold(1, -1));
  aiocann_op *peer = rt.copy(there, of(far), of(mem), 64 * kMiB);
  usleep(50000);
  aiocann_op *begun = reset(rt);
  usleep(20000);
  CHECK_EQ(aiocann_op_state(begun), 0);
  aiocann_op *second = nullptr;
  CHECK_EQ(aiocann_device_reset(rt.device(0), rt.loop.raw, &second), AIOCANN_E_CLOSED);
  CHECK_OK(sim().release(1, -1));
  finish(rt.loop, peer);
  finish(rt.loop, begun);
  finish(rt.loop, rt.copy(there, of(back), of(far), 64 * kMiB));
  CHECK(back == std::vector<unsigned char>(64 * kMiB, 9));
  works(rt, 0);
  for (aiocann_mem *each : {mem, far}) aiocann_mem_release(each);
  for (aiocann_stream *each : {here, there}) rt.close(each);
}

// Lost: what was in flight ends as the device's failure; a reset brings it back.
void a_lost_device_comes_back() {
  Runtime rt(2);
  aiocann_stream *stream = rt.stream(0);
  aiocann_mem *mem = rt.allocate(4096, 0);
  CHECK_OK(sim().hold(0, -1));
  aiocann_op *op = rt.fill(stream, mem, 1);
  usleep(1000);
  CHECK_OK(sim().lose(0, kLost, 0));
  rt.loop.await(op);
  CHECK_EQ(aiocann_op_error(op)->code, kLost);
  aiocann_op_release(op);
  CHECK_OK(sim().release(0, -1));
  works(rt, 1);
  finish(rt.loop, reset(rt));
  works(rt, 0);
  aiocann_mem_release(mem);
  rt.close(stream);
}

// The driver cannot: the device is out of use, and says so; the runtime, and another reset, work.
void what_cannot_be_reset() {
  Runtime rt(2);
  aiocann_stream *stream = rt.stream(0);
  aiocann_mem *mem = rt.allocate(4096, 0);
  CHECK_OK(sim().hold(0, -1));
  aiocann_op *held = rt.fill(stream, mem, 1);
  usleep(1000);
  CHECK_OK(sim().inject("call", "aclrtResetDeviceForce", 1, 507033));
  CHECK_CONTAINS(fails(rt.loop, reset(rt), 507033), "aclrtResetDeviceForce");
  fails(rt.loop, held, AIOCANN_E_CLOSED);
  sim().clear_faults();
  CHECK_OK(sim().release(0, -1));
  CHECK_EQ(aiocann_device_poisoned(rt.device(0)), 1);
  aiocann_op *op = nullptr;
  CHECK_EQ(aiocann_stream_create(rt.device(0), -1, rt.loop.raw, &op), AIOCANN_E_CLOSED);
  CHECK_CONTAINS(aiocann_last_error()->detail, "new process");
  works(rt, 1);
  finish(rt.loop, reset(rt));
  CHECK_EQ(aiocann_device_poisoned(rt.device(0)), 0);
  works(rt, 0);
  // And once more, for good.
  CHECK_OK(sim().inject("call", "aclrtResetDeviceForce", 1, 507033));
  fails(rt.loop, reset(rt), 507033);
  sim().clear_faults();
  aiocann_mem_release(mem);
  rt.close(stream);
  rt.close();
  sim().start_anew();  // nobody gives back what could not be reset
}

void again_and_again() {
  Runtime rt(1);
  for (int i = 0; i < 20; ++i) {
    aiocann_stream *stream = rt.stream();
    aiocann_mem *mem = rt.allocate(1 << 20);
    std::vector<aiocann_op *> ops;
    for (int j = 0; j < 10; ++j) ops.push_back(rt.fill(stream, mem, j));
    finish(rt.loop, reset(rt));
    for (aiocann_op *op : ops) {
      rt.loop.await(op);
      aiocann_op_release(op);
    }
    aiocann_mem_release(mem);
    rt.close(stream);
  }
  works(rt);
  rt.settles_at(&aiocann_statistics::live_buffers, 0);
  CHECK(rt.statistics().pool_reserved_bytes <= 80 * kMiB);
}

}  // namespace

int main() {
  everything_is_closed_and_works_again();
  what_is_in_flight_fails();
  others_finish_first();
  what_cannot_be_reset();
  again_and_again();
  if (sim().counter("misuse") != 0) check::fail(__FILE__, __LINE__, sim().last_misuse());
  a_lost_device_comes_back();  // which takes no unsubscribing either
}
