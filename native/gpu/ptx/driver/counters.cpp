// SPDX-License-Identifier: Apache-2.0
#include "counters.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "../../nvbit/classes.h"

namespace ptx {
namespace {

enum : uint64_t { BYTES_A_PASS = 64 << 20 }; /* of rows read at a time */

bool ok(CUresult result) { return result == CUDA_SUCCESS; }

/* Every thread has a stream behind CU_STREAM_PER_THREAD. */
CUstream stream_key(CUstream stream) {
  static thread_local char here;
  return stream == CU_STREAM_PER_THREAD ? reinterpret_cast<CUstream>(&here) : stream;
}

uint32_t threads_in(const Flight &flight, uint64_t warp) {
  uint32_t a_block = (flight.threads + 31) / 32;
  return std::min(32u, flight.threads - 32 * static_cast<uint32_t>(warp % a_block));
}

uint32_t columns_of(const Flight &flight) { return row_columns(*flight.kernel.function); }

/* A warp's vector follows from its row and the number of its threads. */
RowHash hash_of(const uint64_t *row, uint32_t columns, uint32_t threads) {
  RowHash hash = {0, 0};
  for (uint32_t column = 0; column < columns; column++) row_hash_add(&hash, column, row[column]);
  row_hash_add(&hash, columns, threads);
  return hash;
}

/* Whether any of its counts is measured; otherwise the launch tells them all. */
bool is_measured(const Kernel &kernel) {
  return kernel.function->columns || !kernel.function->called.empty();
}

}  // namespace

Counters::Device *Counters::device_of(CUcontext context) {
  auto known = devices_.find(context);
  if (known != devices_.end()) return &known->second;
  Device made = {};
  size_t free_bytes = 0, all = 0;
  if (!ok(driver.cuStreamCreate(&made.reading, CU_STREAM_NON_BLOCKING))) return nullptr;
  driver.cuCtxGetDevice(&made.number);
  driver.cuMemGetInfo_v2(&free_bytes, &all);
  made.limit = limit_ ? limit_ : free_bytes / 2;
  return &devices_.emplace(context, made).first->second;
}

/* Buffers are kept for other launches: freeing device memory would wait for running kernels. */
bool Counters::take(Flight *flight) {
  const uint64_t row = 8 * uint64_t{columns_of(*flight)},
                 bytes = sizeof(CounterHead) + flight->warps * row;
  Device *device = device_of(flight->context);
  if (!device) return false;
  auto fits = [&](const Buffer &buffer) { return buffer.bytes >= bytes; };
  auto idle = std::find_if(device->idle.begin(), device->idle.end(), fits);
  if (idle != device->idle.end()) {
    flight->buffer = *idle;
    device->idle.erase(idle);
  } else {
    uint64_t rounded = 4096;
    while (rounded < bytes) rounded *= 2;
    if (rounded > device->limit - std::min(device->limit, device->in_use) ||
        !ok(driver.cuMemAlloc_v2(&flight->buffer.memory, rounded))) {
      flight->reason = "its counters take " + std::to_string(bytes) +
                       " bytes, which are not available; XPUPROF_COUNTER_MEMORY sets the limit";
      flight->buffer = {};
      return false;
    }
    flight->buffer.bytes = rounded;
    device->in_use += rounded;
  }
  const CounterHead head = {flight->warps, row};
  return ok(driver.cuMemsetD8Async(flight->buffer.memory, 0, bytes, flight->stream)) &&
         ok(driver.cuMemcpyHtoDAsync_v2(flight->buffer.memory, &head, sizeof head, flight->stream));
}

/* Kernels that still read the old value end first; a value that another stream set is there first.
 */
void Counters::point(CUdeviceptr at, Variable *variable, CUstream stream, uint64_t value) {
  if (variable->value == value) {
    if (variable->set && variable->setter != stream_key(stream))
      driver.cuStreamWaitEvent(stream, variable->set, 0);
    return;
  }
  for (const auto &[other, event] : variable->last)
    if (other != stream_key(stream)) driver.cuStreamWaitEvent(stream, event, 0);
  driver.cuMemsetD32Async(at, static_cast<uint32_t>(value), 1, stream);
  driver.cuMemsetD32Async(at + 4, static_cast<uint32_t>(value >> 32), 1, stream);
  record(&variable->set, stream);
  variable->setter = stream_key(stream);
  variable->value = value;
}

void Counters::record(CUevent *event, CUstream stream) {
  if (!*event) driver.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
  driver.cuEventRecord(*event, stream);
}

void Counters::mark(Variable *variable, CUstream stream) {
  record(&variable->last[stream_key(stream)], stream);
}

void Counters::prepare(Flight *flight) {
  harvest();
  if (flight->reason.empty() && is_measured(flight->kernel) && !take(flight) &&
      flight->reason.empty())
    flight->reason = "its counters could not be made";
  bool counted = flight->reason.empty() && flight->buffer.memory;
  for (CUdeviceptr at : flight->kernel.variables) {
    Variable &variable = variables_[at];
    variable.context = flight->context;
    bool its_own = at == flight->kernel.variables.front();
    point(at, &variable, flight->stream, counted && its_own ? flight->buffer.memory : 0);
  }
}

void Counters::went(Flight *flight) {
  for (CUdeviceptr at : flight->kernel.variables) mark(&variables_[at], flight->stream);
  if (!flight->reason.empty()) return did_not_go(flight);
  record(&flight->done, flight->stream);
  flights_.push_back(*flight);
}

void Counters::did_not_go(Flight *flight) {
  if (flight->buffer.memory) device_of(flight->context)->idle.push_back(flight->buffer);
}

void Counters::stop_counting(CUcontext context, CUstream stream) {
  for (auto &[at, variable] : variables_)
    if (variable.context == context) point(at, &variable, stream, 0);
}

void Counters::uncounted_went(CUcontext context, CUstream stream) {
  for (auto &[at, variable] : variables_)
    if (variable.context == context) mark(&variable, stream);
}

/* ---- reading -------------------------------------------------------------------------------- */

bool Counters::rows_of(const Flight &flight, uint64_t first, std::vector<uint64_t> *rows,
                       uint64_t n) {
  const uint64_t columns = columns_of(flight);
  rows->resize(n * columns);
  if (!flight.buffer.memory || rows->empty()) return true;
  CUstream stream = device_of(flight.context)->reading;
  CUdeviceptr from = flight.buffer.memory + sizeof(CounterHead) + 8 * first * columns;
  return ok(driver.cuMemcpyDtoHAsync_v2(rows->data(), from, 8 * rows->size(), stream)) &&
         ok(driver.cuStreamSynchronize(stream));
}

bool Counters::read(Flight *flight) {
  const uint32_t columns = columns_of(*flight);
  const uint64_t a_pass = std::max<uint64_t>(1, BYTES_A_PASS / (8 * (columns + 1ull)));
  ClassBuilder builder;
  std::vector<uint64_t> rows, vectors, counts;
  std::vector<RowHash> hashes;
  for (uint64_t first = 0; first < flight->warps; first += a_pass) {
    const uint64_t n = std::min(a_pass, flight->warps - first);
    size_t known = builder.classes().first_row.size();
    if (!rows_of(*flight, first, &rows, n)) return false;
    hashes.clear();
    for (uint64_t i = 0; i < n; i++)
      hashes.push_back(hash_of(&rows[i * columns], columns, threads_in(*flight, first + i)));
    builder.add(hashes.data(), n);
    for (; known < builder.classes().first_row.size(); known++) {
      uint64_t warp = builder.classes().first_row[known];
      if (!counts_of(*flight->kernel.program, *flight->kernel.function,
                     rows.data() + (warp - first) * columns, threads_in(*flight, warp), &counts))
        return false;
      vectors.insert(vectors.end(), counts.begin(), counts.end());
    }
  }
  const WarpClasses &classes = builder.classes();
  xpu_grid grid = {};
  grid.kernel = flight->kernel.id;
  grid.n_vectors = static_cast<uint32_t>(classes.first_row.size());
  grid.counts = vectors.data();
  grid.n_runs = classes.run_class.size();
  grid.run_vector = classes.run_class.data();
  grid.run_length = classes.run_length.data();
  xpu_kernel_counts(flight->launch, &grid);
  return true;
}

void Counters::landed(Flight *flight) {
  CUcontext popped;
  driver.cuCtxPushCurrent_v2(flight->context);
  if (!read(flight)) lost_++; /* no vectors rather than wrong ones */
  driver.cuEventDestroy_v2(flight->done);
  driver.cuCtxPopCurrent_v2(&popped);
  did_not_go(flight);
}

void Counters::harvest() {
  auto over = [](const Flight &flight) {
    return driver.cuEventQuery(flight.done) != CUDA_ERROR_NOT_READY;
  };
  while (!flights_.empty() && over(flights_.front())) {
    Flight flight = flights_.front();
    flights_.pop_front();
    landed(&flight);
  }
}

void Counters::finish() {
  using Clock = std::chrono::steady_clock;
  auto until = Clock::now() + std::chrono::minutes(1);
  while (!flights_.empty() && Clock::now() < until) {
    size_t before = flights_.size();
    harvest();
    if (flights_.size() < before)
      until = Clock::now() + std::chrono::minutes(1);
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Counters::forget(CUdevice device) {
  std::vector<CUcontext> gone;
  for (const auto &[context, its] : devices_)
    if (its.number == device) gone.push_back(context);
  for (CUcontext context : gone) forget(context);
}

void Counters::forget(CUcontext context) {
  devices_.erase(context);
  for (auto it = variables_.begin(); it != variables_.end();)
    it = it->second.context == context ? variables_.erase(it) : std::next(it);
}

}  // namespace ptx
