// Operators that pad, repeat, resize and cut out: every element must be exactly where it belongs.
#include "nn_fixture.hpp"

using namespace nn;

namespace {

const aclDataType kTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,  ACL_DOUBLE, ACL_INT8,
                              ACL_UINT8, ACL_INT16,   ACL_INT32, ACL_INT64,  ACL_BOOL};
const Layout kLayouts[] = {Layout::kRow, Layout::kRandom};

void numbers(Tensor *x) { x->dtype() == ACL_BOOL ? x->random(0, 1) : x->random(0, 100); }

void exactly(Tensor &y, const std::function<double(int64_t)> &want) { check_values(y, want, 0, 0); }

void triangles() {
  for (const aclDataType dtype : kTypes) {
    for (const Layout layout : kLayouts) {
      for (const Dims &shape : {Dims{5, 5}, Dims{3, 4, 9}, Dims{2, 2, 8, 3}}) {
        const int64_t rows = shape[shape.size() - 2], columns = shape.back();
        for (const int64_t diagonal :
             {int64_t{0}, int64_t{1}, int64_t{-2}, int64_t{100}, INT64_MIN}) {
          Tensor x(shape, dtype, layout), y(shape, dtype, layout);
          numbers(&x);
          const auto kept = [&](int64_t i, bool upper) {
            const int64_t row = i / columns % rows, column = i % columns;
            if (diagonal == INT64_MIN) return upper;
            return upper ? column - row >= diagonal : column - row <= diagonal;
          };
          execute([&](auto *w, auto *e) { return aclnnTrilGetWorkspaceSize(x, diagonal, y, w, e); },
                  aclnnTril);
          exactly(y, [&](int64_t i) { return kept(i, false) ? x[i] : 0; });
          execute([&](auto *w, auto *e) { return aclnnTriuGetWorkspaceSize(x, diagonal, y, w, e); },
                  aclnnTriu);
          exactly(y, [&](int64_t i) { return kept(i, true) ? x[i] : 0; });
          execute(
              [&](auto *w, auto *e) { return aclnnInplaceTriuGetWorkspaceSize(x, diagonal, w, e); },
              aclnnInplaceTriu);
          exactly(x, [&](int64_t i) { return kept(i, true) ? x[i] : 0; });
        }
      }
    }
  }
}

void padding() {
  struct Case {
    Dims shape, pad;
  };
  const Case cases[] = {
      {{3, 4}, {1, 2}},
      {{3, 4}, {0, 1, 2, 0}},
      {{2, 3, 4, 5}, {1, 0, 0, 2, 3, 1, 1, 1}},
      {{2, 3, 4}, {-1, 2, 0, 0, 1, -1}},  // negative numbers take away
      {{4, 4}, {-2, -1, -1, 0}},
      {{7}, {}},
      {{}, {}},
      {{0, 3}, {1, 1, 2, 0}},  // nothing but padding
  };
  for (const Case &c : cases) {
    for (const aclDataType dtype : kTypes) {
      Dims padded = c.shape;
      std::vector<int64_t> before(c.shape.size(), 0);
      for (size_t i = 0; i < c.pad.size() / 2; ++i) {
        const size_t axis = c.shape.size() - 1 - i;
        padded[axis] += c.pad[2 * i] + c.pad[2 * i + 1];
        before[axis] = c.pad[2 * i];
      }
      Tensor x(c.shape, dtype, Layout::kRandom), y(padded, dtype, Layout::kRandom);
      numbers(&x);
      Ints pad(c.pad);
      Scalar value(1, dtype);
      execute([&](auto *w,
                  auto *e) { return aclnnConstantPadNdGetWorkspaceSize(x, pad, value, y, w, e); },
              aclnnConstantPadNd);
      exactly(y, [&](int64_t i) {
        Dims index = index_of(padded, i);
        for (size_t d = 0; d < index.size(); ++d) {
          index[d] -= before[d];
          if (index[d] < 0 || index[d] >= c.shape[d]) return 1.0;
        }
        return x.at(index);
      });
    }
  }
  // Numbers of other types are padded with; a floating value becomes the tensor's type.
  Tensor x({2}, ACL_INT32), y({4}, ACL_INT32), h({2}, ACL_FLOAT16), g({4}, ACL_FLOAT16);
  numbers(&x);
  numbers(&h);
  Ints pad({1, 1});
  Scalar seven(7, ACL_INT64), third(1.0 / 3, ACL_DOUBLE), low(-1e30, ACL_FLOAT);
  execute(
      [&](auto *w, auto *e) { return aclnnConstantPadNdGetWorkspaceSize(x, pad, seven, y, w, e); },
      aclnnConstantPadNd);
  exactly(y, [&](int64_t i) { return i == 0 || i == 3 ? 7.0 : x[i - 1]; });
  for (const Scalar *value : {&third, &low}) {
    execute([&](auto *w,
                auto *e) { return aclnnConstantPadNdGetWorkspaceSize(h, pad, *value, g, w, e); },
            aclnnConstantPadNd);
    const double want = value == &low ? -INFINITY : rounded(1.0 / 3, ACL_FLOAT16);
    exactly(g, [&](int64_t i) { return i == 0 || i == 3 ? want : h[i - 1]; });
  }
}

/// Complex elements are moved whole, and padded with a complex number.
void complex_padding() {
  const float numbers[] = {1, -2, 3, -4}, value[] = {5, -6};
  float padded[8] = {};
  const int64_t two = 2, four = 4, one = 1;
  void *from = nullptr, *to = nullptr;
  CHECK_OK(aclrtMalloc(&from, sizeof numbers, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(aclrtMalloc(&to, sizeof padded, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(aclrtMemcpy(from, sizeof numbers, numbers, sizeof numbers, ACL_MEMCPY_HOST_TO_DEVICE));
  aclTensor *x = aclCreateTensor(&two, 1, ACL_COMPLEX64, &one, 0, ACL_FORMAT_ND, &two, 1, from);
  aclTensor *y = aclCreateTensor(&four, 1, ACL_COMPLEX64, &one, 0, ACL_FORMAT_ND, &four, 1, to);
  float copy[] = {value[0], value[1]};
  aclScalar *scalar = aclCreateScalar(copy, ACL_COMPLEX64);
  Ints pad({1, 1});
  execute(
      [&](auto *w, auto *e) { return aclnnConstantPadNdGetWorkspaceSize(x, pad, scalar, y, w, e); },
      aclnnConstantPadNd);
  CHECK_OK(aclrtMemcpy(padded, sizeof padded, to, sizeof padded, ACL_MEMCPY_DEVICE_TO_HOST));
  const float want[] = {5, -6, 1, -2, 3, -4, 5, -6};
  CHECK(std::memcmp(padded, want, sizeof want) == 0);
  CHECK_OK(aclDestroyScalar(scalar));
  CHECK_OK(aclDestroyTensor(x));
  CHECK_OK(aclDestroyTensor(y));
  CHECK_OK(aclrtFree(from));
  CHECK_OK(aclrtFree(to));
}

void reflections() {
  for (const aclDataType dtype : kTypes) {
    for (const Dims &shape : {Dims{3, 5}, Dims{2, 3, 9}, Dims{1, 1}}) {
      const int64_t n = shape.back();
      for (const Dims &pad : {Dims{n - 1, n - 1}, Dims{0, n - 1}, Dims{n / 2, 0}, Dims{-1, 2}}) {
        if (pad[0] < 0 && n < 4) continue;
        Dims padded = shape;
        padded.back() += pad[0] + pad[1];
        Tensor x(shape, dtype, Layout::kRandom), y(padded, dtype, Layout::kRandom);
        numbers(&x);
        Ints both(pad);
        execute([&](auto *w,
                    auto *e) { return aclnnReflectionPad1dGetWorkspaceSize(x, both, y, w, e); },
                aclnnReflectionPad1d);
        exactly(y, [&](int64_t i) {
          Dims index = index_of(padded, i);
          int64_t at = std::abs(index.back() - pad[0]);
          if (at >= n) at = 2 * (n - 1) - at;
          index.back() = at;
          return x.at(index);
        });
      }
    }
  }
}

void repeats() {
  for (const aclDataType dtype : kTypes) {
    if (dtype == ACL_DOUBLE) continue;
    for (int64_t axis = 0; axis < 3; ++axis) {
      for (const int64_t times : {0, 1, 3}) {
        const Dims shape{2, 3, 5};
        Dims repeated = shape;
        const auto d = static_cast<size_t>(axis);
        repeated[d] *= times;
        Tensor x(shape, dtype, Layout::kRandom), y(repeated, dtype, Layout::kRandom);
        numbers(&x);
        execute(
            [&](auto *w, auto *e) {
              return aclnnRepeatInterleaveIntWithDimGetWorkspaceSize(x, times, axis - 3,
                                                                     repeated[d], y, w, e);
            },
            aclnnRepeatInterleaveIntWithDim);
        exactly(y, [&](int64_t i) {
          Dims index = index_of(repeated, i);
          index[d] /= times;
          return x.at(index);
        });
      }
    }
  }
}

void resizing() {
  for (const aclDataType dtype : {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE, ACL_UINT8}) {
    for (const Layout layout : kLayouts) {
      for (const bool last : {false, true}) {
        for (const Dims &size : {Dims{10, 14}, Dims{5, 7}, Dims{2, 3}, Dims{8, 11}, Dims{15, 7}}) {
          const Dims from = last ? Dims{2, 5, 7, 3} : Dims{2, 3, 5, 7};
          const Dims to = last ? Dims{2, size[0], size[1], 3} : Dims{2, 3, size[0], size[1]};
          const aclFormat format = last ? ACL_FORMAT_NHWC : ACL_FORMAT_NCHW;
          Tensor x(from, dtype, layout, format), y(to, dtype, layout, format);
          numbers(&x);
          Ints output(size);
          execute(
              [&](auto *w, auto *e) {
                return aclnnUpsampleNearest2dGetWorkspaceSize(x, output, y, w, e);
              },
              aclnnUpsampleNearest2d);
          const size_t height = last ? 1 : 2;
          exactly(y, [&](int64_t i) {
            Dims index = index_of(to, i);
            index[height] = index[height] * 5 / size[0];
            index[height + 1] = index[height + 1] * 7 / size[1];
            return x.at(index);
          });
        }
      }
    }
  }
}

void refusals() {
  Tensor x({2, 3}, ACL_FLOAT), h({2, 3}, ACL_FLOAT16), row({3}, ACL_FLOAT), wide({2, 5}, ACL_FLOAT),
      image({1, 1, 2, 2}, ACL_FLOAT, Layout::kRow, ACL_FORMAT_NCHW),
      large({1, 1, 4, 4}, ACL_FLOAT, Layout::kRow, ACL_FORMAT_NCHW), plain({1, 1, 2, 2}, ACL_FLOAT);
  Ints pad({1, 1}), odd({1}), many({0, 0, 0, 0, 0, 0}), less({-2, -2}), far({3, 0}), four({4, 4}),
      zero({0, 4}), three({4, 4, 4});
  Scalar value(0, ACL_FLOAT);
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnTril",
         [&](auto *w, auto *e) { return aclnnTrilGetWorkspaceSize(x, 0, nullptr, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnTril",
         [&](auto *w, auto *e) { return aclnnTrilGetWorkspaceSize(row, 0, row, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnTriu",
         [&](auto *w, auto *e) { return aclnnTriuGetWorkspaceSize(x, 0, h, w, e); });
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnInplaceTriu",
         [&](auto *w, auto *e) { return aclnnInplaceTriuGetWorkspaceSize(nullptr, 0, w, e); });
  const auto padded = [&](const aclIntArray *p, const aclScalar *v, aclTensor *out) {
    return [=, &x](auto *w, auto *e) {
      return aclnnConstantPadNdGetWorkspaceSize(x, p, v, out, w, e);
    };
  };
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnConstantPadNd", padded(nullptr, value, wide));
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnConstantPadNd", padded(pad, nullptr, wide));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnConstantPadNd", padded(odd, value, wide));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnConstantPadNd", padded(many, value, x));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnConstantPadNd", padded(less, value, x));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnConstantPadNd", padded(pad, value, x));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnConstantPadNd", padded(pad, value, h));
  const auto reflected = [&](const aclTensor *self, const aclIntArray *p, aclTensor *out) {
    return
        [=](auto *w, auto *e) { return aclnnReflectionPad1dGetWorkspaceSize(self, p, out, w, e); };
  };
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnReflectionPad1d", reflected(x, nullptr, wide));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnReflectionPad1d", reflected(x, far, x));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnReflectionPad1d", reflected(x, less, x));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnReflectionPad1d", reflected(x, pad, x));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnReflectionPad1d", reflected(row, pad, row));
  const auto repeated = [&](int64_t times, int64_t dim, int64_t size, aclTensor *out) {
    return [=, &x](auto *w, auto *e) {
      return aclnnRepeatInterleaveIntWithDimGetWorkspaceSize(x, times, dim, size, out, w, e);
    };
  };
  const char *name = "aclnnRepeatInterleaveIntWithDim";
  refuse(ACLNN_ERR_PARAM_NULLPTR, name, repeated(1, 0, 2, nullptr));
  refuse(ACLNN_ERR_PARAM_INVALID, name, repeated(-1, 0, -2, x));
  refuse(ACLNN_ERR_PARAM_INVALID, name, repeated(1, 2, 2, x));
  refuse(ACLNN_ERR_PARAM_INVALID, name, repeated(1, 0, 3, x));
  refuse(ACLNN_ERR_PARAM_INVALID, name, repeated(2, 0, 4, x));
  refuse(ACLNN_ERR_PARAM_INVALID, name, repeated(INT64_MAX, 0, -2, x));
  const auto resized = [&](const aclTensor *self, const aclIntArray *size, aclTensor *out) {
    return [=](auto *w, auto *e) {
      return aclnnUpsampleNearest2dGetWorkspaceSize(self, size, out, w, e);
    };
  };
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnUpsampleNearest2d", resized(nullptr, four, large));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnUpsampleNearest2d", resized(plain, four, plain));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnUpsampleNearest2d", resized(image, zero, large));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnUpsampleNearest2d", resized(image, three, large));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnUpsampleNearest2d", resized(image, four, image));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnUpsampleNearest2d", resized(x, four, large));
}

}  // namespace

int main() {
  triangles();
  padding();
  complex_padding();
  reflections();
  repeats();
  resizing();
  refusals();
  return 0;
}
