// SPDX-License-Identifier: Apache-2.0
#include "runtime.hpp"

#include <map>
#include <vector>

#include "common/text_from.hpp"

namespace clbuild {

static std::string text_of(cl_device_id device, cl_device_info what) {
  return common::text_from(CL(clGetDeviceInfo), device, what);
}

static bool is_asked(cl_device_id device, const clinst::Request &request) {
  const auto name = request.device.find("device");
  return text_of(device, CL_DRIVER_VERSION) == request.device.at("driver") &&
         (name == request.device.end() || text_of(device, CL_DEVICE_NAME) == name->second);
}

cl_device_id find_device(const clinst::Request &request) {
  cl_uint n = 0;
  check(CL(clGetPlatformIDs)(0, nullptr, &n));
  std::vector<cl_platform_id> platforms(n);
  check(CL(clGetPlatformIDs)(n, platforms.data(), nullptr));
  for (cl_platform_id platform : platforms) {
    if (CL(clGetDeviceIDs)(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &n) != CL_SUCCESS) continue;
    std::vector<cl_device_id> devices(n);
    check(CL(clGetDeviceIDs)(platform, CL_DEVICE_TYPE_ALL, n, devices.data(), nullptr));
    for (cl_device_id device : devices)
      if (is_asked(device, request)) return device;
  }
  throw clinst::Failure("there is no such device");
}

void enter_folder(const clinst::Request &request) {
  const auto folder = request.device.find("cwd");
  if (folder != request.device.end() && chdir(folder->second.c_str()))
    throw clinst::Failure("the working directory is gone");
}

cl_context context_of(cl_device_id device) {
  static auto &contexts = *new std::map<cl_device_id, cl_context>;
  cl_context &context = contexts[device];
  cl_int error = CL_SUCCESS;
  if (!context) context = CL(clCreateContext)(nullptr, 1, &device, nullptr, nullptr, &error);
  check(error);
  return context;
}

}  // namespace clbuild
