// SPDX-License-Identifier: Apache-2.0
// Handles one request, without cache and socket.
#pragma once

#include "protocol/messages.hpp"

namespace clinst {

// Throws Failure.
Response compile(const Request &request);

}  // namespace clinst
