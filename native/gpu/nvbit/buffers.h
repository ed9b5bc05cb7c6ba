/* SPDX-License-Identifier: Apache-2.0 */
/* Counter memory. A buffer belongs to the kernel it was allocated for; the reader clears it, so
 * that an idle buffer is ready for the next launch. The limit is a share of the device's free
 * memory: a launch that does not fit runs uninstrumented, with the reason. */
#ifndef XPUPROF_NVBIT_BUFFERS_H
#define XPUPROF_NVBIT_BUFFERS_H

#include <stdint.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "classes.h"
#include "functions.h"
#include "kit.h"

struct CounterBuffer {
  CUdeviceptr memory;
  uint64_t bytes, warps;
  CUdeviceptr bases;
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
  /* `limit_bytes` 0: half of the memory that is free when the context is created. */
  CounterMemory(uint64_t limit_bytes, bool lanes) : limit_(limit_bytes), lanes_(lanes) {}
  /* Called from nvbit_tool_init, once per context: creates our streams and loads our kernels. */
  bool start(CUcontext context, std::string *why);

  /* An idle buffer for `warps` rows, or NULL. Calls nothing of the driver's: for callbacks that
   * NVBit makes with its own lock held. */
  CounterBuffer *take_idle(CUcontext context, const Kernel &kernel, uint64_t warps);
  /* The same, allocated when none is idle; `stream` then waits for the clearing, the host does not.
   * NULL, with `why`, when there is no memory. */
  CounterBuffer *take(CUcontext context, const Kernel &kernel, uint64_t warps, CUstream stream,
                      std::string *why);
  /* Sees to it that `n` buffers for `warps` rows are idle, as far as memory goes; `stream` waits
   * for their clearing. */
  void reserve(CUcontext context, const Kernel &kernel, uint64_t warps, CUstream stream, size_t n);
  /* For launches that did not happen: the buffer is still clear. */
  void give_back(CUcontext context, const Kernel &kernel, CounterBuffer *buffer);

  /* Waits for the event, reads the launch's classes and their vectors, clears the buffer and takes
   * it back. False when the driver failed. For the reader's thread alone. */
  bool read(CUcontext context, const Kernel &kernel, CounterBuffer *buffer, uint64_t warps,
            CUevent done, Reading *reading);
  void end(CUcontext context);

 private:
  enum class Patience { WAIT, NONE }; /* for launches that hold the memory */
  struct Tools {
    CUstream making, reading;
    CUfunction hash_rows, gather_rows;
    CUdeviceptr scratch; /* the reader's */
    uint64_t scratch_bytes, limit, in_use;
    std::map<uint32_t, std::vector<CounterBuffer *>> idle; /* by kernel number */
  };
  Tools *tools_of(CUcontext context);
  CounterBuffer *make(Tools *tools, const Kernel &kernel, uint64_t warps, CUstream stream,
                      Patience patience, std::string *why);
  bool make_room(Tools *tools, uint64_t bytes, Patience patience);
  bool has_room(const Tools &tools, uint64_t bytes) const;
  void drop_idle(Tools *tools);
  void release(Tools *tools, CounterBuffer *buffer);
  bool scratch(Tools *tools, uint64_t bytes);
  bool hash(CUcontext context, Tools *tools, CounterBuffer *buffer, uint32_t columns,
            uint64_t warps, Reading *reading);
  bool gather(CUcontext context, Tools *tools, CounterBuffer *buffer, uint32_t columns,
              const std::vector<uint64_t> &rows, std::vector<uint64_t> *vectors);

  const uint64_t limit_;
  const bool lanes_;
  std::mutex lock_; /* guards `idle` and `in_use`; nothing of the driver's is called under it */
  std::condition_variable returned_;
  std::map<CUcontext, Tools> contexts_;
};

#endif
