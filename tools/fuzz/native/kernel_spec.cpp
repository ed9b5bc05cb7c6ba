// SPDX-License-Identifier: Apache-2.0
// Kernel specifications of any text. Input: a specification, a zero, names.
#include "xpuprof/kernel_spec.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string input(reinterpret_cast<const char *>(data), size);
  const size_t end = std::min(input.find('\0'), input.size());
  KernelFilter filter;
  std::string why;
  if (!filter.parse(input.substr(0, end), &why)) {
    if (why.empty()) std::abort();
    return 0;
  }
  // Short names: a regular expression of the user's own may take a time that grows exponentially.
  const std::string name = input.substr(end, 6);
  filter.chooses_next(name);
  filter.launched(name);
  filter.chooses_next(name);
  filter.take_back(name);
  return 0;
}
