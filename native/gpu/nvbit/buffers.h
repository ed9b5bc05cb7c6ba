/* SPDX-License-Identifier: Apache-2.0 */
/* Counter memory. A buffer belongs to the kernel it was allocated for; the reader clears it, so
 * that an idle buffer is ready for the next launch. Small buffers lie side by side in slabs, so
 * that a row of launches is read and cleared by a few calls. The limit is a share of the device's
 * free memory: a launch that does not fit runs uninstrumented, with the reason. */
#ifndef XPUPROF_NVBIT_BUFFERS_H
#define XPUPROF_NVBIT_BUFFERS_H

#include <stdint.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "classes.h"
#include "functions.h"
#include "kit.h"

struct CounterBuffer;

/* Buffers of one kernel that are allocated together. */
struct CounterSlab {
  CUdeviceptr memory, bases;
  uint64_t stride, warps; /* bytes and rows of each buffer */
  std::vector<CounterBuffer> buffers;
  size_t idle;
  uint64_t bytes() const { return stride * buffers.size(); }
};

struct CounterBuffer {
  CounterSlab *slab;
  CUdeviceptr memory;
};

/* A launch's counts, once `read` has filled them in. */
struct Reading {
  const Kernel *kernel;
  CounterBuffer *buffer;
  uint64_t warps;
  bool whole; /* false: the driver failed */
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

  /* Reads the classes of launches that are over and their vectors, clears the buffers and takes
   * them back. For the reader's thread alone. */
  void read(CUcontext context, std::vector<Reading> *launches);
  void end(CUcontext context);

 private:
  enum class Patience { WAIT, NONE }; /* for launches that hold the memory */
  struct Tools {
    CUstream making, reading;
    CUfunction hash_rows, gather_rows;
    CUdeviceptr scratch; /* the reader's */
    char *staging;       /* the reader's, page-locked; NULL: there was none to be had */
    uint64_t scratch_bytes, limit, in_use;
    std::map<uint32_t, std::deque<CounterBuffer *>> idle; /* by kernel number */
    std::map<std::pair<uint32_t, uint64_t>, size_t> made; /* buffers, by kernel and bytes */
  };
  Tools *tools_of(CUcontext context);
  CounterBuffer *make(Tools *tools, const Kernel &kernel, uint64_t warps, CUstream stream,
                      Patience patience, std::string *why);
  CounterSlab *make_slab(Tools *tools, const Kernel &kernel, uint64_t warps, size_t n,
                         CUstream stream, Patience patience, std::string *why);
  bool clear(Tools *tools, const Kernel &kernel, const CounterSlab &slab, CUstream stream);
  bool make_room(Tools *tools, uint64_t bytes, Patience patience);
  bool has_room(const Tools &tools, uint64_t bytes) const;
  void drop_idle(Tools *tools);
  void release(Tools *tools, CounterSlab *slab);
  bool scratch(Tools *tools, uint64_t bytes);
  size_t read_small(CUcontext context, Tools *tools, Reading *first, size_t n);
  void read_large(CUcontext context, Tools *tools, Reading *launch);
  bool hash(CUcontext context, Tools *tools, Reading *launch);
  bool gather(CUcontext context, Tools *tools, Reading *launch);

  const uint64_t limit_;
  const bool lanes_;
  std::mutex lock_; /* guards slabs' `idle`, the tools' `idle` and `in_use`, and the next; nothing
                       of the driver's is called under it */
  uint64_t returns_ = 0;
  std::condition_variable returned_;
  std::map<CUcontext, Tools> contexts_;
};

#endif
