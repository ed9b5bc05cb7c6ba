// SPDX-License-Identifier: Apache-2.0
// PoCL keeps a program in a folder of its own, where it notes the time of each build: in a file
// that it opens then. The program is the file beside it.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "runtime.hpp"

namespace {

std::string &kept = *new std::string;

using Open = FILE *(const char *, const char *);

}  // namespace

extern "C" __attribute__((visibility("default"))) FILE *fopen(const char *__restrict name,
                                                              const char *__restrict mode) {
  static Open *const open = reinterpret_cast<Open *>(dlsym(RTLD_NEXT, "fopen"));
  constexpr char noted[] = "/last_accessed";
  const std::string path = name;
  if (const size_t end = path.rfind(noted); end + sizeof noted - 1 == path.size())
    kept = path.substr(0, end) + "/program.bc";
  return open(name, mode);
}

namespace clbuild {

void compile_program(const clinst::Request &request) {
  cl_int error = CL_SUCCESS;
  cl_device_id device = find_device(request);
  cl_context context = CL(clCreateContext)(nullptr, 1, &device, nullptr, nullptr, &error);
  check(error);
  cl_program program = made(context, device, request);
  const std::string file = kept;
  if (request.device.count("binaries")) binary_of(program);
  _exit(write(STDOUT_FILENO, file.data(), file.size()) == static_cast<ssize_t>(file.size()) ? 0
                                                                                            : 2);
}

}  // namespace clbuild
