// SPDX-License-Identifier: Apache-2.0
// The parser of messages between layer and instrumenter: what was written is read back unchanged.
#include <cstdlib>

#include "protocol/messages.hpp"

template <class Message>
static void write_back(const std::string &bytes) {
  try {
    const std::string once = clinst::encode(clinst::decode<Message>(bytes));
    if (once != clinst::encode(clinst::decode<Message>(once))) std::abort();
  } catch (const clinst::Failure &) {
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string bytes(reinterpret_cast<const char *>(data), size);
  write_back<clinst::Request>(bytes);
  write_back<clinst::Response>(bytes);
  return 0;
}
