#include "counters.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "runtimes.hpp"

namespace layer {

// Small, so that launch after launch writes to memory that is still in the cache.
static constexpr size_t chunk_bytes = size_t{1} << 20;
static constexpr size_t align_words = 8;  // areas do not share a cache line

// A chunk is filled from the front and starts anew when all its areas were given back.
struct CounterChunk {
  cl_mem buffer = nullptr;
  uint64_t *memory = nullptr;
  size_t words = 0, used = 0, live = 0;
  ~CounterChunk();
};

namespace {

struct Mapping {
  void *memory;
  size_t bytes;
};

// The runtime may hold the buffer a little longer than we do.
void CL_CALLBACK unmap(cl_mem, void *mapping) {
  auto *gone = static_cast<Mapping *>(mapping);
  munmap(gone->memory, gone->bytes);
  delete gone;
}

std::shared_ptr<CounterChunk> new_chunk(cl_context context, size_t bytes) {
  auto chunk = std::make_shared<CounterChunk>();
  auto mapping = std::make_unique<Mapping>();
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  cl_mem buffer = counter_buffer(context, memory, bytes);
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
  return chunk;
}

}  // namespace

CounterChunk::~CounterChunk() {
  if (buffer) next.clReleaseMemObject(buffer);
}

CounterArea::CounterArea(std::shared_ptr<CounterChunk> chunk, size_t first)
    : chunk_(std::move(chunk)), first_(first) {}

CounterArea &CounterArea::operator=(CounterArea &&other) noexcept {
  if (this != &other) {
    give_back();
    chunk_ = std::move(other.chunk_);
    first_ = other.first_;
  }
  return *this;
}

void CounterArea::give_back() {
  if (chunk_ && --chunk_->live == 0) chunk_->used = 0;
  chunk_.reset();
}

cl_mem CounterArea::buffer() const { return chunk_->buffer; }
const uint64_t *CounterArea::data() const { return chunk_->memory + first_; }
uint64_t *CounterArea::header() { return chunk_->memory + first_; }

CounterArea CounterPool::allocate(size_t words, size_t limit_bytes) {
  words = (words + align_words - 1) & ~(align_words - 1);
  auto found = std::find_if(chunks_.begin(), chunks_.end(),
                            [&](const auto &chunk) { return chunk->words - chunk->used >= words; });
  if (found == chunks_.end()) {
    size_t bytes = std::max(chunk_bytes, (words * sizeof(uint64_t) + 4095) & ~size_t{4095});
    if (bytes_ + bytes > limit_bytes) return {};
    auto chunk = new_chunk(context_, bytes);
    if (!chunk) return {};
    bytes_ += bytes;
    found = chunks_.insert(chunks_.end(), std::move(chunk));
  }
  CounterChunk &chunk = **found;
  CounterArea area(*found, chunk.used);
  chunk.used += words;
  chunk.live++;
  return area;
}

}  // namespace layer
