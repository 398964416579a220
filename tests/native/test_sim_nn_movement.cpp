// Operators that move elements: copies, casts, permutations, joins, slices, gathers.
#include <algorithm>
#include <limits>

#include "nn_fixture.hpp"

using namespace nn;

namespace {

const aclDataType kAll[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,  ACL_DOUBLE, ACL_INT8,
                            ACL_UINT8, ACL_INT16,   ACL_INT32, ACL_INT64,  ACL_BOOL};

void fill_small(Tensor &t) {
  if (is_floating(t.dtype())) {
    t.random(-9, 9);
  } else {
    t.random(t.dtype() == ACL_UINT8 || t.dtype() == ACL_BOOL ? 0 : -100,
             t.dtype() == ACL_BOOL ? 1 : 100);
  }
}

/// The value of one type as another, by the published rules.
double converted(double x, aclDataType to) {
  if (to == ACL_BOOL) return x != 0;
  if (is_floating(to)) return rounded(x, to);
  if (std::isnan(x)) return 0;
  return std::trunc(x);
}

void casts() {
  for (const aclDataType from : kAll) {
    for (const aclDataType to : kAll) {
      Tensor x({4, 9, 35}, from, Layout::kRandom), y({4, 9, 35}, to, Layout::kRandom);
      fill_small(x);
      if (to == ACL_UINT8 && from != ACL_UINT8) x.random(0, from == ACL_BOOL ? 1 : 100);
      execute([&](auto *w, auto *e) { return aclnnCastGetWorkspaceSize(x, to, y, w, e); },
              aclnnCast);
      check_values(y, [&](int64_t i) { return converted(x[i], to); }, 0, 0);
      execute([&](auto *w, auto *e) { return aclnnInplaceCopyGetWorkspaceSize(y, x, w, e); },
              aclnnInplaceCopy);
      check_values(y, [&](int64_t i) { return converted(x[i], to); }, 0, 0);
    }
  }
}

/// Every half-precision number, and the float32 numbers around the halves between them.
void half_precision_is_exact() {
  Tensor half({65536}, ACL_FLOAT16), wide({65536}, ACL_FLOAT);
  std::vector<uint16_t> bits(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  CHECK_OK(aclrtMemcpy(half.address(), 131072, bits.data(), 131072, ACL_MEMCPY_HOST_TO_DEVICE));
  execute([&](auto *w, auto *e) { return aclnnCastGetWorkspaceSize(half, ACL_FLOAT, wide, w, e); },
          aclnnCast);
  const auto got = wide.read();
  for (size_t i = 0; i < bits.size(); ++i)
    CHECK(close(got[i], decode(&bits[i], ACL_FLOAT16), 0, 0));

  for (const aclDataType dtype : {ACL_FLOAT16, ACL_BF16}) {
    Tensor x({40000}, ACL_FLOAT), y({40000}, dtype);
    x.fill([dtype](int64_t i) {
      const double step = dtype == ACL_FLOAT16 ? std::ldexp(1, -11) : std::ldexp(1, -8);
      const double base = std::ldexp(1 + static_cast<double>(pick(0, 2047)) * step,
                                     static_cast<int>(pick(-26, 15)));
      const double nudge = i % 3 == 0 ? 0 : std::ldexp(base, -23) * (i % 3 == 1 ? 1 : -1);
      return (i % 2 == 0 ? 1 : -1) * (base + nudge);
    });
    execute([&](auto *w, auto *e) { return aclnnCastGetWorkspaceSize(x, dtype, y, w, e); },
            aclnnCast);
    check_values(y, [&](int64_t i) { return rounded(x[i], dtype); }, 0, 0);
  }
  // Rounding twice, to float32 and then to half, would give another answer here.
  Tensor d({2}, ACL_DOUBLE), h({2}, ACL_FLOAT16), b({2}, ACL_BF16), n({1}, ACL_INT64),
      nb({1}, ACL_BF16);
  d.fill([](int64_t i) {
    return i == 0 ? 1 + std::ldexp(1, -11) + std::ldexp(1, -40)
                  : 1 + std::ldexp(1, -8) + std::ldexp(1, -40);
  });
  execute([&](auto *w, auto *e) { return aclnnCastGetWorkspaceSize(d, ACL_FLOAT16, h, w, e); },
          aclnnCast);
  execute([&](auto *w, auto *e) { return aclnnCastGetWorkspaceSize(d, ACL_BF16, b, w, e); },
          aclnnCast);
  CHECK_EQ(h.read()[0], 1 + std::ldexp(1, -10));
  CHECK_EQ(b.read()[1], 1 + std::ldexp(1, -7));
  n.fill([](int64_t) { return std::ldexp(1, 32) + std::ldexp(1, 24) + 2; });
  execute([&](auto *w, auto *e) { return aclnnCastGetWorkspaceSize(n, ACL_BF16, nb, w, e); },
          aclnnCast);
  CHECK_EQ(nb.read()[0], std::ldexp(1, 32) + std::ldexp(1, 25));
}

void casts_out_of_range() {
  const double inputs[] = {NAN, INFINITY, -INFINITY, 1e20, -1e20,
                           300, -300,     0.9,       -0.9, 2147483648.0};
  Tensor x({10}, ACL_FLOAT);
  x.fill([&](int64_t i) { return inputs[i]; });
  const auto expect = [&](aclDataType dtype, double low, double high) {
    Tensor y({10}, dtype);
    execute([&](auto *w, auto *e) { return aclnnCastGetWorkspaceSize(x, dtype, y, w, e); },
            aclnnCast);
    check_values(y, [&](int64_t i) {
      const double v = x[i];
      return std::isnan(v) ? 0 : std::trunc(std::min(std::max(v, low), high));
    });
  };
  expect(ACL_INT8, -128, 127);
  expect(ACL_UINT8, 0, 255);
  expect(ACL_INT16, -32768, 32767);
  expect(ACL_INT32, -2147483648.0, 2147483647.0);
  expect(ACL_INT64, -9223372036854775808.0,
         9223372036854775808.0);  // the nearest double to the largest
  Tensor flags({10}, ACL_BOOL);
  execute([&](auto *w, auto *e) { return aclnnCastGetWorkspaceSize(x, ACL_BOOL, flags, w, e); },
          aclnnCast);
  check_values(flags, [](int64_t) { return 1.0; });
}

void copies() {
  for (int round = 0; round < 200; ++round) {
    const aclDataType dtype = kAll[round % 10];
    Dims shape(static_cast<size_t>(pick(0, 6)));
    for (int64_t &dim : shape) dim = pick(1, 7);
    Dims narrow(shape.begin() + pick(0, static_cast<int64_t>(shape.size())), shape.end());
    for (int64_t &dim : narrow) dim = pick(0, 2) == 0 ? 1 : dim;
    Tensor to(shape, dtype, Layout::kRandom), from(narrow, dtype, Layout::kRandom);
    fill_small(from);
    execute([&](auto *w, auto *e) { return aclnnInplaceCopyGetWorkspaceSize(to, from, w, e); },
            aclnnInplaceCopy);
    check_values(to, [&](int64_t i) {
      const Dims index = index_of(shape, i);
      Dims own(index.end() - static_cast<ptrdiff_t>(narrow.size()), index.end());
      for (size_t d = 0; d < own.size(); ++d) own[d] = narrow[d] == 1 ? 0 : own[d];
      return from.at(own);
    });
  }
}

void permutations() {
  for (int round = 0; round < 120; ++round) {
    const aclDataType dtype = kAll[round % 10];
    Dims shape(static_cast<size_t>(pick(0, 5)));
    for (int64_t &dim : shape) dim = pick(1, round < 60 ? 6 : 20);
    Dims order(shape.size());
    std::iota(order.begin(), order.end(), int64_t{0});
    std::shuffle(order.begin(), order.end(), rng());
    Dims permuted(shape.size());
    for (size_t d = 0; d < shape.size(); ++d) permuted[d] = shape[static_cast<size_t>(order[d])];
    if (count(shape) > 200000) continue;
    const Layout layout = round % 2 == 0 ? Layout::kRow : Layout::kRandom;
    Tensor x(shape, dtype, layout), y(permuted, dtype, layout);
    fill_small(x);
    Dims wish = order;
    for (int64_t &axis : wish) axis -= pick(0, 1) * static_cast<int64_t>(shape.size());
    Ints dims(wish);
    execute([&](auto *w, auto *e) { return aclnnPermuteGetWorkspaceSize(x, dims, y, w, e); },
            aclnnPermute);
    check_values(y, [&](int64_t i) {
      const Dims index = index_of(permuted, i);
      Dims own(shape.size());
      for (size_t d = 0; d < shape.size(); ++d) own[static_cast<size_t>(order[d])] = index[d];
      return x.at(own);
    });
  }
  // Large transposes, in every element size, with edges that fill no tile.
  for (const aclDataType dtype : {ACL_INT8, ACL_FLOAT16, ACL_FLOAT, ACL_INT64}) {
    Tensor x({3, 131, 517}, dtype), y({3, 517, 131}, dtype);
    fill_small(x);
    Ints dims({0, 2, 1});
    execute([&](auto *w, auto *e) { return aclnnPermuteGetWorkspaceSize(x, dims, y, w, e); },
            aclnnPermute);
    check_values(y, [&](int64_t i) { return x.at({i / (517 * 131), i % 131, i / 131 % 517}); });
  }
}

void joins() {
  for (int round = 0; round < 40; ++round) {
    Dims shape(static_cast<size_t>(pick(1, 4)));
    for (int64_t &dim : shape) dim = pick(1, 6);
    const int64_t axis = pick(0, static_cast<int64_t>(shape.size()) - 1);
    const int64_t parts = pick(1, 4);
    const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_INT32};
    const aclDataType dtype = types[round % 3];
    std::vector<std::unique_ptr<Tensor>> tensors;
    std::vector<const aclTensor *> raw;
    Dims whole = shape;
    whole[static_cast<size_t>(axis)] = 0;
    for (int64_t p = 0; p < parts; ++p) {
      Dims own = shape;
      own[static_cast<size_t>(axis)] = pick(1, 5);
      whole[static_cast<size_t>(axis)] += own[static_cast<size_t>(axis)];
      // Mixed types are combined: the result holds all of them here.
      tensors.push_back(std::make_unique<Tensor>(
          own, p == 1 && dtype == ACL_FLOAT ? ACL_FLOAT16 : dtype, Layout::kRandom));
      fill_small(*tensors.back());
      raw.push_back(tensors.back()->release());
    }
    aclTensorList *list = aclCreateTensorList(raw.data(), raw.size());
    Tensor out(whole, dtype, Layout::kRandom);
    execute(
        [&](auto *w, auto *e) {
          return aclnnCatGetWorkspaceSize(
              list, round % 2 == 0 ? axis : axis - static_cast<int64_t>(shape.size()), out, w, e);
        },
        aclnnCat);
    CHECK_OK(aclDestroyTensorList(list));
    check_values(out, [&](int64_t i) {
      Dims index = index_of(whole, i);
      for (auto &tensor : tensors) {
        const int64_t own = tensor->shape()[static_cast<size_t>(axis)];
        if (index[static_cast<size_t>(axis)] < own) return tensor->at(index);
        index[static_cast<size_t>(axis)] -= own;
      }
      return std::numeric_limits<double>::quiet_NaN();
    });
  }
}

void slices_and_repeats() {
  for (int round = 0; round < 60; ++round) {
    Dims shape = {pick(1, 6), pick(1, 12), pick(1, 6)};
    const int64_t axis = pick(0, 2), n = shape[static_cast<size_t>(axis)];
    const int64_t start = pick(-n - 2, n + 2), end = pick(-n - 2, n + 2), step = pick(1, 3);
    const int64_t first = start < -n ? 0 : start >= n ? n : (start + n) % n;
    const int64_t last = end < -n ? first : end >= n ? n : std::max(first, (end + n) % n);
    Dims cut = shape;
    cut[static_cast<size_t>(axis)] = (last - first + step - 1) / step;
    Tensor x(shape, ACL_FLOAT, Layout::kRandom), y(cut, ACL_FLOAT, Layout::kRandom);
    fill_small(x);
    execute([&](auto *w,
                auto *e) { return aclnnSliceGetWorkspaceSize(x, axis, start, end, step, y, w, e); },
            aclnnSlice);
    check_values(y, [&](int64_t i) {
      Dims index = index_of(cut, i);
      index[static_cast<size_t>(axis)] = first + step * index[static_cast<size_t>(axis)];
      return x.at(index);
    });
    Dims times = {pick(1, 2), pick(1, 3), pick(1, 3), 1};
    Dims repeated = {times[0], shape[0] * times[1], shape[1] * times[2], shape[2]};
    Tensor z(repeated, ACL_FLOAT, Layout::kRandom);
    Ints repeats(times);
    execute([&](auto *w, auto *e) { return aclnnRepeatGetWorkspaceSize(x, repeats, z, w, e); },
            aclnnRepeat);
    check_values(z, [&](int64_t i) {
      const Dims index = index_of(repeated, i);
      return x.at({index[1] % shape[0], index[2] % shape[1], index[3]});
    });
  }
}

void gathers() {
  for (int round = 0; round < 60; ++round) {
    Dims shape = {pick(1, 6), pick(1, 9), pick(1, 40)};
    const int64_t axis = pick(0, 2);
    Dims where = {pick(1, 5), pick(1, 4)};
    const aclDataType dtype = kAll[round % 10];
    Tensor x(shape, dtype, Layout::kRandom),
        index(where, round % 2 == 0 ? ACL_INT32 : ACL_INT64, Layout::kRandom);
    fill_small(x);
    index.random(0, static_cast<double>(shape[static_cast<size_t>(axis)] - 1));
    Dims result(shape.begin(), shape.begin() + axis);
    result.insert(result.end(), where.begin(), where.end());
    result.insert(result.end(), shape.begin() + axis + 1, shape.end());
    Tensor y(result, dtype, Layout::kRandom);
    execute([&](auto *w,
                auto *e) { return aclnnGatherV2GetWorkspaceSize(x, axis - 3, index, y, w, e); },
            aclnnGatherV2);
    check_values(y, [&](int64_t i) {
      const Dims at = index_of(result, i);
      Dims own(at.begin(), at.begin() + axis);
      own.push_back(static_cast<int64_t>(
          index.at({at[static_cast<size_t>(axis)], at[static_cast<size_t>(axis) + 1]})));
      own.insert(own.end(), at.begin() + axis + 2, at.end());
      return x.at(own);
    });
  }
  // A table of embeddings, and one vector of indices for aclnnIndexSelect.
  Tensor table({500, 384}, ACL_FLOAT), ids({70}, ACL_INT32), rows({70, 384}, ACL_FLOAT);
  table.random();
  ids.random(0, 499);
  execute(
      [&](auto *w, auto *e) { return aclnnIndexSelectGetWorkspaceSize(table, 0, ids, rows, w, e); },
      aclnnIndexSelect);
  check_values(rows,
               [&](int64_t i) { return table.at({static_cast<int64_t>(ids[i / 384]), i % 384}); });
  // And back: rows of the table are replaced; of equal indices the last counts.
  std::vector<int64_t> winner(500, -1);
  for (int64_t i = 0; i < 70; ++i) winner[static_cast<size_t>(ids[i])] = i;
  rows.random(5, 6);
  execute([&](auto *w,
              auto *e) { return aclnnInplaceIndexCopyGetWorkspaceSize(table, 0, ids, rows, w, e); },
          aclnnInplaceIndexCopy);
  check_values(table, [&](int64_t i) {
    const int64_t from = winner[static_cast<size_t>(i / 384)];
    return from < 0 ? table[i] : rows.at({from, i % 384});
  });
  for (int round = 0; round < 20; ++round) {
    const Dims shape = {pick(2, 5), pick(4, 9), pick(1, 9)};
    const int64_t n = pick(1, 4);
    Tensor to(shape, ACL_FLOAT16, Layout::kRandom),
        from({shape[0], n, shape[2]}, ACL_FLOAT16, Layout::kRandom);
    Tensor places({n}, ACL_INT64, Layout::kRandom);
    to.random();
    from.random();
    places.fill([](int64_t i) { return static_cast<double>(3 - i); });
    execute(
        [&](auto *w, auto *e) {
          return aclnnInplaceIndexCopyGetWorkspaceSize(to, 1, places, from, w, e);
        },
        aclnnInplaceIndexCopy);
    check_values(to, [&](int64_t i) {
      Dims index = index_of(shape, i);
      for (int64_t k = 0; k < n; ++k) {
        if (static_cast<int64_t>(places[k]) == index[1]) return from.at({index[0], k, index[2]});
      }
      return to[i];
    });
  }
}

void indices_out_of_range() {
  for (const double bad : {5.0, -1.0, 1e9}) {
    // A context of its own would do: the fault stays with this stream.
    aclrtStream good = session().stream;
    CHECK_OK(aclrtCreateStream(&session().stream));
    Tensor x({5, 8}, ACL_FLOAT), index({3}, ACL_INT32), y({3, 8}, ACL_FLOAT);
    x.random();
    y.random();
    index.fill([bad](int64_t i) { return i == 2 ? bad : 0.0; });
    CHECK_EQ(launch([&](auto *w,
                        auto *e) { return aclnnGatherV2GetWorkspaceSize(x, 0, index, y, w, e); },
                    aclnnGatherV2),
             507015);
    check_values(y, [&](int64_t i) { return y[i]; });  // untouched
    CHECK_OK(aclrtDestroyStream(session().stream));
    session().stream = good;
  }
}

void refusals() {
  Tensor a({2, 3}, ACL_FLOAT), b({3, 2}, ACL_FLOAT), h({2, 3}, ACL_FLOAT16), index({4}, ACL_INT64),
      deep({2, 1, 3}, ACL_FLOAT);
  Ints swap({1, 0}), twice({0, 0}), far({0, 2}), few({0});
  const auto permute = [&](const aclIntArray *dims, aclTensor *out) {
    return [=, &a](auto *w, auto *e) { return aclnnPermuteGetWorkspaceSize(a, dims, out, w, e); };
  };
  refuse(ACLNN_ERR_PARAM_NULLPTR, "aclnnPermute", permute(nullptr, b));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnPermute", permute(twice, b));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnPermute", permute(far, b));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnPermute", permute(few, b));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnPermute", permute(swap, a));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnPermute", permute(swap, h));
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnCast",
         [&](auto *w, auto *e) { return aclnnCastGetWorkspaceSize(a, ACL_FLOAT16, b, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnCast",
         [&](auto *w, auto *e) { return aclnnCastGetWorkspaceSize(a, ACL_FLOAT, h, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnInplaceCopy",
         [&](auto *w, auto *e) { return aclnnInplaceCopyGetWorkspaceSize(a, b, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnInplaceCopy",
         [&](auto *w, auto *e) { return aclnnInplaceCopyGetWorkspaceSize(a, deep, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnGatherV2",
         [&](auto *w, auto *e) { return aclnnGatherV2GetWorkspaceSize(a, 2, index, b, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnGatherV2",
         [&](auto *w, auto *e) { return aclnnGatherV2GetWorkspaceSize(a, 0, a, b, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnGatherV2",
         [&](auto *w, auto *e) { return aclnnGatherV2GetWorkspaceSize(a, 0, index, a, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnSlice",
         [&](auto *w, auto *e) { return aclnnSliceGetWorkspaceSize(a, 0, 0, 2, 0, a, w, e); });
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnSlice",
         [&](auto *w, auto *e) { return aclnnSliceGetWorkspaceSize(a, 0, 0, 1, 1, a, w, e); });
  Tensor many({2, 2, 2, 2, 2}, ACL_FLOAT), more({4, 4, 4, 4, 4}, ACL_FLOAT);
  Ints five({2, 2, 2, 2, 2});
  refuse(ACLNN_ERR_INNER_NULLPTR, "aclnnRepeat",
         [&](auto *w, auto *e) { return aclnnRepeatGetWorkspaceSize(many, five, more, w, e); });
  // A tiled format: strides do not describe it.
  const int64_t dims[] = {16, 16};
  aclTensor *tiled =
      aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_FRACTAL_NZ, dims, 2, nullptr);
  refuse(ACLNN_ERR_PARAM_INVALID, "aclnnInplaceCopy",
         [&](auto *w, auto *e) { return aclnnInplaceCopyGetWorkspaceSize(tiled, tiled, w, e); });
  CHECK_OK(aclDestroyTensor(tiled));
  // Dimensions and strides that no memory could hold.
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40}, negative[] = {-1, 3}, one[] = {1};
  for (const int64_t *dims : {huge, negative}) {
    aclTensor *tensor =
        aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, one, 1, nullptr);
    CHECK(tensor != nullptr);
    refuse(ACLNN_ERR_PARAM_INVALID, "aclnnInplaceCopy", [&](auto *w, auto *e) {
      return aclnnInplaceCopyGetWorkspaceSize(tensor, tensor, w, e);
    });
    CHECK_OK(aclDestroyTensor(tensor));
  }
}

void empty_tensors() {
  Tensor none({0, 4}, ACL_FLOAT), cut({0, 4}, ACL_FLOAT), turned({4, 0}, ACL_FLOAT),
      some({3, 4}, ACL_FLOAT), no_index({0}, ACL_INT64);
  Ints swap({1, 0});
  execute([&](auto *w, auto *e) { return aclnnInplaceCopyGetWorkspaceSize(none, cut, w, e); },
          aclnnInplaceCopy);
  execute([&](auto *w, auto *e) { return aclnnPermuteGetWorkspaceSize(none, swap, turned, w, e); },
          aclnnPermute);
  execute([&](auto *w,
              auto *e) { return aclnnGatherV2GetWorkspaceSize(some, 0, no_index, none, w, e); },
          aclnnGatherV2);
  execute(
      [&](auto *w, auto *e) { return aclnnSliceGetWorkspaceSize(some, 0, 2, 1, 1, none, w, e); },
      aclnnSlice);
}

}  // namespace

int main() {
  casts();
  half_precision_is_exact();
  casts_out_of_range();
  copies();
  permutations();
  joins();
  slices_and_repeats();
  gathers();
  indices_out_of_range();
  refusals();
  empty_tensors();
  return 0;
}
