// SPDX-License-Identifier: Apache-2.0
// xpuprof-clbuild: has the OpenCL runtime compile natively what a program under a CPU engine would
// have it compile there. A request's features are those of clinst_protocol.h, without "launch:",
// and for the kernel of a launch arguments (build_natively.cpp), too. With --serve SOCKET answers
// requests (CLINST_BUILD): '!' when it takes one, '+' and the name of the file in PoCL's cache that
// holds the launch's kernel, or the program; '-' if that failed, and '?' if another process has to
// be asked. Otherwise reads a request from its standard input, and prints a response with the
// program's binary, with CLINST_UNCHANGED also its kernels' sub-groups.
#include <sys/prctl.h>

#include <csignal>
#include <cstdlib>

#include "common/descriptor.hpp"
#include "runtime.hpp"

static constexpr unsigned patience_s = 300;

static void build(const clinst::Request &request) {
  clbuild::enter_folder(request);
  const std::string answer = clinst::encode(clbuild::response_with_binary(request));
  // Runtimes run their own code at exit.
  _exit(common::write_all(STDOUT_FILENO, answer) ? 0 : 2);
}

int main(int argc, char **argv) {
  const bool serves = argc == 3 && std::string(argv[1]) == "--serve";
  if (!serves) prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(patience_s);
  unsetenv("OPENCL_LAYERS");
  clbuild::loader = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!clbuild::loader) _exit(2);
  if (serves) clbuild::serve(argv[2], patience_s);
  try {
    std::string input;
    common::read_all(STDIN_FILENO, &input);
    build(clinst::decode<clinst::Request>(input));
  } catch (const std::exception &) {  // not our request
  }
  _exit(2);
}
