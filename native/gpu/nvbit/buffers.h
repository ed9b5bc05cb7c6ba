/* SPDX-License-Identifier: Apache-2.0 */
/* Counter memory of the launches in flight. Buffers are kept for the kernel that they were made
 * for, cleared after they were read, and given to its next launch. Up to the limit they lie in
 * device memory, beyond it in managed memory, which the driver moves to and fro: slower, exact,
 * and bounded by the host's memory only. */
#ifndef XPUPROF_NVBIT_BUFFERS_H
#define XPUPROF_NVBIT_BUFFERS_H

#include <stdint.h>

#include <map>
#include <string>
#include <vector>

#include "classes.h"
#include "functions.h"
#include "kit.h"

struct CounterBuffer {
  CUdeviceptr memory;
  uint64_t bytes, warps;
  CUdeviceptr bases;
  CUevent cleared;
  bool in_device;
};

/* What a launch's counters said. */
struct Reading {
  WarpClasses classes;
  std::vector<uint64_t> vectors; /* classes x columns */
  uint64_t lane_instructions;    /* of all warps */
  uint64_t strays;               /* counts that had no place: must be 0 */
};

class CounterMemory {
 public:
  CounterMemory(uint64_t limit_bytes, bool lanes) : limit_(limit_bytes), lanes_(lanes) {}
  /* In nvbit_tool_init: our stream and our kernels in this context. Once a context. */
  bool start(CUcontext context, std::string *why);
  /* A cleared buffer for `warps` rows; NULL, and `why`: it cannot be had. */
  CounterBuffer *take(CUcontext context, const Kernel &kernel, uint64_t warps, std::string *why);
  /* Waits for the event, reads the launch's classes and their vectors, clears the buffer and takes
   * it back. False: the driver failed. */
  bool read(CUcontext context, const Kernel &kernel, CounterBuffer *buffer, uint64_t warps,
            CUevent done, Reading *reading);
  void give_back(CUcontext context, const Kernel &kernel, CounterBuffer *buffer);
  void end(CUcontext context);

 private:
  struct Tools {
    CUstream stream;
    CUfunction hash_rows, gather_rows;
    CUdeviceptr scratch;
    uint64_t scratch_bytes;
    std::map<uint32_t, std::vector<CounterBuffer *>> idle; /* by kernel id */
  };
  CounterBuffer *make(Tools *tools, const Kernel &kernel, uint64_t warps, std::string *why);
  void release(CounterBuffer *buffer);
  void drop_idle(Tools *tools);
  bool clear(Tools *tools, CounterBuffer *buffer);
  bool scratch(Tools *tools, uint64_t bytes);
  bool hash(CUcontext context, Tools *tools, CounterBuffer *buffer, uint32_t columns,
            uint64_t warps, Reading *reading);
  bool gather(CUcontext context, Tools *tools, CounterBuffer *buffer, uint32_t columns,
              const std::vector<uint64_t> &rows, std::vector<uint64_t> *vectors);

  const uint64_t limit_;
  const bool lanes_;
  uint64_t in_device_ = 0;
  std::map<CUcontext, Tools> contexts_;
};

#endif
