// SPDX-License-Identifier: Apache-2.0
#include "answer.h"

#include "compile.h"

namespace clinst {

std::string answer(const std::string &bytes, Cache &cache) {
  Request request = decode<Request>(bytes);
  bool cached = !(request.flags & CLINST_NO_CACHE);
  if (cached) {
    if (auto found = cache.find(bytes)) return *found;
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
