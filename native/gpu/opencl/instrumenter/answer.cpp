// SPDX-License-Identifier: Apache-2.0
#include "answer.h"

#include "build_natively.h"
#include "compile.h"

namespace clinst {

std::string answer(const std::string &bytes, Cache &cache) {
  Request request = decode<Request>(bytes);
  bool cached = !(request.flags & CLINST_NO_CACHE);
  if (cached) {
    if (auto found = cache.find(bytes)) return *found;
  }
  if (request.flags & CLINST_BUILD) {
    // Tried once, and again if the runtime's cache has lost the file.
    std::string response = encode(Response());
    cache.keep(bytes, response, build_natively(bytes));
    return response;
  }
  try {
    const Response compiled = compile(request);
    std::string response = encode(compiled);
    if (cached) cache.keep(bytes, response, compiled.included);
    return response;
  } catch (const Failure &failure) {
    // Not kept: the missing file or tool may exist next time.
    Response response;
    response.reason = failure.what();
    return encode(response);
  }
}

}  // namespace clinst
