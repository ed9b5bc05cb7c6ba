// SPDX-License-Identifier: Apache-2.0
// What programs were built of, and the instrumented shadows that are made of the same.
#ifndef XPUPROF_OPENCL_BUILDS_HPP
#define XPUPROF_OPENCL_BUILDS_HPP

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/objects.hpp"
#include "client/client.hpp"
#include "counters/analytic_counts.hpp"
#include "xpuprof/trace_format.h"

namespace layer {

// Words of local memory that a kernel's counters take for a work-item at a time, if there is room.
constexpr uint32_t most_local_words = 8;

// An instrumented program for one device.
struct Shadow {
  cl_program program = nullptr;  // once a kernel of it has to run
  std::string reason;            // why there is none
  std::string module, options;   // what it is built of
  bool from_source = false;
  std::map<std::string, InstrumentedKernel> kernels;
  std::map<std::string, std::unique_ptr<AnalyticCounts>>
      analytic_counts;                         // where the launch tells them
  std::map<std::string, uint32_t> sub_groups;  // sizes by kernel; none or 0: they are not the warps
  ~Shadow();
};

// What one successful build (compile, link) was made of. Kernels keep it: a program may be built
// again, or released, while its kernels live.
struct Build {
  std::vector<Part> parts;
  std::string options;  // of the build or link itself
  std::string folder;   // where the program stood then: relative include folders start there
  std::string origin;   // for the reader of a report
  std::string reason;   // why it can never be instrumented
  uint8_t hash[16] = {};
  uint32_t kind = 0;                          // enum xp_program_kind
  std::map<cl_device_id, Part> device_parts;  // of programs made from binaries

  // `kernel` is one of the program's own.
  const Shadow &shadow(cl_kernel kernel, const Device &device, uint32_t local_words);
  // Its program, built when it is first needed: where launches tell all counts it never is. NULL:
  // the shadow's reason says why.
  cl_program shadow_program(cl_context context, const Device &device, uint32_t local_words);

 private:
  std::mutex lock_;
  // By the local memory that counters may take, too.
  std::map<std::pair<cl_device_id, uint32_t>, std::unique_ptr<Shadow>> shadows_;
};

// A program as the application created it.
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

// What the bytes are, by their magic.
enum class Module { other, spirv, bitcode };
Module module_of(const std::string &bytes);

// Of a program that is about to be built. Call before the native build: once that has finished,
// another thread may launch.
std::shared_ptr<Build> new_build(const Program &program, const char *options);
// Of a program that is linked of these; NULL among them: one of unknown origin.
std::shared_ptr<Build> link_builds(const char *options,
                                   const std::vector<std::shared_ptr<Build>> &inputs);

}  // namespace layer
#endif
