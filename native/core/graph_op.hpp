// graph_op.hpp: a planned graph with the memory that it refers to, as the C ABI hands it out.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/graph.hpp"
#include "core/memory.hpp"

struct aiocann_graph {
 public:
  aiocann_graph(aiocann::core::Device *on, std::unique_ptr<aiocann::core::Graph> planned,
                std::vector<aiocann_mem *> operands);

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release();

  aiocann::core::Device *const device;
  const std::unique_ptr<aiocann::core::Graph> plan;
  const uint32_t epoch;                   ///< of the device when it was made
  const std::vector<aiocann_mem *> mems;  ///< each once. Owns: a handle of each

 private:
  ~aiocann_graph();
  std::atomic<uint32_t> references_{1};
};
