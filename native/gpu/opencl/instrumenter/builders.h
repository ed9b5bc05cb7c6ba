// SPDX-License-Identifier: Apache-2.0
// Processes (xpuprof-clbuild) in which a device's runtime compiles natively.
#pragma once

#include <string>

#include "protocol/messages.hpp"

namespace clinst {

struct Printed {
  bool good = false;     // it was compiled
  bool lasting = false;  // the same would happen again
  std::string text;
};

// A process of its own, for a binary.
Printed run_builder(const Request &request);

// From now on, requests may be given to processes that live as long as the service and answer
// several: one for each environment. `socket`: the service's.
void offer_builders(const std::string &socket);
// One of these, for what the runtime keeps itself.
Printed ask_builder(const Request &request);

}  // namespace clinst
