// SPDX-License-Identifier: Apache-2.0
#include "programs/binaries.hpp"

#include <cpuid.h>
#include <unistd.h>

#include <cstdlib>

#include "protocol/clinst_protocol.h"

namespace layer {

namespace {

constexpr const char *target_variable = "CL_CONFIG_CPU_TARGET_ARCH";

// The processor that a CPU engine shows, where it is less than the instrumenter sees: the runtime
// takes no binary for another one. Empty: nothing is hidden.
const char *shown_processor() {
  unsigned a, b = 0, c = 0, d;
  if (!settings.translated || std::getenv(target_variable)) return "";
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_AVX2) return "";
  return __get_cpuid(1, &a, &b, &c, &d) && c & bit_AVX ? "corei7-avx" : "corei7";
}

void add_environment(std::map<std::string, std::string> *to) {
  for (char **entry = environ; entry && *entry; entry++) {
    const std::string text = *entry;
    for (const char *start : {"POCL_", "CL_CONFIG_", "HOME=", "XDG_CACHE_HOME=", "TMPDIR="})
      if (const size_t end = text.find('='); text.rfind(start, 0) == 0 && end != text.npos)
        (*to)["env:" + text.substr(0, end)] = text.substr(end + 1);
  }
}

cl_program load(cl_context context, const Device &device, const std::string &binary,
                const std::string &options) {
  const size_t size = binary.size();
  const auto *bytes = reinterpret_cast<const unsigned char *>(binary.data());
  cl_int error = CL_SUCCESS;
  cl_program program =
      next.clCreateProgramWithBinary(context, 1, &device.handle, &size, &bytes, nullptr, &error);
  if (!program || next.clBuildProgram(program, 1, &device.handle, options.c_str(), nullptr,
                                      nullptr) == CL_SUCCESS)
    return program;
  next.clReleaseProgram(program);
  return nullptr;
}

}  // namespace

void add_facts(const Device &device, const std::string &options, clinst::Request *request) {
  request->device["launch:options"] = options;
  request->device["launch:device"] = info_text(device.handle, CL_DEVICE_NAME);
  request->device["launch:driver"] = info_text(device.handle, CL_DRIVER_VERSION);
  add_environment(&request->device);
}

cl_program program_from_binary(cl_context context, const Device &device, clinst::Request request,
                               const std::string &options, std::string *log) {
  if (!device.loads_code) return nullptr;
  request.flags |= CLINST_BINARY;
  add_facts(device, options, &request);
  if (const char *processor = shown_processor(); *processor) {
    request.device[std::string("env:") + target_variable] = processor;
    request.device.erase("launch:device");  // named after the processor
  }
  const Instrumented built = instrument(request);
  if (!built.reason.empty()) return nullptr;
  if (log) *log = built.log.c_str();
  xpu_kernels_loaded(built.computes_only != 0);
  return load(context, device, built.module, options);
}

}  // namespace layer
