// SPDX-License-Identifier: Apache-2.0
#include "answer.h"

#include "compile.h"

namespace clinst {

std::string answer(const std::string &bytes, Cache &cache) {
  Request request = decode_request(bytes);
  bool cached = !(request.flags & CLINST_NO_CACHE);
  if (cached) {
    if (auto found = cache.find(bytes)) return *found;
  }
  try {
    Compiled compiled = compile(request);
    std::string response = encode(compiled.response);
    if (cached) cache.keep(bytes, response, compiled.included);
    return response;
  } catch (const Failure &failure) {
    // Not kept: the missing file or tool may exist next time.
    Response response;
    response.status = 1;
    response.message = failure.what();
    return encode(response);
  }
}

}  // namespace clinst
