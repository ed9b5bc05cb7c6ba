// SPDX-License-Identifier: Apache-2.0
// Functions that an application gets by name: the relevant ones are wrapped.
#include <cstring>

#include "api/transfers.hpp"
#include "launches/command_buffers.hpp"
#include "memory/stack_memory.hpp"
#include "programs/kernels.hpp"
#include "programs/stand_ins.hpp"

namespace layer {

namespace {

// Several drivers may be loaded, each with its own function of the same name. A wrapper must know
// which one it wraps, so each name has a few slots, taken in order.
constexpr int n_slots = 4;

template <class Tag, class Function>
struct Slots {
  static Function native[n_slots];
  static int take(Function function) {
    for (int i = 0; i < n_slots; i++) {
      if (native[i] == function) return i;
      if (!native[i]) {
        native[i] = function;
        return i;
      }
    }
    return -1;
  }
};
template <class Tag, class Function>
Function Slots<Tag, Function>::native[n_slots];

// The wrapper runs `Tag::call(native, arguments...)`.
template <class Tag, class Function>
struct Wrapper;
template <class Tag, class R, class... A>
struct Wrapper<Tag, R(CL_API_CALL *)(A...)> {
  using Function = R(CL_API_CALL *)(A...);
  using Natives = Slots<Tag, Function>;
  template <int slot>
  static R CL_API_CALL call(A... arguments) {
    return Tag::call(Natives::native[slot], arguments...);
  }
  static void *wrap(void *function) {
    static Function const wrappers[n_slots] = {call<0>, call<1>, call<2>, call<3>};
    int slot = Natives::take(reinterpret_cast<Function>(function));
    return slot < 0 ? function : reinterpret_cast<void *>(wrappers[slot]);
  }
};

using UsmCopy = cl_int(CL_API_CALL *)(cl_command_queue, cl_bool, void *, const void *, size_t,
                                      cl_uint, const cl_event *, cl_event *);

cl_int copy_usm(UsmCopy native, cl_command_queue queue, cl_bool blocking, void *to,
                const void *from, size_t size, cl_uint n, const cl_event *wait, cl_event *event) {
  return transfer(queue, within, size, blocking,
                  [&] { return native(queue, blocking, to, from, size, n, wait, event); });
}

// Our function; its first argument is the driver's.
template <auto ours>
struct OursTag {
  template <class Function, class... A>
  static auto call(Function native, A... arguments) {
    return ours(native, arguments...);
  }
};

using UsmAlloc = void *(CL_API_CALL *)(cl_context, const cl_bitfield *, size_t, cl_uint, cl_int *);
using UsmDeviceAlloc = void *(CL_API_CALL *)(cl_context, cl_device_id, const cl_bitfield *, size_t,
                                             cl_uint, cl_int *);

void *allocate_usm(UsmAlloc native, cl_context context, const cl_bitfield *properties, size_t size,
                   cl_uint alignment, cl_int *error) {
  Api api;
  void *memory = native(context, properties, size, alignment, error);
  quietly([&] { allocated(memory, size); });
  return memory;
}

void *allocate_device_usm(UsmDeviceAlloc native, cl_context context, cl_device_id device,
                          const cl_bitfield *properties, size_t size, cl_uint alignment,
                          cl_int *error) {
  Api api;
  void *memory = native(context, device, properties, size, alignment, error);
  quietly([&] { allocated(memory, size); });
  return memory;
}

using VariablePointer = cl_int(CL_API_CALL *)(cl_device_id, cl_program, const char *, size_t *,
                                              void **);
using FunctionPointer = cl_int(CL_API_CALL *)(cl_device_id, cl_program, const char *, cl_ulong *);

cl_int variable_pointer(VariablePointer native, cl_device_id device, cl_program program,
                        const char *name, size_t *size, void **pointer) {
  Api api;
  return native(device, Coded(program), name, size, pointer);
}

cl_int function_pointer(FunctionPointer native, cl_device_id device, cl_program program,
                        const char *name, cl_ulong *pointer) {
  Api api;
  return native(device, Coded(program), name, pointer);
}

using VariableCopy = cl_int(CL_API_CALL *)(cl_command_queue, cl_program, const char *, cl_bool,
                                           size_t, size_t, void *, cl_uint, const cl_event *,
                                           cl_event *);

// To or from a variable of the program; the direction is the function's.
template <int>
cl_int copy_variable(VariableCopy native, cl_command_queue queue, cl_program program,
                     const char *name, cl_bool blocking, size_t size, size_t offset, void *host,
                     cl_uint n, const cl_event *wait, cl_event *event) {
  Api api;
  return native(queue, Coded(program), name, blocking, size, offset, host, n, wait, event);
}

// The remaining functions for unified shared memory are only bracketed.
template <int>
struct PlainTag {
  template <class Function, class... A>
  static auto call(Function native, A... arguments) {
    Api api;
    return native(arguments...);
  }
};
using UsmFree = cl_int(CL_API_CALL *)(cl_context, void *);
using UsmInfo = cl_int(CL_API_CALL *)(cl_context, const void *, cl_uint, size_t, void *, size_t *);
using UsmFill = cl_int(CL_API_CALL *)(cl_command_queue, void *, const void *, size_t, size_t,
                                      cl_uint, const cl_event *, cl_event *);
using UsmMigrate = cl_int(CL_API_CALL *)(cl_command_queue, const void *, size_t, cl_bitfield,
                                         cl_uint, const cl_event *, cl_event *);
using UsmAdvise = cl_int(CL_API_CALL *)(cl_command_queue, const void *, size_t, cl_uint, cl_uint,
                                        const cl_event *, cl_event *);

template <class Function>
struct FirstOf;
template <class R, class First, class... A>
struct FirstOf<R (*)(First, A...)> {
  using Type = First;
};

template <auto ours>
void *wrap_in(void *function) {
  return Wrapper<OursTag<ours>, typename FirstOf<decltype(ours)>::Type>::wrap(function);
}

struct Entry {
  const char *name;
  void *(*wrap)(void *);
};

const Entry entries[] = {
    {"clSetKernelArgMemPointerINTEL", wrap_in<set_usm_pointer>},
    {"clCreateProgramWithILKHR", wrap_in<create_program_with_il>},
    {"clCreateCommandQueueWithPropertiesKHR", wrap_in<create_queue_with>},
    {"clCreateCommandBufferKHR", wrap_in<create_command_buffer>},
    {"clRetainCommandBufferKHR", wrap_in<retain_command_buffer>},
    {"clReleaseCommandBufferKHR", wrap_in<release_command_buffer>},
    {"clCommandNDRangeKernelKHR", wrap_in<command_kernel>},
    {"clEnqueueCommandBufferKHR", wrap_in<enqueue_command_buffer>},
    {"clEnqueueMemcpyINTEL", wrap_in<copy_usm>},
    {"clGetDeviceGlobalVariablePointerINTEL", wrap_in<variable_pointer>},
    {"clGetDeviceFunctionPointerINTEL", wrap_in<function_pointer>},
    {"clEnqueueReadGlobalVariableINTEL", wrap_in<copy_variable<0>>},
    {"clEnqueueWriteGlobalVariableINTEL", wrap_in<copy_variable<1>>},
    {"clHostMemAllocINTEL", wrap_in<allocate_usm>},
    {"clDeviceMemAllocINTEL", wrap_in<allocate_device_usm>},
    {"clSharedMemAllocINTEL", wrap_in<allocate_device_usm>},
    {"clMemFreeINTEL", Wrapper<PlainTag<3>, UsmFree>::wrap},
    {"clMemBlockingFreeINTEL", Wrapper<PlainTag<4>, UsmFree>::wrap},
    {"clGetMemAllocInfoINTEL", Wrapper<PlainTag<5>, UsmInfo>::wrap},
    {"clEnqueueMemFillINTEL", Wrapper<PlainTag<6>, UsmFill>::wrap},
    {"clEnqueueMigrateMemINTEL", Wrapper<PlainTag<7>, UsmMigrate>::wrap},
    {"clEnqueueMemAdviseINTEL", Wrapper<PlainTag<8>, UsmAdvise>::wrap},
};

void *wrap(const char *name, void *function) {
  for (const Entry &entry : entries)
    if (function && name && std::strcmp(name, entry.name) == 0) return entry.wrap(function);
  return function;
}

void *CL_API_CALL address(const char *name) {
  Api api;
  return wrap(name, next.clGetExtensionFunctionAddress(name));
}

void *CL_API_CALL address_for_platform(cl_platform_id platform, const char *name) {
  Api api;
  return wrap(name, next.clGetExtensionFunctionAddressForPlatform(platform, name));
}

}  // namespace

void override_extensions(cl_icd_dispatch *table) {
  put<&Table::clGetExtensionFunctionAddress>(table, address);
  put<&Table::clGetExtensionFunctionAddressForPlatform>(table, address_for_platform);
}

}  // namespace layer
