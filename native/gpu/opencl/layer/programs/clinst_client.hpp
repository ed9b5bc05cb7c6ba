// Speaks clinst_protocol.h to the instrumenter.
#ifndef XPUPROF_OPENCL_CLINST_CLIENT_HPP
#define XPUPROF_OPENCL_CLINST_CLIENT_HPP

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "xpuprof/boundary.h"

namespace layer {

// One program as the application gave it.
struct Part {
  uint32_t input = 0;  // enum clinst_input
  std::string payload, options;
  std::vector<std::pair<std::string, std::string>> headers;      // name, text
  std::vector<std::pair<uint32_t, std::string>> spec_constants;  // id, value
};

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

// `flags`: of enum clinst_flag.
Instrumented instrument(const std::vector<Part> &parts, uint32_t flags, uint32_t output,
                        const std::string &features);

}  // namespace layer
#endif
