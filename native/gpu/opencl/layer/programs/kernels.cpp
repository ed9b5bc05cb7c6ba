// SPDX-License-Identifier: Apache-2.0
#include "programs/kernels.hpp"

#include "programs/stand_ins.hpp"

namespace layer {

static Registry<cl_kernel, Kernel> &kernels = *new Registry<cl_kernel, Kernel>;

static std::shared_ptr<Kernel> add_kernel(cl_kernel handle, cl_program program) {
  auto kernel = std::make_shared<Kernel>();
  cl_uint n = 0;
  kernel->handle = handle;
  kernel->name = kernel_name(handle);
  next.clGetKernelInfo(handle, CL_KERNEL_CONTEXT, sizeof kernel->context, &kernel->context,
                       nullptr);
  next.clGetKernelInfo(handle, CL_KERNEL_NUM_ARGS, sizeof n, &n, nullptr);
  kernel->arguments.resize(n);
  kernel->build = build_of(program);
  kernel->stand_in = stand_in_of(program);
  kernels.add(handle, kernel);
  return kernel;
}

std::shared_ptr<Kernel> kernel_of(cl_kernel handle) {
  if (auto kernel = kernels.find(handle)) return kernel;
  cl_program program = nullptr;
  if (next.clGetKernelInfo(handle, CL_KERNEL_PROGRAM, sizeof program, &program, nullptr) !=
      CL_SUCCESS)
    return nullptr;
  return add_kernel(handle, program);
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *error) {
  Api api;
  cl_kernel handle = next.clCreateKernel(Coded(program), name, error);
  if (handle) quietly([&] { add_kernel(handle, program); });
  return handle;
}

static cl_int CL_API_CALL create_kernels(cl_program program, cl_uint room, cl_kernel *handles,
                                         cl_uint *n_ret) {
  Api api;
  cl_uint n = 0;
  cl_int error = next.clCreateKernelsInProgram(Coded(program), room, handles, &n);
  if (error == CL_SUCCESS && handles)
    quietly([&] {
      for (cl_uint i = 0; i < n && i < room; i++) add_kernel(handles[i], program);
    });
  if (n_ret) *n_ret = n;
  return error;
}

static cl_kernel CL_API_CALL clone_kernel(cl_kernel source, cl_int *error) {
  Api api;
  cl_kernel handle = next.clCloneKernel(source, error);
  if (handle)
    quietly([&] {
      auto from = kernel_of(source);
      auto to = std::make_shared<Kernel>();
      std::lock_guard<std::mutex> guard(from->lock);
      to->handle = handle;
      to->name = from->name;
      to->context = from->context;
      to->build = from->build;
      to->stand_in = from->stand_in;
      to->arguments = from->arguments;
      to->exec_info = from->exec_info;
      to->set_usm = from->set_usm;
      kernels.add(handle, to);
    });
  return handle;
}

// Asks the kernel, or one of the program's source in place of a stand-in's: a program made from a
// binary knows neither its kernels' arguments nor their attributes.
template <class Ask>
static cl_int ask_of_source(cl_kernel handle, Ask &&ask) {
  const auto kernel = kernels.find(handle);
  cl_kernel original = nullptr;
  if (kernel && kernel->stand_in)
    original = next.clCreateKernel(kernel->stand_in->built_here(), kernel->name.c_str(), nullptr);
  const cl_int error = ask(original ? original : handle);
  if (original) next.clReleaseKernel(original);
  return error;
}

static cl_int CL_API_CALL kernel_info(cl_kernel handle, cl_kernel_info name, size_t room,
                                      void *value, size_t *size) {
  Api api;
  const auto kernel = name == CL_KERNEL_PROGRAM ? kernels.find(handle) : nullptr;
  if (kernel && kernel->stand_in)
    return answer(&kernel->stand_in->original, sizeof(cl_program), room, value, size);
  auto ask = [&](cl_kernel of) { return next.clGetKernelInfo(of, name, room, value, size); };
  return name == CL_KERNEL_ATTRIBUTES ? ask_of_source(handle, ask) : ask(handle);
}

static cl_int CL_API_CALL argument_info(cl_kernel handle, cl_uint index, cl_kernel_arg_info name,
                                        size_t room, void *value, size_t *size) {
  Api api;
  return ask_of_source(handle, [&](cl_kernel of) {
    return next.clGetKernelArgInfo(of, index, name, room, value, size);
  });
}

static cl_int CL_API_CALL retain_kernel(cl_kernel kernel) {
  return retain(&kernels, next.clRetainKernel, kernel);
}

static cl_int CL_API_CALL release_kernel(cl_kernel kernel) {
  return release(&kernels, next.clReleaseKernel, kernel);
}

// Passes the application's setting on to existing shadows. A shadow that rejects what the
// application's kernel accepted is dropped.
template <class Set>
static void set_on_shadows(Kernel *kernel, Set &&set) {
  for (auto &entry : kernel->variants) {
    if (!entry.second->shadow) continue;
    cl_int error = set(entry.second->shadow);
    if (error == CL_SUCCESS) continue;
    auto plain = std::make_shared<Variant>();
    plain->reason =
        "the instrumented kernel does not take the arguments (error " + std::to_string(error) + ")";
    plain->id = kernel_id(*kernel, *plain);
    entry.second = plain;
  }
}

static void remember(cl_kernel handle, cl_uint index, Argument argument, SetUsmPointer set_usm) {
  auto kernel = kernel_of(handle);
  if (!kernel) return;
  std::lock_guard<std::mutex> guard(kernel->lock);
  if (set_usm) kernel->set_usm = set_usm;
  set_on_shadows(kernel.get(), [&](cl_kernel shadow) {
    return set_on(shadow, index, argument, kernel->set_usm);
  });
  if (index >= kernel->arguments.size()) kernel->arguments.resize(index + 1);
  kernel->arguments[index] = std::move(argument);
}

static cl_int CL_API_CALL set_argument(cl_kernel kernel, cl_uint index, size_t size,
                                       const void *value) {
  Api api;
  cl_int error = next.clSetKernelArg(kernel, index, size, value);
  if (error == CL_SUCCESS && settings.mode == Mode::profile)
    quietly([&] {
      Argument argument;
      argument.kind = value ? Argument::value : Argument::local;
      argument.size = size;
      if (value) argument.bytes.assign(static_cast<const char *>(value), size);
      remember(kernel, index, std::move(argument), nullptr);
    });
  return error;
}

// A timer that waits for each kernel asks whether it may share memory with the host.
static bool keeps_pointers() { return settings.mode != Mode::time_async; }

static cl_int CL_API_CALL set_svm_pointer(cl_kernel kernel, cl_uint index, const void *pointer) {
  Api api;
  cl_int error = next.clSetKernelArgSVMPointer(kernel, index, pointer);
  if (error == CL_SUCCESS && keeps_pointers())
    quietly([&] {
      Argument argument;
      argument.kind = Argument::svm;
      argument.pointer = pointer;
      remember(kernel, index, std::move(argument), nullptr);
    });
  return error;
}

cl_int set_usm_pointer(SetUsmPointer native, cl_kernel kernel, cl_uint index, const void *pointer) {
  Api api;
  cl_int error = native(kernel, index, pointer);
  if (error == CL_SUCCESS && keeps_pointers())
    quietly([&] {
      Argument argument;
      argument.kind = Argument::usm;
      argument.pointer = pointer;
      remember(kernel, index, std::move(argument), native);
    });
  return error;
}

static cl_int CL_API_CALL set_exec_info(cl_kernel handle, cl_kernel_exec_info name, size_t size,
                                        const void *value) {
  Api api;
  cl_int error = next.clSetKernelExecInfo(handle, name, size, value);
  if (error == CL_SUCCESS && keeps_pointers())
    quietly([&] {
      auto kernel = kernel_of(handle);
      if (!kernel) return;
      std::lock_guard<std::mutex> guard(kernel->lock);
      kernel->exec_info[name].assign(static_cast<const char *>(value), size);
      set_on_shadows(kernel.get(), [&](cl_kernel shadow) {
        return next.clSetKernelExecInfo(shadow, name, size, value);
      });
    });
  return error;
}

void forget_registrations() {
  forget_ids();
  // The shadows are leaked: the device runtime does not survive a fork.
  for (auto &kernel : kernels.all()) {
    auto *leaked = new std::map<cl_device_id, std::shared_ptr<Variant>>;
    leaked->swap(kernel->variants);
    kernel->bare.clear();
  }
}

void override_kernels(cl_icd_dispatch *table) {
  put<&Table::clCreateKernel>(table, create_kernel);
  put<&Table::clCreateKernelsInProgram>(table, create_kernels);
  put<&Table::clCloneKernel>(table, clone_kernel);
  put<&Table::clGetKernelInfo>(table, kernel_info);
  put<&Table::clGetKernelArgInfo>(table, argument_info);
  put<&Table::clRetainKernel>(table, retain_kernel);
  put<&Table::clReleaseKernel>(table, release_kernel);
  put<&Table::clSetKernelArg>(table, set_argument);
  put<&Table::clSetKernelArgSVMPointer>(table, set_svm_pointer);
  put<&Table::clSetKernelExecInfo>(table, set_exec_info);
}

}  // namespace layer
