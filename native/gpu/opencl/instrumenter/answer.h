// SPDX-License-Identifier: Apache-2.0
// Bytes of a request -> bytes of the response, through the cache.
#pragma once

#include <string>

#include "cache.h"

namespace clinst {

// A program that cannot be instrumented is a response with a message. Throws Failure only when the
// bytes are not a request.
std::string answer(const std::string &request, Cache &cache);

}  // namespace clinst
