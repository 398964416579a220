// What dispatch does again and again costs no heap: whatever a graph of few nodes allocates, one of many does, too.
#include <atomic>
#include <cstdlib>
#include <new>

#include "ops_fake.hpp"

namespace {

std::atomic<int> allocations{0};

}  // namespace

#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void *operator new(size_t bytes) {
  allocations.fetch_add(1);
  if (void *block = std::malloc(bytes)) return block;
  throw std::bad_alloc();
}
void operator delete(void *block) noexcept { std::free(block); }
void operator delete(void *block, size_t) noexcept { std::free(block); }

namespace {

/// A driver that makes nothing: its objects are one byte that nobody looks at.
char object;

template <typename Signature>
struct Quiet;
template <typename R, typename... Args>
struct Quiet<R (*)(Args...)> {
  static R call(Args... args) {
    if constexpr (std::is_pointer_v<R>) {
      return reinterpret_cast<R>(&object);
    } else {
      if constexpr (sizeof...(Args) >= 3) {
        auto out = std::forward_as_tuple(args...);
        using Last = std::decay_t<std::tuple_element_t<sizeof...(Args) - 1, decltype(out)>>;
        if constexpr (std::is_same_v<Last, aclOpExecutor **>) {
          *std::get<sizeof...(Args) - 1>(out) = reinterpret_cast<aclOpExecutor *>(&object);
          *std::get<sizeof...(Args) - 2>(out) = 0;
        }
      }
      return 0;
    }
  }
};

aiocann::acl::Api make_api() {
  aiocann::acl::Api api = fake::make_api();
#define QUIET(name) api.name = &Quiet<decltype(api.name)>::call;
#define ACL_SYMBOL(name, since)
#define ACLNN_SYMBOL(name) QUIET(name)
#include "acl_symbols.inc"
  QUIET(aclCreateTensor)
  QUIET(aclDestroyTensor)
  QUIET(aclCreateScalar)
  QUIET(aclDestroyScalar)
  QUIET(aclCreateIntArray)
  QUIET(aclDestroyIntArray)
  QUIET(aclCreateTensorList)
  QUIET(aclDestroyTensorList)
  return api;
}

/// Allocations of the second submission of a graph of `n` times a handful of ops.
int allocated(const aiocann::acl::Api &api, int n) {
  fake::Builder b;
  int32_t x = b.leaf(AIOCANN_F32, {2, 8, 4, 32}, 0x100000);
  const int32_t other = b.leaf(AIOCANN_F32, {32}, 0x200000);
  const int32_t positions = b.leaf(AIOCANN_I32, {8}, 0x300000);
  const int32_t mask = b.leaf(AIOCANN_F16, {2, 1, 4, 32}, 0x400000);
  const auto next = [&](const char *op, std::vector<int32_t> more) -> aiocann_node & {
    more.insert(more.begin(), x);
    x = b.value(AIOCANN_F32, {2, 8, 4, 32});
    return b.node(op, more, x);
  };
  for (int i = 0; i < n; ++i) {
    next("add", {other});
    next("rms_norm", {}).params[0].f = 1e-5;
    aiocann_node &rope = next("rope", {positions});
    rope.params[0].i = 32;
    for (int p : {3, 4, 6}) rope.params[p].f = 1;
    next("l2_norm", {}).params[0].f = 1e-5;
    aiocann_node &soft_max = next("soft_max", {mask});
    soft_max.params[0].f = 0.5;
    soft_max.params[1].f = 8;
  }
  const std::unique_ptr<aiocann::core::Graph> graph = b.graph();
  fake::Lane lane(api);
  lane.nodes.reserve(static_cast<size_t>(20 * n));
  CHECK(graph->submit(lane).is_ok());
  const int before = allocations.load();
  CHECK(graph->submit(lane).is_ok());
  CHECK_EQ(lane.nodes.size(), static_cast<size_t>(10 * n));
  return allocations.load() - before;
}

}  // namespace

int main() {
  fake::Driver driver;
  fake::driver = &driver;
  const aiocann::acl::Api api = make_api();
  const int few = allocated(api, 1), many = allocated(api, 100);
  CHECK_EQ(few, many);
  CHECK(few <= 2);
  return 0;
}
