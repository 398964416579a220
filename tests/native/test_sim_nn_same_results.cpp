// Results depend on shapes and values, never on the number of threads: the program runs itself with one thread
// and with several, and every bit must agree.
#include <cstdio>
#include <cstdlib>

#include "nn_fixture.hpp"

using namespace nn;

namespace {

uint64_t digest = 14695981039346656037u;

void take(Tensor &t) {
  for (const double value : t.read()) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    digest = (digest ^ bits) * 1099511628211u;
  }
}

/// Products and attention with queries of many tiles, and windows.
void take_more() {
  const int64_t heads = 3, queries = 150, keys = 700, width = 32;
  Tensor q({1, heads, queries, width}, ACL_FLOAT16), k({1, 1, keys, width}, ACL_FLOAT16),
      v({1, 1, keys, width}, ACL_FLOAT16), seen({1, heads, queries, width}, ACL_FLOAT16);
  for (Tensor *t : {&q, &k, &v}) t->random();
  const aclTensor *key = k.release(), *value = v.release();
  aclTensorList *key_list = aclCreateTensorList(&key, 1);
  aclTensorList *value_list = aclCreateTensorList(&value, 1);
  char layout[] = "BNSD";
  execute(
      [&](auto *w, auto *e) {
        return aclnnFusedInferAttentionScoreV2GetWorkspaceSize(
            q, key_list, value_list, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
            nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
            nullptr, nullptr, nullptr, nullptr, nullptr, heads, 0.2, 65535, 65535, layout, 1, 0, 0,
            0, 0, false, 0, 0, seen, nullptr, w, e);
      },
      aclnnFusedInferAttentionScoreV2);
  take(seen);
  CHECK_OK(aclDestroyTensorList(key_list));
  CHECK_OK(aclDestroyTensorList(value_list));

  const int64_t n = 1500, depth = 1024;
  Tensor weight({n, depth}, ACL_INT8), scale({n}, ACL_FLOAT16);
  weight.random(-100, 100);
  scale.random(0.01, 0.1);
  const int64_t turned[] = {depth, n}, strides[] = {1, depth}, storage = n * depth;
  aclTensor *columns = aclCreateTensor(turned, 2, ACL_INT8, strides, 0, ACL_FORMAT_ND, &storage, 1,
                                       weight.address());
  for (const int64_t m : {2, 30}) {
    Tensor x({m, depth}, ACL_FLOAT16), y({m, n}, ACL_FLOAT16);
    x.random();
    execute(
        [&](auto *w, auto *e) {
          return aclnnWeightQuantBatchMatmulV2GetWorkspaceSize(x, columns, scale, nullptr, nullptr,
                                                               nullptr, nullptr, 0, y, w, e);
        },
        aclnnWeightQuantBatchMatmulV2);
    take(y);
  }
  CHECK_OK(aclDestroyTensor(columns));

  Tensor image({2, 8, 50, 60}, ACL_FLOAT), kernel({8, 8, 3, 3}, ACL_FLOAT),
      convolved({2, 8, 50, 60}, ACL_FLOAT);
  image.random();
  kernel.random();
  Ints one({1, 1}), none({0, 0});
  for (const bool transposed : {false, true}) {
    execute(
        [&](auto *w, auto *e) {
          return aclnnConvolutionGetWorkspaceSize(image, kernel, nullptr, one, one, one, transposed,
                                                  none, 1, convolved, 0, w, e);
        },
        aclnnConvolution);
    take(convolved);
  }
}

/// Large enough that every engine cuts its work into several pieces.
uint64_t results() {
  const int64_t m = 700, k = 190, n = 1100;
  Tensor a({m, k}, ACL_FLOAT), b({k, n}, ACL_FLOAT), c({m, n}, ACL_FLOAT), d({m, n}, ACL_FLOAT);
  Tensor half({m, n}, ACL_FLOAT16), turned({n, m}, ACL_FLOAT), rows({m}, ACL_FLOAT),
      columns({n}, ACL_FLOAT), all({}, ACL_FLOAT);
  Tensor ids({500}, ACL_INT64), picked({500, n}, ACL_FLOAT);
  a.random();
  b.random();
  ids.random(0, m - 1);
  Ints last({1}), first({0}), none({}), swap({1, 0}), row({n});
  Scalar two(2, ACL_FLOAT);
  execute([&](auto *w, auto *e) { return aclnnMmGetWorkspaceSize(a, b, c, 0, w, e); }, aclnnMm);
  take(c);
  execute([&](auto *w, auto *e) { return aclnnMmGetWorkspaceSize(a, b, d, 3, w, e); }, aclnnMm);
  take(d);
  execute([&](auto *w, auto *e) { return aclnnGeluV2GetWorkspaceSize(c, 0, d, w, e); },
          aclnnGeluV2);
  take(d);
  execute([&](auto *w, auto *e) { return aclnnSoftmaxGetWorkspaceSize(c, 1, d, w, e); },
          aclnnSoftmax);
  take(d);
  execute([&](auto *w, auto *e) { return aclnnSoftmaxGetWorkspaceSize(c, 0, d, w, e); },
          aclnnSoftmax);
  take(d);
  execute(
      [&](auto *w, auto *e) {
        return aclnnLayerNormGetWorkspaceSize(c, row, nullptr, nullptr, 1e-5, d, nullptr, nullptr,
                                              w, e);
      },
      aclnnLayerNorm);
  take(d);
  execute([&](auto *w, auto *e) { return aclnnCastGetWorkspaceSize(c, ACL_FLOAT16, half, w, e); },
          aclnnCast);
  take(half);
  execute([&](auto *w, auto *e) { return aclnnPermuteGetWorkspaceSize(c, swap, turned, w, e); },
          aclnnPermute);
  take(turned);
  execute(
      [&](auto *w, auto *e) {
        return aclnnReduceSumGetWorkspaceSize(c, last, false, ACL_FLOAT, rows, w, e);
      },
      aclnnReduceSum);
  take(rows);
  execute(
      [&](auto *w, auto *e) {
        return aclnnReduceSumGetWorkspaceSize(c, first, false, ACL_FLOAT, columns, w, e);
      },
      aclnnReduceSum);
  take(columns);
  execute(
      [&](auto *w, auto *e) { return aclnnNormGetWorkspaceSize(c, two, none, false, all, w, e); },
      aclnnNorm);
  take(all);
  execute([&](auto *w, auto *e) { return aclnnGatherV2GetWorkspaceSize(c, 0, ids, picked, w, e); },
          aclnnGatherV2);
  take(picked);
  Tensor half_row({m, n / 2}, ACL_FLOAT), kept({m, n / 2}, ACL_FLOAT),
      statistics({m, 10}, ACL_FLOAT), deviations({m, 10}, ACL_FLOAT), wider({m, n + 7}, ACL_FLOAT);
  Scalar one(1, ACL_FLOAT);
  Ints pad({3, 4});
  execute(
      [&](auto *w, auto *e) {
        return aclnnGeGluV3GetWorkspaceSize(c, 1, 1, true, half_row, kept, w, e);
      },
      aclnnGeGluV3);
  take(half_row);
  take(kept);
  execute(
      [&](auto *w, auto *e) {
        return aclnnGroupNormGetWorkspaceSize(c, nullptr, nullptr, m, n, 1, 10, 1e-5, d, statistics,
                                              deviations, w, e);
      },
      aclnnGroupNorm);
  take(d);
  execute(
      [&](auto *w, auto *e) {
        return aclnnSoftmaxCrossEntropyWithLogitsGetWorkspaceSize(c, c, rows, d, w, e);
      },
      aclnnSoftmaxCrossEntropyWithLogits);
  take(rows);
  take(d);
  execute([&](auto *w, auto *e) { return aclnnCumsumGetWorkspaceSize(c, 1, ACL_FLOAT, d, w, e); },
          aclnnCumsum);
  take(d);
  execute([&](auto *w, auto *e) { return aclnnTrilGetWorkspaceSize(c, 100, d, w, e); }, aclnnTril);
  take(d);
  execute([&](auto *w,
              auto *e) { return aclnnConstantPadNdGetWorkspaceSize(c, pad, one, wider, w, e); },
          aclnnConstantPadNd);
  take(wider);
  take_more();
  return digest;
}

unsigned long long digest_with(const char *threads, const char *program) {
  setenv("AIOCANN_SIM_THREADS", threads, 1);
  FILE *child = popen((std::string("\"") + program + "\" digest").c_str(), "r");
  CHECK(child != nullptr);
  unsigned long long value = 0;
  CHECK_EQ(std::fscanf(child, "%llu", &value), 1);
  CHECK_EQ(pclose(child), 0);
  return value;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc == 2) {
    std::printf("%llu\n", static_cast<unsigned long long>(results()));
    return 0;
  }
  const unsigned long long one = digest_with("1", argv[0]);
  CHECK(one != 0);
  CHECK_EQ(digest_with("2", argv[0]), one);
  CHECK_EQ(digest_with("5", argv[0]), one);
  return 0;
}
