// blas.cpp: OpenBLAS, found beside this library under a private name, or else the built-in product.
#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "sim/kernels/matmul.hpp"
#include "sim/kernels/table.hpp"

namespace aiocann::sim {
namespace {

enum CblasOrder { kRowMajor = 101 };
enum CblasTranspose { kNoTranspose = 111, kTranspose = 112 };
using Sgemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                       const float *a, int lda, const float *b, int ldb, float beta, float *c,
                       int ldc);

/// The folder of the library that this code is in.
std::string own_folder() {
  Dl_info info;
  static const char here = 0;
  if (dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

/// OpenBLAS starts a thread for every CPU that it may use, at the moment it is loaded, and only the environment could
/// tell it not to. It counts the CPUs of the thread that loads it: let that be one.
class OneCpu {
 public:
  OneCpu() {
    const int cpu = sched_getcpu();
    if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof before_, &before_) != 0)
      return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    changed_ = sched_setaffinity(0, sizeof one, &one) == 0;
  }
  ~OneCpu() {
    if (changed_) sched_setaffinity(0, sizeof before_, &before_);
  }
  OneCpu(const OneCpu &) = delete;
  OneCpu &operator=(const OneCpu &) = delete;

 private:
  cpu_set_t before_;
  bool changed_ = false;
};

Sgemm load_sgemm() {
  const char *wish = std::getenv("AIOCANN_SIM_BLAS");
  if (wish != nullptr && std::strcmp(wish, "builtin") == 0) return nullptr;
  const std::string path = own_folder() + "/libaiocann_openblas.so";
  OneCpu one;
  // Local: its symbols must not meet those of a BLAS that the process has. It stays loaded for good.
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return nullptr;
  const auto set_threads =
      reinterpret_cast<void (*)(int)>(dlsym(library, "scipy_openblas_set_num_threads"));
  const auto sgemm = reinterpret_cast<Sgemm>(dlsym(library, "scipy_cblas_sgemm"));
  if (set_threads == nullptr || sgemm == nullptr) return nullptr;
  // One thread a call: the simulator cuts the work itself, by shape.
  set_threads(1);
  return sgemm;
}

Sgemm sgemm() {
  static const Sgemm function = load_sgemm();
  return function;
}

/// Row-major copy of a matrix, for the built-in product.
std::unique_ptr<float[]> packed(const float *from, int64_t rows, int64_t cols, int64_t row_stride,
                                int64_t col_stride) {
  std::unique_ptr<float[]> copy(new float[static_cast<size_t>(rows * cols)]);
  if (row_stride == 1) {
    table().transpose(copy.get(), from, static_cast<size_t>(cols), static_cast<size_t>(rows),
                      static_cast<ptrdiff_t>(cols), static_cast<ptrdiff_t>(col_stride),
                      sizeof(float));
    return copy;
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c)
      copy[static_cast<size_t>(r * cols + c)] = from[r * row_stride + c * col_stride];
  }
  return copy;
}

/// A matrix as BLAS wants it: whether it is transposed, and its leading dimension.
struct Layout {
  int transpose;
  int64_t leading;
};

Layout layout(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride) {
  if (col_stride == 1 && (row_stride >= cols || rows == 1)) {
    return {kNoTranspose, std::max<int64_t>({1, cols, rows == 1 ? cols : row_stride})};
  }
  return {kTranspose, std::max<int64_t>({1, rows, cols == 1 ? rows : col_stride})};
}

}  // namespace

bool has_blas() { return sgemm() != nullptr; }

void run_gemm(const Gemm &g) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0) {
    for (int64_t i = 0; i < g.m; ++i)
      std::memset(g.c + i * g.ldc, 0, static_cast<size_t>(g.n) * sizeof(float));
    return;
  }
  if (const Sgemm blas = sgemm(); blas != nullptr) {
    const Layout a = layout(g.m, g.k, g.a_row, g.a_col);
    const Layout b = layout(g.k, g.n, g.b_row, g.b_col);
    blas(kRowMajor, a.transpose, b.transpose, static_cast<int>(g.m), static_cast<int>(g.n),
         static_cast<int>(g.k), 1.0f, g.a, static_cast<int>(a.leading), g.b,
         static_cast<int>(b.leading), 0.0f, g.c, static_cast<int>(g.ldc));
    return;
  }
  std::unique_ptr<float[]> a, b;
  if (g.a_col != 1) a = packed(g.a, g.m, g.k, g.a_row, g.a_col);
  if (g.b_col != 1) b = packed(g.b, g.k, g.n, g.b_row, g.b_col);
  table().gemm(static_cast<size_t>(g.m), static_cast<size_t>(g.n), static_cast<size_t>(g.k),
               a ? a.get() : g.a, static_cast<size_t>(a ? g.k : g.a_row), b ? b.get() : g.b,
               static_cast<size_t>(b ? g.n : g.b_row), g.c, static_cast<size_t>(g.ldc));
}

}  // namespace aiocann::sim
