#include "sim/kernels/table.hpp"

#include <cstdlib>
#include <cstring>

namespace aiocann::sim {

#if defined(__x86_64__)
namespace v2 {
extern const KernelTable kTable;
}
namespace v3 {
extern const KernelTable kTable;
}
namespace v4 {
extern const KernelTable kTable;
}
#else
namespace base {
extern const KernelTable kTable;
}
#endif

namespace {

const KernelTable &choose() {
#if defined(__x86_64__)
  // For tests and for comparing machines: an upper limit, never more than the CPU has.
  const char *limit = std::getenv("AIOCANN_SIM_CPU_LEVEL");
  const int level = limit != nullptr && limit[0] == 'v' ? std::atoi(limit + 1) : 4;
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
  if (avx2 && avx512 && level >= 4) return v4::kTable;
  if (avx2 && level >= 3) return v3::kTable;
  return v2::kTable;
#else
  return base::kTable;
#endif
}

}  // namespace

const KernelTable &table() {
  static const KernelTable &chosen = choose();
  return chosen;
}

}  // namespace aiocann::sim
