// SPDX-License-Identifier: Apache-2.0
// Calls of the driver that a CPU engine may run outside its translator: those that compile.
#ifndef XPUPROF_OPENCL_NATIVELY_HPP
#define XPUPROF_OPENCL_NATIVELY_HPP

#include "api/layer.hpp"

namespace layer {

// Whether calls with this object (a context, device or program) keep what boundary.h asks of native
// code: its driver is PoCL, whose threads start with its devices and whose kernels are libraries,
// and it has no function of the program to call. Intel's runtime starts threads with a context, and
// generates code in memory, of which a translator must know (docs/dynamorio.md).
bool may_run_natively(const void *object);
// From now on, a driver may report errors to the program in any call.
void driver_calls_back();

template <class Work>
auto natively(const void *object, Work &&work) {
  if (!may_run_natively(object)) return work();
  decltype(work()) result{};
  auto keep = [&] { result = work(); };
  xpu_natively([](void *data) { (*static_cast<decltype(keep) *>(data))(); }, &keep);
  return result;
}

}  // namespace layer
#endif
