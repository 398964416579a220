#include "core/blocks.hpp"

#include <algorithm>
#include <cstring>

namespace aiocann::core {
namespace {

constexpr uint64_t kScale = 2;

// Q4_0: in a block byte j has element j below and element j + 16 above, as 0 to 15; on a device byte j has elements
// 2j and 2j + 1, as -8 to 7 in two's complement.
void pack_nibbles(const uint8_t *in, uint8_t *out) {
  for (int j = 0; j < 8; ++j) {
    const int low = in[2 * j], high = in[2 * j + 1];
    out[j] = static_cast<uint8_t>(((low & 15) | (high & 15) << 4) ^ 0x88);
    out[j + 8] = static_cast<uint8_t>((low >> 4 | (high & 0xF0)) ^ 0x88);
  }
}

void unpack_nibbles(const uint8_t *in, uint8_t *out) {
  for (int j = 0; j < 8; ++j) {
    const int first = in[j] ^ 0x88, second = in[j + 8] ^ 0x88;
    out[2 * j] = static_cast<uint8_t>((first & 15) | (second & 15) << 4);
    out[2 * j + 1] = static_cast<uint8_t>(first >> 4 | (second & 0xF0));
  }
}

/// Calls quants(block, at) and scale(block, at) for what the piece has: at is where, from its start.
template <typename Quants, typename Scale>
void walk(const BlockForm &form, uint64_t total, uint64_t offset, uint64_t nbytes, Quants &&quants,
          Scale &&scale) {
  const uint64_t scales = total / form.block * form.quants, end = offset + nbytes;
  for (uint64_t at = offset; at < std::min(end, scales); at += form.quants)
    quants(at / form.quants, at - offset);
  for (uint64_t at = std::max(offset, scales); at < end; at += kScale)
    scale((at - scales) / kScale, at - offset);
}

}  // namespace

void pack_blocks(int32_t dtype, uint64_t total, const char *blocks, uint64_t offset,
                 uint64_t nbytes, char *out) {
  const BlockForm form = block_form(dtype);
  walk(
      form, total, offset, nbytes,
      [&](uint64_t block, uint64_t at) {
        const char *from = blocks + block * form.block + kScale;
        if (dtype == AIOCANN_Q8_0) {
          std::memcpy(out + at, from, 32);
        } else {
          pack_nibbles(reinterpret_cast<const uint8_t *>(from),
                       reinterpret_cast<uint8_t *>(out + at));
        }
      },
      [&](uint64_t block, uint64_t at) {
        std::memcpy(out + at, blocks + block * form.block, kScale);
      });
}

void unpack_blocks(int32_t dtype, uint64_t total, const char *piece, uint64_t offset,
                   uint64_t nbytes, char *blocks) {
  const BlockForm form = block_form(dtype);
  walk(
      form, total, offset, nbytes,
      [&](uint64_t block, uint64_t at) {
        char *to = blocks + block * form.block + kScale;
        if (dtype == AIOCANN_Q8_0) {
          std::memcpy(to, piece + at, 32);
        } else {
          unpack_nibbles(reinterpret_cast<const uint8_t *>(piece + at),
                         reinterpret_cast<uint8_t *>(to));
        }
      },
      [&](uint64_t block, uint64_t at) {
        std::memcpy(blocks + block * form.block, piece + at, kScale);
      });
}

}  // namespace aiocann::core
