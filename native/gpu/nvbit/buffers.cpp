// SPDX-License-Identifier: Apache-2.0
#include "buffers.h"

#include <string.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "counters.h"

extern const unsigned char xpuprof_rows_fatbin[]; /* rows.cu, embedded by the build */

/* Rows hashed and read at a time: bounds the scratch memory. */
enum : uint64_t { ROWS_A_PASS = 1 << 20, VECTORS_A_PASS_BYTES = 16 << 20 };

/* Slabs take so much at most (a larger copy from the program's memory may wait for the stream);
 * their buffers are so small that the host hashes their rows itself; and so many bytes of them are
 * read at a time. */
enum : uint64_t { SLAB_BYTES = 64 << 10, SMALL_BYTES = 16 << 10, STAGING_BYTES = 1 << 20 };

/* How long a launch waits for the counters of earlier ones when memory is short. An earlier kernel
 * may wait for this very launch, so there must be an end. */
static constexpr std::chrono::seconds LONGEST_WAIT{5};

static bool ok(CUresult result) { return result == CUDA_SUCCESS; }

static uint64_t free_share() {
  size_t free_bytes = 0, all = 0;
  cuMemGetInfo_v2(&free_bytes, &all);
  return free_bytes / 2;
}

bool CounterMemory::start(CUcontext context, std::string *why) {
  if (tools_of(context)) return true;
  Tools tools = {};
  CUmodule module;
  if (!ok(cuStreamCreate(&tools.making, CU_STREAM_NON_BLOCKING)) ||
      !ok(cuStreamCreate(&tools.reading, CU_STREAM_NON_BLOCKING))) {
    *why = "no stream for reading counters";
    return false;
  }
  nvbit_load_tool_module(context, xpuprof_rows_fatbin, &module);
  nvbit_find_function_by_name(context, module, "xpuprof_hash_rows", &tools.hash_rows);
  nvbit_find_function_by_name(context, module, "xpuprof_gather_rows", &tools.gather_rows);
  if (!tools.hash_rows || !tools.gather_rows) {
    *why = "the kernels that read counters could not be loaded";
    return false;
  }
  tools.limit = limit_ ? limit_ : free_share();
  void *staging = nullptr;
  if (ok(cuMemAllocHost_v2(&staging, STAGING_BYTES))) tools.staging = static_cast<char *>(staging);
  std::lock_guard<std::mutex> hold(lock_);
  contexts_[context] = tools;
  return true;
}

CounterMemory::Tools *CounterMemory::tools_of(CUcontext context) {
  std::lock_guard<std::mutex> hold(lock_);
  auto known = contexts_.find(context);
  return known == contexts_.end() ? nullptr : &known->second;
}

/* ---- taking and giving back ----------------------------------------------------------------- */

/* Freed in stream order: cuMemFree would wait for every kernel on the device. */
void CounterMemory::release(Tools *tools, CounterSlab *slab) {
  cuMemFreeAsync(slab->memory, tools->making);
  cuMemFreeAsync(slab->bases, tools->making);
  std::lock_guard<std::mutex> hold(lock_);
  tools->in_use -= slab->bytes();
  delete slab;
}

void CounterMemory::drop_idle(Tools *tools) {
  std::vector<CounterSlab *> dropped;
  {
    std::lock_guard<std::mutex> hold(lock_);
    for (auto &kernel : tools->idle) {
      std::deque<CounterBuffer *> kept;
      for (CounterBuffer *buffer : kernel.second) {
        CounterSlab *slab = buffer->slab;
        if (slab->idle < slab->buffers.size())
          kept.push_back(buffer);
        else if (buffer == &slab->buffers[0])
          dropped.push_back(slab);
      }
      kernel.second.swap(kept);
    }
    tools->made.clear();
  }
  for (CounterSlab *slab : dropped) release(tools, slab);
}

bool CounterMemory::has_room(const Tools &tools, uint64_t bytes) const {
  return bytes <= tools.limit && tools.in_use <= tools.limit - bytes;
}

/* Idle buffers of other kernels go first; then the launches in flight have to be read. */
bool CounterMemory::make_room(Tools *tools, uint64_t bytes, Patience patience) {
  auto until = std::chrono::steady_clock::now();
  if (patience == Patience::WAIT) until += LONGEST_WAIT;
  if (bytes > tools->limit) return false;
  std::unique_lock<std::mutex> hold(lock_);
  for (;;) {
    if (has_room(*tools, bytes)) return true;
    const uint64_t before = returns_;
    hold.unlock();
    drop_idle(tools);
    hold.lock();
    if (has_room(*tools, bytes)) return true;
    if (!returned_.wait_until(hold, until, [&] { return returns_ != before; })) return false;
  }
}

/* Heads, no counts, and the first column of each called function. */
bool CounterMemory::clear(Tools *tools, const Kernel &kernel, const CounterSlab &slab,
                          CUstream stream) {
  const CounterHead head = {slab.warps, kernel.columns, lanes_, slab.bases, kernel.bases.size(), 0,
                            0};
  CUevent cleared = nullptr;
  std::vector<char> image(slab.stride > SMALL_BYTES ? sizeof head : slab.bytes());
  for (size_t at = 0; at < image.size(); at += slab.stride) memcpy(&image[at], &head, sizeof head);
  bool made = ok(cuMemcpyHtoDAsync_v2(slab.memory, image.data(), image.size(), tools->making)) &&
              (image.size() == slab.bytes() ||
               ok(cuMemsetD8Async(slab.memory + sizeof head, 0, slab.stride - sizeof head,
                                  tools->making))) &&
              (kernel.bases.empty() ||
               ok(cuMemcpyHtoDAsync_v2(slab.bases, kernel.bases.data(),
                                       kernel.bases.size() * sizeof(uint32_t), tools->making))) &&
              ok(cuEventCreate(&cleared, CU_EVENT_DISABLE_TIMING)) &&
              ok(cuEventRecord(cleared, tools->making)) &&
              ok(cuStreamWaitEvent(stream, cleared, 0));
  if (cleared) cuEventDestroy_v2(cleared);
  return made;
}

static uint64_t stride_of(const Kernel &kernel, uint64_t warps) {
  return sizeof(CounterHead) + warps * (kernel.columns + 1ull) * sizeof(uint64_t);
}

CounterSlab *CounterMemory::make_slab(Tools *tools, const Kernel &kernel, uint64_t warps, size_t n,
                                      CUstream stream, Patience patience, std::string *why) {
  auto slab = std::make_unique<CounterSlab>();
  slab->warps = warps;
  slab->stride = stride_of(kernel, warps);
  slab->buffers.resize(n);
  uint64_t bases_bytes = std::max<size_t>(1, kernel.bases.size()) * sizeof(uint32_t);
  if (!make_room(tools, slab->bytes(), patience) ||
      !ok(cuMemAllocAsync(&slab->memory, slab->bytes(), tools->making))) {
    *why = "its counters take " + std::to_string(slab->bytes()) +
           " bytes, which are not available; XPUPROF_COUNTER_MEMORY sets the limit";
    return nullptr;
  }
  if (!ok(cuMemAllocAsync(&slab->bases, bases_bytes, tools->making)) ||
      !clear(tools, kernel, *slab, stream)) {
    cuMemFreeAsync(slab->memory, tools->making);
    if (slab->bases) cuMemFreeAsync(slab->bases, tools->making);
    *why = "counters could not be cleared";
    return nullptr;
  }
  for (size_t i = 0; i < n; i++) slab->buffers[i] = {slab.get(), slab->memory + i * slab->stride};
  return slab.release();
}

/* As many small buffers as there are already, if there is room: so launches in a row soon find idle
 * ones. */
CounterBuffer *CounterMemory::make(Tools *tools, const Kernel &kernel, uint64_t warps,
                                   CUstream stream, Patience patience, std::string *why) {
  const uint64_t stride = stride_of(kernel, warps);
  size_t &made = tools->made[{kernel.number, stride}];
  size_t n = stride > SMALL_BYTES ? 1 : std::clamp<size_t>(made, 1, SLAB_BYTES / stride);
  {
    std::lock_guard<std::mutex> hold(lock_);
    if (!has_room(*tools, n * stride)) n = 1;
  }
  CounterSlab *slab = make_slab(tools, kernel, warps, n, stream, patience, why);
  if (!slab) return nullptr;
  made += n;
  std::lock_guard<std::mutex> hold(lock_);
  tools->in_use += slab->bytes();
  slab->idle = n - 1;
  for (size_t i = 1; i < n; i++) tools->idle[kernel.number].push_back(&slab->buffers[i]);
  return &slab->buffers[0];
}

CounterBuffer *CounterMemory::take_idle(CUcontext context, const Kernel &kernel, uint64_t warps) {
  std::lock_guard<std::mutex> hold(lock_);
  auto tools = contexts_.find(context);
  if (tools == contexts_.end()) return nullptr;
  std::deque<CounterBuffer *> &idle = tools->second.idle[kernel.number];
  auto fits = std::find_if(idle.begin(), idle.end(), [&](const CounterBuffer *buffer) {
    return buffer->slab->warps >= warps;
  });
  if (fits == idle.end()) return nullptr;
  CounterBuffer *buffer = *fits;
  idle.erase(fits);
  buffer->slab->idle--;
  return buffer;
}

CounterBuffer *CounterMemory::take(CUcontext context, const Kernel &kernel, uint64_t warps,
                                   CUstream stream, std::string *why) {
  if (!start(context, why)) return nullptr;
  if (CounterBuffer *idle = take_idle(context, kernel, warps)) return idle;
  return make(tools_of(context), kernel, warps, stream, Patience::WAIT, why);
}

void CounterMemory::reserve(CUcontext context, const Kernel &kernel, uint64_t warps,
                            CUstream stream, size_t n) {
  std::vector<CounterBuffer *> taken;
  std::string why;
  if (!start(context, &why)) return;
  while (taken.size() < n) {
    CounterBuffer *buffer = take_idle(context, kernel, warps);
    if (!buffer) buffer = make(tools_of(context), kernel, warps, stream, Patience::NONE, &why);
    if (!buffer) break;
    taken.push_back(buffer);
  }
  for (CounterBuffer *buffer : taken) give_back(context, kernel, buffer);
}

void CounterMemory::give_back(CUcontext context, const Kernel &kernel, CounterBuffer *buffer) {
  {
    std::lock_guard<std::mutex> hold(lock_);
    contexts_[context].idle[kernel.number].push_back(buffer);
    buffer->slab->idle++;
    returns_++;
  }
  returned_.notify_all();
}

/* ---- reading -------------------------------------------------------------------------------- */

bool CounterMemory::scratch(Tools *tools, uint64_t bytes) {
  if (bytes <= tools->scratch_bytes) return true;
  if (tools->scratch) cuMemFreeAsync(tools->scratch, tools->reading);
  tools->scratch_bytes = 0;
  if (!ok(cuMemAllocAsync(&tools->scratch, bytes, tools->reading))) return false;
  tools->scratch_bytes = bytes;
  return true;
}

bool CounterMemory::hash(CUcontext context, Tools *tools, Reading *launch) {
  const CUdeviceptr memory = launch->buffer->memory;
  uint32_t columns = launch->kernel->columns;
  ClassBuilder builder;
  std::vector<RowHash> hashes(std::min<uint64_t>(launch->warps, ROWS_A_PASS));
  if (!scratch(tools, hashes.size() * sizeof(RowHash))) return false;
  CUdeviceptr lanes_at = memory + offsetof(CounterHead, lane_instructions);
  for (uint64_t first = 0; first < launch->warps; first += hashes.size()) {
    uint64_t rows = std::min<uint64_t>(hashes.size(), launch->warps - first);
    CUdeviceptr counters =
        memory + sizeof(CounterHead) + first * (columns + 1ull) * sizeof(uint64_t);
    void *arguments[] = {&counters, &rows, &columns, &tools->scratch, &lanes_at};
    uint32_t blocks = static_cast<uint32_t>(std::min<uint64_t>((rows + 7) / 8, 4096));
    nvbit_launch_kernel(context, tools->hash_rows, blocks, 1, 1, 256, 1, 1, 0, tools->reading,
                        arguments, nullptr);
    if (!ok(cuMemcpyDtoHAsync_v2(hashes.data(), tools->scratch, rows * sizeof(RowHash),
                                 tools->reading)) ||
        !ok(cuStreamSynchronize(tools->reading)))
      return false;
    builder.add(hashes.data(), rows);
  }
  launch->classes = builder.classes();
  uint64_t totals[2]; /* they lie side by side */
  static_assert(sizeof(CounterHead) - offsetof(CounterHead, strays) == sizeof totals,
                "the last two");
  if (!ok(cuMemcpyDtoHAsync_v2(totals, memory + offsetof(CounterHead, strays), sizeof totals,
                               tools->reading)) ||
      !ok(cuStreamSynchronize(tools->reading)))
    return false;
  launch->strays = totals[0];
  launch->lane_instructions = totals[1];
  return true;
}

bool CounterMemory::gather(CUcontext context, Tools *tools, Reading *launch) {
  const std::vector<uint64_t> &rows = launch->classes.first_row;
  uint32_t columns = launch->kernel->columns;
  uint64_t row_bytes = (columns + 1ull) * sizeof(uint64_t); /* the vector and its row */
  uint64_t a_pass = std::max<uint64_t>(1, VECTORS_A_PASS_BYTES / row_bytes);
  a_pass = std::min<uint64_t>(a_pass, rows.size());
  launch->vectors.resize(rows.size() * columns);
  if (!scratch(tools, a_pass * row_bytes)) return false;
  CUdeviceptr counters = launch->buffer->memory + sizeof(CounterHead), which = tools->scratch,
              to = tools->scratch + a_pass * sizeof(uint64_t);
  for (uint64_t first = 0; first < rows.size(); first += a_pass) {
    uint64_t n = std::min<uint64_t>(a_pass, rows.size() - first);
    void *arguments[] = {&counters, &which, &n, &columns, &to};
    uint32_t blocks = static_cast<uint32_t>(std::min<uint64_t>(n, 4096));
    if (!ok(cuMemcpyHtoDAsync_v2(which, &rows[first], n * sizeof(uint64_t), tools->reading)))
      return false;
    nvbit_launch_kernel(context, tools->gather_rows, blocks, 1, 1, 128, 1, 1, 0, tools->reading,
                        arguments, nullptr);
    if (!ok(cuMemcpyDtoHAsync_v2(&launch->vectors[first * columns], to,
                                 n * columns * sizeof(uint64_t), tools->reading)) ||
        !ok(cuStreamSynchronize(tools->reading)))
      return false;
  }
  return true;
}

void CounterMemory::read_large(CUcontext context, Tools *tools, Reading *launch) {
  launch->whole = hash(context, tools, launch) && gather(context, tools, launch) &&
                  /* The return value of NVBit's launch call is undocumented; this holds what
                   * matters. */
                  vectors_match(launch->classes, launch->vectors, launch->kernel->columns);
  const CounterSlab &slab = *launch->buffer->slab;
  const uint64_t head = offsetof(CounterHead, strays);
  if (ok(cuMemsetD8Async(launch->buffer->memory + head, 0, slab.stride - head, tools->reading)) &&
      ok(cuStreamSynchronize(tools->reading)))
    give_back(context, *launch->kernel, launch->buffer); /* else it is not used again */
}

/* The classes of rows in the host's memory. */
static void classify(const char *buffer, Reading *launch) {
  CounterHead head;
  memcpy(&head, buffer, sizeof head);
  const uint32_t columns = launch->kernel->columns;
  const auto *rows = reinterpret_cast<const uint64_t *>(buffer + sizeof head);
  ClassBuilder builder;
  std::vector<RowHash> hashes;
  for (uint64_t warp = 0; warp < launch->warps; warp++) {
    const uint64_t *row = rows + warp * (columns + 1ull);
    hashes.push_back(row_hash(row, columns));
    launch->lane_instructions += row[columns];
  }
  builder.add(hashes.data(), hashes.size());
  launch->classes = builder.classes();
  launch->strays = head.strays;
  for (uint64_t warp : launch->classes.first_row)
    launch->vectors.insert(launch->vectors.end(), rows + warp * (columns + 1ull),
                           rows + warp * (columns + 1ull) + columns);
}

/* Launches whose buffers lie one behind another: copied by one call and cleared by another. Returns
 * how many. */
static size_t side_by_side(const Reading *first, size_t n) {
  const CounterSlab *slab = first->buffer->slab;
  size_t found = 1;
  while (found < n && first[found].buffer == first->buffer + found &&
         first[found].buffer->slab == slab)
    found++;
  return found;
}

/* As many of the launches as the staging holds, until the first large one. Returns how many. */
size_t CounterMemory::read_small(CUcontext context, Tools *tools, Reading *first, size_t n) {
  const uint64_t head = offsetof(CounterHead, strays);
  uint64_t used = 0;
  size_t taken = 0;
  bool whole = true;
  while (taken < n) {
    const CounterSlab &slab = *first[taken].buffer->slab;
    if (slab.stride > SMALL_BYTES || slab.stride > STAGING_BYTES - used) break;
    const size_t room = (STAGING_BYTES - used) / slab.stride;
    const size_t run = side_by_side(first + taken, std::min(n - taken, room));
    const CUdeviceptr from = first[taken].buffer->memory;
    whole =
        whole &&
        ok(cuMemcpyDtoHAsync_v2(tools->staging + used, from, run * slab.stride, tools->reading)) &&
        ok(cuMemsetD2D8Async(from + head, slab.stride, 0, slab.stride - head, run, tools->reading));
    used += run * slab.stride;
    taken += run;
  }
  whole = ok(cuStreamSynchronize(tools->reading)) && whole;
  const char *at = tools->staging;
  for (Reading *launch = first; launch < first + taken; launch++) {
    launch->whole = whole;
    if (whole) classify(at, launch);
    at += launch->buffer->slab->stride;
    if (whole) give_back(context, *launch->kernel, launch->buffer);
  }
  return taken;
}

void CounterMemory::read(CUcontext context, std::vector<Reading> *launches) {
  Tools *tools = tools_of(context);
  for (size_t i = 0; i < launches->size();) {
    const size_t small =
        tools->staging ? read_small(context, tools, &(*launches)[i], launches->size() - i) : 0;
    if (!small) read_large(context, tools, &(*launches)[i]);
    i += std::max<size_t>(1, small);
  }
}

void CounterMemory::end(CUcontext context) {
  Tools *tools = tools_of(context);
  if (!tools) return;
  drop_idle(tools);
  if (tools->scratch) cuMemFreeAsync(tools->scratch, tools->reading);
  if (tools->staging) cuMemFreeHost(tools->staging);
  cuStreamDestroy_v2(tools->making);
  cuStreamDestroy_v2(tools->reading);
  std::lock_guard<std::mutex> hold(lock_);
  contexts_.erase(context);
}
