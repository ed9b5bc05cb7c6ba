// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/sub_groups.hpp"
#include "device/runtimes.hpp"
#include "programs/binaries.hpp"
#include "programs/builds.hpp"
#include "protocol/clinst_protocol.h"

namespace layer {

Shadow::~Shadow() {
  if (program) next.clReleaseProgram(program);
}

clinst::Request request_of(const Build &build, std::vector<Part> parts, const Device &device,
                           uint32_t local_words) {
  clinst::Request request{settings.record_memory ? uint32_t{CLINST_MEMORY} : 0, module_kind(device),
                          device.features, std::move(parts)};
  request.device["cwd"] = build.folder;
  request.device["local_words"] = std::to_string(local_words);
  return request;
}

namespace {

// The parts for one device; a program made from binaries has separate parts per device.
std::string parts_for(const Build &build, const Device &device, std::vector<Part> *parts) {
  *parts = build.parts;
  if (build.device_parts.empty()) return parts->empty() ? "the program's origin is unknown" : "";
  auto at = build.device_parts.find(device.handle);
  if (at == build.device_parts.end()) return "the program holds no binary for the device";
  Part part = at->second;
  switch (module_of(part.payload)) {
    case Module::spirv:
      part.input = CLINST_SPIRV;
      break;
    case Module::bitcode:
      part.input = CLINST_BITCODE;
      break;
    case Module::other:
      return "the program was made from a native binary whose build was never seen";
  }
  part.options = build.options;
  parts->assign(1, part);
  return "";
}

void make_shadow(const Build &build, cl_kernel kernel, const Device &device, uint32_t local_words,
                 Shadow *shadow) {
  clinst::Request request;
  shadow->reason = build.ask_for(device, local_words, &request, &shadow->options);
  if (!shadow->reason.empty()) return;
  shadow->sub_groups = sub_group_sizes(kernel, device);
  if (device.sub_groups) request.device["sub_group_sizes"] = common::words_of(shadow->sub_groups);
  Instrumented result = instrument(request);
  shadow->reason = result.reason;
  shadow->module = std::move(result.module);
  if (device.loads_code) shadow->request = std::move(request);
  for (auto &kernel : result.kernels) shadow->kernels.emplace(kernel.name, std::move(kernel));
  for (const auto &[name, info] : shadow->kernels)
    if (!info.nodes.empty() && !info.has_accesses() && !settings.kernels_count)
      shadow->analytic_counts[name] = std::make_unique<AnalyticCounts>(info);
}

}  // namespace

std::optional<std::vector<std::string>> Build::included(const Device &device) const {
  if (std::none_of(parts.begin(), parts.end(), [](const Part &p) { return p.may_include(); }))
    return std::vector<std::string>();
  const Instrumented answer = instrument(request_of(*this, parts, device, most_local_words));
  if (!answer.reason.empty()) return std::nullopt;
  return answer.included;
}

std::string Build::ask_for(const Device &device, uint32_t local_words, clinst::Request *request,
                           std::string *module_options) const {
  if (!reason.empty()) return reason;
  if (!device.takes_spirv && !device.takes_bitcode)
    return "the device takes no SPIR-V or SPIR modules; Debian's PoCL and Intel's CPU runtime do";
  std::vector<Part> of_device;
  const std::string missing = parts_for(*this, device, &of_device);
  if (!missing.empty()) return missing;
  std::string given = options;
  for (const Part &part : parts) given += " " + part.options;
  *module_options = layer::module_options(device, of_device[0].input == CLINST_SOURCE, given);
  *request = request_of(*this, std::move(of_device), device, local_words);
  return "";
}

const Shadow &Build::shadow(cl_kernel kernel, const Device &device, uint32_t local_words) {
  std::lock_guard<std::mutex> guard(lock_);
  std::unique_ptr<Shadow> &shadow = shadows_[{device.handle, local_words}];
  if (!shadow) {
    shadow = std::make_unique<Shadow>();
    try {
      make_shadow(*this, kernel, device, local_words, shadow.get());
    } catch (...) {
      shadow->reason = "the instrumented program could not be made";
    }
  }
  return *shadow;
}

cl_program Build::shadow_program(cl_context context, const Device &device, uint32_t local_words) {
  std::lock_guard<std::mutex> guard(lock_);
  Shadow &shadow = *shadows_.at({device.handle, local_words});
  if (!shadow.program && shadow.reason.empty())
    shadow.program =
        program_from_binary(context, device, std::move(shadow.request), shadow.options);
  if (!shadow.program && shadow.reason.empty())
    shadow.reason = build_module(context, device, shadow.module, shadow.options, &shadow.program);
  return shadow.program;
}

}  // namespace layer
