// SPDX-License-Identifier: Apache-2.0
// What the instrumenter answers: an instrumented program, or why there is none.
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
  // Of a work-item's counters where the launch tells them; see clinst_protocol.h.
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
  std::vector<Node> nodes;                  // none: the kernel has to count
  std::vector<Output> outputs;              // one a probe
  std::vector<uint32_t> integers;           // arguments that the nodes take, by `a` of those nodes
  // When accesses are recorded:
  std::vector<uint32_t> accesses;  // of a block
  uint32_t unrecorded = 0;         // instructions whose accesses are not
  std::vector<uint32_t> pointers;  // arguments whose values the kernel leaves in the area
  bool has_accesses() const;
};

struct Instrumented {
  std::string reason;  // empty: good
  std::string module;
  std::vector<std::pair<std::string, InstrumentedKernel>> kernels;
};

// An answer that cannot be read gives a reason.
Instrumented decode_answer(const std::string &data);

}  // namespace layer
#endif
