// SPDX-License-Identifier: Apache-2.0
// PoCL keeps a program in a folder of its own, where it notes the time of each build: in a file
// that it opens then. The program is the file beside it.
#include <cstdio>

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
  const size_t end = path.rfind(noted);
  if (end != path.npos && end + sizeof noted - 1 == path.size())
    kept = path.substr(0, end) + "/program.bc";
  return open(name, mode);
}

namespace clbuild {

std::string compile_program(const clinst::Request &request) {
  cl_device_id device = find_device(request);
  kept.clear();
  cl_program program = program_of(device, request);
  const std::string file = kept;
  if (request.device.count("binaries")) binary_of(program);
  return file;
}

}  // namespace clbuild
