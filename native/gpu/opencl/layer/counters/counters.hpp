// SPDX-License-Identifier: Apache-2.0
// Counter memory: big buffers per context and device, shared by many launches.
//
// A CPU device works in our own memory. Elsewhere the counters live on the device: our own queue
// copies them to the host when the launch has finished, and nothing waits for it.
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

// A launch's part of a chunk, its header initially zero; released with the object.
class CounterArea {
 public:
  CounterArea() = default;
  CounterArea(std::shared_ptr<CounterChunk> chunk, size_t first);
  CounterArea(CounterArea &&other) noexcept { *this = std::move(other); }
  CounterArea &operator=(CounterArea &&other) noexcept;
  ~CounterArea() { give_back(); }

  // Words of the area: their start and number.
  struct Part {
    size_t begin, words;
  };

  cl_mem buffer() const;
  cl_ulong first() const { return first_; }  // in u64
  // Before the launch: copies what the host wrote to data() to the device. False: refused.
  bool send(const Part &part);
  // After the launch: copies the first `words` to the host; repeat until it returns true.
  bool arrived(size_t words);
  // The same for later parts, all at once.
  bool arrived(const std::vector<Part> &parts);
  cl_event under_way() const { return reading_; }  // the copy not known to have ended
  const uint64_t *data() const;                    // the part that has arrived
  uint64_t *data();
  void skip(size_t words) { first_ += words; }  // the area now begins after them
  explicit operator bool() const { return chunk_ != nullptr; }

 private:
  void give_back();
  bool ended_reading();
  std::shared_ptr<CounterChunk> chunk_;
  size_t first_ = 0, here_ = 0, coming_ = 0;  // words on the host, and those being copied
  bool parts_coming_ = false, lost_ = false;  // lost: a read failed
  cl_event reading_ = nullptr;
};

// Not thread-safe: used under the lock of the launches.
class CounterPool {
 public:
  // `zeros`: free device memory is set to zero.
  CounterPool(cl_context context, const Device &device, bool zeros);
  // An empty area when the limit would be exceeded or memory is exhausted.
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
