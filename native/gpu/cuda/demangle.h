/* SPDX-License-Identifier: Apache-2.0 */
#ifndef XPUPROF_DEMANGLE_H
#define XPUPROF_DEMANGLE_H

#include <cxxabi.h>
#include <stdlib.h>

#include <string>

/* Demangled C++ names; other names stay unchanged. */
inline std::string demangled(const char *name) {
  int status = 0;
  char *readable = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 && readable ? readable : name;
  free(readable);
  return result;
}

#endif
