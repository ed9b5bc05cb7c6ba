// SPDX-License-Identifier: Apache-2.0
// Requests that a native run left, answered before the program asks: it then finds the answer in
// the cache, or waits for the rest of the work.
#pragma once

#include <string>

#include "cache.h"

namespace clinst {

// `folder` holds one request (CLINST_BUILD or CLINST_BINARY) a file. Kernels that may not have to
// count are left out.
void answer_ahead(const std::string &folder, Cache &cache);

// Whether the native run has compiled what this request asks for; `folder` may be empty.
bool is_compiled(const std::string &folder, const std::string &request);

}  // namespace clinst
