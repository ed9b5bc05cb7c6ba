// SPDX-License-Identifier: Apache-2.0
#include "common/sub_groups.hpp"
#include "runtime.hpp"

namespace clbuild {

namespace {

struct Calls {
#define CALL(name) decltype(&::name) name = entry<decltype(::name)>(#name)
  CALL(clCreateKernelsInProgram);
  CALL(clGetKernelInfo);
  CALL(clGetKernelSubGroupInfo);
  CALL(clReleaseKernel);
#undef CALL
};

}  // namespace

std::string binary_of(cl_program program) {
  size_t size = 0;
  check(CL(clGetProgramInfo)(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr));
  std::string binary(size, 0);
  char *to = binary.data();
  check(CL(clGetProgramInfo)(program, CL_PROGRAM_BINARIES, sizeof to, &to, nullptr));
  return binary;
}

clinst::Response response_with_binary(const clinst::Request &request) {
  cl_device_id device = find_device(request);
  cl_program program = made(context_of(device), device, request);
  clinst::Response built;
  built.module = binary_of(program);
  size_t size = 0;
  auto log = [&](size_t room, void *text, size_t *length) {
    check(CL(clGetProgramBuildInfo)(program, device, CL_PROGRAM_BUILD_LOG, room, text, length));
  };
  log(0, nullptr, &size);
  built.log.resize(size);
  log(size, built.log.data(), nullptr);
  if (request.flags & CLINST_UNCHANGED) {
    size_t most = 0;
    check(CL(clGetDeviceInfo)(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof most, &most, nullptr));
    built.sub_groups = common::words_of(common::sub_group_sizes(Calls(), program, device, most));
  }
  return built;
}

}  // namespace clbuild
