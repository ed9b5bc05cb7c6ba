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

uint32_t threads_in(const Launch &launch, uint64_t warp) {
  uint32_t a_block = (launch.threads + 31) / 32;
  return std::min(32u, launch.threads - 32 * static_cast<uint32_t>(warp % a_block));
}

/* A warp's vector follows from its row and the number of its threads. */
RowHash hash_of(const uint64_t *row, uint32_t columns, uint32_t threads) {
  RowHash hash = row_hash(row, columns);
  row_hash_add(&hash, columns, threads);
  return hash;
}

Readers readers_of(Flight *flight) {
  Readers found;
  for (Launch &launch : flight->launches)
    if (launch.kernel.slot) found[launch.kernel.slot].push_back(&launch);
  return found;
}

bool any_counts(const std::vector<Launch *> &launches) {
  return std::any_of(launches.begin(), launches.end(),
                     [](Launch *one) { return one->is_counted(); });
}

/* Places from the buffer's beginning on; how many bytes they take. Launches without counts have a
 * head where others read their slot after them. */
uint64_t lay_out(Flight *flight, const Readers &readers) {
  for (const auto &[slot, launches] : readers)
    if (any_counts(launches))
      for (Launch *launch : launches) launch->head = flight->heads++;
  uint64_t bytes = sizeof(CounterHead) * flight->heads;
  for (const auto &[slot, launches] : readers)
    for (Launch *launch : launches) {
      launch->rows = bytes;
      bytes += launch->warps() * row_bytes(*launch);
    }
  return bytes;
}

/* The last launch of a slot leaves it at nothing; a single one leaves it as it is. */
std::vector<CounterHead> heads_of(const Flight *flight, const Readers &readers) {
  std::vector<CounterHead> heads(flight->heads);
  for (const auto &[slot, launches] : readers)
    for (size_t i = 0; i < launches.size() && any_counts(launches); i++) {
      const Launch &one = *launches[i];
      CounterHead &head = heads[one.head];
      head = {flight->buffer.memory + one.rows,
              one.is_counted() ? one.warps() : 0,
              row_bytes(one),
              0,
              0,
              0};
      if (launches.size() > 1) head.threads = one.blocks * one.threads;
      if (i + 1 < launches.size()) head.next = flight->head_of(*launches[i + 1]);
    }
  return heads;
}

}  // namespace

Stream stream_of(CUstream handle) {
  Stream stream = {handle, 0};
  driver.cuStreamGetId(handle, &stream.id);
  return stream;
}

uint32_t columns_of(const Launch &launch) { return row_columns(*launch.kernel.function); }

uint64_t row_bytes(const Launch &launch) {
  return launch.is_counted() ? 8 * uint64_t{columns_of(launch)} : 0;
}

Counters::Device *Counters::device_of(CUcontext context) {
  auto known = devices_.find(context);
  if (known != devices_.end()) return &known->second;
  Device made = {};
  size_t free_bytes = 0, all = 0;
  if (!ok(driver.cuStreamCreate(&made.reading, CU_STREAM_NON_BLOCKING))) return nullptr;
  driver.cuCtxGetDevice(&made.number);
  made.copy_rows = load_copy_rows();
  driver.cuMemGetInfo_v2(&free_bytes, &all);
  made.limit = limit_ ? limit_ : free_bytes / 2;
  return &devices_.emplace(context, made).first->second;
}

/* Buffers are kept for other launches: freeing device memory would wait for running kernels. */
bool Counters::take(CUcontext context, uint64_t bytes, Buffer *buffer) {
  Device *device = device_of(context);
  if (!device) return false;
  auto fits = [&](const Buffer &one) { return one.bytes >= bytes; };
  uint64_t rounded = 4096;
  while (rounded < bytes) rounded *= 2;
  do {
    auto idle = std::find_if(device->idle.begin(), device->idle.end(), fits);
    if (idle != device->idle.end()) {
      *buffer = *idle;
      device->idle.erase(idle);
      return true;
    }
    if (rounded <= device->limit - std::min(device->limit, device->in_use) &&
        ok(driver.cuMemAlloc_v2(&buffer->memory, rounded))) {
      buffer->bytes = rounded;
      device->in_use += rounded;
      return true;
    }
  } while (reclaim(context));
  *buffer = {};
  return false;
}

/* Larger copies from the program's memory wait for the stream. */
enum : size_t { HEADS_A_COPY = (64 << 10) / sizeof(CounterHead) };

/* Empty, or why there are none. */
std::string Counters::give_rows(Flight *flight, const Readers &readers) {
  const uint64_t bytes = lay_out(flight, readers);
  if (!bytes) return "";
  if (!take(flight->context, bytes, &flight->buffer))
    return "its counters take " + std::to_string(bytes) +
           " bytes, which are not available; XPUPROF_COUNTER_MEMORY sets the limit";
  const std::vector<CounterHead> heads = heads_of(flight, readers);
  bool given = ok(driver.cuMemsetD8Async(flight->buffer.memory, 0, bytes, flight->stream.handle));
  for (size_t first = 0; first < heads.size() && given; first += HEADS_A_COPY)
    given = ok(driver.cuMemcpyHtoDAsync_v2(
        flight->buffer.memory + first * sizeof(CounterHead), &heads[first],
        std::min<size_t>(HEADS_A_COPY, heads.size() - first) * sizeof(CounterHead),
        flight->stream.handle));
  return given ? "" : "its counters could not be made";
}

/* A value that another stream set is there first. */
void Counters::see_set(const Slot &slot, Stream stream) {
  if (slot.set && slot.setter != stream.id) driver.cuStreamWaitEvent(stream.handle, slot.set, 0);
}

/* The stream waits for what other streams do with the slot. */
void Counters::follow(const Slot &slot, Stream stream) {
  see_set(slot, stream);
  for (const auto *events : {&slot.last, &slot.flying})
    for (const auto &[other, event] : *events)
      if (other != stream.id) driver.cuStreamWaitEvent(stream.handle, event, 0);
}

void Counters::was_set(Slot *slot, Stream stream) {
  record(&slot->set, stream);
  slot->setter = stream.id;
}

/* Kernels that still read the old value end first. */
void Counters::point(CUdeviceptr at, Slot *slot, Stream stream, uint64_t value) {
  if (slot->value == value) return see_set(*slot, stream);
  follow(*slot, stream);
  driver.cuMemsetD32Async(at, static_cast<uint32_t>(value), 1, stream.handle);
  driver.cuMemsetD32Async(at + 4, static_cast<uint32_t>(value >> 32), 1, stream.handle);
  was_set(slot, stream);
  slot->value = value;
}

bool Counters::record(CUevent *event, Stream stream) {
  return (*event || ok(driver.cuEventCreate(event, CU_EVENT_DISABLE_TIMING))) &&
         ok(driver.cuEventRecord(*event, stream.handle));
}

void Counters::mark(Slot *slot, Stream stream) { record(&slot->last[stream.id], stream); }

/* False: nobody will know when the flight is over. */
bool Counters::take_event(Flight *flight) {
  Device *device = device_of(flight->context);
  if (device && !device->events.empty()) {
    flight->done = device->events.back();
    device->events.pop_back();
  }
  return record(&flight->done, flight->stream);
}

/* ---- launches ------------------------------------------------------------------------------- */

void Counters::prepare(Flight *flight) {
  harvest();
  auto set = [&](CUdeviceptr at, uint64_t value) {
    Slot &slot = slots_[at];
    slot.context = flight->context;
    point(at, &slot, flight->stream, value);
  };
  for (const Launch &launch : flight->launches)
    for (CUdeviceptr other : launch.kernel.other_slots) set(other, 0);
  if (stand(flight)) return;
  const Readers readers = readers_of(flight);
  const std::string reason = give_rows(flight, readers);
  for (Launch &launch : flight->launches)
    if (launch.is_counted() && launch.kernel.slot) launch.reason = reason;
  for (const auto &[at, launches] : readers)
    set(at, any_counts(launches) ? flight->head_of(*launches.front()) : 0);
}

void Counters::went(Flight *flight) {
  for (const Launch &launch : flight->launches)
    for (CUdeviceptr other : launch.kernel.other_slots) mark(&slots_[other], flight->stream);
  if (flight->standing) return stood(flight);
  uint64_t counted = 0;
  for (const auto &[at, launches] : readers_of(flight)) {
    Slot &slot = slots_[at];
    if (launches.size() > 1 && slot.value) { /* the last of them left it at nothing */
      was_set(&slot, flight->stream);
      slot.value = 0;
    }
    mark(&slot, flight->stream);
  }
  for (const Launch &launch : flight->launches) counted += launch.is_counted();
  if (!counted) return did_not_go(flight);
  if (take_event(flight))
    flights_.push_back(std::move(*flight));
  else /* their buffer is lost, too: it may be in use */
    std::for_each(flight->launches.begin(), flight->launches.end(), [&](auto &one) { lose(one); });
}

void Counters::lose(const Launch &launch) {
  if (!launch.is_counted()) return;
  lost_++;
  xpu_launch_uncounted(launch.number, XPU_REASON_NOT_READ);
}

void Counters::did_not_go(Flight *flight) {
  Device *device = device_of(flight->context);
  if (flight->buffer.memory) device->idle.push_back(flight->buffer);
  if (flight->standing) give_back(device, flight);
}

void Counters::stop_counting(CUcontext context, Stream stream) {
  for (auto &[at, slot] : slots_)
    if (slot.context == context) point(at, &slot, stream, 0);
}

void Counters::uncounted_went(CUcontext context, Stream stream) {
  for (auto &[at, slot] : slots_)
    if (slot.context == context) mark(&slot, stream);
}

/* ---- reading -------------------------------------------------------------------------------- */

bool Counters::copy(CUcontext context, CUdeviceptr from, void *to, uint64_t bytes) {
  CUstream stream = device_of(context)->reading;
  return ok(driver.cuMemcpyDtoHAsync_v2(to, from, bytes, stream)) &&
         ok(driver.cuStreamSynchronize(stream));
}

/* Slots that were not handed from launch to launch as expected (the device may change a graph's
 * nodes): nobody knows whose counts are whose. */
std::set<CUdeviceptr> Counters::out_of_step(const Flight &flight) {
  std::set<CUdeviceptr> found;
  std::vector<CounterHead> heads(flight.heads);
  bool seen = heads.empty() || copy(flight.context, flight.buffer.memory, heads.data(),
                                    heads.size() * sizeof(CounterHead));
  for (const Launch &launch : flight.launches)
    if (launch.head != NO_HEAD && (!seen || heads[launch.head].left != heads[launch.head].threads))
      found.insert(launch.kernel.slot);
  return found;
}

/* Those of `n` warps from `first` on; NULL when the driver failed. */
const uint64_t *Counters::rows_of(const Flight &flight, const Launch &launch, uint64_t first,
                                  uint64_t n) {
  const uint64_t columns = columns_of(launch);
  if (flight.standing) return added_.data() + first * columns;
  rows_.assign(n * columns, 0);
  const CUdeviceptr from = flight.buffer.memory + launch.rows + 8 * first * columns;
  return !launch.kernel.slot || copy(flight.context, from, rows_.data(), 8 * rows_.size())
             ? rows_.data()
             : nullptr;
}

bool Counters::read(const Flight &flight, const Launch &launch) {
  const uint32_t columns = columns_of(launch);
  const uint64_t a_pass = std::max<uint64_t>(1, BYTES_A_PASS / (8 * (columns + 1ull)));
  ClassBuilder builder;
  std::vector<uint64_t> vectors, counts;
  std::vector<RowHash> hashes;
  for (uint64_t first = 0; first < launch.warps(); first += a_pass) {
    const uint64_t n = std::min(a_pass, launch.warps() - first);
    size_t known = builder.classes().first_row.size();
    const uint64_t *rows = rows_of(flight, launch, first, n);
    if (!rows) return false;
    hashes.clear();
    for (uint64_t i = 0; i < n; i++)
      hashes.push_back(hash_of(rows + i * columns, columns, threads_in(launch, first + i)));
    builder.add(hashes.data(), n);
    for (; known < builder.classes().first_row.size(); known++) {
      uint64_t warp = builder.classes().first_row[known];
      if (!counts_of(*launch.kernel.program, *launch.kernel.function,
                     rows + (warp - first) * columns, threads_in(launch, warp), &counts))
        return false;
      vectors.insert(vectors.end(), counts.begin(), counts.end());
    }
  }
  const WarpClasses &classes = builder.classes();
  xpu_grid grid = {};
  grid.kernel = launch.kernel.id;
  grid.n_vectors = static_cast<uint32_t>(classes.first_row.size());
  grid.counts = vectors.data();
  grid.n_runs = classes.run_class.size();
  grid.run_vector = classes.run_class.data();
  grid.run_length = classes.run_length.data();
  xpu_kernel_counts(launch.number, &grid);
  return true;
}

/* No vectors rather than wrong ones. */
void Counters::landed(Flight *flight, bool whole) {
  CUcontext popped;
  if (flight->standing) {
    if (!add_up(flight, whole) || !read(*flight, flight->launches[0])) lose(flight->launches[0]);
  } else {
    driver.cuCtxPushCurrent_v2(flight->context);
    const std::set<CUdeviceptr> lost = out_of_step(*flight);
    for (const Launch &launch : flight->launches)
      if (launch.is_counted() &&
          (!whole || lost.count(launch.kernel.slot) || !read(*flight, launch)))
        lose(launch);
    driver.cuCtxPopCurrent_v2(&popped);
  }
  if (Device *device = device_of(flight->context)) device->events.push_back(flight->done);
  did_not_go(flight);
}

void Counters::harvest() {
  while (!flights_.empty()) {
    const CUresult over = driver.cuEventQuery(flights_.front().done);
    if (over == CUDA_ERROR_NOT_READY) return;
    Flight flight = std::move(flights_.front());
    flights_.pop_front();
    landed(&flight, ok(over));
  }
}

uint64_t Counters::lost() const {
  uint64_t lost = lost_;
  for (const Flight &flight : flights_)
    for (const Launch &launch : flight.launches) lost += launch.is_counted();
  return lost;
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
  auto is_its = [&](const Flight &flight) {
    if (flight.context != context) return false;
    for (const Launch &launch : flight.launches) lose(launch);
    return true;
  };
  flights_.erase(std::remove_if(flights_.begin(), flights_.end(), is_its), flights_.end());
  devices_.erase(context);
  for (auto it = standing_.begin(); it != standing_.end();)
    it = !it->second || it->second->context == context ? standing_.erase(it) : std::next(it);
  for (auto it = slots_.begin(); it != slots_.end();)
    it = it->second.context == context ? slots_.erase(it) : std::next(it);
}

void Counters::forget(CUdeviceptr slot) {
  slots_.erase(slot);
  auto standing = standing_.find(slot);
  if (standing == standing_.end()) return;
  give_up(&standing->second);
  standing_.erase(standing);
}

std::vector<CUcontext> Counters::contexts() const {
  std::vector<CUcontext> found;
  for (const auto &device : devices_) found.push_back(device.first);
  return found;
}

}  // namespace ptx
