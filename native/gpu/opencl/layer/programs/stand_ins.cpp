// SPDX-License-Identifier: Apache-2.0
#include "programs/stand_ins.hpp"

#include <map>
#include <optional>
#include <utility>

#include "client/ahead.hpp"
#include "device/runtimes.hpp"
#include "programs/binaries.hpp"
#include "programs/own_builds.hpp"
#include "protocol/clinst_protocol.h"

namespace layer {

static LeafLock &lock = *new LeafLock;
static auto &known = *new std::map<cl_program, std::weak_ptr<StandIn>>;

// The program asks for what a binary does not hold, or may be another one when built later.
static bool needs_source(const Part &part) {
  return part.options.find("-cl-kernel-arg-info") != part.options.npos || part.may_include();
}

static cl_program built(cl_context context, const Part &part) {
  const char *text = part.payload.data();
  const size_t size = part.payload.size();
  cl_program made = part.input == CLINST_SOURCE
                        ? next.clCreateProgramWithSource(context, 1, &text, &size, nullptr)
                        : next.clCreateProgramWithIL(context, text, size, nullptr);
  for (const auto &[id, value] : part.spec_constants)
    if (made)
      next.clSetProgramSpecializationConstant(made, id, value.size(),
                                              static_cast<const void *>(value.data()));
  if (made) next.clBuildProgram(made, 0, nullptr, part.options.c_str(), nullptr, nullptr);
  return made;
}

StandIn::StandIn(const Program &original, std::shared_ptr<Build> build, cl_program program,
                 std::string log)
    : original(original.handle),
      program(program),
      build(std::move(build)),
      log(std::move(log)),
      context_(original.context) {
  next.clRetainProgram(original.handle);
}

StandIn::~StandIn() {
  if (built_here_) next.clReleaseProgram(built_here_);
  next.clReleaseProgram(program);
  next.clReleaseProgram(original);
}

cl_program StandIn::built_here() {
  std::call_once(once_, [&] { built_here_ = built(context_, build->parts.front()); });
  return built_here_;
}

namespace {

// A build that can have a stand-in, and what the instrumenter is asked for.
struct OwnBuild {
  std::shared_ptr<Build> build;
  const Device *device;
  clinst::Request request;
};

std::optional<OwnBuild> own_build(Program *program, cl_uint n, const cl_device_id *devices) {
  std::shared_ptr<Build> build;
  {
    std::lock_guard<std::mutex> guard(program->lock);
    if (!program->built_here) build = program->build;
  }
  // A program without text was linked.
  if (!build || (program->kind != XP_PROGRAM_SOURCE && program->kind != XP_PROGRAM_IL) ||
      build->parts.size() != 1 || build->parts[0].payload.empty())
    return std::nullopt;
  Part part = build->parts.front();
  const Device *device = device_of_build(program->handle, n, devices);
  if (!device || !device->loads_code || needs_source(part)) return std::nullopt;
  clinst::Request request{CLINST_UNCHANGED, module_kind(*device), device->features, {}};
  request.parts.push_back(std::move(part));
  request.device["cwd"] = build->folder;
  return OwnBuild{std::move(build), device, std::move(request)};
}

}  // namespace

std::shared_ptr<StandIn> new_stand_in(Program *program, cl_uint n, const cl_device_id *devices) {
  auto own = own_build(program, n, devices);
  if (!own) return nullptr;
  std::string log;
  cl_program made = program_from_binary(program->context, *own->device, std::move(own->request),
                                        own->build->options, &log);
  if (!made) return nullptr;
  return std::make_shared<StandIn>(*program, own->build, made, std::move(log));
}

void leave_stand_in(Program *program, cl_uint n, const cl_device_id *devices) {
  auto own = own_build(program, n, devices);
  if (!own) return;
  const std::string &options = own->build->options;
  own->build->set_left(
      leave_for_profile(binary_request(*own->device, std::move(own->request), options)));
}

std::shared_ptr<StandIn> stand_in_of(cl_program handle) {
  if (!settings.translated) return nullptr;
  std::lock_guard<LeafLock> guard(lock);
  const auto at = known.find(handle);
  return at == known.end() ? nullptr : at->second.lock();
}

// The handle is not reused while a stand-in lives, so an old entry is of no harm.
void set_stand_in(Program *program, std::shared_ptr<StandIn> stand_in) {
  if (!settings.translated) return;
  std::lock_guard<std::mutex> of_program(program->lock);
  std::lock_guard<LeafLock> of_all(lock);
  program->built_here |= !stand_in;
  known[program->handle] = stand_in;
  program->stand_in.swap(stand_in);  // the former one ends without the locks
}

cl_int CL_API_CALL stand_in_program_info(cl_program handle, cl_program_info name, size_t room,
                                         void *value, size_t *size) {
  const auto stand_in = stand_in_of(handle);
  if (stand_in && name == CL_PROGRAM_REFERENCE_COUNT) {
    cl_uint count = 0;
    const cl_int error = next.clGetProgramInfo(handle, name, sizeof count, &count, nullptr);
    count--;  // the stand-in's
    return error == CL_SUCCESS ? answer(&count, sizeof count, room, value, size) : error;
  }
  const bool of_code = name == CL_PROGRAM_NUM_KERNELS || name == CL_PROGRAM_KERNEL_NAMES ||
                       name == CL_PROGRAM_BINARY_SIZES || name == CL_PROGRAM_BINARIES ||
                       name == CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT ||
                       name == CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT;
  return next.clGetProgramInfo(stand_in && of_code ? stand_in->program : handle, name, room, value,
                               size);
}

cl_int CL_API_CALL stand_in_build_info(cl_program handle, cl_device_id device,
                                       cl_program_build_info name, size_t room, void *value,
                                       size_t *size) {
  Api api;
  const auto stand_in = stand_in_of(handle);
  auto text = [&](const std::string &of) {
    return answer(of.c_str(), of.size() + 1, room, value, size);
  };
  if (stand_in && name == CL_PROGRAM_BUILD_OPTIONS) return text(stand_in->build->options);
  if (stand_in && name == CL_PROGRAM_BUILD_LOG) return text(stand_in->log);
  return next.clGetProgramBuildInfo(stand_in ? stand_in->program : handle, device, name, room,
                                    value, size);
}

}  // namespace layer
