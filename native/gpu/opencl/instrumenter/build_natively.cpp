// SPDX-License-Identifier: Apache-2.0
#include "build_natively.h"

#include <algorithm>

#include "builders.h"
#include "frontend.h"
#include "machine_code.h"
#include "pointees.h"
#include "versions.h"

namespace clinst {
namespace {

const char launch_prefix[] = "launch:";

// "v8": a value of 8 bytes, which may be a buffer; "l64": local memory; an image's or a sampler's
// own type, as a runtime looks into these before it compiles.
std::string word_of(const llvm::Argument &argument) {
  constexpr unsigned local_memory = 3, any_size = 64;
  if (is_image(argument) || declared_type(argument) == "sampler_t")
    return declared_type(argument).str();
  const llvm::Type *type = argument.getType();
  if (type->isPointerTy() && type->getPointerAddressSpace() == local_memory)
    return "l" + std::to_string(any_size);
  const llvm::DataLayout &layout = argument.getParent()->getParent()->getDataLayout();
  llvm::Type *by_value = argument.getParamByValType();
  return "v" + std::to_string(layout.getTypeAllocSize(by_value ? by_value : argument.getType()));
}

// The arguments that the launch's kernel takes, less those at the end that we have added. Throws
// Failure.
std::string arguments_of(const Request &builder, size_t added) {
  llvm::LLVMContext context;
  const Program program = load_program(context, builder);
  const llvm::Function *kernel = program.module->getFunction(builder.device.at("kernel"));
  if (!kernel) throw Failure("the launch's kernel is not in the program");
  std::string words;
  for (size_t i = 0; i + added < kernel->arg_size(); i++)
    words += word_of(*kernel->getArg(static_cast<unsigned>(i))) + " ";
  return words;
}

// What xpuprof-clbuild reads: a program, and the facts of the launch.
Request builder_request(const Request &launch) {
  Request builder;
  for (const auto &[name, value] : launch.device) {
    if (starts_with(name, environment_prefix)) builder.device[name] = value;
    if (starts_with(name, launch_prefix))
      builder.device[name.substr(sizeof launch_prefix - 1)] = value;
  }
  return builder;
}

// The same for an instrumented program.
Request builder_request(const Request &launch, const Response &program) {
  Request builder = builder_request(launch);
  Part part;
  part.input = launch.output == CLINST_TO_SPIRV ? CLINST_SPIRV : CLINST_BITCODE;
  part.payload = program.module;
  part.options = builder.device["options"];
  builder.parts.push_back(std::move(part));
  return builder;
}

// The same for the application's own program.
Request own_request(const Request &request) {
  Request builder = builder_request(request);
  builder.flags = request.flags;
  builder.parts = request.parts;
  builder.device["cwd"] = request.device.at("cwd");
  return builder;
}

}  // namespace

Request program_request(const Request &launch) {
  Request program = launch;
  program.flags &= ~uint32_t{CLINST_BUILD | CLINST_BINARY | CLINST_UNCHANGED};
  program.device.clear();
  for (const auto &fact : launch.device)
    if (!starts_with(fact.first, environment_prefix) && !starts_with(fact.first, launch_prefix))
      program.device.insert(fact);
  return program;
}

bool surely_counts(const std::string &kernel, const Response &program) {
  const auto found = std::find_if(program.kernels.begin(), program.kernels.end(),
                                  [&](const Kernel &its) { return its.name == kernel; });
  return found != program.kernels.end() && found->nodes.empty() &&
         (found->n_probes || found->has_accesses());
}

// The builder prints the name of a file, if it finds one.
static Built built_by(const Printed &printed) {
  if (printed.good && !printed.text.empty()) return {{printed.text}, true};
  return {{}, printed.lasting && !printed.good};
}

Built build_natively(const Request &launch, const Response &program) {
  if (!program.reason.empty()) return {{}, false};
  try {
    Request builder = builder_request(launch, program);
    builder.device["arguments"] = arguments_of(builder, 0);
    return built_by(ask_builder(builder));
  } catch (const Failure &) {
    return {{}, true};
  }
}

// Of the instrumented program, which is known, if there is one.
static std::string own_arguments(const Request &launch, const Response &program) {
  if (program.reason.empty())
    return arguments_of(builder_request(launch, program), CLINST_EXTRA_ARGS);
  Request own = launch;
  own.device["kernel"] = launch.device.at("launch:kernel");
  return arguments_of(own, 0);
}

Built build_own_natively(const Request &launch, const Response &program) {
  try {
    Request builder = own_request(launch);
    if (launch.device.count("launch:kernel"))
      builder.device["arguments"] = own_arguments(launch, program);
    return built_by(ask_builder(builder));
  } catch (const Failure &) {
    return {{}, true};
  }
}

static Response binary_from(const Request &builder) {
  Response failed;
  failed.reason = "the device's runtime does not build the program";
  const Printed printed = run_builder(builder);
  if (!printed.good) return failed;
  Response built = decode<Response>(printed.text);
  built.computes_only = computes_only(built.module);
  return built;
}

Response build_binary(const Request &program) { return binary_from(own_request(program)); }

Response build_binary(const Request &request, const Response &program) {
  return program.reason.empty() ? binary_from(builder_request(request, program)) : program;
}

}  // namespace clinst
