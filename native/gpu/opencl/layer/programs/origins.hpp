// SPDX-License-Identifier: Apache-2.0
// The origins of native binaries. A program may extract the binary of a build and pass it to the
// driver later: in the same process or, from its own cache, in a later run.
#ifndef XPUPROF_OPENCL_ORIGINS_HPP
#define XPUPROF_OPENCL_ORIGINS_HPP

#include <memory>
#include <string>
#include <vector>

#include "client/client.hpp"

namespace layer {

struct Origin {
  std::vector<Part> parts;
  std::string options;  // of the build or link itself
  std::string text;     // for the reader of a report
  uint8_t hash[16];     // the program's identity
};

// Remembers the origin of a binary, for later runs in ${XDG_CACHE_HOME:-~/.cache}/xpuprof/origins.
// A source that includes files that may change is not kept for later runs.
void keep_origin(const std::string &binary, const Origin &origin);

// NULL: the binary's build was never seen.
std::shared_ptr<const Origin> origin_of(const std::string &binary);

// Called around a fork, so that the child finds the lock free and its data consistent.
void hold_origins();
void release_origins();

}  // namespace layer
#endif
