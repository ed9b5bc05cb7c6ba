// SPDX-License-Identifier: Apache-2.0
#include "programs/variants.hpp"

#include <tuple>

#include "xpuprof/trace_format.h"

namespace layer {

Variant::~Variant() {
  if (shadow) next.clReleaseKernel(shadow);
}

// ---- registration with the boundary bus -------------------------------------------------------

static std::mutex &id_lock = *new std::mutex;
static auto &program_ids = *new std::map<Hash, uint32_t>;
static auto &kernel_ids = *new std::map<std::tuple<uint32_t, std::string, std::string>, uint32_t>;

void forget_ids() {
  program_ids.clear();
  kernel_ids.clear();
}

static uint32_t program_id(const Build *build) {
  const Hash hash = build ? build->hash : Hash{};
  auto at = program_ids.find(hash);
  if (at != program_ids.end()) return at->second;
  uint32_t id = xpu_program_built(hash.data(), build ? build->kind : uint32_t{XP_PROGRAM_BINARY},
                                  build ? build->origin.c_str() : "unknown");
  return program_ids[hash] = id;
}

uint32_t kernel_id(const Kernel &kernel, const Variant &variant) {
  std::lock_guard<std::mutex> guard(id_lock);
  uint32_t program = program_id(kernel.build.get());
  const char *reason = variant.reason.empty() ? nullptr : variant.reason.c_str();
  std::string content = variant.reason;
  if (variant.info)
    content.assign(reinterpret_cast<const char *>(variant.info->blocks.data()),
                   variant.info->blocks.size() * sizeof(xpu_block));
  content += "/" + std::to_string(variant.sub_group);
  auto key = std::make_tuple(program, kernel.name, content);
  auto at = kernel_ids.find(key);
  if (at != kernel_ids.end()) return at->second;
  uint32_t n = variant.info ? (uint32_t)variant.info->blocks.size() : 0;
  uint32_t id = xpu_kernel_built(program, kernel.name.c_str(), n,
                                 n ? variant.info->blocks.data() : nullptr, reason);
  if (variant.sub_group)
    xpu_meta(("warp_size:" + std::to_string(id)).c_str(),
             std::to_string(variant.sub_group).c_str());
  return kernel_ids[key] = id;
}

// ---- shadows ----------------------------------------------------------------------------------

cl_int set_on(cl_kernel shadow, cl_uint index, const Argument &argument, SetUsmPointer set_usm) {
  switch (argument.kind) {
    case Argument::unset:
      return CL_SUCCESS;
    case Argument::value:
      return next.clSetKernelArg(shadow, index, argument.size, argument.bytes.data());
    case Argument::local:
      return next.clSetKernelArg(shadow, index, argument.size, nullptr);
    case Argument::svm:
      return next.clSetKernelArgSVMPointer(shadow, index, argument.pointer);
    case Argument::usm:
      return set_usm(shadow, index, argument.pointer);
  }
  return CL_INVALID_VALUE;
}

static void drop_shadow(Variant *variant, const std::string &reason) {
  if (variant->shadow) next.clReleaseKernel(variant->shadow);
  variant->shadow = nullptr;
  variant->info = nullptr;
  variant->reason = reason;
}

// The facts about the instrumented kernel before it is created.
static void describe_shadow(Kernel *kernel, const Device &device, Variant *variant) {
  if (!kernel->build) {
    variant->reason = "the origin of the kernel's program is unknown";
    return;
  }
  const Shadow &shadow = kernel->build->shadow(kernel->handle, device, variant->local_words);
  variant->reason = shadow.reason;
  if (!shadow.reason.empty()) return;
  auto found = shadow.kernels.find(kernel->name);
  if (found == shadow.kernels.end()) {
    variant->reason = "the instrumenter left the kernel out";
    return;
  }
  variant->build = kernel->build;
  variant->info = &found->second;
  variant->local_sizes = &shadow.local_sizes[kernel->name];
  auto size = shadow.sub_groups.find(kernel->name);
  variant->sub_group = size == shadow.sub_groups.end() ? 0 : size->second;
  auto counts = shadow.analytic_counts.find(kernel->name);
  if (counts != shadow.analytic_counts.end()) variant->analytic = counts->second.get();
}

static void make_shadow(Kernel *kernel, const Device &device, Variant *variant) {
  uint32_t words = variant->local_words;
  cl_program program = kernel->build->shadow_program(kernel->context, device, words);
  if (!program) {
    drop_shadow(variant, kernel->build->shadow(kernel->handle, device, words).reason);
    return;
  }
  cl_int error = CL_SUCCESS;
  variant->shadow = next.clCreateKernel(program, kernel->name.c_str(), &error);
  if (!variant->shadow) {
    drop_shadow(variant,
                "the instrumented kernel cannot be made (error " + std::to_string(error) + ")");
    return;
  }
  for (cl_uint i = 0; i < kernel->arguments.size() && error == CL_SUCCESS; i++)
    error = set_on(variant->shadow, i, kernel->arguments[i], kernel->set_usm);
  for (const auto &info : kernel->exec_info)
    if (error == CL_SUCCESS)
      error = next.clSetKernelExecInfo(variant->shadow, info.first, info.second.size(),
                                       info.second.data());
  if (error != CL_SUCCESS)
    drop_shadow(variant, "the instrumented kernel does not take the arguments (error " +
                             std::to_string(error) + ")");
  if (variant->shadow)
    next.clGetKernelWorkGroupInfo(variant->shadow, device.handle, CL_KERNEL_WORK_GROUP_SIZE,
                                  sizeof variant->max_work_group, &variant->max_work_group,
                                  nullptr);
}

// A launch on a device that the program was not built for fails, and has to. The status of a build
// does not tell: Intel's runtime has none for linked programs.
static bool is_built_for(const Kernel &kernel, const Device &device) {
  cl_program program = nullptr;
  cl_program_binary_type type = CL_PROGRAM_BINARY_TYPE_NONE;
  next.clGetKernelInfo(kernel.handle, CL_KERNEL_PROGRAM, sizeof program, &program, nullptr);
  return next.clGetProgramBuildInfo(program, device.handle, CL_PROGRAM_BINARY_TYPE, sizeof type,
                                    &type, nullptr) != CL_SUCCESS ||
         type != CL_PROGRAM_BINARY_TYPE_NONE;
}

static std::shared_ptr<Variant> new_variant(Kernel *kernel, const Device &device,
                                            uint32_t local_words = most_local_words) {
  auto variant = std::make_shared<Variant>();
  variant->local_words = local_words;
  if (settings.mode != Mode::profile)
    variant->reason = timed_only;
  else if (!is_built_for(*kernel, device))
    variant->reason = "its program is not built for this device";
  else
    describe_shadow(kernel, device, variant.get());
  // Without analytic counts the shadow will run.
  const InstrumentedKernel *info = variant->info;
  if (info && !variant->analytic && (info->n_probes || info->has_accesses()))
    make_shadow(kernel, device, variant.get());
  variant->id = kernel_id(*kernel, *variant);
  return variant;
}

std::string ensure_shadow(Kernel *kernel, const Device &device, Variant *variant) {
  std::lock_guard<std::mutex> guard(kernel->lock);
  if (!variant->shadow) make_shadow(kernel, device, variant);
  return variant->reason;
}

std::shared_ptr<Variant> variant_of(Kernel *kernel, const Device &device) {
  std::lock_guard<std::mutex> guard(kernel->lock);
  std::shared_ptr<Variant> &variant = kernel->variants[device.handle];
  if (!variant) variant = new_variant(kernel, device);
  return variant;
}

std::shared_ptr<Variant> thrifty_variant_of(Kernel *kernel, const Device &device,
                                            uint32_t local_words) {
  std::lock_guard<std::mutex> guard(kernel->lock);
  std::shared_ptr<Variant> &variant = kernel->variants[device.handle];
  if (!variant || variant->local_words > local_words)
    variant = new_variant(kernel, device, local_words);
  return variant;
}

std::shared_ptr<Variant> bare_variant_of(Kernel *kernel, const char *reason) {
  std::lock_guard<std::mutex> guard(kernel->lock);
  std::shared_ptr<Variant> &variant = kernel->bare[reason];
  if (!variant) {
    auto made = std::make_shared<Variant>();
    made->reason = reason;
    made->id = kernel_id(*kernel, *made);
    variant = made;
  }
  return variant;
}

}  // namespace layer
