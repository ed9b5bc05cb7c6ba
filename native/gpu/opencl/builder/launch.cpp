// SPDX-License-Identifier: Apache-2.0
// PoCL compiles for a launch, so the kernel is launched; but it never runs: when the runtime looks
// its code up, we note the name of the file that holds it, and give a function that does nothing.
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "runtime.hpp"

namespace {

using Lookup = void *(void *, const char *);

Lookup *system_lookup() {
  for (const char *version : {"GLIBC_2.34", "GLIBC_2.2.5"})
    if (void *found = dlvsym(RTLD_NEXT, "dlsym", version)) return reinterpret_cast<Lookup *>(found);
  _exit(2);
}

// Written by a thread of the runtime before the launch ends.
std::string &compiled = *new std::string;

void no_kernel(void *, void *, size_t, size_t, size_t) {}

void *in_place_of(const void *code) {
  Dl_info in{};
  if (dladdr(code, &in) && in.dli_fname) compiled = in.dli_fname;
  return reinterpret_cast<void *>(no_kernel);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void *dlsym(
    void *__restrict handle, const char *__restrict name) noexcept {
  static Lookup *const lookup = system_lookup();
  void *found = lookup(handle, name);
  return found && std::string(name).rfind("_pocl_kernel_", 0) == 0 ? in_place_of(found) : found;
}

namespace clbuild {

static cl_mem any_image(cl_context context, const std::string &type) {
  cl_image_format format{CL_RGBA, CL_FLOAT};
  cl_image_desc shape{};
  shape.image_type = type.rfind("image3d", 0) == 0         ? CL_MEM_OBJECT_IMAGE3D
                     : type.rfind("image2d_array", 0) == 0 ? CL_MEM_OBJECT_IMAGE2D_ARRAY
                     : type.rfind("image2d", 0) == 0       ? CL_MEM_OBJECT_IMAGE2D
                     : type.rfind("image1d_array", 0) == 0 ? CL_MEM_OBJECT_IMAGE1D_ARRAY
                                                           : CL_MEM_OBJECT_IMAGE1D;
  shape.image_width = shape.image_height = shape.image_depth = shape.image_array_size = 1;
  cl_int error = CL_SUCCESS;
  cl_mem image = CL(clCreateImage)(context, 0, &format, &shape, nullptr, &error);
  check(error);
  return image;
}

static cl_sampler any_sampler(cl_context context) {
  cl_int error = CL_SUCCESS;
  cl_sampler sampler =
      CL(clCreateSampler)(context, CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, &error);
  check(error);
  return sampler;
}

// "v8": a value of 8 bytes, of which zeros are as good as any, and no buffer; "l8": local memory;
// "image2d_t", "sampler_t": the runtime looks into these.
static void set_arguments(cl_context context, cl_kernel kernel, const std::string &words) {
  std::istringstream from(words);
  cl_uint index = 0;
  for (std::string word; from >> word; index++) {
    if (word.rfind("image", 0) == 0) {
      const cl_mem image = any_image(context, word);
      check(CL(clSetKernelArg)(kernel, index, sizeof image, &image));
    } else if (word.rfind("sampler", 0) == 0) {
      const cl_sampler sampler = any_sampler(context);
      check(CL(clSetKernelArg)(kernel, index, sizeof sampler, &sampler));
    } else {
      const size_t size = std::strtoul(word.c_str() + 1, nullptr, 10);
      const std::string zeros(size, 0);
      check(CL(clSetKernelArg)(kernel, index, size, word[0] == 'v' ? zeros.data() : nullptr));
    }
  }
}

static std::vector<size_t> sizes_of(const std::string &words) {
  std::istringstream from(words);
  std::vector<size_t> sizes;
  for (size_t size; from >> size;) sizes.push_back(size);
  return sizes;
}

// PoCL compiles for grids that have fewer work-items than this along x and y, or for any.
static std::vector<size_t> fewer_groups(const std::vector<size_t> &global,
                                        const std::vector<size_t> &local) {
  constexpr size_t small_grid = 0xffff;
  if (local.empty()) return global;
  const bool large = global.at(0) >= small_grid || (global.size() > 1 && global[1] >= small_grid);
  std::vector<size_t> fewer = local;
  if (large) fewer[0] *= small_grid / local[0] + 1;
  return fewer;
}

std::string compile_for_launch(const clinst::Request &request) {
  auto fact = [&](const char *name) { return request.device.at(name); };
  cl_int error = CL_SUCCESS;
  cl_device_id device = find_device(request);
  cl_context context = context_of(device);
  compiled.clear();
  cl_program program = program_of(device, request);
  cl_kernel kernel = CL(clCreateKernel)(program, fact("kernel").c_str(), &error);
  check(error);
  set_arguments(context, kernel, fact("arguments"));
  cl_command_queue queue = CL(clCreateCommandQueue)(context, device, 0, &error);
  check(error);
  const auto offset = sizes_of(fact("offset")), local = sizes_of(fact("local")),
             global = fewer_groups(sizes_of(fact("global")), local);
  check(CL(clEnqueueNDRangeKernel)(queue, kernel, static_cast<cl_uint>(global.size()),
                                   offset.empty() ? nullptr : offset.data(), global.data(),
                                   local.empty() ? nullptr : local.data(), 0, nullptr, nullptr));
  check(CL(clFinish)(queue));
  CL(clReleaseCommandQueue)(queue);
  CL(clReleaseKernel)(kernel);
  return compiled;
}

}  // namespace clbuild
