// SPDX-License-Identifier: Apache-2.0
// The layer's parser of the instrumenter's answers and of stored origins.
#include "client/answer.hpp"

#include <cstdint>
#include <cstdlib>

#include "client/wire.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string bytes(reinterpret_cast<const char *>(data), size);
  const layer::Instrumented answer = layer::decode_answer(bytes);
  for (const auto &[name, kernel] : answer.kernels)
    if (answer.reason.empty() && kernel.formulas.size() != kernel.blocks.size()) std::abort();
  layer::Reader reader(bytes);
  layer::take_parts(&reader);
  return 0;
}
