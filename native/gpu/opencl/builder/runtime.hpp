// SPDX-License-Identifier: Apache-2.0
// The machine's OpenCL runtime, through its loader. Whatever fails ends the process: whoever
// started it then does without.
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
  if (!found) _exit(2);
  return reinterpret_cast<Function *>(found);
}

#define CL(name) clbuild::entry<decltype(name)>(#name)

inline void check(cl_int error) {
  if (error != CL_SUCCESS) _exit(2);
}

// The device of the request, by the features `device` (without it, any) and `driver`.
cl_device_id find_device(const clinst::Request &request);

// The request's program, built, compiled or linked.
cl_program made(cl_context context, cl_device_id device, const clinst::Request &request);

// The program as its device's runtime keeps it, with its machine code.
std::string binary_of(cl_program program);

// Has the kernel of a launch compiled into PoCL's cache; ends the process with the name of its
// file.
void compile_for_launch(const clinst::Request &request);
// The same for the program, and for its binaries if they are asked for.
void compile_program(const clinst::Request &request);

clinst::Response response_with_binary(const clinst::Request &request);

}  // namespace clbuild
#endif
