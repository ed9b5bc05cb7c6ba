// SPDX-License-Identifier: Apache-2.0
#include "common/sub_groups.hpp"
#include "runtime.hpp"

namespace clbuild {

static cl_program create(cl_context context, cl_device_id device, const clinst::Part &part) {
  cl_int error = CL_SUCCESS;
  cl_program program = nullptr;
  const char *text = part.payload.data();
  const size_t size = part.payload.size();
  const auto *bytes = reinterpret_cast<const unsigned char *>(text);
  if (part.input == CLINST_SOURCE)
    program = CL(clCreateProgramWithSource)(context, 1, &text, &size, &error);
  else if (part.input == CLINST_SPIRV)
    program = CL(clCreateProgramWithIL)(context, text, size, &error);
  else
    program = CL(clCreateProgramWithBinary)(context, 1, &device, &size, &bytes, nullptr, &error);
  check(error);
  for (const auto &[id, value] : part.spec_constants)
    check(CL(clSetProgramSpecializationConstant)(program, id, value.size(), value.data()));
  return program;
}

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

clinst::Response binary_of(const clinst::Request &request) {
  const clinst::Part &part = request.parts.at(0);
  cl_int error = CL_SUCCESS;
  cl_device_id device = find_device(request);
  cl_context context = CL(clCreateContext)(nullptr, 1, &device, nullptr, nullptr, &error);
  check(error);
  cl_program program = create(context, device, part);
  check(CL(clBuildProgram)(program, 1, &device, part.options.c_str(), nullptr, nullptr));
  clinst::Response built;
  size_t size = 0;
  check(CL(clGetProgramInfo)(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr));
  built.module.resize(size);
  char *to = built.module.data();
  check(CL(clGetProgramInfo)(program, CL_PROGRAM_BINARIES, sizeof to, &to, nullptr));
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
