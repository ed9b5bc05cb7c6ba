// SPDX-License-Identifier: Apache-2.0
#include "counters/counters.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "device/runtimes.hpp"
#include "protocol/clinst_protocol.h"

namespace layer {

// Small, so that successive launches write to memory still in the cache.
static constexpr size_t chunk_bytes = size_t{1} << 20;
static constexpr size_t align_words = 8;  // areas do not share a cache line

// Our own in-order queue: commands here never wait for the application's.
class CounterQueue {
 public:
  CounterQueue(cl_context context, cl_device_id device) {
    cl_int error = CL_SUCCESS;
    handle_ = next.clCreateCommandQueue(context, device, 0, &error);
  }
  ~CounterQueue() {
    if (handle_) next.clReleaseCommandQueue(handle_);
  }
  CounterQueue(const CounterQueue &) = delete;
  CounterQueue &operator=(const CounterQueue &) = delete;

  explicit operator bool() const { return handle_; }
  // Waits: a blocking write only guarantees that the host's memory may be reused.
  bool write(cl_mem buffer, size_t first, size_t words, const uint64_t *from) {
    cl_int error = next.clEnqueueWriteBuffer(handle_, buffer, CL_FALSE, first * sizeof(uint64_t),
                                             words * sizeof(uint64_t), from, 0, nullptr, nullptr);
    return error == CL_SUCCESS && next.clFinish(handle_) == CL_SUCCESS;
  }
  // Both return an event, or NULL when the device refused.
  cl_event read(cl_mem buffer, size_t first, size_t words, uint64_t *to) {
    cl_event event = nullptr;
    cl_int error = next.clEnqueueReadBuffer(handle_, buffer, CL_FALSE, first * sizeof(uint64_t),
                                            words * sizeof(uint64_t), to, 0, nullptr, &event);
    return flushed(error, event);
  }
  cl_event clear(cl_mem buffer, size_t words) {
    static const uint64_t zero = 0;
    cl_event event = nullptr;
    cl_int error = next.clEnqueueFillBuffer(handle_, buffer, &zero, sizeof zero, 0,
                                            words * sizeof zero, 0, nullptr, &event);
    return flushed(error, event);
  }

 private:
  cl_event flushed(cl_int error, cl_event event) {
    if (error != CL_SUCCESS) return nullptr;
    next.clFlush(handle_);
    return event;
  }
  cl_command_queue handle_ = nullptr;
};

// A chunk is filled from the front and restarts when all its areas are released.
struct CounterChunk {
  cl_mem buffer = nullptr;
  uint64_t *memory = nullptr;  // the buffer itself, or the copied part
  size_t words = 0, used = 0, live = 0;
  std::shared_ptr<CounterQueue> queue;  // NULL: the device works in our memory
  cl_event clearing = nullptr;
  bool zeros = true;  // free device memory holds zeros
  bool lost = false;  // could not be cleared: never reused

  bool ready();
  void start_anew();
  ~CounterChunk();
};

namespace {

struct Mapping {
  void *memory;
  size_t bytes;
};

// The runtime may hold the buffer slightly longer than we do.
void CL_CALLBACK unmap(cl_mem, void *mapping) {
  auto *gone = static_cast<Mapping *>(mapping);
  munmap(gone->memory, gone->bytes);
  delete gone;
}

std::shared_ptr<CounterChunk> new_chunk(cl_context context, size_t bytes,
                                        const std::shared_ptr<CounterQueue> &queue) {
  auto chunk = std::make_shared<CounterChunk>();
  auto mapping = std::make_unique<Mapping>();
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  cl_mem buffer = counter_buffer(context, memory, bytes, !queue);
  if (!buffer) {
    munmap(memory, bytes);
    return nullptr;
  }
  *mapping = {memory, bytes};
  if (next.clSetMemObjectDestructorCallback(buffer, unmap, mapping.get()) == CL_SUCCESS)
    mapping.release();
  chunk->buffer = buffer;
  chunk->memory = static_cast<uint64_t *>(memory);
  chunk->words = bytes / sizeof(uint64_t);
  chunk->queue = queue;
  return chunk;
}

// Whether the command has ended, successfully or not; its event is then released.
bool ended(cl_event *event, bool *good) {
  cl_int status = CL_QUEUED;
  if (next.clGetEventInfo(*event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                          nullptr) != CL_SUCCESS)
    status = -1;
  if (status > CL_COMPLETE) return false;
  next.clReleaseEvent(*event);
  *event = nullptr;
  *good = status == CL_COMPLETE;
  return true;
}

}  // namespace

bool CounterChunk::ready() {
  bool good = true;
  if (clearing && !ended(&clearing, &good)) return false;
  lost = lost || !good;
  return !lost;
}

// Free device memory holds zeros, so an earlier launch's header is never mistaken for a later
// one's.
void CounterChunk::start_anew() {
  if (queue && zeros) {
    clearing = queue->clear(buffer, used);
    lost = !clearing;
  }
  used = 0;
}

CounterChunk::~CounterChunk() {
  if (clearing) next.clReleaseEvent(clearing);
  if (buffer) next.clReleaseMemObject(buffer);
}

CounterArea::CounterArea(std::shared_ptr<CounterChunk> chunk, size_t first)
    : chunk_(std::move(chunk)), first_(first) {}

CounterArea &CounterArea::operator=(CounterArea &&other) noexcept {
  if (this != &other) {
    give_back();
    chunk_ = std::move(other.chunk_);
    first_ = other.first_;
    here_ = other.here_;
    coming_ = other.coming_;
    parts_coming_ = other.parts_coming_;
    lost_ = other.lost_;
    reading_ = std::exchange(other.reading_, nullptr);
  }
  return *this;
}

void CounterArea::give_back() {
  if (reading_) next.clReleaseEvent(std::exchange(reading_, nullptr));
  if (chunk_ && --chunk_->live == 0) chunk_->start_anew();
  chunk_.reset();
}

cl_mem CounterArea::buffer() const { return chunk_->buffer; }
const uint64_t *CounterArea::data() const { return chunk_->memory + first_; }
uint64_t *CounterArea::data() { return chunk_->memory + first_; }

bool CounterArea::send(const Part &part) {
  if (!chunk_->queue) return true;
  size_t first = first_ + part.begin;
  return chunk_->queue->write(chunk_->buffer, first, part.words, chunk_->memory + first);
}

bool CounterArea::ended_reading() {
  bool good = true;
  if (reading_ && !ended(&reading_, &good)) return false;
  if (!good) lost_ = true;
  return true;
}

bool CounterArea::arrived(size_t words) {
  if (!chunk_->queue || here_ >= words) return true;
  if (reading_ && !ended_reading()) return false;
  here_ = coming_;
  if (!lost_ && here_ < words) {
    coming_ = words;
    reading_ = chunk_->queue->read(chunk_->buffer, first_ + here_, words - here_,
                                   chunk_->memory + first_ + here_);
    if (reading_) return false;
    lost_ = true;
  }
  // An unread area is not a launch's header.
  if (lost_) std::fill_n(chunk_->memory + first_, CLINST_HEADER_WORDS, 0);
  return true;
}

bool CounterArea::arrived(const std::vector<Part> &parts) {
  if (!chunk_->queue || lost_) return true;
  for (size_t i = 0; !parts_coming_ && i < parts.size(); i++) {
    size_t first = first_ + parts[i].begin;
    if (reading_) next.clReleaseEvent(reading_);  // the queue is in order: the last event suffices
    reading_ = chunk_->queue->read(chunk_->buffer, first, parts[i].words, chunk_->memory + first);
    lost_ = lost_ || !reading_;
  }
  parts_coming_ = true;
  return ended_reading();
}

CounterPool::CounterPool(cl_context context, const Device &device, bool zeros)
    : context_(context), zeros_(zeros) {
  if (device.shares_memory) return;
  queue_ = std::make_shared<CounterQueue>(context, device.handle);
  usable_ = static_cast<bool>(*queue_);
}

CounterArea CounterPool::allocate(size_t words, size_t limit_bytes) {
  if (!usable_) return {};
  words = (words + align_words - 1) & ~(align_words - 1);
  auto found = std::find_if(chunks_.begin(), chunks_.end(), [&](const auto &chunk) {
    return chunk->words - chunk->used >= words && chunk->ready();
  });
  if (found == chunks_.end()) {
    size_t bytes = std::max(chunk_bytes, (words * sizeof(uint64_t) + 4095) & ~size_t{4095});
    if (bytes_ + bytes > limit_bytes) return {};
    auto chunk = new_chunk(context_, bytes, queue_);
    if (!chunk) return {};
    chunk->zeros = zeros_;
    bytes_ += bytes;
    found = chunks_.insert(chunks_.end(), std::move(chunk));
  }
  CounterChunk &chunk = **found;
  CounterArea area(*found, chunk.used);
  if (!queue_) std::fill_n(chunk.memory + chunk.used, CLINST_HEADER_WORDS, 0);
  chunk.used += words;
  chunk.live++;
  return area;
}

}  // namespace layer
