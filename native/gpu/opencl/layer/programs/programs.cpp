#include "programs/programs.hpp"

#include <unistd.h>

#include <cstring>

#include "api/callbacks.hpp"
#include "api/runtimes.hpp"
#include "programs/content_hash.hpp"
#include "programs/origins.hpp"
#include "protocol/clinst_protocol.h"
#include "xpuprof/trace_format.h"

namespace layer {

namespace {

struct Program {
  cl_program handle = nullptr;
  cl_context context = nullptr;
  std::mutex lock;
  Part source;  // as created; options are filled in by the build
  std::map<cl_device_id, Part> device_parts;
  uint32_t kind = XP_PROGRAM_SOURCE;
  std::string reason;
  std::shared_ptr<Build> build;
};

Registry<cl_program, Program> &programs = *new Registry<cl_program, Program>;

enum class Module { other, spirv, bitcode };

Module module_of(const std::string &bytes) {
  if (bytes.size() < 4) return Module::other;
  uint32_t magic;
  std::memcpy(&magic, bytes.data(), 4);
  if (magic == 0x07230203u) return Module::spirv;
  // Raw bitcode, and bitcode in its wrapper.
  return magic == 0xdec04342u || magic == 0x0b17c0deu ? Module::bitcode : Module::other;
}

std::string working_directory() {
  char here[4096];
  return getcwd(here, sizeof here) ? here : "";
}

// Search folders differ from machine to machine and say nothing about the program.
std::string without_includes(const std::string &options) {
  std::string result;
  for (size_t at = 0; at < options.size();) {
    bool start = at == 0 || options[at - 1] == ' ';
    if (!start || options.compare(at, 2, "-I") != 0) {
      result += options[at++];
      continue;
    }
    at = options.find_first_not_of(' ', at + 2);
    if (at == std::string::npos) break;
    char quote = options[at] == '"' || options[at] == '\'' ? options[at] : ' ';
    at = options.find(quote, at + 1);
    if (at == std::string::npos) break;
    at++;
  }
  return result;
}

std::shared_ptr<Program> add_program(cl_program handle, cl_context context) {
  auto program = std::make_shared<Program>();
  program->handle = handle;
  program->context = context;
  programs.add(handle, program);
  return program;
}

void hash_part(ContentHash *hash, const Part &part) {
  hash->add(part.payload);
  hash->add(without_includes(part.options));
  for (const auto &header : part.headers) {
    hash->add(header.first);
    hash->add(header.second);
  }
  for (const auto &constant : part.spec_constants) {
    hash->add(std::to_string(constant.first));
    hash->add(constant.second);
  }
}

const char *kind_name(uint32_t kind) {
  static const char *const names[] = {"source", "IL", "binary", "built-in"};
  return names[kind < 4 ? kind : 0];
}

void know_binaries(cl_program handle, unsigned char *const *binaries, size_t n) {
  auto build = build_of(handle);
  std::vector<size_t> sizes(n);
  if (!build || build->parts.empty() ||
      next.clGetProgramInfo(handle, CL_PROGRAM_BINARY_SIZES, n * sizeof(size_t), sizes.data(),
                            nullptr) != CL_SUCCESS)
    return;
  Origin origin{build->parts, build->options, build->origin, {}};
  std::memcpy(origin.hash, build->hash, sizeof origin.hash);
  for (size_t i = 0; i < n; i++)
    if (binaries[i] && sizes[i])
      keep_origin(std::string(reinterpret_cast<const char *>(binaries[i]), sizes[i]), origin);
}

// What all binaries of the program were made of.
std::shared_ptr<const Origin> known_origin(const std::map<cl_device_id, Part> &device_parts) {
  std::shared_ptr<const Origin> origin;
  for (const auto &part : device_parts) {
    auto found = origin_of(part.second.payload);
    if (!found || (origin && std::memcmp(origin->hash, found->hash, sizeof origin->hash) != 0))
      return nullptr;
    origin = found;
  }
  return origin;
}

cl_int CL_API_CALL program_info(cl_program program, cl_program_info name, size_t room, void *value,
                                size_t *size) {
  Api api;
  cl_int error = next.clGetProgramInfo(program, name, room, value, size);
  if (error == CL_SUCCESS && value && name == CL_PROGRAM_BINARIES)
    quietly([&] {
      know_binaries(program, static_cast<unsigned char **>(value), room / sizeof(char *));
    });
  return error;
}

// Runs before the native build: once that has finished, another thread may launch.
std::shared_ptr<Build> new_build(Program *program, const char *options) {
  auto build = std::make_shared<Build>();
  build->options = text_of(options);
  build->folder = working_directory();
  build->kind = program->kind;
  build->reason = program->reason;
  build->device_parts = program->device_parts;
  ContentHash hash;
  if (program->kind == XP_PROGRAM_SOURCE || program->kind == XP_PROGRAM_IL) {
    Part part = program->source;
    part.options = build->options;
    hash_part(&hash, part);
    // Drivers look for headers in the working directory too, in the end.
    if (part.input == CLINST_SOURCE) part.options += " -I .";
    build->parts.push_back(std::move(part));
  } else if (auto origin = known_origin(program->device_parts)) {
    build->parts = origin->parts;
    build->device_parts.clear();
    build->options = origin->options;
    std::memcpy(build->hash, origin->hash, sizeof build->hash);
    build->origin = "binary of " + origin->text;
    return build;
  } else if (!program->device_parts.empty()) {
    hash_part(&hash, program->device_parts.begin()->second);
    hash.add(without_includes(build->options));
  } else {
    hash_part(&hash, program->source);
  }
  hash.get(build->hash);
  build->origin = kind_name(program->kind);
  if (!build->options.empty()) build->origin += ": " + build->options;
  return build;
}

// Returns what stood there before: a build that fails leaves the older one in force.
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

cl_program CL_API_CALL create_with_binary(cl_context context, cl_uint n,
                                          const cl_device_id *devices, const size_t *lengths,
                                          const unsigned char **binaries, cl_int *status,
                                          cl_int *error) {
  Api api;
  cl_program handle =
      next.clCreateProgramWithBinary(context, n, devices, lengths, binaries, status, error);
  if (handle)
    quietly([&] {
      auto program = add_program(handle, context);
      program->kind = XP_PROGRAM_BINARY;
      for (cl_uint i = 0; i < n; i++) {
        Part part;
        part.payload.assign(reinterpret_cast<const char *>(binaries[i]), lengths[i]);
        program->device_parts[devices[i]] = std::move(part);
      }
    });
  return handle;
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
      set_build(handle, new_build(program.get(), ""));
    });
  return handle;
}

// ---- building ---------------------------------------------------------------------------------

cl_int CL_API_CALL build_program(cl_program handle, cl_uint n, const cl_device_id *devices,
                                 const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                 void *user) {
  Api api;
  std::shared_ptr<Build> before;
  quietly([&] {
    if (auto program = programs.find(handle))
      before = set_build(handle, new_build(program.get(), options));
  });
  ProgramNotify wrapped(notify, user);
  cl_int error =
      next.clBuildProgram(handle, n, devices, options, wrapped.function(), wrapped.data());
  if (error != CL_SUCCESS) quietly([&] { set_build(handle, before); });
  return error;
}

cl_int CL_API_CALL compile_program(cl_program handle, cl_uint n, const cl_device_id *devices,
                                   const char *options, cl_uint n_headers,
                                   const cl_program *headers, const char **names,
                                   void(CL_CALLBACK *notify)(cl_program, void *), void *user) {
  Api api;
  std::shared_ptr<Build> before;
  quietly([&] {
    auto program = programs.find(handle);
    if (!program) return;
    program->source.headers.clear();
    for (cl_uint i = 0; headers && names && i < n_headers; i++)
      if (auto header = programs.find(headers[i]))
        program->source.headers.emplace_back(names[i], header->source.payload);
    before = set_build(handle, new_build(program.get(), options));
  });
  ProgramNotify wrapped(notify, user);
  cl_int error = next.clCompileProgram(handle, n, devices, options, n_headers, headers, names,
                                       wrapped.function(), wrapped.data());
  if (error != CL_SUCCESS) quietly([&] { set_build(handle, before); });
  return error;
}

std::shared_ptr<Build> link_builds(const char *options, cl_uint n, const cl_program *inputs) {
  auto build = std::make_shared<Build>();
  ContentHash hash;
  build->options = text_of(options);
  build->folder = working_directory();
  build->origin = "linked of " + std::to_string(n);
  for (cl_uint i = 0; i < n; i++) {
    auto input = build_of(inputs[i]);
    if (!input || (input->parts.empty() && input->device_parts.empty())) {
      build->reason = "linked with a program of unknown origin";
      continue;
    }
    if (i == 0) build->kind = input->kind;
    if (!input->reason.empty()) build->reason = input->reason;
    build->parts.insert(build->parts.end(), input->parts.begin(), input->parts.end());
    if (input->parts.empty()) build->reason = "linked with a program made from a binary";
    hash.add(std::string(reinterpret_cast<const char *>(input->hash), sizeof input->hash));
  }
  hash.add(build->options);
  hash.get(build->hash);
  return build;
}

cl_program CL_API_CALL link_program(cl_context context, cl_uint n_devices,
                                    const cl_device_id *devices, const char *options, cl_uint n,
                                    const cl_program *inputs,
                                    void(CL_CALLBACK *notify)(cl_program, void *), void *user,
                                    cl_int *error) {
  Api api;
  std::shared_ptr<Build> build;
  quietly([&] { build = link_builds(options, inputs ? n : 0, inputs); });
  ProgramNotify wrapped(notify, user);
  cl_program handle = next.clLinkProgram(context, n_devices, devices, options, n, inputs,
                                         wrapped.function(), wrapped.data(), error);
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

cl_int CL_API_CALL release_program(cl_program program) {
  return release(&programs, next.clReleaseProgram, program);
}

}  // namespace

cl_program create_program_with_il(cl_api_clCreateProgramWithIL native, cl_context context,
                                  const void *il, size_t length, cl_int *error) {
  Api api;
  cl_program handle = native(context, il, length, error);
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

// ---- shadows ----------------------------------------------------------------------------------

Shadow::~Shadow() {
  if (program) next.clReleaseProgram(program);
}

// The parts for one device; of a program made from binaries each device has its own.
static std::string parts_for(const Build &build, const Device &device, std::vector<Part> *parts) {
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
      return "the program was made from a native binary that was never seen to be built; empty the "
             "program's own cache and profile again";
  }
  part.options = build.options;
  parts->assign(1, part);
  return "";
}

// "kernel:size kernel:size"
static std::string words_of(const std::map<std::string, uint32_t> &sizes) {
  std::string words;
  for (const auto &[name, size] : sizes)
    if (size) words += (words.empty() ? "" : " ") + name + ":" + std::to_string(size);
  return words;
}

static void make_shadow(const Build &build, cl_kernel kernel, const Device &device,
                        uint32_t local_words, Shadow *shadow) {
  std::vector<Part> parts;
  shadow->reason = build.reason;
  if (shadow->reason.empty() && !device.takes_spirv && !device.takes_bitcode)
    shadow->reason = "the device takes neither SPIR-V nor SPIR modules";
  if (shadow->reason.empty()) shadow->reason = parts_for(build, device, &parts);
  if (!shadow->reason.empty()) return;
  uint32_t flags = record_memory ? CLINST_MEMORY : 0;
  std::string features = device.features + "cwd=" + build.folder + "\n";
  features += "local_words=" + std::to_string(local_words) + "\n";
  shadow->sub_groups = sub_group_sizes(kernel, device);
  if (device.sub_groups) features += "sub_group_sizes=" + words_of(shadow->sub_groups) + "\n";
  Instrumented result = instrument(parts, flags, module_kind(device), features);
  shadow->reason = result.reason;
  if (!shadow->reason.empty()) return;
  shadow->options = build.options;
  for (const Part &part : build.parts) shadow->options += " " + part.options;
  shadow->module = std::move(result.module);
  shadow->from_source = parts[0].input == CLINST_SOURCE;
  for (auto &kernel : result.kernels) shadow->kernels.insert(std::move(kernel));
  for (const auto &[name, info] : shadow->kernels)
    if (!info.nodes.empty() && !info.has_accesses() && launches_tell())
      shadow->host_counts[name] = std::make_unique<HostCounts>(info);
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
    shadow.reason = build_module(context, device, shadow.module, shadow.from_source, shadow.options,
                                 &shadow.program);
  return shadow.program;
}

void override_programs(cl_icd_dispatch *table) {
  table->clGetProgramInfo = program_info;
  table->clCreateProgramWithSource = create_with_source;
  table->clCreateProgramWithBinary = create_with_binary;
  if (next.clCreateProgramWithBuiltInKernels)
    table->clCreateProgramWithBuiltInKernels = create_with_built_in;
  if (next.clCreateProgramWithIL) table->clCreateProgramWithIL = create_with_il;
  table->clBuildProgram = build_program;
  if (next.clCompileProgram) table->clCompileProgram = compile_program;
  if (next.clLinkProgram) table->clLinkProgram = link_program;
  if (next.clSetProgramSpecializationConstant)
    table->clSetProgramSpecializationConstant = set_spec_constant;
  table->clRetainProgram = retain_program;
  table->clReleaseProgram = release_program;
}

}  // namespace layer
