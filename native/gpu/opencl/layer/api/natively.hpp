// SPDX-License-Identifier: Apache-2.0
// Calls of the driver that a CPU engine may run outside its translator: those that compile.
#ifndef XPUPROF_OPENCL_NATIVELY_HPP
#define XPUPROF_OPENCL_NATIVELY_HPP

#include "api/layer.hpp"

namespace layer {

enum class Compiles { kernels, nothing };

// Whether a call with this object (a context, device or program) keeps what boundary.h asks of
// native code: its driver has no function of the program to call, and is PoCL, whose kernels are
// libraries, or Intel's. That one generates kernels in memory, of which a translator must know
// (docs/dynamorio.md).
bool may_run_natively(const void *object, Compiles what);
// From now on, a driver may report errors to the program in any call.
void driver_calls_back();

template <class Work>
auto natively(const void *object, Work &&work, Compiles what = Compiles::kernels) {
  if (!may_run_natively(object, what)) return work();
  decltype(work()) result{};
  auto keep = [&] { result = work(); };
  xpu_natively([](void *data) { (*static_cast<decltype(keep) *>(data))(); }, &keep);
  return result;
}

}  // namespace layer
#endif
