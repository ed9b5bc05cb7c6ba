// SPDX-License-Identifier: Apache-2.0
// The machine's OpenCL runtime, through its loader. Whatever fails is a clinst::Failure: whoever
// asked then does without.
#ifndef XPUPROF_CLBUILD_RUNTIME_HPP
#define XPUPROF_CLBUILD_RUNTIME_HPP

#include <CL/cl.h>
#include <dlfcn.h>
#include <unistd.h>

#include <string>

#include "protocol/messages.hpp"

namespace clbuild {

inline void *loader;

template <class Function>
Function *entry(const char *name) {
  void *found = dlsym(loader, name);
  if (!found) throw clinst::Failure(name);
  return reinterpret_cast<Function *>(found);
}

#define CL(name) clbuild::entry<decltype(name)>(#name)

inline void check(cl_int error) {
  if (error != CL_SUCCESS) throw clinst::Failure("the runtime refused");
}

// The device of the request, by the features `device` (without it, any) and `driver`.
cl_device_id find_device(const clinst::Request &request);
// The application's working directory becomes ours, by the feature `cwd`.
void enter_folder(const clinst::Request &request);
// The process's context with it: PoCL keeps the library of built-in functions with a context.
cl_context context_of(cl_device_id device);

// The request's program, built, compiled or linked.
cl_program made(cl_context context, cl_device_id device, const clinst::Request &request);

// The same, kept until another is asked for: its kernels are launched one after the other. It is
// made again unless a kernel is asked for, as files that it includes may have changed.
cl_program program_of(cl_device_id device, const clinst::Request &request);

// The program as its device's runtime keeps it, with its machine code.
std::string binary_of(cl_program program);

// Has the kernel of a launch compiled into PoCL's cache, under the name returned; empty: unknown.
std::string compile_for_launch(const clinst::Request &request);
// The same for the program, and for its binaries if they are asked for.
std::string compile_program(const clinst::Request &request);

// Answers requests on a socket until nobody asks or the service has ended.
[[noreturn]] void serve(const char *path, unsigned patience_s);

clinst::Response response_with_binary(const clinst::Request &request);

}  // namespace clbuild
#endif
