/* SPDX-License-Identifier: Apache-2.0 */
/* Counters in device memory: each counted launch has its own rows. */
#ifndef XPUPROF_PTX_COUNTERS_H
#define XPUPROF_PTX_COUNTERS_H

#include <stdint.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "programs.h"
#include "xpuprof/boundary.h"

namespace ptx {

struct Buffer {
  CUdeviceptr memory;
  uint64_t bytes;
};

/* A launch between its call and the reading of its counters. */
struct Flight {
  CUcontext context;
  CUstream stream;
  Kernel kernel;
  Buffer buffer;          /* memory 0: none is needed, or the launch is not counted */
  uint64_t warps, launch; /* the launch's number, once it has gone */
  uint32_t threads;       /* of a block */
  CUevent done;
  xpu_launch shape;
  std::string reason; /* why it is not counted */
};

/* Not thread-safe: the caller holds a lock. No function waits for a kernel, but `finish`. */
class Counters {
 public:
  /* `limit` of 0: half of the memory that is free when a context is first used. */
  explicit Counters(uint64_t limit) : limit_(limit) {}
  /* Gives the launch rows, if it needs any, and makes its module's variable point to them, or to
   * nothing. `reason` is set when there is no memory. */
  void prepare(Flight *flight);
  void went(Flight *flight);
  void did_not_go(Flight *flight);
  /* Around a call that launches any kernels in the stream: they are not counted, and variables
   * keep their value until they have ended. */
  void stop_counting(CUcontext context, CUstream stream);
  void uncounted_went(CUcontext context, CUstream stream);
  /* Reads what has completed. */
  void harvest();
  /* Waits for all launches and reads them; gives up after a minute without one. */
  void finish();
  /* The memory of these contexts is gone; call `finish` before. */
  void forget(CUcontext context);
  void forget(CUdevice device);
  void forget(CUdeviceptr variable) { variables_.erase(variable); } /* its module is unloaded */
  uint64_t lost() const { return lost_ + flights_.size(); }

 private:
  struct Device {
    CUdevice number;
    CUstream reading;
    uint64_t limit, in_use;
    std::vector<Buffer> idle;
  };
  /* A module's variable: launches on several streams read it, one after the other where its value
   * changes. */
  struct Variable {
    CUcontext context;
    uint64_t value;
    CUstream setter; /* the stream in which the value was set, and after what */
    CUevent set;
    std::map<CUstream, CUevent> last;
  };
  Device *device_of(CUcontext context);
  bool take(Flight *flight);
  void point(CUdeviceptr at, Variable *variable, CUstream stream, uint64_t value);
  void mark(Variable *variable, CUstream stream);
  static void record(CUevent *event, CUstream stream);
  bool read(Flight *flight);
  bool rows_of(const Flight &flight, uint64_t first, std::vector<uint64_t> *rows, uint64_t n);
  void landed(Flight *flight);

  const uint64_t limit_;
  std::map<CUcontext, Device> devices_;
  std::map<CUdeviceptr, Variable> variables_;
  std::deque<Flight> flights_;
  uint64_t lost_ = 0;
};

}  // namespace ptx

#endif
