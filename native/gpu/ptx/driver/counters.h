/* SPDX-License-Identifier: Apache-2.0 */
/* Counters in device memory: each counted launch has its own rows. */
#ifndef XPUPROF_PTX_COUNTERS_H
#define XPUPROF_PTX_COUNTERS_H

#include <stdint.h>

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "programs.h"
#include "xpuprof/boundary.h"

namespace ptx {

struct Buffer {
  CUdeviceptr memory;
  uint64_t bytes;
};

enum : uint32_t { NO_HEAD = UINT32_MAX };

struct Launch {
  Kernel kernel;
  uint64_t blocks, number; /* the launch's number, once it has gone */
  uint32_t threads;        /* of a block */
  xpu_launch shape;
  std::string reason; /* why it is not counted */
  uint32_t head;      /* its number in the buffer, or NO_HEAD */
  uint64_t rows;      /* where they begin in the buffer */
  bool is_counted() const { return reason.empty(); }
  uint64_t warps() const { return blocks * ((threads + 31) / 32); }
};

/* Launches by the slot that they read. */
using Readers = std::map<CUdeviceptr, std::vector<Launch *>>;

/* A call between its launches and the reading of their counters. Launches that read one slot run in
 * this order. */
struct Flight {
  CUcontext context;
  CUstream stream;
  std::vector<Launch> launches; /* several: a graph's */
  Buffer buffer;                /* the heads, then the rows; memory 0: none */
  uint32_t heads;
  CUevent done;
  CUdeviceptr head_of(const Launch &launch) const {
    return buffer.memory + launch.head * sizeof(CounterHead);
  }
};

/* Not thread-safe: the caller holds a lock. No function waits for a kernel, but `finish`. */
class Counters {
 public:
  /* `limit` of 0: half of the memory that is free when a context is first used. */
  explicit Counters(uint64_t limit) : limit_(limit) {}
  /* Gives the launches rows, if they need any, and makes each slot point to the first of its
   * launches' head, or to nothing. Launches have a reason afterwards when there is no memory. */
  void prepare(Flight *flight);
  void went(Flight *flight);
  void did_not_go(Flight *flight);
  /* Around a call that launches kernels in the stream that nobody knows: they are not counted, and
   * slots keep their value until they have ended. */
  void stop_counting(CUcontext context, CUstream stream);
  void uncounted_went(CUcontext context, CUstream stream);
  /* Reads what has completed. */
  void harvest();
  /* Waits for all launches and reads them; gives up after a minute without one. */
  void finish();
  /* The memory of these contexts is gone; call `finish` before. */
  void forget(CUcontext context);
  void forget(CUdevice device);
  void forget(CUdeviceptr slot) { slots_.erase(slot); } /* its module is unloaded */
  uint64_t lost() const;

 private:
  struct Device {
    CUdevice number;
    CUstream reading;
    uint64_t limit, in_use;
    std::vector<Buffer> idle;
  };
  /* Launches on several streams read it, one after the other where its value changes. */
  struct Slot {
    CUcontext context;
    uint64_t value;
    CUstream setter; /* the stream in which the value was set, and after what */
    CUevent set;
    std::map<CUstream, CUevent> last;
  };
  Device *device_of(CUcontext context);
  bool take(Flight *flight, uint64_t bytes);
  std::string give_rows(Flight *flight, const Readers &readers);
  void point(CUdeviceptr at, Slot *slot, CUstream stream, uint64_t value);
  void mark(Slot *slot, CUstream stream);
  static void record(CUevent *event, CUstream stream);
  bool copy(CUcontext context, CUdeviceptr from, void *to, uint64_t bytes);
  std::set<CUdeviceptr> out_of_step(const Flight &flight);
  bool read(const Flight &flight, const Launch &launch);
  void landed(Flight *flight);

  const uint64_t limit_;
  std::map<CUcontext, Device> devices_;
  std::map<CUdeviceptr, Slot> slots_;
  std::deque<Flight> flights_;
  uint64_t lost_ = 0;
};

}  // namespace ptx

#endif
