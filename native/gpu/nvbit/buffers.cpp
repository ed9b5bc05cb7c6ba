// SPDX-License-Identifier: Apache-2.0
#include "buffers.h"

#include <algorithm>
#include <chrono>

#include "counters.h"

extern const unsigned char xpuprof_rows_fatbin[]; /* rows.cu, embedded by the build */

/* Rows hashed and read at a time: bounds the scratch memory. */
enum : uint64_t { ROWS_A_PASS = 1 << 20, VECTORS_A_PASS_BYTES = 16 << 20 };

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
void CounterMemory::release(Tools *tools, CounterBuffer *buffer) {
  cuMemFreeAsync(buffer->memory, tools->making);
  cuMemFreeAsync(buffer->bases, tools->making);
  std::lock_guard<std::mutex> hold(lock_);
  tools->in_use -= buffer->bytes;
  delete buffer;
}

void CounterMemory::drop_idle(Tools *tools) {
  std::map<uint32_t, std::vector<CounterBuffer *>> dropped;
  {
    std::lock_guard<std::mutex> hold(lock_);
    dropped.swap(tools->idle);
  }
  for (auto &kernel : dropped)
    for (CounterBuffer *buffer : kernel.second) release(tools, buffer);
}

bool CounterMemory::has_room(const Tools &tools, uint64_t bytes) const {
  return bytes <= tools.limit && tools.in_use <= tools.limit - bytes;
}

/* Idle buffers of other kernels go first; then the launches in flight have to be read. */
bool CounterMemory::make_room(Tools *tools, uint64_t bytes, Patience patience) {
  auto until = std::chrono::steady_clock::now();
  if (patience == Patience::WAIT) until += LONGEST_WAIT;
  if (bytes > tools->limit) return false;
  for (;;) {
    {
      std::unique_lock<std::mutex> hold(lock_);
      bool more = returned_.wait_until(
          hold, until, [&] { return has_room(*tools, bytes) || !tools->idle.empty(); });
      if (has_room(*tools, bytes)) return true;
      if (!more) return false;
    }
    drop_idle(tools);
  }
}

CounterBuffer *CounterMemory::make(Tools *tools, const Kernel &kernel, uint64_t warps,
                                   CUstream stream, Patience patience, std::string *why) {
  CounterBuffer buffer = {};
  buffer.warps = warps;
  buffer.bytes = sizeof(CounterHead) + warps * (kernel.columns + 1ull) * sizeof(uint64_t);
  uint64_t bases_bytes = std::max<size_t>(1, kernel.bases.size()) * sizeof(uint32_t);
  if (!make_room(tools, buffer.bytes, patience) ||
      !ok(cuMemAllocAsync(&buffer.memory, buffer.bytes, tools->making))) {
    *why = "its counters take " + std::to_string(buffer.bytes) +
           " bytes, which are not available; XPUPROF_COUNTER_MEMORY sets the limit";
    return nullptr;
  }
  bool made = ok(cuMemAllocAsync(&buffer.bases, bases_bytes, tools->making));
  CounterHead head = {warps, kernel.columns, lanes_, buffer.bases, kernel.bases.size(), 0, 0};
  CUevent cleared = nullptr;
  made = made && ok(cuMemcpyHtoDAsync_v2(buffer.memory, &head, sizeof head, tools->making)) &&
         (kernel.bases.empty() || ok(cuMemcpyHtoDAsync_v2(buffer.bases, kernel.bases.data(),
                                                          bases_bytes, tools->making))) &&
         ok(cuMemsetD8Async(buffer.memory + sizeof head, 0, buffer.bytes - sizeof head,
                            tools->making)) &&
         ok(cuEventCreate(&cleared, CU_EVENT_DISABLE_TIMING)) &&
         ok(cuEventRecord(cleared, tools->making)) && ok(cuStreamWaitEvent(stream, cleared, 0));
  if (cleared) cuEventDestroy_v2(cleared);
  if (!made) {
    cuMemFreeAsync(buffer.memory, tools->making);
    if (buffer.bases) cuMemFreeAsync(buffer.bases, tools->making);
    *why = "counters could not be cleared";
    return nullptr;
  }
  std::lock_guard<std::mutex> hold(lock_);
  tools->in_use += buffer.bytes;
  return new CounterBuffer(buffer);
}

CounterBuffer *CounterMemory::take_idle(CUcontext context, const Kernel &kernel, uint64_t warps) {
  std::lock_guard<std::mutex> hold(lock_);
  auto tools = contexts_.find(context);
  if (tools == contexts_.end()) return nullptr;
  std::vector<CounterBuffer *> &idle = tools->second.idle[kernel.number];
  auto fits = std::find_if(idle.begin(), idle.end(),
                           [&](const CounterBuffer *buffer) { return buffer->warps >= warps; });
  if (fits == idle.end()) return nullptr;
  CounterBuffer *buffer = *fits;
  idle.erase(fits);
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

bool CounterMemory::hash(CUcontext context, Tools *tools, CounterBuffer *buffer, uint32_t columns,
                         uint64_t warps, Reading *reading) {
  ClassBuilder builder;
  std::vector<RowHash> hashes(std::min<uint64_t>(warps, ROWS_A_PASS));
  if (!scratch(tools, hashes.size() * sizeof(RowHash))) return false;
  CUdeviceptr lanes_at = buffer->memory + offsetof(CounterHead, lane_instructions);
  for (uint64_t first = 0; first < warps; first += hashes.size()) {
    uint64_t rows = std::min<uint64_t>(hashes.size(), warps - first);
    CUdeviceptr counters =
        buffer->memory + sizeof(CounterHead) + first * (columns + 1ull) * sizeof(uint64_t);
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
  reading->classes = builder.classes();
  uint64_t totals[2]; /* they lie side by side */
  static_assert(sizeof(CounterHead) - offsetof(CounterHead, strays) == sizeof totals,
                "the last two");
  if (!ok(cuMemcpyDtoHAsync_v2(totals, buffer->memory + offsetof(CounterHead, strays),
                               sizeof totals, tools->reading)) ||
      !ok(cuStreamSynchronize(tools->reading)))
    return false;
  reading->strays = totals[0];
  reading->lane_instructions = totals[1];
  return true;
}

bool CounterMemory::gather(CUcontext context, Tools *tools, CounterBuffer *buffer, uint32_t columns,
                           const std::vector<uint64_t> &rows, std::vector<uint64_t> *vectors) {
  uint64_t row_bytes = (columns + 1) * sizeof(uint64_t); /* the vector and its row */
  uint64_t a_pass = std::max<uint64_t>(1, VECTORS_A_PASS_BYTES / row_bytes);
  a_pass = std::min<uint64_t>(a_pass, rows.size());
  vectors->resize(rows.size() * columns);
  if (!scratch(tools, a_pass * row_bytes)) return false;
  CUdeviceptr counters = buffer->memory + sizeof(CounterHead), which = tools->scratch,
              to = tools->scratch + a_pass * sizeof(uint64_t);
  for (uint64_t first = 0; first < rows.size(); first += a_pass) {
    uint64_t n = std::min<uint64_t>(a_pass, rows.size() - first);
    void *arguments[] = {&counters, &which, &n, &columns, &to};
    uint32_t blocks = static_cast<uint32_t>(std::min<uint64_t>(n, 4096));
    if (!ok(cuMemcpyHtoDAsync_v2(which, &rows[first], n * sizeof(uint64_t), tools->reading)))
      return false;
    nvbit_launch_kernel(context, tools->gather_rows, blocks, 1, 1, 128, 1, 1, 0, tools->reading,
                        arguments, nullptr);
    if (!ok(cuMemcpyDtoHAsync_v2(&(*vectors)[first * columns], to, n * columns * sizeof(uint64_t),
                                 tools->reading)) ||
        !ok(cuStreamSynchronize(tools->reading)))
      return false;
  }
  return true;
}

bool CounterMemory::read(CUcontext context, const Kernel &kernel, CounterBuffer *buffer,
                         uint64_t warps, CUevent done, Reading *reading) {
  Tools *tools = tools_of(context);
  bool whole = ok(cuEventSynchronize(done)) &&
               hash(context, tools, buffer, kernel.columns, warps, reading) &&
               gather(context, tools, buffer, kernel.columns, reading->classes.first_row,
                      &reading->vectors) &&
               /* The return value of NVBit's launch call is undocumented; this holds what
                * matters. */
               vectors_match(reading->classes, reading->vectors, kernel.columns);
  CUdeviceptr counts = buffer->memory + offsetof(CounterHead, strays);
  uint64_t cleared = buffer->bytes - offsetof(CounterHead, strays);
  if (ok(cuMemsetD8Async(counts, 0, cleared, tools->reading)) &&
      ok(cuStreamSynchronize(tools->reading)))
    give_back(context, kernel, buffer);
  else
    release(tools, buffer);
  return whole;
}

void CounterMemory::end(CUcontext context) {
  Tools *tools = tools_of(context);
  if (!tools) return;
  drop_idle(tools);
  if (tools->scratch) cuMemFreeAsync(tools->scratch, tools->reading);
  cuStreamDestroy_v2(tools->making);
  cuStreamDestroy_v2(tools->reading);
  std::lock_guard<std::mutex> hold(lock_);
  contexts_.erase(context);
}
