// SPDX-License-Identifier: Apache-2.0
// Under a CPU engine, a program that was compiled natively (binaries.hpp) stands for the one that
// the application built, which remains as it was created. The application sees its own handle;
// whatever needs the built program gets the stand-in.
#ifndef XPUPROF_OPENCL_STAND_INS_HPP
#define XPUPROF_OPENCL_STAND_INS_HPP

#include <memory>
#include <mutex>
#include <string>

#include "programs/builds.hpp"

namespace layer {

// Kept by the application's program and by its kernels, which natively keep the program.
class StandIn {
 public:
  StandIn(const Program &original, std::shared_ptr<Build> build, cl_program program,
          std::string log);
  ~StandIn();
  StandIn(const StandIn &) = delete;
  StandIn &operator=(const StandIn &) = delete;

  // The same program, now built here, for questions that a binary does not answer.
  cl_program built_here();

  const cl_program original, program;
  const std::shared_ptr<Build> build;
  const std::string log;

 private:
  const cl_context context_;
  std::once_flag once_;
  cl_program built_here_ = nullptr;
};

// NULL: the program has to be built here. `n` and `devices` are clBuildProgram's.
std::shared_ptr<StandIn> new_stand_in(Program *program, cl_uint n, const cl_device_id *devices);

// In a native run that a profile follows, once the program is built: leaves what the profile will
// ask for to make its stand-in.
void leave_stand_in(Program *program, cl_uint n, const cl_device_id *devices);

// The stand-in of the application's handle, or NULL.
std::shared_ptr<StandIn> stand_in_of(cl_program handle);
// From now on the program has this one, or NULL: then it is built here.
void set_stand_in(Program *program, std::shared_ptr<StandIn> stand_in);

// The program that holds a handle's code, kept while this lives.
class Coded {
 public:
  explicit Coded(cl_program handle)
      : stand_in_(stand_in_of(handle)), program_(stand_in_ ? stand_in_->program : handle) {}
  operator cl_program() const { return program_; }

 private:
  const std::shared_ptr<StandIn> stand_in_;
  const cl_program program_;
};

// Overrides the questions about the program and its kernels.
cl_int CL_API_CALL stand_in_program_info(cl_program handle, cl_program_info name, size_t room,
                                         void *value, size_t *size);
cl_int CL_API_CALL stand_in_build_info(cl_program handle, cl_device_id device,
                                       cl_program_build_info name, size_t room, void *value,
                                       size_t *size);

}  // namespace layer
#endif
