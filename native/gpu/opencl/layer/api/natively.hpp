// SPDX-License-Identifier: Apache-2.0
// Calls of the driver that a CPU engine may run outside its translator: those that compile.
#ifndef XPUPROF_OPENCL_NATIVELY_HPP
#define XPUPROF_OPENCL_NATIVELY_HPP

#include "api/layer.hpp"

namespace layer {

enum class Compiles { kernels, nothing };

// Whether a call with this object keeps what boundary.h asks of native code: its driver is PoCL,
// whose kernels are libraries, or Intel's. That one generates kernels in memory, of which a
// translator must know (docs/dynamorio.md).
bool may_run_natively(const void *object, Compiles what);
// From now on, a driver may call the program otherwise than through Callback::call().
void driver_calls_unwrapped();
// The platform that a context is made for, if that is said.
const void *platform_of(const cl_context_properties *properties);

// Whether natively() runs the call outside the translator.
inline bool leaves_translator(const void *object, Compiles what = Compiles::kernels) {
  return settings.leaves_translator && may_run_natively(object, what);
}

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
