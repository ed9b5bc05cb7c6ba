// SPDX-License-Identifier: Apache-2.0
// The instrumented kernel that runs in place of an application's kernel, per device, with the same
// arguments.
#ifndef XPUPROF_OPENCL_VARIANTS_HPP
#define XPUPROF_OPENCL_VARIANTS_HPP

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "programs/programs.hpp"

namespace layer {

// One argument as last set.
struct Argument {
  enum Kind { unset, value, local, svm, usm } kind = unset;
  size_t size = 0;
  std::string bytes;              // of a value
  const void *pointer = nullptr;  // SVM or USM
};

// A kernel on one device.
struct Variant {
  cl_kernel shadow = nullptr;                // NULL: not made (yet)
  const InstrumentedKernel *info = nullptr;  // of the build's shadow, kept by `build`
  AnalyticCounts *analytic = nullptr;        // NULL: the counts are not analytic
  LocalSizes *local_sizes = nullptr;         // of the build's shadow
  std::shared_ptr<Build> build;
  std::string reason;      // why there is no shadow
  uint32_t id = 0;         // of the boundary bus
  uint32_t sub_group = 0;  // work-items of its sub-groups, which are the warps; 0: none
  size_t max_work_group = 0;
  uint32_t local_words = most_local_words;  // for the counters of a work-item at a time
  size_t scratch = 0;                       // bytes of local memory last given to it
  ~Variant();
};

using SetUsmPointer = cl_int(CL_API_CALL *)(cl_kernel, cl_uint, const void *);

struct Kernel {
  cl_kernel handle = nullptr;
  std::string name;
  cl_context context = nullptr;
  std::shared_ptr<Build> build;
  std::shared_ptr<StandIn> stand_in;  // whose kernel it is
  std::mutex lock;                    // guards what follows
  std::vector<Argument> arguments;
  std::map<cl_kernel_exec_info, std::string> exec_info;
  SetUsmPointer set_usm = nullptr;
  std::map<cl_device_id, std::shared_ptr<Variant>> variants;
  std::map<std::string, std::shared_ptr<Variant>> bare;  // by reason
};

// The reason of every launch of a timed run.
constexpr const char *timed_only = "timed, not instrumented";

// The kernel on the device; created and registered at its first launch there.
std::shared_ptr<Variant> variant_of(Kernel *kernel, const Device &device);
// The same for work-groups that leave only this much local memory to each work-item; it becomes the
// kernel's variant on the device. Counts and identity stay the same.
std::shared_ptr<Variant> thrifty_variant_of(Kernel *kernel, const Device &device,
                                            uint32_t local_words);

// The application's own kernel, for a launch that is not instrumented.
std::shared_ptr<Variant> bare_variant_of(Kernel *kernel, const char *reason);

// Creates the variant's shadow if missing; returns why there is none, or empty.
std::string ensure_shadow(Kernel *kernel, const Device &device, Variant *variant);

// Sets an argument of a shadow to the application's value.
cl_int set_on(cl_kernel shadow, cl_uint index, const Argument &argument, SetUsmPointer set_usm);

// The variant's kernel on the boundary bus. The same kernel of the same program is one kernel,
// however many objects represent it.
uint32_t kernel_id(const Kernel &kernel, const Variant &variant);
// After fork, in the child: the boundary bus has no kernels.
void forget_ids();

}  // namespace layer
#endif
