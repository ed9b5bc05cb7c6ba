// SPDX-License-Identifier: Apache-2.0
// Handles one request, without cache and socket.
#pragma once

#include <string>
#include <vector>

#include "request.h"

namespace clinst {

struct Compiled {
  Response response;
  std::vector<std::string> included;  // the user's files on which the result depends
};

// Throws Failure.
Compiled compile(const Request &request);

}  // namespace clinst
