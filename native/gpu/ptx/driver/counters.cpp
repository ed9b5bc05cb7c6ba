// SPDX-License-Identifier: Apache-2.0
#include "counters.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "../../nvbit/classes.h"

namespace ptx {
namespace {

enum : uint64_t {
  BYTES_A_PASS = 64 << 20,   /* of rows read at a time */
  STANDING_BYTES = 32 << 10, /* of a head and rows that stand */
  MOST_COPIES = 256 << 20,   /* bytes of page-locked memory */
  COPIES_AT_A_TIME = 1 << 20
};

bool ok(CUresult result) { return result == CUDA_SUCCESS; }

/* One block copies `n` words. */
const char COPY_ROWS[] = R"(.version 7.0
.target sm_52
.address_size 64
.visible .entry xpuprof_copy_rows(.param .u64 from, .param .u64 to, .param .u64 n)
{
.reg .pred %done;
.reg .b32 %t<2>;
.reg .b64 %from, %to, %n, %i, %step, %at, %word;
ld.param.u64 %from, [from];
ld.param.u64 %to, [to];
ld.param.u64 %n, [n];
cvta.to.global.u64 %from, %from;
cvta.to.global.u64 %to, %to;
mov.u32 %t0, %tid.x;
mov.u32 %t1, %ntid.x;
cvt.u64.u32 %i, %t0;
cvt.u64.u32 %step, %t1;
NEXT:
setp.ge.u64 %done, %i, %n;
@%done bra DONE;
mad.lo.u64 %at, %i, 8, %from;
ld.global.u64 %word, [%at];
mad.lo.u64 %at, %i, 8, %to;
st.global.u64 [%at], %word;
add.u64 %i, %i, %step;
bra.uni NEXT;
DONE:
ret;
}
)";

CUfunction copy_rows() {
  CUmodule module;
  CUfunction function;
  return ok(driver.cuModuleLoadData(&module, COPY_ROWS)) &&
                 ok(driver.cuModuleGetFunction(&function, module, "xpuprof_copy_rows"))
             ? function
             : nullptr;
}

/* Every thread has a stream behind CU_STREAM_PER_THREAD. */
CUstream stream_key(CUstream stream) {
  static thread_local char here;
  return stream == CU_STREAM_PER_THREAD ? reinterpret_cast<CUstream>(&here) : stream;
}

uint32_t threads_in(const Launch &launch, uint64_t warp) {
  uint32_t a_block = (launch.threads + 31) / 32;
  return std::min(32u, launch.threads - 32 * static_cast<uint32_t>(warp % a_block));
}

uint32_t columns_of(const Launch &launch) { return row_columns(*launch.kernel.function); }

/* A warp's vector follows from its row and the number of its threads. */
RowHash hash_of(const uint64_t *row, uint32_t columns, uint32_t threads) {
  RowHash hash = {0, 0};
  for (uint32_t column = 0; column < columns; column++) row_hash_add(&hash, column, row[column]);
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

uint64_t row_bytes(const Launch &launch) {
  return launch.is_counted() ? 8 * uint64_t{columns_of(launch)} : 0;
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

Counters::Device *Counters::device_of(CUcontext context) {
  auto known = devices_.find(context);
  if (known != devices_.end()) return &known->second;
  Device made = {};
  size_t free_bytes = 0, all = 0;
  if (!ok(driver.cuStreamCreate(&made.reading, CU_STREAM_NON_BLOCKING))) return nullptr;
  driver.cuCtxGetDevice(&made.number);
  made.copy_rows = copy_rows();
  driver.cuMemGetInfo_v2(&free_bytes, &all);
  made.limit = limit_ ? limit_ : free_bytes / 2;
  return &devices_.emplace(context, made).first->second;
}

/* Buffers are kept for other launches: freeing device memory would wait for running kernels. */
bool Counters::take(Flight *flight, uint64_t bytes) {
  Device *device = device_of(flight->context);
  if (!device) return false;
  auto fits = [&](const Buffer &buffer) { return buffer.bytes >= bytes; };
  auto idle = std::find_if(device->idle.begin(), device->idle.end(), fits);
  if (idle != device->idle.end()) {
    flight->buffer = *idle;
    device->idle.erase(idle);
    return true;
  }
  uint64_t rounded = 4096;
  while (rounded < bytes) rounded *= 2;
  if (rounded > device->limit - std::min(device->limit, device->in_use) ||
      !ok(driver.cuMemAlloc_v2(&flight->buffer.memory, rounded))) {
    flight->buffer = {};
    return false;
  }
  flight->buffer.bytes = rounded;
  device->in_use += rounded;
  return true;
}

/* Larger copies from the program's memory wait for the stream. */
enum : size_t { HEADS_A_COPY = (64 << 10) / sizeof(CounterHead) };

/* Empty, or why there are none. */
std::string Counters::give_rows(Flight *flight, const Readers &readers) {
  const uint64_t bytes = lay_out(flight, readers);
  if (!bytes) return "";
  if (!take(flight, bytes))
    return "its counters take " + std::to_string(bytes) +
           " bytes, which are not available; XPUPROF_COUNTER_MEMORY sets the limit";
  const std::vector<CounterHead> heads = heads_of(flight, readers);
  bool given = ok(driver.cuMemsetD8Async(flight->buffer.memory, 0, bytes, flight->stream));
  for (size_t first = 0; first < heads.size() && given; first += HEADS_A_COPY)
    given = ok(driver.cuMemcpyHtoDAsync_v2(
        flight->buffer.memory + first * sizeof(CounterHead), &heads[first],
        std::min<size_t>(HEADS_A_COPY, heads.size() - first) * sizeof(CounterHead),
        flight->stream));
  return given ? "" : "its counters could not be made";
}

/* The stream waits for the slot's launches in other streams. */
void Counters::follow(Slot *slot, CUstream stream) {
  for (const auto *events : {&slot->last, &slot->flying})
    for (const auto &[other, event] : *events)
      if (other != stream_key(stream)) driver.cuStreamWaitEvent(stream, event, 0);
}

/* Kernels that still read the old value end first; a value that another stream set is there first.
 */
void Counters::point(CUdeviceptr at, Slot *slot, CUstream stream, uint64_t value) {
  if (slot->value == value) {
    if (slot->set && slot->setter != stream_key(stream))
      driver.cuStreamWaitEvent(stream, slot->set, 0);
    return;
  }
  follow(slot, stream);
  driver.cuMemsetD32Async(at, static_cast<uint32_t>(value), 1, stream);
  driver.cuMemsetD32Async(at + 4, static_cast<uint32_t>(value >> 32), 1, stream);
  record(&slot->set, stream);
  slot->setter = stream_key(stream);
  slot->value = value;
}

void Counters::record(CUevent *event, CUstream stream) {
  if (!*event) driver.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
  driver.cuEventRecord(*event, stream);
}

void Counters::mark(Slot *slot, CUstream stream) {
  record(&slot->last[stream_key(stream)], stream);
}

/* ---- standing rows -------------------------------------------------------------------------- */

void Counters::take_event(Flight *flight) {
  std::vector<CUevent> &events = device_of(flight->context)->events;
  if (!events.empty()) {
    flight->done = events.back();
    events.pop_back();
  }
  record(&flight->done, flight->stream);
}

uint64_t *Counters::take_copy(Device *device, uint64_t bytes) {
  std::vector<uint64_t *> &idle = device->copies[bytes];
  if (idle.empty()) {
    void *made = nullptr;
    if (device->copies_bytes >= MOST_COPIES ||
        !ok(driver.cuMemAllocHost_v2(&made, COPIES_AT_A_TIME)))
      return nullptr;
    device->copies_bytes += COPIES_AT_A_TIME;
    for (uint64_t at = 0; at + bytes <= COPIES_AT_A_TIME; at += bytes)
      idle.push_back(reinterpret_cast<uint64_t *>(static_cast<char *>(made) + at));
  }
  uint64_t *copy = idle.back();
  idle.pop_back();
  return copy;
}

/* A power of two, so that there are few sizes. */
uint64_t copy_bytes(const Launch &launch) {
  uint64_t bytes = 256;
  while (bytes < launch.warps() * row_bytes(launch)) bytes *= 2;
  return bytes;
}

bool Counters::copy_out(const Flight &flight, uint64_t rows, uint64_t n) {
  uint64_t to = reinterpret_cast<uint64_t>(flight.copied);
  void *arguments[] = {&rows, &to, &n};
  const unsigned threads = static_cast<unsigned>(std::min<uint64_t>((n + 31) / 32 * 32, 1024));
  return ok(driver.cuLaunchKernel(device_of(flight.context)->copy_rows, 1, 1, 1, threads, 1, 1, 0,
                                  flight.stream, arguments, nullptr));
}

/* Whether the flight's launch adds to standing rows, which are then laid out for it. */
bool Counters::stand(Flight *flight) {
  if (flight->launches.size() != 1) return false;
  Launch &launch = flight->launches[0];
  const CUdeviceptr at = launch.kernel.slot;
  const uint64_t bytes = sizeof(CounterHead) + launch.warps() * row_bytes(launch);
  Device *device = device_of(flight->context);
  if (!device || !device->copy_rows || !at || !launch.is_counted() || bytes > STANDING_BYTES)
    return false;
  Standing &standing = standing_[at];
  if (!standing.memory) {
    if (device->in_use + STANDING_BYTES > device->limit ||
        !ok(driver.cuMemAlloc_v2(&standing.memory, STANDING_BYTES)))
      return false;
    device->in_use += STANDING_BYTES;
  }
  flight->copied = take_copy(device, copy_bytes(launch));
  if (!flight->copied) return false;
  Slot &slot = slots_[at];
  slot.context = flight->context;
  follow(&slot, flight->stream);
  if (standing.kernel != launch.kernel.id || standing.warps != launch.warps()) {
    const CounterHead head = {
        standing.memory + sizeof head, launch.warps(), row_bytes(launch), 0, 0, 0};
    standing.fresh =
        ok(driver.cuMemcpyHtoDAsync_v2(standing.memory, &head, sizeof head, flight->stream)) &&
        ok(driver.cuMemsetD8Async(standing.memory + sizeof head, 0, bytes - sizeof head,
                                  flight->stream));
    standing.kernel = launch.kernel.id;
    standing.warps = standing.fresh ? launch.warps() : 0;
    if (!standing.fresh) launch.reason = "its counters could not be made";
  }
  for (CUdeviceptr other : launch.kernel.other_slots) {
    slots_[other].context = flight->context;
    point(other, &slots_[other], flight->stream, 0);
  }
  point(at, &slot, flight->stream, launch.is_counted() ? standing.memory : 0);
  return true;
}

/* After the launch. */
bool Counters::stood(Flight *flight) {
  if (!flight->copied) return false;
  const Launch &launch = flight->launches[0];
  Standing &standing = standing_[launch.kernel.slot];
  flight->fresh = standing.fresh;
  standing.fresh = false;
  if (!copy_out(*flight, standing.memory + sizeof(CounterHead),
                launch.warps() * columns_of(launch)))
    standing.warps = 0; /* the next launch begins afresh */
  take_event(flight);
  slots_[launch.kernel.slot].flying[stream_key(flight->stream)] = flight->done;
  for (CUdeviceptr other : launch.kernel.other_slots) mark(&slots_[other], flight->stream);
  flights_.push_back(*flight);
  return true;
}

/* What the launch added to standing rows. */
bool Counters::add_up(const Flight &flight) {
  const Launch &launch = flight.launches[0];
  std::vector<uint64_t> &counts = standing_[launch.kernel.slot].counts;
  const uint64_t n = launch.warps() * columns_of(launch);
  if (flight.fresh) counts.assign(n, 0);
  if (counts.size() != n) return false; /* the copy that they began with failed */
  added_.resize(n);
  for (uint64_t i = 0; i < n; i++) added_[i] = flight.copied[i] - counts[i];
  counts.assign(flight.copied, flight.copied + n);
  return true;
}

/* ---- launches ------------------------------------------------------------------------------- */

void Counters::prepare(Flight *flight) {
  harvest();
  if (stand(flight)) return;
  const Readers readers = readers_of(flight);
  const std::string reason = give_rows(flight, readers);
  for (Launch &launch : flight->launches)
    if (launch.is_counted() && launch.kernel.slot) launch.reason = reason;
  auto set = [&](CUdeviceptr at, uint64_t value) {
    Slot &slot = slots_[at];
    slot.context = flight->context;
    point(at, &slot, flight->stream, value);
  };
  for (const Launch &launch : flight->launches)
    for (CUdeviceptr other : launch.kernel.other_slots) set(other, 0);
  for (const auto &[at, launches] : readers)
    set(at, any_counts(launches) ? flight->head_of(*launches.front()) : 0);
}

void Counters::went(Flight *flight) {
  if (stood(flight)) return;
  bool counts = false;
  for (const auto &[at, launches] : readers_of(flight)) {
    Slot &slot = slots_[at];
    if (launches.size() > 1 && slot.value) { /* the last of them left it at nothing */
      record(&slot.set, flight->stream);
      slot.setter = stream_key(flight->stream);
      slot.value = 0;
    }
    mark(&slot, flight->stream);
  }
  for (const Launch &launch : flight->launches) {
    for (CUdeviceptr other : launch.kernel.other_slots) mark(&slots_[other], flight->stream);
    counts = counts || launch.is_counted();
  }
  if (!counts) return did_not_go(flight);
  take_event(flight);
  flights_.push_back(*flight);
}

void Counters::did_not_go(Flight *flight) {
  Device *device = device_of(flight->context);
  if (flight->buffer.memory) device->idle.push_back(flight->buffer);
  if (flight->copied) device->copies[copy_bytes(flight->launches[0])].push_back(flight->copied);
}

void Counters::stop_counting(CUcontext context, CUstream stream) {
  for (auto &[at, slot] : slots_)
    if (slot.context == context) point(at, &slot, stream, 0);
}

void Counters::uncounted_went(CUcontext context, CUstream stream) {
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

/* Those of `n` warps from `first` on. */
bool Counters::rows_of(const Flight &flight, const Launch &launch, uint64_t first, uint64_t n,
                       std::vector<uint64_t> *rows) {
  const uint64_t columns = columns_of(launch);
  if (flight.copied) {
    rows->assign(added_.begin() + static_cast<ptrdiff_t>(first * columns),
                 added_.begin() + static_cast<ptrdiff_t>((first + n) * columns));
    return true;
  }
  rows->assign(n * columns, 0);
  return !launch.kernel.slot ||
         copy(flight.context, flight.buffer.memory + launch.rows + 8 * first * columns,
              rows->data(), 8 * rows->size());
}

bool Counters::read(const Flight &flight, const Launch &launch) {
  const uint32_t columns = columns_of(launch);
  const uint64_t a_pass = std::max<uint64_t>(1, BYTES_A_PASS / (8 * (columns + 1ull)));
  ClassBuilder builder;
  std::vector<uint64_t> rows, vectors, counts;
  std::vector<RowHash> hashes;
  for (uint64_t first = 0; first < launch.warps(); first += a_pass) {
    const uint64_t n = std::min(a_pass, launch.warps() - first);
    size_t known = builder.classes().first_row.size();
    if (!rows_of(flight, launch, first, n, &rows)) return false;
    hashes.clear();
    for (uint64_t i = 0; i < n; i++)
      hashes.push_back(hash_of(&rows[i * columns], columns, threads_in(launch, first + i)));
    builder.add(hashes.data(), n);
    for (; known < builder.classes().first_row.size(); known++) {
      uint64_t warp = builder.classes().first_row[known];
      if (!counts_of(*launch.kernel.program, *launch.kernel.function,
                     rows.data() + (warp - first) * columns, threads_in(launch, warp), &counts))
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
  if (flight->copied) {
    const Launch &launch = flight->launches[0];
    if (!whole || !add_up(*flight) || !read(*flight, launch)) lost_++;
    std::map<CUstream, CUevent> &flying = slots_[launch.kernel.slot].flying;
    auto is_its = [&](const auto &one) { return one.second == flight->done; };
    auto its = std::find_if(flying.begin(), flying.end(), is_its);
    if (its != flying.end()) flying.erase(its);
  } else {
    driver.cuCtxPushCurrent_v2(flight->context);
    const std::set<CUdeviceptr> lost = out_of_step(*flight);
    for (const Launch &launch : flight->launches)
      if (launch.is_counted() &&
          (!whole || lost.count(launch.kernel.slot) || !read(*flight, launch)))
        lost_++;
    driver.cuCtxPopCurrent_v2(&popped);
  }
  device_of(flight->context)->events.push_back(flight->done);
  did_not_go(flight);
}

void Counters::harvest() {
  while (!flights_.empty()) {
    const CUresult over = driver.cuEventQuery(flights_.front().done);
    if (over == CUDA_ERROR_NOT_READY) return;
    Flight flight = flights_.front();
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
  devices_.erase(context);
  for (const auto &[at, slot] : slots_)
    if (slot.context == context) standing_.erase(at);
  for (auto it = slots_.begin(); it != slots_.end();)
    it = it->second.context == context ? slots_.erase(it) : std::next(it);
}

}  // namespace ptx
