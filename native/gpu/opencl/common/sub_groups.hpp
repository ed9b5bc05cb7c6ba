// SPDX-License-Identifier: Apache-2.0
// The sub-groups of a program's kernels, which are the warps where a device has them.
#pragma once

#include <CL/cl.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/text_from.hpp"
#include "protocol/clinst_protocol.h"

namespace common {

// `cl` has the runtime's functions as members of their names.
template <class Cl>
uint32_t sub_group_size(const Cl &cl, cl_kernel kernel, cl_device_id device, size_t width) {
  const size_t local[3] = {width, 1, 1};
  size_t size = 0;
  if (cl.clGetKernelSubGroupInfo(kernel, device, CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE,
                                 sizeof local, local, sizeof size, &size, nullptr) != CL_SUCCESS)
    return 0;
  return static_cast<uint32_t>(size);
}

// 0: it differs with the group (newer PoCL makes each row of a group one sub-group); warps are then
// cut as on devices without sub-groups.
template <class Cl>
uint32_t even_sub_group_size(const Cl &cl, cl_kernel kernel, cl_device_id device,
                             size_t max_work_group) {
  const uint32_t size = sub_group_size(cl, kernel, device, 1);
  const size_t wide = std::min<size_t>(max_work_group, CLINST_MAX_SUB_GROUP);
  return size == sub_group_size(cl, kernel, device, wide) ? size : 0;
}

// The size of each kernel of the program, as the device compiled it.
template <class Cl>
std::map<std::string, uint32_t> sub_group_sizes(const Cl &cl, cl_program program,
                                                cl_device_id device, size_t max_work_group) {
  std::map<std::string, uint32_t> sizes;
  cl_uint n = 0;
  if (cl.clCreateKernelsInProgram(program, 0, nullptr, &n) != CL_SUCCESS) return sizes;
  std::vector<cl_kernel> kernels(n);
  if (cl.clCreateKernelsInProgram(program, n, kernels.data(), nullptr) != CL_SUCCESS) return sizes;
  for (cl_kernel kernel : kernels) {
    const std::string name = text_from(cl.clGetKernelInfo, kernel, CL_KERNEL_FUNCTION_NAME);
    sizes[name] = even_sub_group_size(cl, kernel, device, max_work_group);
    cl.clReleaseKernel(kernel);
  }
  return sizes;
}

// "kernel:size kernel:size", as the instrumenter is told.
inline std::string words_of(const std::map<std::string, uint32_t> &sizes) {
  std::string words;
  for (const auto &[name, size] : sizes)
    if (size) words += (words.empty() ? "" : " ") + name + ":" + std::to_string(size);
  return words;
}

}  // namespace common
