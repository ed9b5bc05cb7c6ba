// SPDX-License-Identifier: Apache-2.0
// Speaks clinst_protocol.h to the instrumenter.
#ifndef XPUPROF_OPENCL_CLIENT_HPP
#define XPUPROF_OPENCL_CLIENT_HPP

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/answer.hpp"

namespace layer {

// One program as passed by the application.
struct Part {
  uint32_t input = 0;  // enum clinst_input
  std::string payload, options;
  std::vector<std::pair<std::string, std::string>> headers;      // name, text
  std::vector<std::pair<uint32_t, std::string>> spec_constants;  // id, value
};

// `flags`: enum clinst_flag.
Instrumented instrument(const std::vector<Part> &parts, uint32_t flags, uint32_t output,
                        const std::string &features);

}  // namespace layer
#endif
