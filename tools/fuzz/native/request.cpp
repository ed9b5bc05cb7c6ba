// SPDX-License-Identifier: Apache-2.0
// The instrumenter's parser of requests and of its own responses: what can be read is written back
// unchanged.
#include "request.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string bytes(reinterpret_cast<const char *>(data), size);
  try {
    const uint64_t missing = clinst::missing_of_request(bytes);
    const clinst::Request request = clinst::decode_request(bytes);
    const std::string once = clinst::encode(request);
    if (missing || once != clinst::encode(clinst::decode_request(once))) std::abort();
  } catch (const clinst::Failure &) {
  }
  try {
    const clinst::Response response = clinst::decode_response(bytes);
    const std::string once = clinst::encode(response);
    if (once.size() > bytes.size() || bytes.compare(0, once.size(), once) != 0) std::abort();
  } catch (const clinst::Failure &) {
  }
  return 0;
}
