// attention.hpp: attention over keys and values in one pass, without a matrix of scores in memory.
#pragma once
#include <cstdint>

#include "sim/task.hpp"

namespace aiocann::sim {

/// What the numbers of a plan are, for each sequence of the batch.
enum SequenceField { kQueryStart, kQueryLength, kKeyStart, kKeyLength, kSequenceFields };

/// Places among the views; -1 for what there is not.
struct AttentionParams {
  int16_t key =
      2;  ///< views of keys, one for each tensor of the list, and after them those of values
  int16_t n_keys = 1;  ///< one with all sequences, or one for each sequence
  int16_t lse = -1, shift = -1, mask = -1, table = -1;
  int16_t key_scale = -1, key_offset = -1, value_scale = -1, value_offset = -1;
  int16_t out_scale = -1, out_offset = -1;
  int16_t key_prefix = -1, value_prefix = -1;
  int16_t query_padding = -1, key_padding = -1;  ///< one number each
  int32_t block = 0;                             ///< tokens of a page
  int32_t prefix = 0;                            ///< tokens of the prefix that all sequences share
  float scale = 1;
  bool banded = false;    ///< keys outside [diagonal - before, diagonal + after] are not seen
  bool from_end = false;  ///< the diagonal ends at the last query and the last key
  bool packed =
      false;  ///< sequences lie one after the other in one axis of queries: nothing else is written
  int64_t before = 0, after = 0;
};

/// Views: out [batch, heads, queries, width], query likewise, then keys and values [batch, key heads, keys, width]
/// (pages: [pages, key heads, tokens, width]), and those that the parameters name: lse [batch, heads, queries],
/// shift and mask [batch, heads, queries, keys], scales and offsets of int8 keys and values in their shape, of the
/// result in its shape. Queries that see no key give zeros.
int attention_kernel(ExecContext &context, const void *args);

}  // namespace aiocann::sim
