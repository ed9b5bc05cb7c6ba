// SPDX-License-Identifier: Apache-2.0
// A text that an OpenCL runtime knows.
#pragma once

#include <CL/cl.h>

#include <cstddef>
#include <string>

namespace common {

// Empty when it does not know it. `query` and `what`: clGetDeviceInfo, and what it is asked.
template <class Query, class... What>
std::string text_from(Query query, What... what) {
  size_t size = 0;
  if (query(what..., 0, nullptr, &size) != CL_SUCCESS || !size) return "";
  std::string text(size, '\0');
  if (query(what..., size, text.data(), nullptr) != CL_SUCCESS) return "";
  return text.c_str();
}

}  // namespace common
