// constants.hpp: what the ops of one stream need again and again and can be computed once: ones, rope's factors,
// slopes. The stream fills them, so its order is all that their readers need; every op that reads one has a use of it,
// so it may be dropped at any time. Where filling has failed on the device, the stream has, with all that follows.
//
// Thread: the lane's.
#pragma once
#include <vector>

#include "core/graph.hpp"
#include "core/memory.hpp"

namespace aiocann::core {

class Constants {
 public:
  /// Above either, what was not used for longest goes.
  static constexpr size_t kMost = 64;
  static constexpr uint64_t kMostBytes = 16u << 20;

  Constants() = default;
  ~Constants() { clear(); }
  Constants(const Constants &) = delete;
  Constants &operator=(const Constants &) = delete;

  struct Entry {
    ConstantKey key;
    Mem *mem;           ///< Owns: a handle
    uint64_t used = 0;  ///< by which submission last
  };

  /// A number for each submission of a graph, which tells the first use in it.
  uint64_t next_submission() { return ++submissions_; }
  Entry *find(const ConstantKey &key);
  /// Takes the handle over.
  Entry *add(const ConstantKey &key, Mem *mem);
  void forget(const ConstantKey &key);
  void clear();
  size_t size() const { return entries_.size(); }

 private:
  void remove(size_t index);

  std::vector<Entry> entries_;
  uint64_t bytes_ = 0, submissions_ = 0;
};

}  // namespace aiocann::core
