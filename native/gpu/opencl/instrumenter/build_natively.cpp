// SPDX-License-Identifier: Apache-2.0
#include "build_natively.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "common/descriptor.hpp"
#include "frontend.h"
#include "pointees.h"
#include "versions.h"

namespace clinst {
namespace {

std::string beside(const char *name) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) return name;
  const std::string self(path, static_cast<size_t>(length));
  return self.substr(0, self.rfind('/') + 1) + name;
}

// In the child. What the runtime prints is of no interest.
[[noreturn]] void execute(const std::string &program, int input, int output) {
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
  execl(program.c_str(), program.c_str(), static_cast<char *>(nullptr));
  _exit(127);
}

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

// The arguments that the launch's kernel takes. Throws Failure.
std::string arguments_of(const Request &builder) {
  llvm::LLVMContext context;
  const Program program = load_program(context, builder);
  const llvm::Function *kernel = program.module->getFunction(builder.device.at("kernel"));
  if (!kernel) throw Failure("the launch's kernel is not in the program");
  std::string words;
  for (const llvm::Argument &argument : kernel->args()) words += word_of(argument) + " ";
  return words;
}

// What xpuprof-clbuild reads: the instrumented program, and the facts of the launch. Throws
// Failure.
Request builder_request(const Request &launch, const Response &program) {
  Request builder;
  for (const auto &[name, value] : launch.device) {
    if (starts_with(name, "env:")) builder.device[name] = value;
    if (starts_with(name, launch_prefix))
      builder.device[name.substr(sizeof launch_prefix - 1)] = value;
  }
  Part part;
  part.input = CLINST_BITCODE;
  part.payload = program.module;
  part.options = builder.device["options"];
  builder.parts.push_back(std::move(part));
  builder.device["arguments"] = arguments_of(builder);
  return builder;
}

// Whether a builder that failed would fail again: it was not killed, nor without the means to
// start.
bool would_fail_again(int status) {
  constexpr int not_started = 127;
  if (WIFEXITED(status)) return WEXITSTATUS(status) != not_started;
  return WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGTERM;
}

Built run_builder(const std::string &request) {
  const std::string program = beside("xpuprof-clbuild");
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) return {{}, false};
  const pid_t child = fork();
  if (child == 0) execute(program, in[0], out[1]);
  close(in[0]);
  close(out[1]);
  if (child > 0) common::write_all(in[1], request);
  close(in[1]);
  std::string file;
  common::read_all(out[0], &file);
  close(out[0]);
  int status = 1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (child < 0) return {{}, false};
  if (status == 0) return {{file}, true};
  return {{}, would_fail_again(status)};
}

}  // namespace

Request program_request(const Request &launch) {
  Request program = launch;
  program.flags &= ~uint32_t{CLINST_BUILD};
  program.device.clear();
  for (const auto &fact : launch.device)
    if (!starts_with(fact.first, "env:") && !starts_with(fact.first, launch_prefix))
      program.device.insert(fact);
  return program;
}

bool surely_counts(const Request &launch, const Response &program) {
  const auto name = launch.device.find("launch:kernel");
  if (name == launch.device.end()) return false;
  const auto found =
      std::find_if(program.kernels.begin(), program.kernels.end(),
                   [&](const Kernel &kernel) { return kernel.name == name->second; });
  return found != program.kernels.end() && found->nodes.empty() &&
         (found->n_probes || found->has_accesses());
}

Built build_natively(const Request &launch, const Response &program) {
  if (!program.reason.empty()) return {{}, false};
  try {
    return run_builder(encode(builder_request(launch, program)));
  } catch (const Failure &) {
    return {{}, true};
  }
}

}  // namespace clinst
