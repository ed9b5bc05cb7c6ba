// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "counters.h"

namespace ptx {
namespace {

enum : uint64_t {
  STANDING_BYTES = 32 << 10, /* of a head and rows that stand */
  MOST_COPIES = 256 << 20,   /* bytes of page-locked memory */
  COPIES_AT_A_TIME = 1 << 20
};
enum : uint64_t { COPY_THREADS = 128 }; /* few: other kernels may fill the device */

bool ok(CUresult result) { return result == CUDA_SUCCESS; }

uint64_t rows_bytes(const Launch &launch) { return launch.warps() * row_bytes(launch); }

/* A power of two, so that there are few sizes. */
uint64_t copy_bytes(const Launch &launch) {
  uint64_t bytes = 256;
  while (bytes < rows_bytes(launch)) bytes *= 2;
  return bytes;
}

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

}  // namespace

CUfunction load_copy_rows() {
  CUmodule module;
  CUfunction function;
  return ok(driver.cuModuleLoadData(&module, COPY_ROWS)) &&
                 ok(driver.cuModuleGetFunction(&function, module, "xpuprof_copy_rows"))
             ? function
             : nullptr;
}

/* ---- memory --------------------------------------------------------------------------------- */

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

/* The flight needs its copy, and rows that its slot has no more, no longer. */
void Counters::give_back(Device *device, Flight *flight) {
  device->copies[copy_bytes(flight->launches[0])].push_back(flight->copied);
  if (flight->standing->gone && flight->standing.use_count() == 1)
    device->idle.push_back(flight->standing->buffer);
  flight->standing.reset();
}

/* The slot's rows are others now, or none; launches in flight may still add to these. */
void Counters::give_up(std::shared_ptr<Standing> *standing) {
  if (!*standing) return;
  (*standing)->gone = true;
  if (standing->use_count() == 1)
    device_of((*standing)->context)->idle.push_back((*standing)->buffer);
  standing->reset();
}

/* Rows to which no launch is adding, where memory is short. Whether there were any. */
bool Counters::reclaim(CUcontext context) {
  bool any = false;
  for (auto it = standing_.begin(); it != standing_.end();) {
    const std::shared_ptr<Standing> &one = it->second;
    const bool unused = one && one->context == context && one.use_count() == 1;
    if (unused) give_up(&it->second);
    any |= unused;
    it = unused ? standing_.erase(it) : std::next(it);
  }
  return any;
}

/* ---- launches ------------------------------------------------------------------------------- */

/* Whether the flight's launch adds to standing rows, which are then laid out for it. */
bool Counters::stand(Flight *flight) {
  if (flight->launches.size() != 1) return false;
  const Launch &launch = flight->launches[0];
  const CUdeviceptr at = launch.kernel.slot;
  const uint64_t bytes = sizeof(CounterHead) + rows_bytes(launch);
  if (!at || !launch.is_counted() || bytes > STANDING_BYTES) return false;
  Device *device = device_of(flight->context);
  if (!device || !device->copy_rows) return false;
  std::shared_ptr<Standing> standing = standing_[at];
  if (standing && standing->buffer.bytes < bytes) {
    standing.reset();
    give_up(&standing_[at]);
  }
  if (!standing) {
    standing = std::make_shared<Standing>();
    standing->context = flight->context;
    if (!take(flight->context, bytes, &standing->buffer)) return false;
    standing_[at] = standing;
  }
  flight->copied = take_copy(device, copy_bytes(launch));
  if (!flight->copied) return false;
  flight->standing = standing;
  Slot &slot = slots_[at];
  slot.context = flight->context;
  follow(slot, flight->stream);
  if ((standing->kernel != launch.kernel.id || standing->warps != launch.warps()) &&
      !lay_anew(flight, standing.get(), &slot)) {
    give_back(device, flight);
    return false;
  }
  point(at, &slot, flight->stream, standing->buffer.memory);
  return true;
}

/* Anew: for another kernel, or for another number of warps. */
bool Counters::lay_anew(Flight *flight, Standing *standing, Slot *slot) {
  const Launch &launch = flight->launches[0];
  const CUdeviceptr at = standing->buffer.memory;
  const CounterHead head = {at + sizeof head, launch.warps(), row_bytes(launch), 0, 0, 0};
  standing->kernel = launch.kernel.id;
  standing->warps = 0;
  const bool laid =
      ok(driver.cuMemcpyHtoDAsync_v2(at, &head, sizeof head, flight->stream.handle)) &&
      ok(driver.cuMemsetD8Async(at + sizeof head, 0, rows_bytes(launch), flight->stream.handle));
  was_set(slot, flight->stream);
  if (laid) standing->warps = launch.warps();
  standing->fresh = laid;
  return laid;
}

bool Counters::copy_out(const Flight &flight) {
  const Launch &launch = flight.launches[0];
  uint64_t from = flight.standing->buffer.memory + sizeof(CounterHead),
           to = reinterpret_cast<uint64_t>(flight.copied), n = rows_bytes(launch) / 8;
  void *arguments[] = {&from, &to, &n};
  const unsigned threads =
      static_cast<unsigned>(std::min<uint64_t>((n + 31) / 32 * 32, COPY_THREADS));
  return ok(driver.cuLaunchKernel(device_of(flight.context)->copy_rows, 1, 1, 1, threads, 1, 1, 0,
                                  flight.stream.handle, arguments, nullptr));
}

/* After the launch. */
void Counters::stood(Flight *flight) {
  Standing &standing = *flight->standing;
  Slot &slot = slots_[flight->launches[0].kernel.slot];
  flight->fresh = standing.fresh;
  standing.fresh = false;
  if (copy_out(*flight) && take_event(flight)) {
    slot.flying[flight->stream.id] = flight->done;
    flights_.push_back(std::move(*flight));
    return;
  }
  standing.warps = 0; /* the next launch begins afresh; the copy may be in use */
  lose(flight->launches[0]);
  mark(&slot, flight->stream);
  flight->standing.reset();
}

/* What the launch added to its rows. */
bool Counters::add_up(Flight *flight, bool whole) {
  const Launch &launch = flight->launches[0];
  Standing &standing = *flight->standing;
  const uint64_t n = rows_bytes(launch) / 8;
  auto slot = slots_.find(launch.kernel.slot);
  if (slot != slots_.end()) {
    auto &flying = slot->second.flying;
    auto is_its = [&](const auto &one) { return one.second == flight->done; };
    auto its = std::find_if(flying.begin(), flying.end(), is_its);
    if (its != flying.end()) flying.erase(its);
  }
  if (flight->fresh) standing.counts.assign(n, 0);
  if (!whole || standing.counts.size() != n) { /* those that they began with are not known */
    standing.counts.clear();
    standing.warps = 0;
    return false;
  }
  added_.resize(n);
  for (uint64_t i = 0; i < n; i++) added_[i] = flight->copied[i] - standing.counts[i];
  standing.counts.assign(flight->copied, flight->copied + n);
  return true;
}

}  // namespace ptx
