// SPDX-License-Identifier: Apache-2.0
// Shared by every part of the layer: the native dispatch table, the settings, and the brackets that
// tell CPU engines where the device runtime begins and ends.
#ifndef XPUPROF_OPENCL_LAYER_HPP
#define XPUPROF_OPENCL_LAYER_HPP

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <CL/cl_icd.h>
#include <pthread.h>

#include <cstdint>
#include <cstring>
#include <memory>

#include "api/settings.hpp"
#include "xpuprof/boundary.h"
#include "xpuprof/trace_format.h"

namespace layer {

extern cl_icd_dispatch next;   // below ours: each entry calls the driver of its object
extern cl_icd_dispatch table;  // ours

// Brackets every call into the device runtime.
struct Api {
  Api() { xpu_api_enter(); }
  ~Api() { xpu_api_leave(); }
  Api(const Api &) = delete;
  Api &operator=(const Api &) = delete;
};

// Brackets every call of the device runtime back into user code.
class Callback {
 public:
  // The driver may run natively; user code must not.
  template <class Work>
  static void call(Work &&work) {
    auto bracketed = [&] {
      Callback callback;
      work();
    };
    xpu_translated([](void *data) { (*static_cast<decltype(bracketed) *>(data))(); }, &bracketed);
  }
  // Whether the runtime waits for this thread's user code to return.
  static bool is_running() { return running_; }

 private:
  Callback() {
    running_++;
    xpu_callback_enter();
  }
  ~Callback() {
    xpu_callback_leave();
    running_--;
  }
  Callback(const Callback &) = delete;
  Callback &operator=(const Callback &) = delete;

  static inline thread_local unsigned running_;
};

// A call that the trace has as a host event.
class HostEvent {
 public:
  explicit HostEvent(xp_host kind, uint64_t bytes = 0) : kind_(kind), bytes_(bytes) {}
  ~HostEvent() { xpu_host_event(kind_, bytes_, start_, xpu_tsc()); }
  HostEvent(const HostEvent &) = delete;
  HostEvent &operator=(const HostEvent &) = delete;

 private:
  xp_host kind_;
  uint64_t bytes_, start_ = xpu_tsc();
};

// A thread that is cancelled meanwhile is so afterwards: our book-keeping stays whole.
class Uncancelled {
 public:
  Uncancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Uncancelled() { pthread_setcancelstate(before_, nullptr); }
  Uncancelled(const Uncancelled &) = delete;
  Uncancelled &operator=(const Uncancelled &) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// Our own book-keeping must never reach the application as an exception.
template <class F>
bool quietly(F &&work) noexcept {
  Uncancelled whole;
  try {
    work();
    return true;
  } catch (...) {
    return false;
  }
}

// Answers a query of the application (clGet...Info) with our value.
inline cl_int answer(const void *value, size_t size, size_t room, void *to, size_t *size_ret) {
  if (to && room < size) return CL_INVALID_VALUE;
  if (to && size) std::memcpy(to, value, size);
  if (size_ret) *size_ret = size;
  return CL_SUCCESS;
}

// A bracketed call of one native entry, derived from its type.
template <auto member>
struct Through;
template <class R, class... A, R (CL_API_CALL *cl_icd_dispatch::*member)(A...)>
struct Through<member> {
  static R CL_API_CALL call(A... arguments) {
    Api api;
    return (next.*member)(arguments...);
  }
};

// Replaces an existing entry of the table with our function.
using Table = cl_icd_dispatch;
template <auto member, class Function>
void put(cl_icd_dispatch *table, Function *ours) {
  if (next.*member) table->*member = ours;
}

// Makes our table over `next`; once `next` is set.
void begin();
// The entries for a loader with layers, whose own are `target` (forwarding.cpp).
const cl_icd_dispatch *for_loader(const cl_icd_dispatch *target, size_t size);
// The entries of an object's driver itself, wherever ours are.
const cl_icd_dispatch &driver_of(const void *object);

// Each part replaces the plain entries with its own.
void override_platforms(cl_icd_dispatch *table);
void override_objects(cl_icd_dispatch *table);
void override_programs(cl_icd_dispatch *table);
void override_kernels(cl_icd_dispatch *table);
void override_launches(cl_icd_dispatch *table);
void override_transfers(cl_icd_dispatch *table);
void override_callbacks(cl_icd_dispatch *table);
void override_extensions(cl_icd_dispatch *table);

}  // namespace layer
#endif
