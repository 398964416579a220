// Products with weights of 8 and 4 bits, and weights in FRACTAL_NZ.
#include <cstring>

#include "nn_fixture.hpp"

using namespace nn;

namespace {

/// A weight of k x n integers: by rows or transposed, of 8 bits or 4 (packed, the lower half first).
class Weight {
 public:
  Weight(int64_t k, int64_t n, int bits, bool transposed)
      : n_(n), values_(static_cast<size_t>(k * n)) {
    const int64_t limit = bits == 8 ? 127 : 7;
    for (int &value : values_) value = static_cast<int>(pick(-limit - 1, limit));
    std::vector<unsigned char> bytes(static_cast<size_t>(k * n * bits / 8));
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = 0; j < n; ++j) {
        const auto place = static_cast<size_t>(transposed ? j * k + p : p * n + j);
        const auto value = static_cast<unsigned char>((*this)(p, j));
        if (bits == 8) {
          bytes[place] = value;
        } else {
          bytes[place / 2] |= static_cast<unsigned char>((value & 15) << (place % 2 * 4));
        }
      }
    }
    session();
    CHECK_OK(aclrtMalloc(&memory_, bytes.size(), ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(
        aclrtMemcpy(memory_, bytes.size(), bytes.data(), bytes.size(), ACL_MEMCPY_HOST_TO_DEVICE));
    const int64_t shape[] = {k, n}, strides[] = {transposed ? 1 : n, transposed ? k : 1};
    const int64_t storage = k * n;
    tensor_ = aclCreateTensor(shape, 2, bits == 8 ? ACL_INT8 : ACL_INT4, strides, 0, ACL_FORMAT_ND,
                              &storage, 1, memory_);
  }
  ~Weight() {
    CHECK_OK(aclDestroyTensor(tensor_));
    CHECK_OK(aclrtFree(memory_));
  }
  Weight(const Weight &) = delete;
  Weight &operator=(const Weight &) = delete;

  operator aclTensor *() const { return tensor_; }
  int operator()(int64_t p, int64_t j) const { return values_[static_cast<size_t>(p * n_ + j)]; }

 private:
  int64_t n_;
  std::vector<int> values_;
  void *memory_ = nullptr;
  aclTensor *tensor_;
};

double half_even(double x) { return std::nearbyint(x); }

void quantised() {
  for (int round = 0; round < 96; ++round) {
    const int bits = round % 2 == 0 ? 8 : 4;
    const bool transposed = round % 4 < 2, grouped = round % 8 < 5;
    const aclDataType dtype = round % 3 == 0 ? ACL_BF16 : ACL_FLOAT16;
    const int64_t m = round % 5 == 0 ? pick(9, 40) : pick(1, 8);
    const int64_t k = 2 * pick(17, round % 7 == 0 ? 400 : 90),
                  n = 2 * pick(1, round % 6 == 0 ? 300 : 40);
    const int group = grouped ? 32 * static_cast<int>(pick(1, (k - 1) / 32)) : 0;
    const int64_t groups = grouped ? (k + group - 1) / group : 1;
    const bool shifted = round % 3 == 1, biased = round % 4 == 1, packed = round % 8 == 7;
    Weight w(k, n, bits, transposed);
    Tensor x({m, k}, dtype, round % 9 == 0 ? Layout::kRandom : Layout::kRow);
    Tensor scale(grouped            ? Dims{groups, n}
                 : round % 16 == 15 ? Dims{1}
                                    : Dims{n},
                 dtype, round % 2 == 0 ? Layout::kRow : Layout::kRandom);
    Tensor offset(scale.shape(), dtype), bias({n}, dtype == ACL_BF16 ? ACL_FLOAT : ACL_FLOAT16);
    Tensor out_scale({n}, ACL_UINT64), out_offset({n}, ACL_FLOAT);
    Tensor y({m, n}, packed ? ACL_INT8 : dtype, round % 5 == 0 ? Layout::kRandom : Layout::kRow);
    x.random();
    scale.random(0.01, 0.1);
    offset.random(-4, 4);
    bias.random(-4, 4);
    out_offset.random(-10, 10);
    out_scale.fill([](int64_t i) {
      const float factor = i % 2 == 0 ? 2.0f : 0.5f;
      uint32_t code;
      std::memcpy(&code, &factor, sizeof code);
      return static_cast<double>(code);
    });
    execute(
        [&](auto *ws, auto *e) {
          return aclnnWeightQuantBatchMatmulV2GetWorkspaceSize(
              x, w, scale, shifted ? offset.get() : nullptr, packed ? out_scale.get() : nullptr,
              packed ? out_offset.get() : nullptr, biased ? bias.get() : nullptr, group, y, ws, e);
        },
        aclnnWeightQuantBatchMatmulV2);
    const auto got = y.read();
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = biased ? bias[j] : 0, size = 1;
        for (int64_t p = 0; p < k; ++p) {
          const int64_t at = grouped ? p / group * n + j : scale.count() == 1 ? 0 : j;
          const double weight = (w(p, j) + (shifted ? offset[at] : 0)) * scale[at];
          sum += x.at({i, p}) * weight;
          size += std::fabs(x.at({i, p}) * weight);
        }
        const double value = got[static_cast<size_t>(i * n + j)];
        if (packed) {
          sum = sum * (j % 2 == 0 ? 2 : 0.5) + out_offset[j];
          const double want = std::min(127.0, std::max(-128.0, half_even(sum)));
          CHECK(std::fabs(value - want) <= (std::fabs(sum - std::floor(sum) - 0.5) < 1e-3 ? 1 : 0));
        } else {
          CHECK(is_right(value, sum, dtype, 4, 4e-7 * size));
        }
      }
    }
  }
  Weight w(64, 8, 8, false), w4(64, 8, 4, false);
  Tensor x({2, 64}, ACL_FLOAT16), y({2, 8}, ACL_FLOAT16), scale({8}, ACL_FLOAT16),
      groups({2, 8}, ACL_FLOAT16), floats({2, 64}, ACL_FLOAT), bf16({8}, ACL_BF16),
      narrow({2, 32}, ACL_FLOAT16), q({8}, ACL_UINT64), y8({2, 8}, ACL_INT8), one({7}, ACL_FLOAT16);
  const auto plan = [&](aclTensor *a, aclTensor *b, aclTensor *s, aclTensor *o, aclTensor *qs,
                        aclTensor *bias, int group, aclTensor *out) {
    return [=](uint64_t *ws, aclOpExecutor **e) {
      return aclnnWeightQuantBatchMatmulV2GetWorkspaceSize(a, b, s, o, qs, nullptr, bias, group,
                                                           out, ws, e);
    };
  };
  const char *op = "aclnnWeightQuantBatchMatmulV2";
  aclTensor *no = nullptr;
  refuse(ACLNN_ERR_PARAM_NULLPTR, op, plan(no, w, scale, no, no, no, 0, y));
  refuse(ACLNN_ERR_PARAM_NULLPTR, op, plan(x, no, scale, no, no, no, 0, y));
  refuse(ACLNN_ERR_PARAM_NULLPTR, op, plan(x, w, no, no, no, no, 0, y));
  refuse(ACLNN_ERR_PARAM_NULLPTR, op, plan(x, w, scale, no, no, no, 0, no));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(floats, w, scale, no, no, no, 0, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(narrow, w, scale, no, no, no, 0, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, w, bf16, no, no, no, 0, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, w, one, no, no, no, 0, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, w, groups, no, no, no, 0, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, w4, groups, no, no, no, 33, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, w, groups, no, no, no, 64, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, w, scale, groups, no, no, 0, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, w, scale, no, no, one, 0, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, w, scale, no, no, no, 0, y8));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, w, scale, no, q, no, 0, y));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, w, scale, no, no, no, 0, x));
}

/// A matrix in device memory that has room for its tiles.
class Roomy {
 public:
  Roomy(const Dims &shape, aclDataType dtype) : shape_(shape), dtype_(dtype) {
    session();
    const size_t rank = shape.size();
    const int64_t block = 32 / static_cast<int64_t>(size_of(dtype));
    padded_ = shape;
    padded_[rank - 1] = (shape[rank - 1] + block - 1) / block * block;
    padded_[rank - 2] = (shape[rank - 2] + 15) / 16 * 16;
    host_.resize(static_cast<size_t>(count(padded_)) * size_of(dtype));
    CHECK_OK(aclrtMalloc(&memory_, host_.size(), ACL_MEM_MALLOC_HUGE_FIRST));
    values_.resize(static_cast<size_t>(count(shape)));
    for (size_t i = 0; i < values_.size(); ++i) {
      const double value = is_floating(dtype) ? uniform(-1, 1) : static_cast<double>(pick(-50, 50));
      encode(value, dtype, host_.data() + i * size_of(dtype));
      values_[i] = decode(host_.data() + i * size_of(dtype), dtype);
    }
    CHECK_OK(
        aclrtMemcpy(memory_, host_.size(), host_.data(), host_.size(), ACL_MEMCPY_HOST_TO_DEVICE));
  }
  ~Roomy() { CHECK_OK(aclrtFree(memory_)); }
  Roomy(const Roomy &) = delete;
  Roomy &operator=(const Roomy &) = delete;

  /// As it is, or its last two axes turned.
  aclTensor *tensor(aclFormat format, bool turned = false) const {
    Dims shape = shape_, strides(shape.size(), 1);
    for (size_t d = shape.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * shape[d + 1];
    if (turned) {
      std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
      std::swap(strides[shape.size() - 1], strides[shape.size() - 2]);
    }
    const int64_t storage = count(padded_);
    return aclCreateTensor(shape.data(), shape.size(), dtype_, strides.data(), 0, format, &storage,
                           1, memory_);
  }
  double at(int64_t i) const { return values_[static_cast<size_t>(i)]; }
  const Dims &padded() const { return padded_; }
  const void *download() {
    CHECK_OK(
        aclrtMemcpy(host_.data(), host_.size(), memory_, host_.size(), ACL_MEMCPY_DEVICE_TO_HOST));
    return host_.data();
  }

 private:
  Dims shape_, padded_;
  aclDataType dtype_;
  std::vector<double> values_;
  std::vector<unsigned char> host_;
  void *memory_ = nullptr;
};

void tiled() {
  const aclDataType types[] = {ACL_FLOAT16, ACL_BF16, ACL_INT8};
  for (int round = 0; round < 36; ++round) {
    const aclDataType dtype = types[round % 3];
    const int64_t k = pick(1, 70), n = pick(1, 70), batch = round % 4 == 0 ? 2 : 1;
    const bool turned = round % 2 == 1;  // stored as n x k, used as k x n
    const Dims shape = turned ? Dims{n, k} : Dims{k, n};
    Dims stored = shape;
    if (batch == 2) stored.insert(stored.begin(), 2);
    Roomy weight(stored, dtype);
    aclTensor *plain = weight.tensor(ACL_FORMAT_ND);
    execute([&](auto *w, auto *e) { return aclnnTransMatmulWeightGetWorkspaceSize(plain, w, e); },
            aclnnTransMatmulWeight);
    aclFormat format = ACL_FORMAT_UNDEFINED;
    CHECK_OK(aclGetFormat(plain, &format));
    CHECK_EQ(format, ACL_FORMAT_FRACTAL_NZ);
    const auto *bytes = static_cast<const unsigned char *>(weight.download());
    const int64_t block = 32 / static_cast<int64_t>(size_of(dtype));
    const int64_t rows = weight.padded()[stored.size() - 2], columns = weight.padded().back();
    for (int64_t i = 0; i < batch * rows * columns; ++i) {
      const int64_t matrix = i / (rows * columns);
      const int64_t c = i / (rows * block) % (columns / block) * block + i % block;
      const int64_t r = i / block % rows;
      const double want =
          r < shape[0] && c < shape[1] ? weight.at((matrix * shape[0] + r) * shape[1] + c) : 0;
      CHECK(decode(bytes + static_cast<size_t>(i) * size_of(dtype), dtype) == want);
    }
    // The object that was converted, or another that says the same.
    aclTensor *used = turned ? weight.tensor(ACL_FORMAT_FRACTAL_NZ, true) : plain;
    const int64_t m = pick(1, 20);
    const auto element = [&](int64_t matrix, int64_t p, int64_t j) {
      return weight.at(matrix * k * n + (turned ? j * k + p : p * n + j));
    };
    if (dtype == ACL_INT8) {
      if (batch == 1) {
        Tensor x({m, k}, ACL_FLOAT16), scale({n}, ACL_FLOAT16), y({m, n}, ACL_FLOAT16);
        x.random();
        scale.random(0.01, 0.1);
        execute(
            [&](auto *w, auto *e) {
              return aclnnWeightQuantBatchMatmulV2GetWorkspaceSize(x, used, scale, nullptr, nullptr,
                                                                   nullptr, nullptr, 0, y, w, e);
            },
            aclnnWeightQuantBatchMatmulV2);
        check_values(
            y,
            [&](int64_t i) {
              double sum = 0;
              for (int64_t p = 0; p < k; ++p)
                sum += x.at({i / n, p}) * element(0, p, i % n) * scale[i % n];
              return sum;
            },
            4, 1e-4);
      }
    } else {
      const Dims left = batch == 2 ? Dims{2, m, k} : Dims{m, k};
      const Dims result = batch == 2 ? Dims{2, m, n} : Dims{m, n};
      Tensor x(left, dtype), y(result, dtype);
      x.random();
      execute([&](auto *w, auto *e) { return aclnnMatmulGetWorkspaceSize(x, used, y, 1, w, e); },
              aclnnMatmul);
      check_values(
          y,
          [&](int64_t i) {
            double sum = 0;
            for (int64_t p = 0; p < k; ++p)
              sum += x[i / n * k + p] * element(i / (m * n), p, i % n);
            return sum;
          },
          4, 2e-6);
    }
    if (used != plain) CHECK_OK(aclDestroyTensor(used));
    CHECK_OK(aclDestroyTensor(plain));
  }
  Tensor f({4, 4}, ACL_FLOAT), h({4, 4, 4, 4}, ACL_FLOAT16), v({4}, ACL_FLOAT16);
  const auto plan = [](aclTensor *weight) {
    return [=](uint64_t *w, aclOpExecutor **e) {
      return aclnnTransMatmulWeightGetWorkspaceSize(weight, w, e);
    };
  };
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnTransMatmulWeight", plan(nullptr));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnTransMatmulWeight", plan(f));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnTransMatmulWeight", plan(h));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnTransMatmulWeight", plan(v));
}

/// How many elements a tiled weight takes: whole tiles of 16 rows of 32 bytes.
void tiled_sizes() {
  uint64_t size = 0;
  Ints odd({510, 510}), batch({2, 3, 17, 33}), flat({5}), empty({0, 4});
  CHECK_OK(aclnnCalculateMatmulWeightSizeV2(odd, ACL_FLOAT16, &size));
  CHECK_EQ(size, 262144u);
  CHECK_OK(aclnnCalculateMatmulWeightSizeV2(batch, ACL_BF16, &size));
  CHECK_EQ(size, 2u * 3 * 32 * 48);
  CHECK_OK(aclnnCalculateMatmulWeightSizeV2(batch, ACL_INT8, &size));
  CHECK_EQ(size, 2u * 3 * 32 * 64);
  const auto answer = [&](const aclIntArray *shape, aclDataType dtype, uint64_t *result) {
    return aclnnCalculateMatmulWeightSizeV2(shape, dtype, result);
  };
  CHECK_EQ(answer(nullptr, ACL_FLOAT16, &size), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_EQ(answer(odd, ACL_FLOAT16, nullptr), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_EQ(answer(odd, ACL_FLOAT, &size), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(answer(flat, ACL_FLOAT16, &size), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(answer(empty, ACL_FLOAT16, &size), ACLNN_ERR_PARAM_INVALID);
}

}  // namespace

int main() {
  quantised();
  tiled();
  tiled_sizes();
  return 0;
}
