/* SPDX-License-Identifier: Apache-2.0 */
/* Counter memory of the launches in flight. Buffers are kept for the kernel they were allocated
 * for, cleared after they are read, and reused by its next launch. Up to the limit they lie in
 * device memory, beyond it in managed memory, which the driver migrates: slower, exact, and bounded
 * only by the host's memory. */
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

/* A launch's counts. */
struct Reading {
  WarpClasses classes;
  std::vector<uint64_t> vectors; /* classes x columns */
  uint64_t lane_instructions;    /* of all warps */
  uint64_t strays;               /* counts without a column: must be 0 */
};

class CounterMemory {
 public:
  CounterMemory(uint64_t limit_bytes, bool lanes) : limit_(limit_bytes), lanes_(lanes) {}
  /* Called from nvbit_tool_init, once per context: creates our stream and loads our kernels. */
  bool start(CUcontext context, std::string *why);
  /* A cleared buffer for `warps` rows; NULL, with `why`, when none is available. */
  CounterBuffer *take(CUcontext context, const Kernel &kernel, uint64_t warps, std::string *why);
  /* Waits for the event, reads the launch's classes and their vectors, clears the buffer and takes
   * it back. False when the driver failed. */
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
