// Rotary position embedding and attention against double.
#include <cstring>

#include "nn_fixture.hpp"

using namespace nn;

namespace {

void rotary() {
  for (int round = 0; round < 60; ++round) {
    const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
    const aclDataType dtype = types[round % 3];
    const Layout layout = round % 2 == 0 ? Layout::kRow : Layout::kRandom;
    const int mode = round / 3 % 2;
    const Dims shape = {pick(1, 3), pick(1, 5), pick(1, 4), 2 * pick(1, 40)};
    Dims angles = shape;
    for (int d = 0; d < 3; ++d) {
      if (pick(0, 1) == 1) angles[static_cast<size_t>(d)] = 1;
    }
    Tensor x(shape, dtype, layout), cos(angles, dtype, layout), sin(angles, dtype, layout),
        y(shape, dtype, layout);
    x.random();
    cos.random();
    sin.random();
    execute(
        [&](auto *w, auto *e) {
          return aclnnRotaryPositionEmbeddingGetWorkspaceSize(x, cos, sin, mode, y, w, e);
        },
        aclnnRotaryPositionEmbedding);
    const int64_t width = shape[3], half = width / 2;
    check_values(
        y,
        [&](int64_t i) {
          Dims at(4), angle(4);
          for (int d = 3; d >= 0; --d) {
            const auto s = static_cast<size_t>(d);
            at[s] = i % shape[s];
            i /= shape[s];
            angle[s] = angles[s] == 1 ? 0 : at[s];
          }
          Dims other = at;
          const int64_t c = at[3];
          const bool first = mode == 0 ? c < half : c % 2 == 0;
          other[3] = mode == 0 ? (first ? c + half : c - half) : (first ? c + 1 : c - 1);
          return x.at(at) * cos.at(angle) + (first ? -1 : 1) * x.at(other) * sin.at(angle);
        },
        4, 2e-7);
  }
  Tensor x({1, 2, 3, 8}, ACL_FLOAT), cos({1, 1, 3, 8}, ACL_FLOAT), half({1, 2, 3, 8}, ACL_FLOAT16);
  Tensor odd({1, 2, 3, 7}, ACL_FLOAT), flat({2, 8}, ACL_FLOAT), wrong({1, 1, 2, 8}, ACL_FLOAT);
  const auto plan = [&](aclTensor *a, aclTensor *c, aclTensor *s, int64_t mode, aclTensor *o) {
    return [=](uint64_t *w, aclOpExecutor **e) {
      return aclnnRotaryPositionEmbeddingGetWorkspaceSize(a, c, s, mode, o, w, e);
    };
  };
  const char *op = "aclnnRotaryPositionEmbedding";
  refuse(ACLNN_ERR_PARAM_NULLPTR, op, plan(nullptr, cos, cos, 0, x));
  refuse(ACLNN_ERR_PARAM_NULLPTR, op, plan(x, cos, cos, 0, nullptr));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, cos, cos, 4, x));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, cos, cos, 0, half));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(odd, odd, odd, 0, odd));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(flat, flat, flat, 0, flat));
  refuse(ACLNN_ERR_PARAM_INVALID, op, plan(x, wrong, wrong, 0, x));
}

/// One call, with what most cases leave alone.
struct Attention {
  std::string layout = "BNSD";
  int64_t batch = 1, heads = 1, key_heads = 1, queries = 1, keys = 1, width = 16, value_width = 16;
  aclDataType dtype = ACL_FLOAT16;
  double scale = 0.25;
  int64_t sparse = 0, before = INT32_MAX, after = INT32_MAX, precise = 0, block = 0, mode = 0;
  bool lse = false;
  Tensor *shift = nullptr, *mask = nullptr, *key_scale = nullptr, *value_scale = nullptr,
         *key_offset = nullptr, *value_offset = nullptr, *both_scales = nullptr, *table = nullptr,
         *out_scale = nullptr, *key_prefix = nullptr, *value_prefix = nullptr;
  aclIntArray *lengths = nullptr, *key_lengths = nullptr;

  Dims shape(int64_t b, int64_t n, int64_t s, int64_t d) const {
    if (layout == "BSH") return {b, s, n * d};
    if (layout == "BSND") return {b, s, n, d};
    return {b, n, s, d};
  }

  Plan plan(Tensor &q, aclTensorList *k, aclTensorList *v, Tensor &out, Tensor *lse_out) {
    const auto get = [](Tensor *t) { return t == nullptr ? nullptr : t->get(); };
    return [=, &q, &out](uint64_t *w, aclOpExecutor **e) {
      return aclnnFusedInferAttentionScoreV2GetWorkspaceSize(
          q, k, v, get(shift), get(mask), lengths, key_lengths, nullptr, nullptr, nullptr,
          get(out_scale), nullptr, get(both_scales), nullptr, get(table), nullptr, nullptr,
          get(key_scale), get(key_offset), get(value_scale), get(value_offset), get(key_prefix),
          get(value_prefix), nullptr, heads, scale, before, after,
          const_cast<char *>(layout.c_str()), key_heads, sparse, precise, block, mode, lse, mode,
          mode, out, get(lse_out), w, e);
    };
  }
};

/// Element [b, n, s, d] of a tensor in one of the layouts.
double element(const Attention &a, Tensor &t, int64_t heads, int64_t b, int64_t n, int64_t s,
               int64_t d) {
  if (a.layout == "BSH") {
    const int64_t width = t.shape()[2] / heads;
    return t.at({b, s, n * width + d});
  }
  if (a.layout == "BSND") return t.at({b, s, n, d});
  return t.at({b, n, s, d});
}

using Pick = std::function<double(int64_t b, int64_t n, int64_t s, int64_t d)>;
using Score = std::function<double(int64_t b, int64_t n, int64_t q, int64_t k, double score)>;

/// Everything in double; `adjust` answers -infinity for what is not seen.
void check_attention(const Attention &a, Tensor &out, Tensor *lse, const Pick &q, const Pick &k,
                     const Pick &v, int64_t keys, const Score &adjust, double tolerance = 2e-3) {
  const auto got = out.read();
  const auto got_lse = lse == nullptr ? std::vector<double>() : lse->read();
  const bool turned = a.layout == "BNSD_BSND" || a.layout == "BSND" || a.layout == "BSH";
  for (int64_t b = 0; b < a.batch; ++b) {
    for (int64_t n = 0; n < a.heads; ++n) {
      const int64_t key_head = n / (a.heads / a.key_heads);
      for (int64_t s = 0; s < a.queries; ++s) {
        std::vector<double> weights(static_cast<size_t>(keys));
        double largest = -INFINITY, sum = 0;
        for (int64_t j = 0; j < keys; ++j) {
          double score = 0;
          for (int64_t d = 0; d < a.width; ++d) score += q(b, n, s, d) * k(b, key_head, j, d);
          weights[static_cast<size_t>(j)] = adjust(b, n, s, j, score * a.scale);
          largest = std::max(largest, weights[static_cast<size_t>(j)]);
        }
        for (double &weight : weights) {
          weight = largest == -INFINITY ? 0 : std::exp(weight - largest);
          sum += weight;
        }
        if (lse != nullptr) {
          const double want = sum == 0 ? INFINITY : largest + std::log(sum);
          CHECK(close(got_lse[static_cast<size_t>((b * a.heads + n) * a.queries + s)], want, 1e-3,
                      1e-3));
        }
        for (int64_t d = 0; d < a.value_width; ++d) {
          double want = 0;
          for (int64_t j = 0; j < keys; ++j)
            want += weights[static_cast<size_t>(j)] * v(b, key_head, j, d);
          want = sum == 0 ? 0 : want / sum;
          const int64_t at = turned ? ((b * a.queries + s) * a.heads + n) * a.value_width + d
                                    : ((b * a.heads + n) * a.queries + s) * a.value_width + d;
          const double value = got[static_cast<size_t>(at)];
          if (!close(value, want, tolerance, tolerance)) {
            std::fprintf(stderr, "%s: [%d, %d, %d, %d] is %g, not %g\n", a.layout.c_str(),
                         static_cast<int>(b), static_cast<int>(n), static_cast<int>(s),
                         static_cast<int>(d), value, want);
          }
          CHECK(close(value, want, tolerance, tolerance));
        }
      }
    }
  }
}

aclTensorList *list_of(std::initializer_list<Tensor *> tensors) {
  std::vector<aclTensor *> members;
  for (Tensor *t : tensors) members.push_back(t->release());
  return aclCreateTensorList(members.data(), members.size());
}

/// Layouts, groups of heads, widths, lengths, masks, shifts, bands.
void attention() {
  for (int round = 0; round < 48; ++round) {
    Attention a;
    const char *layouts[] = {"BNSD", "BSND", "BSH", "BNSD_BSND"};
    a.layout = layouts[round % 4];
    a.dtype = round % 3 == 0 ? ACL_BF16 : ACL_FLOAT16;
    a.batch = pick(1, 2);
    a.key_heads = pick(1, 2);
    a.heads = a.key_heads * pick(1, 3);
    a.queries = round % 5 == 0 ? 1 : pick(2, 40);
    a.keys = round % 18 == 0 ? pick(500, 700) : pick(1, 60);
    a.width = 16 * pick(1, 3);
    a.value_width = round % 6 == 0 ? 32 : a.width;
    a.lse = round % 2 == 0;
    const bool bsnd_out = a.layout == "BNSD_BSND";
    const auto layout = round % 8 < 4 ? Layout::kRow : Layout::kRandom;
    Tensor q(a.shape(a.batch, a.heads, a.queries, a.width), a.dtype, layout),
        k(a.shape(a.batch, a.key_heads, a.keys, a.width), a.dtype, layout),
        v(a.shape(a.batch, a.key_heads, a.keys, a.value_width), a.dtype, layout);
    Tensor out(bsnd_out ? Dims{a.batch, a.queries, a.heads, a.value_width}
                        : a.shape(a.batch, a.heads, a.queries, a.value_width),
               a.dtype, layout);
    Tensor lse({a.batch, a.heads, a.queries, 1}, ACL_FLOAT);
    q.random(-2, 2);
    k.random(-2, 2);
    v.random();
    const Dims wide = {a.batch, a.heads, a.queries, a.keys};
    Tensor shift(wide, a.dtype, layout), mask({a.batch, 1, a.queries, a.keys}, ACL_BOOL, layout);
    shift.fill([&](int64_t) { return pick(0, 9) == 0 ? -INFINITY : uniform(-1, 1); });
    mask.fill([&](int64_t) { return pick(0, 3) == 0; });
    if (round % 3 == 1) a.shift = &shift;
    if (round % 4 == 1 || round % 9 == 0) a.mask = &mask;
    const bool banded = a.mask != nullptr && a.queries > 1 && pick(0, 1) == 1;
    if (banded) {
      a.before = pick(0, 20);
      a.after = pick(0, 20);
    }
    Dims ends, key_ends;
    for (int64_t b = 0; b < a.batch; ++b) {
      ends.push_back(pick(0, a.queries));
      key_ends.push_back(pick(0, a.keys));
    }
    Ints lengths(ends), key_lengths(key_ends);
    const bool cut = round % 5 == 2;
    if (cut) {
      a.lengths = lengths;
      a.key_lengths = key_lengths;
    }
    aclTensorList *keys = list_of({&k}), *values = list_of({&v});
    execute(a.plan(q, keys, values, out, a.lse ? &lse : nullptr), aclnnFusedInferAttentionScoreV2);
    check_attention(
        a, out, a.lse ? &lse : nullptr, [&](auto... i) { return element(a, q, a.heads, i...); },
        [&](auto... i) { return element(a, k, a.key_heads, i...); },
        [&](auto... i) { return element(a, v, a.key_heads, i...); }, a.keys,
        [&](int64_t b, int64_t n, int64_t s, int64_t j, double score) -> double {
          if (cut && (j >= key_ends[static_cast<size_t>(b)] ||
                      (a.queries > 1 && s >= ends[static_cast<size_t>(b)])))
            return -INFINITY;
          if (a.mask != nullptr && mask.at({b, 0, s, j}) != 0) return -INFINITY;
          if (banded && (j < s - a.before || j > s + a.after)) return -INFINITY;
          return a.shift != nullptr ? score + shift.at({b, n, s, j}) : score;
        },
        a.dtype == ACL_BF16 ? 8e-3 : 2e-3);
    CHECK_OK(aclDestroyTensorList(keys));
    CHECK_OK(aclDestroyTensorList(values));
  }
}

/// The modes that take one causal mask for all sizes.
void causal() {
  Tensor mask({1, 2048, 2048}, ACL_INT8);
  mask.fill([](int64_t i) { return i % 2048 > i / 2048; });
  for (int round = 0; round < 9; ++round) {
    Attention a;
    a.sparse = 2 + round % 3;
    a.queries = pick(2, 20);
    a.keys = pick(1, 30);
    a.heads = 2;
    a.mask = &mask;
    a.lse = true;
    a.before = pick(0, 9);
    a.after = pick(0, 9);
    Tensor q({1, 2, a.queries, 16}, ACL_FLOAT16), k({1, 1, a.keys, 16}, ACL_FLOAT16),
        v({1, 1, a.keys, 16}, ACL_FLOAT16), out({1, 2, a.queries, 16}, ACL_FLOAT16),
        lse({1, 2, a.queries, 1}, ACL_FLOAT);
    q.random();
    k.random();
    v.random();
    aclTensorList *keys = list_of({&k}), *values = list_of({&v});
    execute(a.plan(q, keys, values, out, &lse), aclnnFusedInferAttentionScoreV2);
    check_attention(
        a, out, &lse, [&](auto... i) { return element(a, q, 2, i...); },
        [&](auto... i) { return element(a, k, 1, i...); },
        [&](auto... i) { return element(a, v, 1, i...); }, a.keys,
        [&](int64_t, int64_t, int64_t s, int64_t j, double score) -> double {
          const int64_t diagonal = s + (a.sparse == 2 ? 0 : a.keys - a.queries);
          const bool seen =
              a.sparse == 4 ? j >= diagonal - a.before && j <= diagonal + a.after : j <= diagonal;
          return seen ? score : -INFINITY;
        });
    CHECK_OK(aclDestroyTensorList(keys));
    CHECK_OK(aclDestroyTensorList(values));
  }
}

/// Pages in any order, in both layouts; lists of tensors; a prefix that sequences share.
void sources() {
  for (int round = 0; round < 4; ++round) {
    Attention a;
    a.batch = 2;
    a.heads = 4;
    a.key_heads = 2;
    a.queries = round < 2 ? 1 : 3;
    a.keys = 300;
    a.block = 128;
    const bool flat = round % 2 == 0;
    const int64_t pages = 7;
    Tensor q({2, 4, a.queries, 16}, ACL_FLOAT16), out({2, 4, a.queries, 16}, ACL_FLOAT16);
    const Dims shape = flat ? Dims{pages, 128, 32} : Dims{pages, 2, 128, 16};
    Tensor k(shape, ACL_FLOAT16), v(shape, ACL_FLOAT16), table({2, 3}, ACL_INT32);
    q.random();
    k.random();
    v.random();
    const int64_t order[] = {6, 1, 4, 0, 5, 2};
    table.fill([&](int64_t i) { return static_cast<double>(order[i]); });
    const Dims ends = {300, 130};
    Ints lengths(ends);
    a.key_lengths = lengths;
    a.table = &table;
    const auto from = [&](Tensor &t) {
      return [&](int64_t b, int64_t n, int64_t s, int64_t d) {
        const int64_t page = order[b * 3 + s / 128];
        return flat ? t.at({page, s % 128, n * 16 + d}) : t.at({page, n, s % 128, d});
      };
    };
    aclTensorList *keys = list_of({&k}), *values = list_of({&v});
    execute(a.plan(q, keys, values, out, nullptr), aclnnFusedInferAttentionScoreV2);
    check_attention(
        a, out, nullptr, [&](auto... i) { return element(a, q, 4, i...); }, from(k), from(v),
        a.keys,
        [&](int64_t b, int64_t, int64_t, int64_t j, double score) -> double {
          return j < ends[static_cast<size_t>(b)] ? score : -INFINITY;
        });
    // A page that does not exist is found before anything is written.
    table.fill([&](int64_t) { return 7; });
    CHECK_EQ(launch(a.plan(q, keys, values, out, nullptr), aclnnFusedInferAttentionScoreV2),
             507015);
    CHECK_OK(aclDestroyTensorList(keys));
    CHECK_OK(aclDestroyTensorList(values));
  }

  Attention a;
  a.batch = 2;
  a.queries = 5;
  Tensor q({2, 1, 5, 16}, ACL_FLOAT16), out({2, 1, 5, 16}, ACL_FLOAT16);
  Tensor k0({1, 1, 9, 16}, ACL_FLOAT16), k1({1, 1, 4, 16}, ACL_FLOAT16);
  Tensor v0({1, 1, 9, 16}, ACL_FLOAT16), v1({1, 1, 4, 16}, ACL_FLOAT16);
  for (Tensor *t : {&q, &k0, &k1, &v0, &v1}) t->random();
  const auto listed = [](Tensor &first, Tensor &second) {
    return [&](int64_t b, int64_t n, int64_t s, int64_t d) {
      return b == 0 ? first.at({0, n, s, d}) : s < 4 ? second.at({0, n, s, d}) : 0;
    };
  };
  aclTensorList *keys = list_of({&k0, &k1}), *values = list_of({&v0, &v1});
  execute(a.plan(q, keys, values, out, nullptr), aclnnFusedInferAttentionScoreV2);
  check_attention(
      a, out, nullptr, [&](auto... i) { return element(a, q, 1, i...); }, listed(k0, k1),
      listed(v0, v1), 9,
      [](int64_t b, int64_t, int64_t, int64_t j, double score) -> double {
        return b == 0 || j < 4 ? score : -INFINITY;
      });
  CHECK_OK(aclDestroyTensorList(keys));
  CHECK_OK(aclDestroyTensorList(values));

  Tensor k({2, 1, 6, 16}, ACL_FLOAT16), v({2, 1, 6, 16}, ACL_FLOAT16),
      key_prefix({1, 1, 3, 16}, ACL_FLOAT16), value_prefix({1, 1, 3, 16}, ACL_FLOAT16);
  for (Tensor *t : {&k, &v, &key_prefix, &value_prefix}) t->random();
  a.key_prefix = &key_prefix;
  a.value_prefix = &value_prefix;
  const auto both = [](Tensor &prefix, Tensor &rest) {
    return [&](int64_t b, int64_t n, int64_t s, int64_t d) {
      return s < 3 ? prefix.at({0, n, s, d}) : rest.at({b, n, s - 3, d});
    };
  };
  keys = list_of({&k});
  values = list_of({&v});
  execute(a.plan(q, keys, values, out, nullptr), aclnnFusedInferAttentionScoreV2);
  check_attention(
      a, out, nullptr, [&](auto... i) { return element(a, q, 1, i...); }, both(key_prefix, k),
      both(value_prefix, v), 9,
      [](int64_t, int64_t, int64_t, int64_t, double score) -> double { return score; });
  CHECK_OK(aclDestroyTensorList(keys));
  CHECK_OK(aclDestroyTensorList(values));
}

/// int8 keys and values with scales of every kind; int8 results.
void quantised() {
  for (int round = 0; round < 8; ++round) {
    Attention a;
    a.batch = 2;
    a.heads = a.key_heads = 2;
    a.queries = round % 2 == 0 ? 1 : 4;
    a.keys = 6;
    a.width = a.value_width = 32;
    a.mode = round < 4 ? 0 : 1;
    const bool shared = round % 4 < 2;
    const bool tokens = a.mode == 1;
    Tensor q({2, 2, a.queries, 32}, ACL_FLOAT16), k({2, 2, 6, 32}, ACL_INT8),
        v({2, 2, 6, 32}, ACL_INT8), out({2, 2, a.queries, 32}, ACL_FLOAT16);
    const Dims one = tokens ? Dims{2, 6} : Dims{2, 32};
    Dims pair = one;
    pair.insert(pair.begin(), 2);
    const aclDataType type = tokens ? ACL_FLOAT : ACL_FLOAT16;
    Tensor both(pair, type), key_scale(one, type), value_scale(one, type), key_offset(one, type),
        value_offset(one, type);
    q.random();
    k.random(-100, 100);
    v.random(-100, 100);
    both.random(0.005, 0.02);
    for (Tensor *t : {&key_scale, &value_scale}) t->random(0.005, 0.02);
    for (Tensor *t : {&key_offset, &value_offset}) t->random(-9, 9);
    if (shared) {
      a.both_scales = &both;
    } else {
      a.key_scale = &key_scale;
      a.value_scale = &value_scale;
      a.key_offset = &key_offset;
      a.value_offset = &value_offset;
    }
    const auto number = [&](Tensor &t, Tensor &scale, Tensor &offset, int64_t half) {
      return [&, half](int64_t b, int64_t n, int64_t s, int64_t d) {
        const int64_t first = tokens ? b : n, second = tokens ? s : d;
        if (shared) return t.at({b, n, s, d}) * both.at({half, first, second});
        return (t.at({b, n, s, d}) + offset.at({first, second})) * scale.at({first, second});
      };
    };
    aclTensorList *keys = list_of({&k}), *values = list_of({&v});
    execute(a.plan(q, keys, values, out, nullptr), aclnnFusedInferAttentionScoreV2);
    check_attention(
        a, out, nullptr, [&](auto... i) { return element(a, q, 2, i...); },
        number(k, key_scale, key_offset, 0), number(v, value_scale, value_offset, 1), 6,
        [](int64_t, int64_t, int64_t, int64_t, double score) -> double { return score; });
    CHECK_OK(aclDestroyTensorList(keys));
    CHECK_OK(aclDestroyTensorList(values));
  }
  Attention a;
  Tensor q({1, 1, 2, 32}, ACL_FLOAT16), k({1, 1, 3, 32}, ACL_FLOAT16),
      v({1, 1, 3, 32}, ACL_FLOAT16), out({1, 1, 2, 32}, ACL_INT8), scale({1}, ACL_FLOAT);
  for (Tensor *t : {&q, &k, &v}) t->random();
  scale.fill([](int64_t) { return 100; });
  a.queries = 2;
  a.width = a.value_width = 32;
  a.keys = 3;
  a.out_scale = &scale;
  aclTensorList *keys = list_of({&k}), *values = list_of({&v});
  execute(a.plan(q, keys, values, out, nullptr), aclnnFusedInferAttentionScoreV2);
  check_attention(
      a, out, nullptr, [&](auto... i) { return element(a, q, 1, i...); },
      [&](auto... i) { return element(a, k, 1, i...); },
      [&](int64_t b, int64_t n, int64_t s, int64_t d) { return 100 * v.at({b, n, s, d}); }, 3,
      [](int64_t, int64_t, int64_t, int64_t, double score) -> double { return score; }, 0.51);
  CHECK_OK(aclDestroyTensorList(keys));
  CHECK_OK(aclDestroyTensorList(values));
}

/// Sequences one after the other in one axis.
void packed() {
  Attention a;
  a.layout = "TND";
  a.heads = a.key_heads = 2;
  const Dims ends = {2, 2, 7}, key_ends = {4, 5, 11};
  Ints lengths(ends), key_lengths(key_ends);
  a.lengths = lengths;
  a.key_lengths = key_lengths;
  Tensor q({7, 2, 16}, ACL_FLOAT16), k({11, 2, 16}, ACL_FLOAT16), v({11, 2, 16}, ACL_FLOAT16),
      out({7, 2, 16}, ACL_FLOAT16);
  for (Tensor *t : {&q, &k, &v}) t->random();
  aclTensorList *keys = list_of({&k}), *values = list_of({&v});
  execute(a.plan(q, keys, values, out, nullptr), aclnnFusedInferAttentionScoreV2);
  const auto got = out.read();
  for (int64_t t = 0; t < 7; ++t) {
    const int64_t from = t < 2 ? 0 : 5, to = t < 2 ? 4 : 11;
    for (int64_t n = 0; n < 2; ++n) {
      std::vector<double> want(16, 0.0);
      double sum = 0;
      for (int64_t j = from; j < to; ++j) {
        double score = 0;
        for (int64_t d = 0; d < 16; ++d) score += q.at({t, n, d}) * k.at({j, n, d});
        const double weight = std::exp(score * a.scale);
        sum += weight;
        for (int64_t d = 0; d < 16; ++d) want[static_cast<size_t>(d)] += weight * v.at({j, n, d});
      }
      for (int64_t d = 0; d < 16; ++d) {
        CHECK(close(got[static_cast<size_t>((t * 2 + n) * 16 + d)],
                    want[static_cast<size_t>(d)] / sum, 2e-3, 2e-3));
      }
    }
  }
  CHECK_OK(aclDestroyTensorList(keys));
  CHECK_OK(aclDestroyTensorList(values));
}

void refused_attention() {
  const char *op = "aclnnFusedInferAttentionScoreV2";
  Tensor q({1, 2, 3, 16}, ACL_FLOAT16), k({1, 2, 4, 16}, ACL_FLOAT16),
      v({1, 2, 4, 16}, ACL_FLOAT16), out({1, 2, 3, 16}, ACL_FLOAT16),
      floats({1, 2, 3, 16}, ACL_FLOAT), bf16({1, 2, 3, 16}, ACL_BF16),
      short_mask({1, 1, 3, 3}, ACL_BOOL), float_mask({1, 1, 3, 4}, ACL_FLOAT);
  aclTensorList *keys = list_of({&k}), *values = list_of({&v});
  Attention a;
  a.heads = a.key_heads = 2;
  a.queries = 3;
  a.keys = 4;
  refuse(ACLNN_ERR_PARAM_NULLPTR, op, a.plan(q, nullptr, values, out, nullptr));
  refuse(ACLNN_ERR_PARAM_NULLPTR, op, a.plan(q, keys, nullptr, out, nullptr));
  refuse(ACLNN_ERR_PARAM_INVALID, op, a.plan(floats, keys, values, out, nullptr));
  refuse(ACLNN_ERR_PARAM_INVALID, op, a.plan(bf16, keys, values, out, nullptr));
  refuse(ACLNN_ERR_PARAM_INVALID, op, a.plan(q, keys, values, floats, nullptr));
  const auto with = [&](const std::function<void(Attention &)> &change) {
    Attention other = a;
    change(other);
    refuse(ACLNN_ERR_PARAM_INVALID, op, other.plan(q, keys, values, out, nullptr));
  };
  with([](Attention &o) { o.layout = "SBH"; });
  with([](Attention &o) { o.layout = "BSH"; });
  with([](Attention &o) { o.heads = 3; });
  with([](Attention &o) { o.key_heads = 1; });
  with([](Attention &o) { o.sparse = 5; });
  with([](Attention &o) { o.sparse = 1; });
  with([](Attention &o) { o.precise = 4; });
  with([&](Attention &o) { o.mask = &short_mask; });
  with([&](Attention &o) { o.mask = &float_mask; });
  Ints too_long({5});
  with([&](Attention &o) { o.key_lengths = too_long; });
  CHECK_OK(aclDestroyTensorList(keys));
  CHECK_OK(aclDestroyTensorList(values));
}

}  // namespace

int main() {
  rotary();
  attention();
  causal();
  sources();
  quantised();
  packed();
  refused_attention();
  return 0;
}
