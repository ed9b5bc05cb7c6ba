/* SPDX-License-Identifier: Apache-2.0 */
/* Counters in device memory. The rows of a small launch stand (standing.cpp): each launch of the
 * kernel adds to them, and is followed by a kernel of ours that copies them to the host's memory,
 * so that its counts are the difference from the copy before. (The device takes longer to change
 * over to its copy engine and back than to run that kernel.) Other launches, and several kernels of
 * a graph, have rows of their own. */
#ifndef XPUPROF_PTX_COUNTERS_H
#define XPUPROF_PTX_COUNTERS_H

#include <stdint.h>

#include <deque>
#include <map>
#include <memory>
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

/* Handles of streams are used again; ids are not. */
struct Stream {
  CUstream handle;
  unsigned long long id;
};
Stream stream_of(CUstream handle);

/* A slot's rows to which each of its launches adds. */
struct Standing {
  CUcontext context;
  Buffer buffer; /* the head, then the rows */
  uint32_t kernel;
  uint64_t warps;               /* 0: to be laid out for the next launch */
  bool fresh;                   /* the next launch begins at nothing */
  bool gone;                    /* the slot has others, or none */
  std::vector<uint64_t> counts; /* after the last launch that was read */
};

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

uint32_t columns_of(const Launch &launch);
uint64_t row_bytes(const Launch &launch); /* 0 where nothing is counted */
CUfunction load_copy_rows();

/* Launches by the slot that they read. */
using Readers = std::map<CUdeviceptr, std::vector<Launch *>>;

/* A call between its launches and the reading of their counters. Launches that read one slot run in
 * this order. */
struct Flight {
  CUcontext context;
  Stream stream;
  std::vector<Launch> launches; /* several: a graph's */
  Buffer buffer;                /* the heads, then the rows; memory 0: none */
  uint32_t heads;
  CUevent done;
  std::shared_ptr<Standing> standing; /* none: rows of its own */
  uint64_t *copied;                   /* where standing rows are copied to, page-locked */
  bool fresh;                         /* they began at nothing */
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
  void stop_counting(CUcontext context, Stream stream);
  void uncounted_went(CUcontext context, Stream stream);
  /* Reads what has completed. */
  void harvest();
  /* Waits for all launches and reads them; gives up after a minute without one. */
  void finish();
  /* The memory of these contexts is gone; call `finish` before. */
  void forget(CUcontext context);
  void forget(CUdevice device);
  void forget(CUdeviceptr slot); /* its module is unloaded */
  std::vector<CUcontext> contexts() const;
  uint64_t lost() const;

 private:
  struct Device {
    CUdevice number;
    CUstream reading;
    CUfunction copy_rows; /* NULL: no rows stand */
    uint64_t limit, in_use;
    std::vector<Buffer> idle;
    std::vector<CUevent> events;                        /* not in use */
    std::map<uint64_t, std::vector<uint64_t *>> copies; /* by bytes, not in use */
    uint64_t copies_bytes;
  };
  /* Launches on several streams read it, one after the other where its value changes. */
  struct Slot {
    CUcontext context;
    uint64_t value;
    unsigned long long setter; /* the stream in which the value was set, and after what */
    CUevent set;
    std::map<unsigned long long, CUevent> last;   /* by stream */
    std::map<unsigned long long, CUevent> flying; /* of standing rows: the flights' own events */
  };
  Device *device_of(CUcontext context);
  bool take(CUcontext context, uint64_t bytes, Buffer *buffer);
  std::string give_rows(Flight *flight, const Readers &readers);
  void point(CUdeviceptr at, Slot *slot, Stream stream, uint64_t value);
  void mark(Slot *slot, Stream stream);
  static bool record(CUevent *event, Stream stream);
  static void see_set(const Slot &slot, Stream stream);
  static void follow(const Slot &slot, Stream stream);
  bool take_event(Flight *flight);
  void was_set(Slot *slot, Stream stream);
  void give_up(std::shared_ptr<Standing> *standing);
  bool reclaim(CUcontext context);
  bool lay_anew(Flight *flight, Standing *standing, Slot *slot);
  uint64_t *take_copy(Device *device, uint64_t bytes);
  bool copy_out(const Flight &flight);
  void give_back(Device *device, Flight *flight);
  bool stand(Flight *flight);
  void stood(Flight *flight);
  bool add_up(Flight *flight, bool whole);
  bool copy(CUcontext context, CUdeviceptr from, void *to, uint64_t bytes);
  std::set<CUdeviceptr> out_of_step(const Flight &flight);
  const uint64_t *rows_of(const Flight &flight, const Launch &launch, uint64_t first, uint64_t n);
  bool read(const Flight &flight, const Launch &launch);
  void landed(Flight *flight, bool whole);
  void lose(const Launch &launch);

  const uint64_t limit_;
  std::map<CUcontext, Device> devices_;
  std::map<CUdeviceptr, Slot> slots_;
  std::map<CUdeviceptr, std::shared_ptr<Standing>> standing_; /* by slot */
  std::vector<uint64_t> rows_, added_; /* of the launch that is being read; by it */
  std::deque<Flight> flights_;
  uint64_t lost_ = 0;
};

}  // namespace ptx

#endif
