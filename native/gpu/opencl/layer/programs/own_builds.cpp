// SPDX-License-Identifier: Apache-2.0
#include "programs/own_builds.hpp"

#include <utility>

#include "client/ahead.hpp"
#include "programs/binaries.hpp"
#include "protocol/clinst_protocol.h"

namespace layer {

const Device *device_of_build(cl_program handle, cl_uint n, const cl_device_id *devices) {
  cl_device_id its[2] = {};
  size_t size = 0;
  if (next.clGetProgramInfo(handle, CL_PROGRAM_DEVICES, sizeof its, its, &size) != CL_SUCCESS ||
      size != sizeof its[0] || n > 1 || (n == 1 && devices[0] != its[0]))
    return nullptr;
  return &device_of(its[0]);
}

std::optional<clinst::Request> own_request(const Build &build, const Device &device) {
  const bool one_step = build.links == 0 && build.parts.size() == 1;
  if (!device.keeps_kernels || (!one_step && build.links != 1)) return std::nullopt;
  for (const Part &part : build.parts)
    if (part.payload.empty()) return std::nullopt;
  clinst::Request request = request_of(build, build.parts, device, most_local_words);
  request.flags |= CLINST_BUILD | CLINST_UNCHANGED;
  add_facts(device, build.options, &request);
  if (build.links) request.device["launch:step"] = "link";
  return request;
}

static std::optional<clinst::Request> step_request(Program *program, cl_uint n,
                                                   const cl_device_id *devices, Step step) {
  std::shared_ptr<Build> build;
  {
    std::lock_guard<std::mutex> guard(program->lock);
    build = program->build;
  }
  const bool from_source = program->kind == XP_PROGRAM_SOURCE || program->kind == XP_PROGRAM_IL;
  const Device *device = build ? device_of_build(program->handle, n, devices) : nullptr;
  if (!device || !from_source || (build->links && step != Step::binaries)) return std::nullopt;
  auto request = own_request(*build, *device);
  if (request && step == Step::compile) request->device["launch:step"] = "compile";
  if (request && step == Step::binaries) request->device["launch:binaries"] = "all";
  return request;
}

void compile_step_beforehand(Program *program, cl_uint n, const cl_device_id *devices, Step step) {
  if (auto request = step_request(program, n, devices, step)) build_natively(*request);
}

void tell_step(Program *program, cl_uint n, const cl_device_id *devices, Step step) {
  if (auto request = step_request(program, n, devices, step)) tell_compiled(*request);
}

}  // namespace layer
