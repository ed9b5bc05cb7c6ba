// Functions that an application gets by name: those that matter to us are given in our own form.
#include <cstring>

#include "kernels.hpp"
#include "launches.hpp"

namespace layer {

namespace {

// Several drivers may be loaded, each with its own function of a name. The wrapper must know
// which one it stands for, so each has a few slots, taken in order.
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

// `Tag::call(native, arguments...)` is what the wrapper does.
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

using SetUsm = SetUsmPointer;
struct SetUsmTag {
  static cl_int call(SetUsm native, cl_kernel kernel, cl_uint index, const void *pointer) {
    return set_usm_pointer(native, kernel, index, pointer);
  }
};

using CreateWithIl = cl_program(CL_API_CALL *)(cl_context, const void *, size_t, cl_int *);
struct CreateWithIlTag {
  static cl_program call(CreateWithIl native, cl_context context, const void *il, size_t size,
                         cl_int *error) {
    return create_program_with_il(native, context, il, size, error);
  }
};

using CreateQueue = cl_command_queue(CL_API_CALL *)(cl_context, cl_device_id,
                                                    const cl_queue_properties *, cl_int *);
struct CreateQueueTag {
  static cl_command_queue call(CreateQueue native, cl_context context, cl_device_id device,
                               const cl_queue_properties *properties, cl_int *error) {
    return create_queue_with(native, context, device, properties, error);
  }
};

using UsmCopy = cl_int(CL_API_CALL *)(cl_command_queue, cl_bool, void *, const void *, size_t,
                                      cl_uint, const cl_event *, cl_event *);
struct UsmCopyTag {
  static cl_int call(UsmCopy native, cl_command_queue queue, cl_bool blocking, void *to,
                     const void *from, size_t size, cl_uint n, const cl_event *wait,
                     cl_event *event) {
    Api api;
    uint64_t before = xpu_tsc();
    cl_int error = native(queue, blocking, to, from, size, n, wait, event);
    uint64_t after = xpu_tsc();
    quietly([&] {
      if (auto record = queue_of(queue)) xpu_copy(2, size, before, after, record->index);
      if (blocking) poll_all();
    });
    return error;
  }
};

// The rest of unified shared memory: bracketed only.
template <int>
struct PlainTag {
  template <class Function, class... A>
  static auto call(Function native, A... arguments) {
    Api api;
    return native(arguments...);
  }
};
using UsmAlloc = void *(CL_API_CALL *)(cl_context, const cl_bitfield *, size_t, cl_uint, cl_int *);
using UsmDeviceAlloc = void *(CL_API_CALL *)(cl_context, cl_device_id, const cl_bitfield *, size_t,
                                             cl_uint, cl_int *);
using UsmFree = cl_int(CL_API_CALL *)(cl_context, void *);
using UsmInfo = cl_int(CL_API_CALL *)(cl_context, const void *, cl_uint, size_t, void *, size_t *);
using UsmFill = cl_int(CL_API_CALL *)(cl_command_queue, void *, const void *, size_t, size_t,
                                      cl_uint, const cl_event *, cl_event *);
using UsmMigrate = cl_int(CL_API_CALL *)(cl_command_queue, const void *, size_t, cl_bitfield,
                                         cl_uint, const cl_event *, cl_event *);
using UsmAdvise = cl_int(CL_API_CALL *)(cl_command_queue, const void *, size_t, cl_uint, cl_uint,
                                        const cl_event *, cl_event *);

struct Entry {
  const char *name;
  void *(*wrap)(void *);
};

const Entry entries[] = {
    {"clSetKernelArgMemPointerINTEL", Wrapper<SetUsmTag, SetUsm>::wrap},
    {"clCreateProgramWithILKHR", Wrapper<CreateWithIlTag, CreateWithIl>::wrap},
    {"clCreateCommandQueueWithPropertiesKHR", Wrapper<CreateQueueTag, CreateQueue>::wrap},
    {"clEnqueueMemcpyINTEL", Wrapper<UsmCopyTag, UsmCopy>::wrap},
    {"clHostMemAllocINTEL", Wrapper<PlainTag<0>, UsmAlloc>::wrap},
    {"clDeviceMemAllocINTEL", Wrapper<PlainTag<1>, UsmDeviceAlloc>::wrap},
    {"clSharedMemAllocINTEL", Wrapper<PlainTag<2>, UsmDeviceAlloc>::wrap},
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
  table->clGetExtensionFunctionAddress = address;
  if (next.clGetExtensionFunctionAddressForPlatform)
    table->clGetExtensionFunctionAddressForPlatform = address_for_platform;
}

}  // namespace layer
