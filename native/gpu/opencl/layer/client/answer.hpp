// SPDX-License-Identifier: Apache-2.0
// The instrumenter's answer: an instrumented program, or the reason why there is none.
#ifndef XPUPROF_OPENCL_ANSWER_HPP
#define XPUPROF_OPENCL_ANSWER_HPP

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "xpuprof/boundary.h"

namespace layer {

struct InstrumentedKernel {
  struct Term {
    int32_t probe, factor;
  };
  // Analytic counts of a work-item; see clinst_protocol.h.
  struct Node {
    uint32_t op, bits, a, b, c;
    uint64_t value;
  };
  struct Output {
    uint32_t node, shift, bits;
  };
  uint32_t n_args = 0, n_probes = 0, scratch_probes = 0;
  std::vector<xpu_block> blocks;
  std::vector<std::vector<Term>> formulas;  // one a block
  std::vector<Node> nodes;                  // empty: the kernel has to count
  std::vector<Output> outputs;              // one a probe
  std::vector<uint32_t> integers;           // arguments used by the nodes, by `a` of those nodes
  // When accesses are recorded:
  std::vector<uint32_t> accesses;  // of a block
  uint32_t unrecorded = 0;         // instructions with unrecorded accesses
  std::vector<uint32_t> pointers;  // arguments whose values the kernel stores in the area
  bool has_accesses() const;
};

struct Instrumented {
  std::string reason;  // empty: good
  std::string module;
  std::vector<std::pair<std::string, InstrumentedKernel>> kernels;
};

// An unreadable answer gives a reason.
Instrumented decode_answer(const std::string &data);

}  // namespace layer
#endif
