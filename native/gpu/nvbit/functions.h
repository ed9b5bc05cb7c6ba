/* SPDX-License-Identifier: Apache-2.0 */
/* The program's device functions: their blocks, and the columns of a launch's counters they fill. A
 * kernel's columns are its own blocks, then those of each function it may call. */
#ifndef XPUPROF_NVBIT_FUNCTIONS_H
#define XPUPROF_NVBIT_FUNCTIONS_H

#include <stdint.h>

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cubin.h"
#include "kit.h"
#include "sass.h"

struct DeviceFunction {
  CUmodule module;
  uint32_t number; /* dense, for called functions; see CounterHead::bases */
  std::vector<SassBlock> blocks;
  std::string fault; /* why it cannot be counted; empty: it is */
};

struct Kernel {
  uint32_t id;     /* from xpu_kernel_built */
  uint32_t number; /* dense; handles of equal kernels, with one id, have numbers of their own */
  CUmodule module;
  std::string name;
  uint32_t columns;
  std::vector<uint32_t> bases; /* by function number */
  std::string reason;          /* empty: instrumented */
  bool related;                /* NVBit switches other functions with it */
  bool enabled, launched, in_graph;
};

class Functions {
 public:
  /* The kernel of the handle; analysed and instrumented on first use. Launches in flight keep it
   * when its module is unloaded. */
  const std::shared_ptr<Kernel> &kernel(CUcontext context, CUfunction function);
  /* The module is unloaded: its handles may name other functions later. */
  void forget(CUmodule module);
  /* Cubins whose kernels can launch kernels: NVBit does not show those launches. */
  uint64_t launching() const { return launching_; }

 private:
  DeviceFunction &look_into(CUcontext context, CUfunction function, const Cubin &cubin);
  Kernel make(CUcontext context, CUfunction function);
  uint32_t program_of(const Cubin &cubin, const std::string &name);

  std::unordered_map<CUfunction, DeviceFunction> called_;
  std::unordered_map<CUfunction, std::shared_ptr<Kernel>> kernels_;
  std::map<std::string, uint32_t> programs_, ids_; /* hash -> program, program and name -> kernel */
  uint32_t numbers_ = 0, kernel_numbers_ = 0;
  uint64_t launching_ = 0;
};

#endif
