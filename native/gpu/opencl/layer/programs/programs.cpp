// SPDX-License-Identifier: Apache-2.0
#include "programs/programs.hpp"

#include <algorithm>
#include <cstring>

#include "api/callbacks.hpp"
#include "api/natively.hpp"
#include "device/runtimes.hpp"
#include "programs/binaries.hpp"
#include "programs/origins.hpp"
#include "programs/own_builds.hpp"
#include "programs/stand_ins.hpp"
#include "protocol/clinst_protocol.h"
#include "xpuprof/trace_format.h"

namespace layer {

namespace {

Registry<cl_program, Program> &programs = *new Registry<cl_program, Program>;

std::shared_ptr<Program> add_program(cl_program handle, cl_context context) {
  auto program = std::make_shared<Program>();
  program->handle = handle;
  program->context = context;
  programs.add(handle, program);
  return program;
}

void know_binaries(cl_program handle, unsigned char *const *binaries, size_t n) {
  auto build = build_of(handle);
  std::vector<size_t> sizes(n);
  std::vector<cl_device_id> devices(n);
  if (!n || !build || build->parts.empty() ||
      stand_in_program_info(handle, CL_PROGRAM_BINARY_SIZES, n * sizeof(size_t), sizes.data(),
                            nullptr) != CL_SUCCESS ||
      next.clGetProgramInfo(handle, CL_PROGRAM_DEVICES, n * sizeof devices[0], devices.data(),
                            nullptr) != CL_SUCCESS)
    return;
  Origin origin{build->parts, build->options, build->origin, build->hash, {}};
  const auto included = build->included(device_of(devices[0]));
  for (const std::string &path : included.value_or(std::vector<std::string>()))
    origin.files.emplace_back(path, hash_of_file(path));
  for (size_t i = 0; i < n; i++)
    if (binaries[i] && sizes[i])
      (included ? keep_origin : keep_origin_for_now)(
          std::string(reinterpret_cast<const char *>(binaries[i]), sizes[i]), origin);
}

// What the runtime keeps is compiled natively before it is needed.
void compile_beforehand(cl_program handle, cl_uint n, const cl_device_id *devices, Step step) {
  if (!settings.translated) return;
  quietly([&] {
    if (const auto program = programs.find(handle))
      compile_step_beforehand(program.get(), n, devices, step);
  });
}

void build_beforehand(cl_program handle, cl_uint n, const cl_device_id *devices, Step step) {
  if (!leaves_translator(handle)) compile_beforehand(handle, n, devices, step);
}

void leave_step(cl_program handle, cl_uint n, const cl_device_id *devices, Step step) {
  if (settings.ahead.empty()) return;
  quietly([&] {
    const auto program = programs.find(handle);
    if (!program) return;
    if (step == Step::build) leave_stand_in(program.get(), n, devices);
    tell_step(program.get(), n, devices, step);
  });
}

cl_int CL_API_CALL program_info(cl_program program, cl_program_info name, size_t room, void *value,
                                size_t *size) {
  Api api;
  const bool binaries = value && (name == CL_PROGRAM_BINARIES || name == CL_PROGRAM_BINARY_SIZES);
  if (binaries) compile_beforehand(program, 0, nullptr, Step::binaries);
  cl_int error = stand_in_program_info(program, name, room, value, size);
  if (binaries && error == CL_SUCCESS) leave_step(program, 0, nullptr, Step::binaries);
  if (error == CL_SUCCESS && value && name == CL_PROGRAM_BINARIES && settings.mode == Mode::profile)
    quietly([&] {
      know_binaries(program, static_cast<unsigned char **>(value), room / sizeof(char *));
    });
  return error;
}

// Returns the previous build: a failing build leaves it in force.
std::shared_ptr<Build> set_build(cl_program handle, std::shared_ptr<Build> build) {
  if (auto program = programs.find(handle)) {
    std::lock_guard<std::mutex> guard(program->lock);
    program->build.swap(build);
  }
  return build;
}

// ---- creation ---------------------------------------------------------------------------------

cl_program CL_API_CALL create_with_source(cl_context context, cl_uint count, const char **strings,
                                          const size_t *lengths, cl_int *error) {
  Api api;
  cl_program handle = next.clCreateProgramWithSource(context, count, strings, lengths, error);
  if (handle)
    quietly([&] {
      auto program = add_program(handle, context);
      for (cl_uint i = 0; i < count; i++)
        program->source.payload +=
            lengths && lengths[i] ? std::string(strings[i], lengths[i]) : std::string(strings[i]);
    });
  return handle;
}

cl_program CL_API_CALL create_with_il(cl_context context, const void *il, size_t length,
                                      cl_int *error) {
  return create_program_with_il(next.clCreateProgramWithIL, context, il, length, error);
}

// Native code of an unseen build cannot be instrumented. As if the driver had changed since, it is
// invalid: the program then builds from its source.
bool is_stale(const unsigned char *binary, size_t length) {
  if (!settings.own_binaries) return false;
  const std::string bytes(reinterpret_cast<const char *>(binary), length);
  return module_of(bytes) == Module::other && !origin_of(bytes);
}

// Whether one of the binaries is stale; `status` then says which.
bool find_stale(cl_uint n, const size_t *lengths, const unsigned char **binaries, cl_int *status) {
  std::vector<cl_int> each(n);
  bool found = false;
  for (cl_uint i = 0; i < n; i++)
    if (is_stale(binaries[i], lengths[i])) {
      each[i] = CL_INVALID_BINARY;
      found = true;
    }
  if (!found) return false;
  if (status) std::copy(each.begin(), each.end(), status);
  xpu_meta("binaries_refused",
           "its cached binaries were refused; XPUPROF_OPENCL_BINARIES=keep has it use them");
  return true;
}

cl_program CL_API_CALL create_with_binary(cl_context context, cl_uint n,
                                          const cl_device_id *devices, const size_t *lengths,
                                          const unsigned char **binaries, cl_int *status,
                                          cl_int *error) {
  Api api;
  cl_program handle = natively(context, [&] {
    return next.clCreateProgramWithBinary(context, n, devices, lengths, binaries, status, error);
  });
  if (!handle) return handle;
  bool stale = false;
  quietly([&] {
    stale = find_stale(n, lengths, binaries, status);
    if (stale) return;
    auto program = add_program(handle, context);
    program->kind = XP_PROGRAM_BINARY;
    for (cl_uint i = 0; i < n; i++) {
      Part part;
      part.payload.assign(reinterpret_cast<const char *>(binaries[i]), lengths[i]);
      program->device_parts[devices[i]] = std::move(part);
    }
  });
  if (!stale) return handle;
  next.clReleaseProgram(handle);
  if (error) *error = CL_INVALID_BINARY;
  return nullptr;
}

cl_program CL_API_CALL create_with_built_in(cl_context context, cl_uint n,
                                            const cl_device_id *devices, const char *names,
                                            cl_int *error) {
  Api api;
  cl_program handle = next.clCreateProgramWithBuiltInKernels(context, n, devices, names, error);
  if (handle)
    quietly([&] {
      auto program = add_program(handle, context);
      program->kind = XP_PROGRAM_BUILTIN;
      program->source.payload = names;
      program->reason = "a kernel built into the device has no code to instrument";
      set_build(handle, new_build(*program, ""));
    });
  return handle;
}

// ---- building ---------------------------------------------------------------------------------

// Programs without source may be made from machine code, as Python's pyopencl keeps it.
bool loads_what_computes_only(cl_program handle) {
  bool known = false;
  if (!settings.translated) return known;
  quietly([&] {
    const auto program = programs.find(handle);
    if (!program || program->device_parts.empty()) return;
    known = std::all_of(program->device_parts.begin(), program->device_parts.end(), [](auto &of) {
      return binary_computes_only(device_of(of.first), of.second.payload);
    });
  });
  return known;
}

// What is compiled here may call anything.
template <class Work>
auto compile(const void *object, Work &&work, bool computes_only = false) {
  xpu_kernels_loaded(computes_only);
  return natively(object, work);
}

// Whether the program is now built from a binary that was compiled natively. A driver with a
// function to call may call it on another thread, so it builds itself.
bool stands_in(cl_program handle, cl_uint n, const cl_device_id *devices, bool calls_back) {
  bool made = false;
  if (!settings.translated) return made;
  quietly([&] {
    const auto program = programs.find(handle);
    if (!program) return;
    const auto stand_in = calls_back ? nullptr : new_stand_in(program.get(), n, devices);
    set_stand_in(program.get(), stand_in);
    made = stand_in != nullptr;
  });
  return made;
}

// Natively a program with kernels cannot be built again.
bool has_kernels(cl_program handle) {
  const auto stand_in = stand_in_of(handle);
  return stand_in &&
         next.clBuildProgram(stand_in->program, 0, nullptr, stand_in->build->options.c_str(),
                             nullptr, nullptr) == CL_INVALID_OPERATION;
}

cl_int CL_API_CALL build_program(cl_program handle, cl_uint n, const cl_device_id *devices,
                                 const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                 void *user) {
  Api api;
  // What the driver refuses, it answers itself.
  const bool valid = (n == 0) == (devices == nullptr) && (notify || !user);
  if (valid && has_kernels(handle)) return CL_INVALID_OPERATION;
  std::shared_ptr<Build> before;
  quietly([&] {
    if (auto program = programs.find(handle))
      before = set_build(handle, new_build(*program, options));
  });
  cl_int error;
  {
    HostEvent native(XP_HOST_BUILD);
    if (valid && stands_in(handle, n, devices, notify != nullptr)) return CL_SUCCESS;
    if (valid) build_beforehand(handle, n, devices, Step::build);
    ProgramNotify wrapped(notify, user);
    auto build = [&] {
      return next.clBuildProgram(handle, n, devices, options, wrapped.function(), wrapped.data());
    };
    error = compile(handle, build, loads_what_computes_only(handle));
  }
  if (error != CL_SUCCESS)
    quietly([&] { set_build(handle, before); });
  else if (!notify)
    leave_step(handle, n, devices, Step::build);
  return error;
}

cl_int CL_API_CALL compile_program(cl_program handle, cl_uint n, const cl_device_id *devices,
                                   const char *options, cl_uint n_headers,
                                   const cl_program *headers, const char **names,
                                   void(CL_CALLBACK *notify)(cl_program, void *), void *user) {
  Api api;
  if (has_kernels(handle)) return CL_INVALID_OPERATION;
  std::shared_ptr<Build> before;
  quietly([&] {
    auto program = programs.find(handle);
    if (!program) return;
    set_stand_in(program.get(), nullptr);
    program->source.headers.clear();
    for (cl_uint i = 0; headers && names && i < n_headers; i++)
      if (auto header = programs.find(headers[i]))
        program->source.headers.emplace_back(names[i], header->source.payload);
    before = set_build(handle, new_build(*program, options));
  });
  ProgramNotify wrapped(notify, user);
  HostEvent native(XP_HOST_BUILD);
  build_beforehand(handle, n, devices, Step::compile);
  cl_int error = compile(handle, [&] {
    return next.clCompileProgram(handle, n, devices, options, n_headers, headers, names,
                                 wrapped.function(), wrapped.data());
  });
  if (error != CL_SUCCESS)
    quietly([&] { set_build(handle, before); });
  else if (!notify)
    leave_step(handle, n, devices, Step::compile);
  return error;
}

cl_program CL_API_CALL link_program(cl_context context, cl_uint n_devices,
                                    const cl_device_id *devices, const char *options, cl_uint n,
                                    const cl_program *inputs,
                                    void(CL_CALLBACK *notify)(cl_program, void *), void *user,
                                    cl_int *error) {
  Api api;
  std::shared_ptr<Build> build;
  quietly([&] {
    std::vector<std::shared_ptr<Build>> builds;
    for (cl_uint i = 0; inputs && i < n; i++) builds.push_back(build_of(inputs[i]));
    build = link_builds(options, builds);
  });
  ProgramNotify wrapped(notify, user);
  HostEvent native(XP_HOST_BUILD);
  cl_program handle = compile(context, [&] {
    return next.clLinkProgram(context, n_devices, devices, options, n, inputs, wrapped.function(),
                              wrapped.data(), error);
  });
  if (handle) quietly([&] { add_program(handle, context)->build = build; });
  return handle;
}

cl_int CL_API_CALL set_spec_constant(cl_program handle, cl_uint id, size_t size,
                                     const void *value) {
  Api api;
  cl_int error = next.clSetProgramSpecializationConstant(handle, id, size, value);
  if (error == CL_SUCCESS)
    quietly([&] {
      auto program = programs.find(handle);
      if (!program) return;
      std::lock_guard<std::mutex> guard(program->lock);
      std::string bytes(static_cast<const char *>(value), size);
      for (auto &constant : program->source.spec_constants)
        if (constant.first == id) {
          constant.second = bytes;
          return;
        }
      program->source.spec_constants.emplace_back(id, bytes);
    });
  return error;
}

cl_int CL_API_CALL retain_program(cl_program program) {
  return retain(&programs, next.clRetainProgram, program);
}

// With the last reference go parts of the compiler.
cl_int CL_API_CALL release_program(cl_program handle) {
  return release(&programs, next.clReleaseProgram, handle,
                 [handle](const auto &work) { return natively(handle, work); });
}

}  // namespace

cl_program create_program_with_il(decltype(&clCreateProgramWithIL) native, cl_context context,
                                  const void *il, size_t length, cl_int *error) {
  Api api;
  cl_program handle = natively(context, [&] { return native(context, il, length, error); });
  if (handle)
    quietly([&] {
      auto program = add_program(handle, context);
      program->kind = XP_PROGRAM_IL;
      program->source.payload.assign(static_cast<const char *>(il), length);
      program->source.input = CLINST_SPIRV;
      if (module_of(program->source.payload) != Module::spirv)
        program->reason = "the intermediate language is not SPIR-V";
    });
  return handle;
}

std::shared_ptr<Build> build_of(cl_program handle) {
  auto program = programs.find(handle);
  if (!program) return nullptr;
  std::lock_guard<std::mutex> guard(program->lock);
  return program->build;
}

void override_programs(cl_icd_dispatch *table) {
  put<&Table::clGetProgramInfo>(table, program_info);
  put<&Table::clGetProgramBuildInfo>(table, stand_in_build_info);
  put<&Table::clCreateProgramWithSource>(table, create_with_source);
  put<&Table::clCreateProgramWithBinary>(table, create_with_binary);
  put<&Table::clCreateProgramWithBuiltInKernels>(table, create_with_built_in);
  put<&Table::clCreateProgramWithIL>(table, create_with_il);
  put<&Table::clBuildProgram>(table, build_program);
  put<&Table::clCompileProgram>(table, compile_program);
  put<&Table::clLinkProgram>(table, link_program);
  put<&Table::clSetProgramSpecializationConstant>(table, set_spec_constant);
  put<&Table::clRetainProgram>(table, retain_program);
  put<&Table::clReleaseProgram>(table, release_program);
}

}  // namespace layer
