// SPDX-License-Identifier: Apache-2.0
#include "build_natively.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "common/descriptor.hpp"

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

}  // namespace

std::vector<std::string> build_natively(const std::string &request) {
  const std::string program = beside("xpuprof-clbuild");
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) return {};
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
  if (status) return {};
  return {file};
}

}  // namespace clinst
