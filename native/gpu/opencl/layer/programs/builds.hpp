// SPDX-License-Identifier: Apache-2.0
// The inputs of program builds, and the instrumented shadows built from the same inputs.
#ifndef XPUPROF_OPENCL_BUILDS_HPP
#define XPUPROF_OPENCL_BUILDS_HPP

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "api/objects.hpp"
#include "client/client.hpp"
#include "common/content_hash.hpp"
#include "counters/analytic_counts.hpp"
#include "programs/local_sizes.hpp"
#include "xpuprof/trace_format.h"

namespace layer {

using common::Hash;

class StandIn;

// Words of local memory for a kernel's counters per work-item at a time, if there is room.
constexpr uint32_t most_local_words = 8;
constexpr uint32_t without_counters = UINT32_MAX;

// An instrumented program for one device.
struct Shadow {
  cl_program program = nullptr;  // once a kernel of it has to run
  std::string reason;            // why there is none
  std::string module, options;   // its inputs
  clinst::Request request;       // for its binary, where the device loads code; until then
  std::map<std::string, InstrumentedKernel> kernels;
  std::map<std::string, std::unique_ptr<AnalyticCounts>>
      analytic_counts;                         // where they are analytic
  std::map<std::string, uint32_t> sub_groups;  // sizes by kernel; none or 0: they are not the warps
  mutable std::map<std::string, LocalSizes> local_sizes;  // by kernel
  ~Shadow();
};

// The inputs of one successful build (compile, link). Kernels keep it: a program may be rebuilt or
// released while its kernels live.
struct Build {
  std::vector<Part> parts;
  std::string options;  // of the build or link itself
  std::string folder;   // the working directory then, for relative include folders
  std::string origin;   // for the reader of a report
  std::string reason;   // why it can never be instrumented
  unsigned links = 0;   // of `parts`, with `options`; more than one: in an order that is not known
  Hash hash{};
  uint32_t kind = 0;                          // enum xp_program_kind
  std::map<cl_device_id, Part> device_parts;  // of programs made from binaries
  // Of launches whose kernel is compiled beforehand, or will be for the profile; by device, words
  // of local memory (the application's own kernel: `without_counters`) and kernel; an empty shape
  // stands for all.
  std::map<std::tuple<cl_device_id, uint32_t, std::string>, std::set<std::vector<size_t>>> shapes;

  // The file in which a native run left the request for the build's binary; empty: none.
  std::string left() const;
  void set_left(std::string file);

  // The files that the sources include, as the instrumenter finds them; nothing: it does not.
  std::optional<std::vector<std::string>> included(const Device &device) const;
  // What the instrumenter is asked for, and the options to build its answer with. A non-empty
  // reason says why it cannot be asked.
  std::string ask_for(const Device &device, uint32_t local_words, clinst::Request *request,
                      std::string *options) const;
  // `kernel` belongs to the program.
  const Shadow &shadow(cl_kernel kernel, const Device &device, uint32_t local_words);
  // Its program, built on first use, never if all counts are analytic. NULL: the shadow's reason
  // says why.
  cl_program shadow_program(cl_context context, const Device &device, uint32_t local_words);

 private:
  mutable std::mutex lock_;
  std::string left_;
  // Also keyed by the local memory that counters may take.
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
  std::shared_ptr<StandIn> stand_in;
  bool built_here = false;  // once, so always: Intel's runtime builds no program that has failed
};

// The kind of the bytes, by their magic.
enum class Module { other, spirv, bitcode };
Module module_of(const std::string &bytes);

// What the instrumenter is asked for about these parts of a build.
clinst::Request request_of(const Build &build, std::vector<Part> parts, const Device &device,
                           uint32_t local_words);

// Describes a program about to be built. Call before the native build: afterwards another thread
// may launch.
std::shared_ptr<Build> new_build(const Program &program, const char *options);
// Describes a program linked from these; NULL stands for an unknown origin.
std::shared_ptr<Build> link_builds(const char *options,
                                   const std::vector<std::shared_ptr<Build>> &inputs);

}  // namespace layer
#endif
