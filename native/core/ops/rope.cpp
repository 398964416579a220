// rope.cpp: rotary position embedding. x (batch, tokens, heads, d), one position per token, or four in the modes of
// several axes.
#include <algorithm>
#include <cmath>

#include "core/ops/kernels.hpp"
#include "core/ops/shapes.hpp"

namespace aiocann::core {
namespace {

/// Parameters.
enum {
  kDims,
  kMode,
  kContext,
  kBase,
  kScale,
  kExt,
  kAttn,
  kBetaFast,
  kBetaSlow,
  kSection0,
  kSections = 4
};

/// Bits of the mode.
constexpr int64_t kNeox = 2, kMrope = 8, kVision = 24, kImrope = 40;
constexpr int64_t kWidest = 896;

struct Rope {
  explicit Rope(const NodeView &node) : params(node.params) {
    const int64_t mode = params[kMode].i;
    several = (mode & kMrope) != 0;
    vision = mode == kVision;
    imrope = mode == kImrope;
    halves = several || (mode & kNeox) != 0;
    width = node.src[0]->ne[0];
    tokens = node.src[0]->ne[2];
    // In vision mode n_dims counts half of the numbers, all of which are rotated.
    rotated = vision ? width : params[kDims].i;
    pairs = rotated / 2;
  }

  int64_t section(int i) const { return params[kSection0 + i].i; }

  /// Which of the four positions turns a pair.
  int position_of(int64_t pair) const {
    const int64_t all = section(0) + section(1) + section(2) + section(3);
    const int64_t at = pair % all;
    if (imrope) {
      const auto within = [&](int axis) { return at % 3 == axis && at < 3 * section(axis); };
      return within(1) ? 1 : within(2) ? 2 : within(0) ? 0 : 3;
    }
    int64_t end = 0;
    for (int i = 0; i < kSections - 1; ++i) {
      end += section(i);
      if (at < end) return i;
    }
    return kSections - 1;
  }

  /// The power of the base's root that a pair turns with: in vision mode each section begins anew.
  int64_t exponent_of(int64_t pair) const {
    if (!vision) return pair;
    int64_t at = pair % (section(0) + section(1) + section(2) + section(3));
    for (int i = 0, last = position_of(pair); i < last; ++i) at -= section(i);
    return at;
  }

  /// Where the correction of long contexts begins and ends, in pairs.
  double boundary(double beta) const {
    const double dims = static_cast<double>(params[kDims].i);
    const double context = static_cast<double>(params[kContext].i);
    return dims * std::log(context / (beta * 2 * 3.14159265358979323846)) /
           (2 * std::log(params[kBase].f));
  }

  const aiocann_param *params;
  bool several, vision, imrope;
  bool halves;  ///< the members of a pair are half of the numbers apart, not side by side
  int64_t width, tokens, rotated, pairs;
};

View line(uint64_t address, int64_t first, int64_t n, int64_t step = 1) {
  View view;
  view.address = address + static_cast<uint64_t>(first) * sizeof(float);
  view.push(n, step * static_cast<int64_t>(sizeof(float)));
  return view;
}

/// What is rotated, packed and in float32.
Layout packed(const Layout &x, int64_t rotated) {
  Layout part = x;
  part.ne[0] = rotated;
  return Layout::contiguous(part, AIOCANN_F32);
}

Layout first_of(const Layout &layout, int64_t n) {
  Layout part = layout;
  part.ne[0] = n;
  return part;
}

bool is_direct(const NodeView &node) {
  return node.src[0]->dtype == AIOCANN_F32 && Rope(node).rotated == node.src[0]->ne[0];
}

/// Temporaries: positions as numbers; factors of pairs, where the device knows what divides them; angles; cosines;
/// sines; and x and the result where they are not rotated in place.
enum Temp { kPositions, kFactors, kAngles, kCosines, kSines, kNarrow };

/// Rows of numbers that factors are made in: the first becomes the result.
constexpr int64_t kFactorRows = 3;

uint64_t factor_bytes(const Rope &rope) {
  return static_cast<uint64_t>(kFactorRows * rope.pairs) * sizeof(float);
}

/// theta of each pair at position 1.
Status make_factors(Launch &launch, const Rope &rope, uint64_t base) {
  const auto row = [&](int i) { return line(base, i * rope.pairs, rope.pairs); };
  const double root =
      std::pow(rope.params[kBase].f, -2.0 / static_cast<double>(rope.params[kDims].i));
  Status status = launch.call(ACLNN(aclnnArange), launch.scalar(0),
                              launch.scalar(static_cast<double>(rope.pairs)), launch.scalar(1),
                              launch.tensor(row(1)));
  // Powers; where sections begin anew, run by run.
  for (int64_t first = 0; first < rope.pairs && status.is_ok();) {
    int64_t n = 1;
    const int64_t start = rope.exponent_of(first);
    while (first + n < rope.pairs && rope.exponent_of(first + n) == start + n) ++n;
    status = launch.call(ACLNN(aclnnPowScalarTensor), launch.scalar(root),
                         launch.tensor(line(base, rope.pairs + start, n)),
                         launch.tensor(line(base, first, n)));
    first += n;
  }
  if (status.is_ok() && launch.has(2)) {
    status = launch.call(ACLNN(aclnnInplaceDiv), launch.tensor(row(0)),
                         launch.tensor(line(launch.src_address(2), 0, rope.pairs)));
  }
  if (!status.is_ok()) return status;
  const double scale = rope.params[kScale].f, ext = rope.params[kExt].f;
  if (ext == 0) {
    if (scale == 1) return status;
    return launch.call(ACLNN(aclnnInplaceMuls), launch.tensor(row(0)), launch.scalar(scale));
  }
  // Pairs before the ramp keep their own speed, those behind it are slowed down by scale:
  // factor = scale + (1 - scale) * ext * (1 - ramp).
  const double last = static_cast<double>(rope.params[kDims].i - 1);
  const double low = std::max(0.0, std::floor(rope.boundary(rope.params[kBetaFast].f)));
  const double high = std::min(last, std::ceil(rope.boundary(rope.params[kBetaSlow].f)));
  status = launch.call(ACLNN(aclnnInplaceAdds), launch.tensor(row(1)), launch.scalar(-low),
                       launch.scalar(1));
  if (!status.is_ok()) return status;
  status = launch.call(ACLNN(aclnnInplaceMuls), launch.tensor(row(1)),
                       launch.scalar(1 / std::max(0.001, high - low)));
  if (!status.is_ok()) return status;
  status = launch.call(ACLNN(aclnnClamp), launch.tensor(row(1)), launch.scalar(0), launch.scalar(1),
                       launch.tensor(row(2)));
  if (!status.is_ok()) return status;
  status =
      launch.call(ACLNN(aclnnInplaceMuls), launch.tensor(row(2)), launch.scalar((scale - 1) * ext));
  if (!status.is_ok()) return status;
  status = launch.call(ACLNN(aclnnInplaceAdds), launch.tensor(row(2)),
                       launch.scalar(scale + (1 - scale) * ext), launch.scalar(1));
  if (!status.is_ok()) return status;
  return launch.call(ACLNN(aclnnInplaceMul), launch.tensor(row(0)), launch.tensor(row(2)));
}

/// The same, where nothing that the device alone knows divides them: once for each set of parameters.
Status find_factors(Launch &launch, const Rope &rope, uint64_t *address) {
  if (launch.has(2)) {
    *address = launch.temp(kFactors);
    return make_factors(launch, rope, *address);
  }
  ConstantKey key(ConstantKey::kRopeFactors, AIOCANN_F32, rope.pairs);
  for (int i = kDims; i < kSection0 + kSections; ++i) {
    if (i != kAttn) key.params[i] = rope.params[i];
  }
  return launch.constant(key, factor_bytes(rope), address,
                         [&](uint64_t base) { return make_factors(launch, rope, base); });
}

/// angles [tokens, pairs] = position * factor. Pairs that one of several positions turns are taken in runs of one
/// step.
Status make_angles(Launch &launch, const Rope &rope, uint64_t factors_address) {
  const int64_t size = sizeof(float);
  Status status = launch.call(
      ACLNN(aclnnCast), launch.src_tensor(1), ACL_FLOAT,
      launch.tensor(launch.temp(kPositions), Layout::contiguous(launch.src(1), AIOCANN_F32)));
  const auto multiply = [&](int position, int64_t first, int64_t n, int64_t step) {
    View at = line(launch.temp(kPositions), position * rope.tokens, 1);
    at.push(rope.tokens, size);
    View factors = line(factors_address, first, n, step);
    factors.push(1, size);
    View angles = line(launch.temp(kAngles), first, n, step);
    angles.push(rope.tokens, rope.pairs * size);
    return launch.call(ACLNN(aclnnMul), launch.tensor(at), launch.tensor(factors),
                       launch.tensor(angles));
  };
  if (!status.is_ok() || !rope.several) {
    return status.is_ok() ? multiply(0, 0, rope.pairs, 1) : status;
  }
  for (int position = 0; position < kSections; ++position) {
    int64_t first = -1, n = 0, step = 1;
    for (int64_t pair = 0; pair < rope.pairs && status.is_ok(); ++pair) {
      if (rope.position_of(pair) != position) continue;
      if (n == 1) step = pair - first;
      if (n == 0 || pair == first + n * step) {
        if (n == 0) first = pair;
        ++n;
        continue;
      }
      status = multiply(position, first, n, step);
      first = pair;
      n = 1;
    }
    if (n > 0 && status.is_ok()) status = multiply(position, first, n, step);
  }
  return status;
}

/// Cosines and sines in the places of both members of each pair.
Status make_waves(Launch &launch, const Rope &rope) {
  const int64_t size = sizeof(float);
  const double ext = rope.params[kExt].f;
  const double attn =
      rope.params[kAttn].f * (ext == 0 ? 1 : 1 + 0.1 * std::log(1 / rope.params[kScale].f));
  Status status;
  for (int member = 0; member < 2; ++member) {
    const auto place = [&](Temp temp) {
      View view = line(launch.temp(temp), member * (rope.halves ? rope.pairs : 1), rope.pairs,
                       rope.halves ? 1 : 2);
      return launch.tensor(view.push(rope.tokens, rope.rotated * size));
    };
    View angles = line(launch.temp(kAngles), 0, rope.pairs);
    angles.push(rope.tokens, rope.pairs * size);
    status = launch.call(ACLNN(aclnnCos), launch.tensor(angles), place(kCosines));
    if (status.is_ok()) status = launch.call(ACLNN(aclnnSin), launch.tensor(angles), place(kSines));
    if (!status.is_ok()) return status;
  }
  for (const Temp temp : {kCosines, kSines}) {
    if (attn == 1 || !status.is_ok()) break;
    status = launch.call(ACLNN(aclnnInplaceMuls),
                         launch.tensor(line(launch.temp(temp), 0, rope.tokens * rope.rotated)),
                         launch.scalar(attn));
  }
  return status;
}

}  // namespace

Status shape_rope(const NodeView &node, Layout *out, int64_t *offset) {
  const Layout &x = *node.src[0], &positions = *node.src[1];
  const int64_t mode = node.params[kMode].i, n_dims = node.params[kDims].i;
  if (mode != 0 && mode != kNeox && mode != kMrope && mode != kVision && mode != kImrope)
    return node.unsupported("there is no mode %lld", static_cast<long long>(mode));
  const Rope rope(node);
  if (n_dims < 2 || n_dims % 2 != 0 || n_dims > x.ne[0])
    return node.usage("n_dims is %lld, the last axis %lld long", static_cast<long long>(n_dims),
                      static_cast<long long>(x.ne[0]));
  if (rope.vision && n_dims * 2 != x.ne[0])
    return node.usage("in vision mode n_dims is half of the last axis");
  if (x.ne[0] > kWidest)
    return node.unsupported("rows are longer than %lld", static_cast<long long>(kWidest));
  if (positions.ne[0] != rope.tokens * (rope.several ? kSections : 1) || positions.rows() != 1)
    return node.usage("there are %lld tokens, and %lld positions",
                      static_cast<long long>(rope.tokens), static_cast<long long>(positions.ne[0]));
  int64_t sections = 0;
  for (int i = 0; i < kSections; ++i) {
    if (rope.section(i) < 0) return node.usage("a section is negative");
    sections += rope.section(i);
  }
  if (rope.several && sections < 1) return node.usage("all sections are empty");
  if (node.has(2) && (node.src[2]->ne[0] < rope.pairs || !node.src[2]->is_contiguous()))
    return node.usage("freq_factors has %lld numbers for %lld pairs",
                      static_cast<long long>(node.src[2]->ne[0]),
                      static_cast<long long>(rope.pairs));
  if (!(node.params[kBase].f > 0) || !(node.params[kScale].f > 0))
    return node.usage("freq_base and freq_scale must be more than 0");
  if (node.params[kExt].f != 0 && node.params[kContext].i < 1)
    return node.usage("ext_factor needs n_ctx_orig");
  if (on_310p(node) && (rope.rotated != x.ne[0] || !x.is_contiguous() || !rope.halves))
    return node.unsupported("%s rotates whole, contiguous rows by halves alone", node.soc);
  return shape_same(node, out, offset);
}

void temps_rope(const NodeView &node, const Layout &out, Temps *temps) {
  const Rope rope(node);
  const auto floats = [&](int64_t n) { temps->add(static_cast<uint64_t>(n) * sizeof(float)); };
  floats(node.src[1]->ne[0]);
  temps->add(node.has(2) ? factor_bytes(rope) : 0);
  floats(rope.tokens * rope.pairs);
  floats(rope.tokens * rope.rotated);
  floats(rope.tokens * rope.rotated);
  if (!is_direct(node)) temps->add(f32_bytes(packed(out, rope.rotated)));
}

Status launch_rope(Launch &launch) {
  const Rope rope(launch.node());
  const Layout &x = launch.src(0), &out = launch.out();
  uint64_t factors = 0;
  Status status = find_factors(launch, rope, &factors);
  if (status.is_ok()) status = make_angles(launch, rope, factors);
  if (status.is_ok()) status = make_waves(launch, rope);
  if (!status.is_ok()) return status;
  // [1, tokens, 1, rotated], for x [batch, tokens, heads, rotated].
  const auto wave = [&](Temp temp) {
    const int64_t size = sizeof(float), row = rope.rotated * size;
    View view = line(launch.temp(temp), 0, rope.rotated);
    return launch.tensor(view.push(1, row).push(rope.tokens, row).push(1, rope.tokens * row));
  };
  const int64_t mode = rope.halves ? 0 : 1;
  if (is_direct(launch.node())) {
    return launch.call(ACLNN(aclnnRotaryPositionEmbedding), launch.src_tensor(0), wave(kCosines),
                       wave(kSines), mode, launch.out_tensor());
  }
  // The rotated part, in float32 and in place; then both parts go where they belong.
  const Layout part = packed(x, rope.rotated);
  const uint64_t place = launch.temp(kNarrow);
  status = convert(launch, launch.tensor(launch.src_address(0), first_of(x, rope.rotated)), x.dtype,
                   launch.tensor(place, part), AIOCANN_F32);
  if (!status.is_ok()) return status;
  status = launch.call(ACLNN(aclnnRotaryPositionEmbedding), launch.tensor(place, part),
                       wave(kCosines), wave(kSines), mode, launch.tensor(place, part));
  if (!status.is_ok()) return status;
  status = convert(launch, launch.tensor(place, part), AIOCANN_F32,
                   launch.tensor(launch.out_address(), first_of(out, rope.rotated)), out.dtype);
  if (!status.is_ok() || rope.rotated == x.ne[0]) return status;
  const auto tail = [&](uint64_t address, const Layout &layout) {
    return launch.tensor(address + static_cast<uint64_t>(rope.rotated * layout.nb[0]),
                         first_of(layout, x.ne[0] - rope.rotated));
  };
  return convert(launch, tail(launch.src_address(0), x), x.dtype, tail(launch.out_address(), out),
                 out.dtype);
}

}  // namespace aiocann::core
