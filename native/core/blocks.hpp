// blocks.hpp: the blocks of quantized tensors, as the host has them and as devices take them.
//
// On the host, and in files, a block is a scale and 32 quants. On a device all quants lie first, block by block, then
// all scales: that is what aclnn's products take.
#pragma once
#include <cstdint>

#include "aiocann.h"

namespace aiocann::core {

struct BlockForm {
  uint64_t block = 0;   ///< bytes of a block; 0: the dtype has none
  uint64_t quants = 0;  ///< of these, of its quants; the other two are the scale, a float16
};

/// Elements of a block.
constexpr int64_t kBlock = 32;

constexpr BlockForm block_form(int32_t dtype) {
  if (dtype == AIOCANN_Q4_0) return {18, 16};
  if (dtype == AIOCANN_Q8_0) return {34, 32};
  return {};
}

/// Bytes from offset on of a tensor of total bytes, in the form of a device: from the blocks of the whole tensor.
/// The piece begins and ends with a block, or a scale.
void pack_blocks(int32_t dtype, uint64_t total, const char *blocks, uint64_t offset,
                 uint64_t nbytes, char *out);
/// The reverse: puts such a piece where it belongs in the blocks of the whole tensor.
void unpack_blocks(int32_t dtype, uint64_t total, const char *piece, uint64_t offset,
                   uint64_t nbytes, char *blocks);

}  // namespace aiocann::core
