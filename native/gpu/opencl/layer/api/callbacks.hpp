// SPDX-License-Identifier: Apache-2.0
// User callbacks: the runtime gets a function of ours that brackets the user's.
#ifndef XPUPROF_OPENCL_CALLBACKS_HPP
#define XPUPROF_OPENCL_CALLBACKS_HPP

#include <memory>

#include "api/layer.hpp"

namespace layer {

// The callback of clBuildProgram, clCompileProgram and clLinkProgram, called once. When the call
// fails the runtime may or may not have called it, so its data is leaked.
class ProgramNotify {
 public:
  using Function = void(CL_CALLBACK *)(cl_program, void *);
  ProgramNotify(Function function, void *user);
  Function function() const { return function_; }
  void *data() const { return data_; }

 private:
  Function function_;
  void *data_;
};

}  // namespace layer
#endif
