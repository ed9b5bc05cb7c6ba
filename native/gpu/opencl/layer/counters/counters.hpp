// SPDX-License-Identifier: Apache-2.0
// Counter memory: big buffers per context and device, shared by many launches.
//
// A CPU device works in our own memory. Elsewhere the counters live on the device: they are copied
// to the host when the launch has finished, by a queue of our own, and nobody waits for it.
#ifndef XPUPROF_OPENCL_COUNTERS_HPP
#define XPUPROF_OPENCL_COUNTERS_HPP

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "api/objects.hpp"

namespace layer {

struct CounterChunk;
class CounterQueue;

// A launch's part of a chunk, its header zero at first; given back when the object goes.
class CounterArea {
 public:
  CounterArea() = default;
  CounterArea(std::shared_ptr<CounterChunk> chunk, size_t first);
  CounterArea(CounterArea &&other) noexcept { *this = std::move(other); }
  CounterArea &operator=(CounterArea &&other) noexcept;
  ~CounterArea() { give_back(); }

  // Words of the area: where they begin, and how many.
  struct Part {
    size_t begin, words;
  };

  cl_mem buffer() const;
  cl_ulong first() const { return first_; }  // in u64
  // Before the launch: brings what the host wrote to data() to the device. False: it is refused.
  bool send(const Part &part);
  // After the launch: brings the first `words` to the host; to be asked again until it is true.
  bool arrived(size_t words);
  // The same for parts that lie behind them, all at once.
  bool arrived(const std::vector<Part> &parts);
  cl_event under_way() const { return reading_; }  // the copy that is not known to have ended
  const uint64_t *data() const;                    // as far as it has arrived
  uint64_t *data();
  void skip(size_t words) { first_ += words; }  // the area begins behind them from now on
  explicit operator bool() const { return chunk_ != nullptr; }

 private:
  void give_back();
  bool ended_reading();
  std::shared_ptr<CounterChunk> chunk_;
  size_t first_ = 0, here_ = 0, coming_ = 0;  // words on the host, and those under way
  bool parts_coming_ = false, lost_ = false;  // lost: something could not be read
  cl_event reading_ = nullptr;
};

// Not thread-safe: used under the lock of the launches.
class CounterPool {
 public:
  // `zeros`: what is free on the device is set to zero.
  CounterPool(cl_context context, const Device &device, bool zeros);
  // An empty area when the limit would be passed or memory is out.
  CounterArea allocate(size_t words, size_t limit_bytes);

 private:
  cl_context context_;
  std::shared_ptr<CounterQueue> queue_;  // NULL: the device works in our memory
  bool usable_ = true, zeros_;
  std::vector<std::shared_ptr<CounterChunk>> chunks_;
  size_t bytes_ = 0;
};

}  // namespace layer
#endif
