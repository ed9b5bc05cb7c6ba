// SPDX-License-Identifier: Apache-2.0
// Bytes of a request -> bytes of the response, through the cache.
#pragma once

#include <string>

#include "cache.h"
#include "protocol/messages.hpp"

namespace clinst {

// A program that cannot be instrumented is a response with a message. Throws Failure only when the
// bytes are not a request.
std::string answer(const std::string &request, Cache &cache);

// The instrumented program whose kernel a launch (CLINST_BUILD) runs, or whose binary is asked for.
Response program_of(const Request &launch, Cache &cache);

}  // namespace clinst
