// SPDX-License-Identifier: Apache-2.0
#include "buffers.h"

#include <algorithm>

#include "counters.h"

extern const unsigned char xpuprof_rows_fatbin[]; /* rows.cu, embedded by the build */

/* Rows hashed and read at a time: bounds the scratch memory. */
enum : uint64_t { ROWS_A_PASS = 1 << 20, VECTORS_A_PASS_BYTES = 16 << 20 };

static bool ok(CUresult result) { return result == CUDA_SUCCESS; }

bool CounterMemory::start(CUcontext context, std::string *why) {
  if (contexts_.count(context)) return true;
  Tools tools = {};
  CUmodule module;
  if (!ok(cuStreamCreate(&tools.stream, CU_STREAM_NON_BLOCKING))) {
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
  contexts_[context] = tools;
  return true;
}

void CounterMemory::release(CounterBuffer *buffer) {
  if (buffer->in_device) in_device_ -= buffer->bytes;
  cuMemFree_v2(buffer->memory);
  cuMemFree_v2(buffer->bases);
  cuEventDestroy_v2(buffer->cleared);
  delete buffer;
}

void CounterMemory::drop_idle(Tools *tools) {
  for (auto &kernel : tools->idle)
    for (CounterBuffer *buffer : kernel.second) release(buffer);
  tools->idle.clear();
}

bool CounterMemory::clear(Tools *tools, CounterBuffer *buffer) {
  CUdeviceptr counters = buffer->memory + sizeof(CounterHead);
  return ok(cuMemsetD8Async(buffer->memory + offsetof(CounterHead, strays), 0,
                            sizeof(CounterHead) - offsetof(CounterHead, strays), tools->stream)) &&
         ok(cuMemsetD8Async(counters, 0, buffer->bytes - sizeof(CounterHead), tools->stream)) &&
         ok(cuEventRecord(buffer->cleared, tools->stream));
}

CounterBuffer *CounterMemory::make(Tools *tools, const Kernel &kernel, uint64_t warps,
                                   std::string *why) {
  CounterBuffer buffer = {};
  buffer.warps = warps;
  buffer.bytes = sizeof(CounterHead) + warps * (kernel.columns + 1ull) * sizeof(uint64_t);
  if (in_device_ + buffer.bytes > limit_) drop_idle(tools);
  buffer.in_device =
      in_device_ + buffer.bytes <= limit_ && ok(cuMemAlloc_v2(&buffer.memory, buffer.bytes));
  if (!buffer.in_device &&
      !ok(cuMemAllocManaged(&buffer.memory, buffer.bytes, CU_MEM_ATTACH_GLOBAL))) {
    *why = "its counters take " + std::to_string(buffer.bytes) + " bytes, which are not available";
    return nullptr;
  }
  uint64_t bases_bytes = std::max<size_t>(1, kernel.bases.size()) * sizeof(uint32_t);
  if (!ok(cuMemAlloc_v2(&buffer.bases, bases_bytes)) ||
      !ok(cuEventCreate(&buffer.cleared, CU_EVENT_DISABLE_TIMING))) {
    cuMemFree_v2(buffer.memory);
    if (buffer.bases) cuMemFree_v2(buffer.bases);
    *why = "no device memory for counters";
    return nullptr;
  }
  if (buffer.in_device) in_device_ += buffer.bytes;
  CounterBuffer *made = new CounterBuffer(buffer);
  CounterHead head = {warps, kernel.columns, lanes_, buffer.bases, kernel.bases.size(), 0, 0};
  bool written = ok(cuMemcpyHtoDAsync_v2(buffer.memory, &head, sizeof head, tools->stream));
  if (written && !kernel.bases.empty())
    written =
        ok(cuMemcpyHtoDAsync_v2(buffer.bases, kernel.bases.data(), bases_bytes, tools->stream));
  if (!written || !clear(tools, made) || !ok(cuStreamSynchronize(tools->stream))) {
    release(made);
    *why = "counters could not be cleared";
    return nullptr;
  }
  return made;
}

CounterBuffer *CounterMemory::take(CUcontext context, const Kernel &kernel, uint64_t warps,
                                   std::string *why) {
  if (!contexts_.count(context) && !start(context, why)) return nullptr;
  auto tools = contexts_.find(context);
  std::vector<CounterBuffer *> &idle = tools->second.idle[kernel.id];
  for (size_t i = 0; i < idle.size(); i++) {
    CounterBuffer *buffer = idle[i];
    if (buffer->warps < warps) continue;
    idle.erase(idle.begin() + static_cast<ptrdiff_t>(i));
    cuEventSynchronize(buffer->cleared);
    return buffer;
  }
  return make(&tools->second, kernel, warps, why);
}

bool CounterMemory::scratch(Tools *tools, uint64_t bytes) {
  if (bytes <= tools->scratch_bytes) return true;
  if (tools->scratch) cuMemFree_v2(tools->scratch);
  tools->scratch = 0;
  tools->scratch_bytes = 0;
  if (!ok(cuMemAlloc_v2(&tools->scratch, bytes))) return false;
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
    nvbit_launch_kernel(context, tools->hash_rows, blocks, 1, 1, 256, 1, 1, 0, tools->stream,
                        arguments, nullptr);
    if (!ok(cuMemcpyDtoHAsync_v2(hashes.data(), tools->scratch, rows * sizeof(RowHash),
                                 tools->stream)) ||
        !ok(cuStreamSynchronize(tools->stream)))
      return false;
    builder.add(hashes.data(), rows);
  }
  reading->classes = builder.classes();
  uint64_t totals[2]; /* they lie side by side */
  static_assert(sizeof(CounterHead) - offsetof(CounterHead, strays) == sizeof totals,
                "the last two");
  if (!ok(cuMemcpyDtoHAsync_v2(totals, buffer->memory + offsetof(CounterHead, strays),
                               sizeof totals, tools->stream)) ||
      !ok(cuStreamSynchronize(tools->stream)))
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
    if (!ok(cuMemcpyHtoDAsync_v2(which, &rows[first], n * sizeof(uint64_t), tools->stream)))
      return false;
    nvbit_launch_kernel(context, tools->gather_rows, blocks, 1, 1, 128, 1, 1, 0, tools->stream,
                        arguments, nullptr);
    if (!ok(cuMemcpyDtoHAsync_v2(&(*vectors)[first * columns], to, n * columns * sizeof(uint64_t),
                                 tools->stream)) ||
        !ok(cuStreamSynchronize(tools->stream)))
      return false;
  }
  return true;
}

bool CounterMemory::read(CUcontext context, const Kernel &kernel, CounterBuffer *buffer,
                         uint64_t warps, CUevent done, Reading *reading) {
  Tools *tools = &contexts_[context];
  bool whole = ok(cuEventSynchronize(done)) &&
               hash(context, tools, buffer, kernel.columns, warps, reading) &&
               gather(context, tools, buffer, kernel.columns, reading->classes.first_row,
                      &reading->vectors) &&
               /* The return value of NVBit's launch call is undocumented; this holds what
                * matters. */
               vectors_match(reading->classes, reading->vectors, kernel.columns);
  give_back(context, kernel, buffer);
  return whole;
}

void CounterMemory::give_back(CUcontext context, const Kernel &kernel, CounterBuffer *buffer) {
  Tools *tools = &contexts_[context];
  if (clear(tools, buffer))
    tools->idle[kernel.id].push_back(buffer);
  else
    release(buffer);
}

void CounterMemory::end(CUcontext context) {
  auto tools = contexts_.find(context);
  if (tools == contexts_.end()) return;
  drop_idle(&tools->second);
  if (tools->second.scratch) cuMemFree_v2(tools->second.scratch);
  cuStreamDestroy_v2(tools->second.stream);
  contexts_.erase(tools);
}
