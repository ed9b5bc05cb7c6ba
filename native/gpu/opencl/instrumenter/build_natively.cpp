// SPDX-License-Identifier: Apache-2.0
#include "build_natively.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "common/descriptor.hpp"
#include "frontend.h"
#include "machine_code.h"
#include "pointees.h"
#include "versions.h"

namespace clinst {
namespace {

const char launch_prefix[] = "launch:", environment_prefix[] = "env:";

std::string beside(const char *name) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) return name;
  const std::string self(path, static_cast<size_t>(length));
  return self.substr(0, self.rfind('/') + 1) + name;
}

// Those that the application has removed decide nothing either.
void forget_runtimes_variables() {
  std::vector<std::string> names;
  for (char **entry = environ; entry && *entry; entry++)
    for (const char *start : runtime_variables)
      if (starts_with(*entry, start)) names.emplace_back(*entry, std::strcspn(*entry, "="));
  for (const std::string &name : names) unsetenv(name.c_str());
}

// In the child, with the application's variables. What the runtime prints is of no interest.
[[noreturn]] void execute(const std::string &program, const Request &request, int input,
                          int output) {
  forget_runtimes_variables();
  for (const auto &[name, value] : request.device)
    if (starts_with(name, environment_prefix))
      setenv(name.c_str() + sizeof environment_prefix - 1, value.c_str(), 1);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
  execl(program.c_str(), program.c_str(), static_cast<char *>(nullptr));
  _exit(127);
}

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

// Whether a builder that failed would fail again: it was not killed, nor without the means to
// start.
bool would_fail_again(int status) {
  constexpr int not_started = 127;
  if (WIFEXITED(status)) return WEXITSTATUS(status) != not_started;
  return WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGTERM;
}

struct Printed {
  bool good = false, lasting = false;
  std::string text;
};

Printed run_builder(const Request &request) {
  Printed printed;
  const std::string program = beside("xpuprof-clbuild");
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) return printed;
  const pid_t child = fork();
  if (child == 0) execute(program, request, in[0], out[1]);
  close(in[0]);
  close(out[1]);
  if (child > 0) common::write_all(in[1], encode(request));
  close(in[1]);
  common::read_all(out[0], &printed.text);
  close(out[0]);
  int status = 1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  printed.good = child > 0 && status == 0;
  printed.lasting = printed.good || (child > 0 && would_fail_again(status));
  return printed;
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
    return built_by(run_builder(builder));
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
    return built_by(run_builder(builder));
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
