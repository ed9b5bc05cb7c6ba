// Counter memory: big buffers per context and device, shared by many launches.
#ifndef XPUPROF_OPENCL_COUNTERS_HPP
#define XPUPROF_OPENCL_COUNTERS_HPP

#include <cstdint>
#include <memory>
#include <vector>

#include "layer.hpp"

namespace layer {

struct CounterChunk;

// A launch's part of a chunk; given back when the object goes.
class CounterArea {
 public:
  CounterArea() = default;
  CounterArea(std::shared_ptr<CounterChunk> chunk, size_t first);
  CounterArea(CounterArea &&other) noexcept = default;
  CounterArea &operator=(CounterArea &&other) noexcept;
  ~CounterArea() { give_back(); }

  cl_mem buffer() const;
  cl_ulong first() const { return first_; }  // in u64
  const uint64_t *data() const;
  uint64_t *header();
  explicit operator bool() const { return chunk_ != nullptr; }

 private:
  void give_back();
  std::shared_ptr<CounterChunk> chunk_;
  size_t first_ = 0;
};

// Not thread-safe: used under the lock of the launches.
class CounterPool {
 public:
  explicit CounterPool(cl_context context) : context_(context) {}
  // An empty area when the limit would be passed or memory is out.
  CounterArea allocate(size_t words, size_t limit_bytes);

 private:
  cl_context context_;
  std::vector<std::shared_ptr<CounterChunk>> chunks_;
  size_t bytes_ = 0;
};

}  // namespace layer
#endif
