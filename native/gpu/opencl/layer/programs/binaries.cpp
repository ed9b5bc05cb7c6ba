// SPDX-License-Identifier: Apache-2.0
#include "programs/binaries.hpp"

#include <cpuid.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "device/runtimes.hpp"
#include "protocol/clinst_protocol.h"

namespace layer {

namespace {

constexpr const char *target_variable = "CL_CONFIG_CPU_TARGET_ARCH";

// Whether the program sees AVX2 under the CPU engine of this profile, or of the one that follows.
// Of the launcher's engines, the one named valgrind hides it.
bool shows_avx2() {
  unsigned a, b = 0, c, d;
  if (!settings.translated && settings.ahead_engine == "valgrind") return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_AVX2;
}

// The processor that a CPU engine shows, where it is less than the instrumenter sees: the runtime
// takes no binary for another one. Empty: nothing is hidden.
const char *shown_processor() {
  unsigned a, b, c = 0, d;
  const bool engine = settings.translated || !settings.ahead_engine.empty();
  if (!engine || std::getenv(target_variable) || shows_avx2()) return "";
  return __get_cpuid(1, &a, &b, &c, &d) && c & bit_AVX ? "corei7-avx" : "corei7";
}

// Whether a variable decides where a runtime keeps its cache, or how it compiles.
bool decides(const std::string &entry) {
  auto begins = [&](const char *start) { return entry.rfind(start, 0) == 0; };
  return std::any_of(std::begin(clinst::runtime_variables), std::end(clinst::runtime_variables),
                     begins) ||
         begins("HOME=") || begins("XDG_CACHE_HOME=") || begins("TMPDIR=");
}

void add_environment(std::map<std::string, std::string> *to) {
  for (char **entry = environ; entry && *entry; entry++) {
    const std::string text = *entry;
    if (const size_t end = text.find('='); end != text.npos && decides(text))
      (*to)[clinst::environment_prefix + text.substr(0, end)] = text.substr(end + 1);
  }
}

}  // namespace

void add_facts(const Device &device, const std::string &options, clinst::Request *request) {
  request->device["launch:options"] = options;
  request->device["launch:device"] = info_text(device.handle, CL_DEVICE_NAME);
  request->device["launch:driver"] = info_text(device.handle, CL_DRIVER_VERSION);
  add_environment(&request->device);
}

clinst::Request binary_request(const Device &device, clinst::Request request,
                               const std::string &options) {
  request.flags |= CLINST_BINARY;
  add_facts(device, options, &request);
  if (const char *processor = shown_processor(); *processor) {
    request.device[std::string(clinst::environment_prefix) + target_variable] = processor;
    request.device.erase("launch:device");  // named after the processor
  }
  return request;
}

cl_program program_from_binary(cl_context context, const Device &device, clinst::Request request,
                               const std::string &options, std::string *log) {
  if (!device.loads_code) return nullptr;
  const Instrumented built = instrument(binary_request(device, std::move(request), options));
  if (!built.reason.empty()) return nullptr;
  if (log) *log = built.log.c_str();
  xpu_kernels_loaded(built.computes_only != 0);
  cl_program program = nullptr;
  build_binary(context, device, built.module, options, &program);
  return program;
}

bool binary_computes_only(const Device &device, const std::string &binary) {
  if (!device.loads_code) return false;
  clinst::Request request;
  request.flags = CLINST_BINARY | CLINST_UNCHANGED | CLINST_NO_CACHE;
  request.parts.resize(1);
  request.parts[0].input = CLINST_MACHINE_CODE;
  request.parts[0].payload = binary;
  return instrument(request).computes_only != 0;
}

}  // namespace layer
