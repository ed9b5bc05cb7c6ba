// SPDX-License-Identifier: Apache-2.0
#include "api/callbacks.hpp"

#include <cstring>
#include <new>
#include <vector>

#include "api/natively.hpp"
#include "api/objects.hpp"

namespace layer {

namespace {

// A user's function and its data, on the heap while the runtime holds them.
template <class Function>
struct Held {
  Function function;
  void *user;
};

// Out of memory: the runtime gets the user's function unwrapped.
template <class Function>
Held<Function> *hold(Function function, void *user) {
  if (!function) return nullptr;
  auto *held = new (std::nothrow) Held<Function>{function, user};
  if (!held) driver_calls_unwrapped();
  return held;
}

using EventNotify = void(CL_CALLBACK *)(cl_event, cl_int, void *);
using ErrorNotify = void(CL_CALLBACK *)(const char *, const void *, size_t, void *);
using SvmFree = void(CL_CALLBACK *)(cl_command_queue, cl_uint, void *[], void *);
using NativeKernel = void(CL_CALLBACK *)(void *);

// Called once, with the user's data last.
template <class Function, class... A>
void CL_CALLBACK once(A... arguments, void *held) {
  auto *closure = static_cast<Held<Function> *>(held);
  Callback::call([&] { closure->function(arguments..., closure->user); });
  delete closure;
}

void CL_CALLBACK on_error(const char *text, const void *data, size_t size, void *held) {
  auto *closure = static_cast<Held<ErrorNotify> *>(held);
  Callback::call([&] { closure->function(text, data, size, closure->user); });
}

// Registers the user's callback with `native`, wrapped in `ours`.
template <class Function, class Native>
cl_int with_callback(Function notify, void *user, Function ours, Native &&native) {
  Api api;
  auto *held = hold(notify, user);
  if (!held) return native(notify, user);
  cl_int error = native(ours, held);
  if (error != CL_SUCCESS) delete held;
  return error;
}

cl_int CL_API_CALL set_event_callback(cl_event event, cl_int type, EventNotify notify, void *user) {
  return with_callback(notify, user, once<EventNotify, cl_event, cl_int>,
                       [&](EventNotify function, void *data) {
                         return next.clSetEventCallback(event, type, function, data);
                       });
}

// The three entries that register a destructor callback.
template <auto member>
struct WhenGone;
template <class Handle, cl_int (CL_API_CALL *cl_icd_dispatch::*member)(
                            Handle, void(CL_CALLBACK *)(Handle, void *), void *)>
struct WhenGone<member> {
  using Notify = void(CL_CALLBACK *)(Handle, void *);
  static cl_int CL_API_CALL call(Handle handle, Notify notify, void *user) {
    return with_callback(notify, user, once<Notify, Handle>, [&](Notify function, void *data) {
      return (next.*member)(handle, function, data);
    });
  }
};

cl_int CL_API_CALL svm_free(cl_command_queue queue, cl_uint n, void *pointers[], SvmFree notify,
                            void *user, cl_uint n_wait, const cl_event *wait, cl_event *event) {
  return with_callback(notify, user, once<SvmFree, cl_command_queue, cl_uint, void **>,
                       [&](SvmFree function, void *data) {
                         return next.clEnqueueSVMFree(queue, n, pointers, function, data, n_wait,
                                                      wait, event);
                       });
}

// A context may report errors until its end, so the callback's data is kept.
// `object`: of the driver.
template <class Native>
cl_context new_context(const void *object, ErrorNotify notify, void *user, Native &&native) {
  Api api;
  auto *held = hold(notify, user);
  const auto create = [&] { return held ? native(on_error, held) : native(notify, user); };
  cl_context context = natively(object, create, Compiles::nothing);
  if (!context) delete held;
  context_created(context);
  return context;
}

cl_context CL_API_CALL create_context(const cl_context_properties *properties, cl_uint n,
                                      const cl_device_id *devices, ErrorNotify notify, void *user,
                                      cl_int *error) {
  const void *device = devices && n ? devices[0] : nullptr;
  return new_context(device, notify, user, [&](ErrorNotify function, void *data) {
    return next.clCreateContext(properties, n, devices, function, data, error);
  });
}

cl_context CL_API_CALL create_context_from_type(const cl_context_properties *properties,
                                                cl_device_type type, ErrorNotify notify, void *user,
                                                cl_int *error) {
  return new_context(platform_of(properties), notify, user, [&](ErrorNotify function, void *data) {
    return next.clCreateContextFromType(properties, type, function, data, error);
  });
}

// The runtime copies a native kernel's arguments; ours precede the user's in the copy.
struct alignas(16) NativeHead {
  NativeKernel function;
};

void CL_CALLBACK run_native(void *arguments) {
  auto *head = static_cast<NativeHead *>(arguments);
  Callback::call([&] { head->function(head + 1); });
}

cl_int CL_API_CALL enqueue_native(cl_command_queue queue, NativeKernel function, void *arguments,
                                  size_t size, cl_uint n_mems, const cl_mem *mems,
                                  const void **places, cl_uint n_wait, const cl_event *wait,
                                  cl_event *event) {
  Api api;
  native_kernels_enqueued = true;
  std::vector<NativeHead> copy;
  std::vector<const void *> moved;
  bool good =
      function && arguments && size && quietly([&] {
        copy.resize(1 + (size + sizeof(NativeHead) - 1) / sizeof(NativeHead));
        copy[0].function = function;
        std::memcpy(static_cast<void *>(&copy[1]), arguments, size);
        for (cl_uint i = 0; places && i < n_mems; i++)
          moved.push_back(reinterpret_cast<char *>(&copy[1]) +
                          (static_cast<const char *>(places[i]) - static_cast<char *>(arguments)));
      });
  if (!good) {
    xpu_kernels_loaded(false);  // it may be generated code, too
    return next.clEnqueueNativeKernel(queue, function, arguments, size, n_mems, mems, places,
                                      n_wait, wait, event);
  }
  return next.clEnqueueNativeKernel(queue, run_native, copy.data(), sizeof(NativeHead) + size,
                                    n_mems, mems, places ? moved.data() : nullptr, n_wait, wait,
                                    event);
}

}  // namespace

ProgramNotify::ProgramNotify(Function function, void *user) : function_(function), data_(user) {
  auto *held = hold(function, user);
  if (!held) return;
  function_ = once<Function, cl_program>;
  data_ = held;
}

void override_callbacks(cl_icd_dispatch *table) {
  put<&Table::clCreateContext>(table, create_context);
  put<&Table::clCreateContextFromType>(table, create_context_from_type);
  put<&Table::clSetEventCallback>(table, set_event_callback);
  put<&Table::clSetMemObjectDestructorCallback>(
      table, WhenGone<&Table::clSetMemObjectDestructorCallback>::call);
  put<&Table::clSetContextDestructorCallback>(
      table, WhenGone<&Table::clSetContextDestructorCallback>::call);
  put<&Table::clSetProgramReleaseCallback>(table,
                                           WhenGone<&Table::clSetProgramReleaseCallback>::call);
  put<&Table::clEnqueueSVMFree>(table, svm_free);
  put<&Table::clEnqueueNativeKernel>(table, enqueue_native);
}

}  // namespace layer
