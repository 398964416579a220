#include "sim/kernels/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sim/aclnn/executor.hpp"
#include "sim/kernels/copy.hpp"
#include "sim/kernels/matmul.hpp"
#include "sim/kernels/row_access.hpp"

namespace aiocann::sim {
namespace {

/// Queries (of all heads that share keys) and keys that are worked on at once.
constexpr int64_t kRows = 64, kKeys = 512;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

struct Sequence {
  int64_t query_start, query_length, key_start, key_length;
};

/// Part of the matrix at [batch, head] of a view: rows [first, first + count).
View rows_of(const View &view, int64_t batch, int64_t head, int64_t first, int64_t count) {
  View part = row_part(view, 2);
  part.data += (batch * view.stride[0] + head * view.stride[1] + first * view.stride[2]) *
               static_cast<int64_t>(size_of(view.dtype));
  part.shape.dim[0] = count;
  return part;
}

/// Converts a matrix to packed float32.
void load(const View &from, float *to) {
  Inline here;
  View packed;
  packed.data = reinterpret_cast<char *>(to);
  packed.dtype = ACL_FLOAT;
  packed.shape = from.shape;
  packed.stride[0] = from.shape.dim[1];
  packed.stride[1] = 1;
  copy_view(here, packed, from);
}

/// What one task works with.
struct Buffers {
  std::vector<float> query, keys, scores, product, total, line, factors;
  std::vector<float> largest;
  std::vector<double> sums;
};

class Attention {
 public:
  explicit Attention(const OpArgs &op) : op_(op), p_(op.as<AttentionParams>()) {
    const View &query = op.views[1];
    batch_ = query.shape.dim[0];
    heads_ = query.shape.dim[1];
    width_ = query.shape.dim[3];
    key_heads_ = key(0).shape.dim[1];
    value_width_ = value(0).shape.dim[3];
    group_ = heads_ / key_heads_;
    for (int64_t b = 0; b < batch_; ++b) {
      const auto field = [&](int f) { return op.numbers[static_cast<size_t>(f * batch_ + b)]; };
      Sequence s{field(kQueryStart), field(kQueryLength), field(kKeyStart), field(kKeyLength)};
      if (p_.query_padding >= 0)
        s.query_start = query.shape.dim[2] - padding(p_.query_padding) - s.query_length;
      if (p_.key_padding >= 0)
        s.key_start = key(0).shape.dim[2] - padding(p_.key_padding) - s.key_length;
      sequences_.push_back(s);
    }
    const int64_t queries = query.shape.dim[2];
    tiles_ = (group_ * queries + kRows - 1) / kRows;
  }

  /// Lengths that the device found beside the data.
  bool sound() const {
    for (const Sequence &s : sequences_) {
      if (s.query_start < 0 || s.key_start < 0) return false;
    }
    if (p_.table < 0) return true;
    const View &table = view(p_.table);
    for (int64_t b = 0; b < batch_; ++b) {
      const int64_t pages =
          (sequences_[static_cast<size_t>(b)].key_length + p_.block - 1) / p_.block;
      for (int64_t i = 0; i < pages; ++i) {
        const int64_t page = page_at(table, b, i);
        if (page < 0 || page >= key(0).shape.dim[0]) return false;
      }
    }
    return true;
  }

  int64_t tasks() const { return batch_ * key_heads_ * tiles_; }

  void run(int64_t task, Buffers *buffers) const {
    const int64_t tile = task % tiles_, head = task / tiles_ % key_heads_;
    const int64_t b = task / (tiles_ * key_heads_);
    const int64_t queries = op_.views[1].shape.dim[2];
    const int64_t first = tile * kRows;
    const int64_t n = std::min(kRows, group_ * queries - first);
    attend(b, head, first, n, buffers);
  }

 private:
  const View &view(int index) const { return op_.views[static_cast<size_t>(index)]; }
  const View &key(int64_t i) const { return view(static_cast<int>(p_.key + i)); }
  const View &value(int64_t i) const { return view(static_cast<int>(p_.key + p_.n_keys + i)); }

  int64_t padding(int index) const {
    int64_t number;
    read_elements(&number, view(index).data, view(index).dtype, 1);
    return std::max<int64_t>(0, number);
  }

  static int64_t page_at(const View &table, int64_t b, int64_t i) {
    int64_t page;
    read_elements(&page,
                  table.data + (b * table.stride[0] + i * table.stride[1]) *
                                   static_cast<int64_t>(size_of(table.dtype)),
                  table.dtype, 1);
    return page;
  }

  /// Keys or values [from, from + count) of a sequence: from the prefix, from pages, from the tensor.
  void load_keys(int64_t b, int64_t head, bool values, int64_t from, int64_t count, float *to,
                 Buffers *buffers) const {
    const int64_t width = values ? value_width_ : width_;
    const int64_t end = from + count;
    while (from < end && from < p_.prefix) {
      const int64_t n = std::min<int64_t>(end, p_.prefix) - from;
      load_part(view(values ? p_.value_prefix : p_.key_prefix), 0, head, from, n, values, b, from,
                to, buffers);
      from += n;
      to += n * width;
    }
    while (from < end) {
      const int64_t at = from - p_.prefix;
      if (p_.table >= 0) {
        const int64_t n = std::min(end - from, p_.block - at % p_.block);
        load_part(values ? value(0) : key(0), page_at(view(p_.table), b, at / p_.block), head,
                  at % p_.block, n, values, b, at, to, buffers);
        from += n;
        to += n * width;
        continue;
      }
      const bool listed = p_.n_keys > 1;
      const View &tensor = values ? value(listed ? b : 0) : key(listed ? b : 0);
      const int64_t place = at + sequences_[static_cast<size_t>(b)].key_start;
      load_part(tensor, listed ? 0 : b, head, place, end - from, values, b, place, to, buffers);
      from = end;
    }
  }

  void load_part(const View &tensor, int64_t place, int64_t head, int64_t first, int64_t count,
                 bool values, int64_t b, int64_t position, float *to, Buffers *buffers) const {
    const View part = rows_of(tensor, place, head, first, count);
    load(part, to);
    const int scale = values ? p_.value_scale : p_.key_scale;
    if (scale < 0) return;
    const int64_t n = part.count();
    const auto length = static_cast<size_t>(n);
    buffers->factors.resize(length);
    const int offset = values ? p_.value_offset : p_.key_offset;
    if (offset >= 0) {
      load(rows_of(view(offset), b, head, position, count), buffers->factors.data());
      for (size_t i = 0; i < length; ++i) to[i] += buffers->factors[i];
    }
    load(rows_of(view(scale), b, head, position, count), buffers->factors.data());
    for (size_t i = 0; i < length; ++i) to[i] *= buffers->factors[i];
  }

  /// The keys that query `i` of a sequence sees, before masks.
  void band(const Sequence &s, int64_t i, int64_t *first, int64_t *last) const {
    const int64_t keys = s.key_length + p_.prefix;
    *first = 0;
    *last = keys;
    if (!p_.banded) return;
    const int64_t diagonal = i + (p_.from_end ? keys - s.query_length : 0);
    *first = std::min(keys, std::max<int64_t>(0, diagonal - p_.before));
    *last = std::max(*first, std::min(keys, diagonal + p_.after + 1));
  }

  /// Scores of one query for keys [from, from + n): adds the shift, hides what is not seen.
  void adjust(const Sequence &s, int64_t b, int64_t head, int64_t i, int64_t from, int64_t n,
              float *scores, Buffers *buffers) const {
    for (int64_t k = 0; k < n; ++k) scores[k] *= p_.scale;
    const int64_t row = s.query_start + i;
    const int64_t column = from + (p_.table < 0 && p_.prefix == 0 ? s.key_start : 0);
    buffers->line.resize(static_cast<size_t>(kKeys));
    float *line = buffers->line.data();
    const auto fetch = [&](const View &tensor) {
      View part = rows_of(tensor, b, head, row, 1);
      part.data += column * part.stride[1] * static_cast<int64_t>(size_of(part.dtype));
      part.shape.dim[1] = n;
      load(part, line);
    };
    if (p_.shift >= 0) {
      fetch(view(p_.shift));
      for (int64_t k = 0; k < n; ++k) scores[k] += line[k];
    }
    if (p_.mask >= 0) {
      fetch(view(p_.mask));
      for (int64_t k = 0; k < n; ++k) scores[k] = line[k] != 0 ? kNothing : scores[k];
    }
    int64_t first, last;
    band(s, i, &first, &last);
    for (int64_t k = 0; k < std::min(n, first - from); ++k) scores[k] = kNothing;
    for (int64_t k = std::max<int64_t>(0, last - from); k < n; ++k) scores[k] = kNothing;
  }

  /// Rows [first, first + n) of the queries of all heads that share one head of keys: row r is query r % queries of
  /// head r / queries.
  void attend(int64_t b, int64_t key_head, int64_t first, int64_t n, Buffers *buffers) const {
    const Sequence &s = sequences_[static_cast<size_t>(b)];
    const View &query = op_.views[1];
    const int64_t queries = query.shape.dim[2];
    const auto head_of = [&](int64_t r) { return key_head * group_ + (first + r) / queries; };
    const auto row_of = [&](int64_t r) { return (first + r) % queries; };
    const auto is_query = [&](int64_t r) {
      return row_of(r) >= s.query_start && row_of(r) < s.query_start + s.query_length;
    };
    const auto floats = [](std::vector<float> *v, int64_t count) {
      v->assign(static_cast<size_t>(count), 0.0f);
      return v->data();
    };
    float *q = floats(&buffers->query, n * width_);
    float *total = floats(&buffers->total, n * value_width_);
    float *scores = floats(&buffers->scores, n * kKeys);
    float *product = floats(&buffers->product, n * value_width_);
    float *keys = floats(&buffers->keys, kKeys * std::max(width_, value_width_));
    buffers->largest.assign(static_cast<size_t>(n), kNothing);
    buffers->sums.assign(static_cast<size_t>(n), 0.0);
    int64_t seen_from = INT64_MAX, seen_to = 0;
    for (int64_t r = 0; r < n; ++r) {
      if (!is_query(r)) continue;
      load(rows_of(query, b, head_of(r), row_of(r), 1), q + r * width_);
      int64_t from, to;
      band(s, row_of(r) - s.query_start, &from, &to);
      seen_from = std::min(seen_from, from);
      seen_to = std::max(seen_to, to);
    }
    if (p_.packed && seen_from == INT64_MAX) return;
    for (int64_t from = seen_from / kKeys * kKeys; from < seen_to; from += kKeys) {
      const int64_t count = std::min(kKeys, s.key_length + p_.prefix - from);
      load_keys(b, key_head, false, from, count, keys, buffers);
      run_gemm({n, count, width_, q, width_, 1, keys, 1, width_, scores, kKeys});
      for (int64_t r = 0; r < n; ++r) {
        float *row = scores + r * kKeys;
        if (!is_query(r)) {
          std::fill_n(row, count, 0.0f);
          continue;
        }
        adjust(s, b, head_of(r), row_of(r) - s.query_start, from, count, row, buffers);
        weigh(row, count, static_cast<size_t>(r), total + r * value_width_, buffers);
      }
      load_keys(b, key_head, true, from, count, keys, buffers);
      run_gemm(
          {n, value_width_, count, scores, kKeys, 1, keys, value_width_, 1, product, value_width_});
      for (int64_t i = 0; i < n * value_width_; ++i) total[i] += product[i];
    }
    for (int64_t r = 0; r < n; ++r) {
      if (p_.packed && !is_query(r)) continue;
      const auto at = static_cast<size_t>(r);
      const double sum = buffers->sums[at];
      float *row = total + r * value_width_;
      const auto factor = static_cast<float>(1 / sum);
      for (int64_t i = 0; i < value_width_; ++i) row[i] = sum == 0 ? 0 : row[i] * factor;
      store(row, b, head_of(r), row_of(r), buffers);
      if (p_.lse < 0) continue;
      const auto lse = static_cast<float>(sum == 0 ? std::numeric_limits<double>::infinity()
                                                   : buffers->largest[at] + std::log(sum));
      const View place = rows_of(view(p_.lse), b, head_of(r), row_of(r), 1);
      write_elements(place.data, place.dtype, &lse, 1);
    }
  }

  /// Turns scores into weights relative to the largest so far; what was added up before is scaled to match.
  void weigh(float *scores, int64_t n, size_t r, float *total, Buffers *buffers) const {
    const auto count = static_cast<size_t>(n);
    const float before = buffers->largest[r];
    const float here = table().max(scores, count);
    const float largest = here > before || here != here ? here : before;
    if (largest == kNothing) {  // nothing is seen yet
      std::fill_n(scores, n, 0.0f);
      return;
    }
    if (largest != before && before != kNothing) {
      const float factor = std::exp(before - largest);
      buffers->sums[r] *= static_cast<double>(factor);
      for (int64_t i = 0; i < value_width_; ++i) total[i] *= factor;
    }
    buffers->largest[r] = largest;
    buffers->sums[r] += table().exp_shifted(scores, scores, count, largest);
  }

  void store(float *row, int64_t b, int64_t head, int64_t query, Buffers *buffers) const {
    if (p_.out_scale >= 0) {
      const auto width = static_cast<size_t>(value_width_);
      buffers->factors.resize(width);
      load(rows_of(view(p_.out_scale), b, head, query, 1), buffers->factors.data());
      for (size_t i = 0; i < width; ++i) row[i] *= buffers->factors[i];
      if (p_.out_offset >= 0) {
        load(rows_of(view(p_.out_offset), b, head, query, 1), buffers->factors.data());
        for (size_t i = 0; i < width; ++i) row[i] += buffers->factors[i];
      }
      for (size_t i = 0; i < width; ++i)
        row[i] = std::nearbyint(std::min(127.0f, std::max(-128.0f, row[i])));
    }
    const View place = row_part(rows_of(op_.views[0], b, head, query, 1), 1);
    const Loop loop = Loop::in_order(&place, 1);
    Writer<float> writer(loop, 0, place);
    for (int64_t at = 0; at < value_width_; at += static_cast<int64_t>(kBlock)) {
      const auto count = static_cast<size_t>(std::min<int64_t>(value_width_ - at, kBlock));
      std::copy_n(row + at, count, writer.begin(at));
      writer.end(at, count);
    }
  }

  const OpArgs &op_;
  const AttentionParams &p_;
  int64_t batch_, heads_, width_, key_heads_, value_width_, group_, tiles_;
  std::vector<Sequence> sequences_;
};

}  // namespace

int attention_kernel(ExecContext &context, const void *args) {
  constexpr int kAicoreException = 507015;
  const Attention attention(*static_cast<const OpArgs *>(args));
  if (!attention.sound()) return kAicoreException;
  context.parallel_for(static_cast<size_t>(attention.tasks()), [&](size_t task) {
    Buffers buffers;
    attention.run(static_cast<int64_t>(task), &buffers);
  });
  return 0;
}

}  // namespace aiocann::sim
