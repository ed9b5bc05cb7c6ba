// SPDX-License-Identifier: Apache-2.0
// A native run tells the profile after it what it has compiled, by files without content.
#ifndef XPUPROF_CLINST_COMPILED_HPP
#define XPUPROF_CLINST_COMPILED_HPP

#include <string>

#include "common/content_hash.hpp"

namespace clinst {

// The file that says of a request for the application's own code (CLINST_BUILD and
// CLINST_UNCHANGED) that the runtime's cache holds it.
inline std::string compiled_mark(const std::string &request) {
  common::ContentHash hash;
  hash.add(request);
  return "compiled-" + common::hex_of(hash.get());
}

}  // namespace clinst
#endif
