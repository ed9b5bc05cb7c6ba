#include "programs/kernels.hpp"

#include <cstring>
#include <tuple>

#include "xpuprof/trace_format.h"

namespace layer {

static Registry<cl_kernel, Kernel> &kernels = *new Registry<cl_kernel, Kernel>;

Variant::~Variant() {
  if (shadow) next.clReleaseKernel(shadow);
}

// ---- registration with the boundary bus -------------------------------------------------------

static std::mutex &id_lock = *new std::mutex;
static auto &program_ids = *new std::map<std::string, uint32_t>;
static auto &kernel_ids = *new std::map<std::tuple<uint32_t, std::string, std::string>, uint32_t>;

void forget_registrations() {
  program_ids.clear();
  kernel_ids.clear();
  // The shadows are leaked: the device runtime does not survive a fork, so it is left alone.
  for (auto &kernel : kernels.all()) {
    auto *leaked = new std::map<cl_device_id, std::shared_ptr<Variant>>;
    leaked->swap(kernel->variants);
    kernel->bare.clear();
  }
}

static uint32_t program_id(const Build *build) {
  static const uint8_t none[16] = {};
  const uint8_t *hash = build ? build->hash : none;
  std::string key(reinterpret_cast<const char *>(hash), 16);
  auto at = program_ids.find(key);
  if (at != program_ids.end()) return at->second;
  uint32_t id = xpu_program_built(hash, build ? build->kind : uint32_t{XP_PROGRAM_BINARY},
                                  build ? build->origin.c_str() : "unknown");
  return program_ids[key] = id;
}

// The same kernel of the same program is one kernel, however many objects stand for it.
static uint32_t kernel_id(const Kernel &kernel, const Variant &variant) {
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

static cl_int set_on(cl_kernel shadow, cl_uint index, const Argument &argument,
                     SetUsmPointer set_usm) {
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

// What is known of the instrumented kernel before it is made.
static void describe_shadow(Kernel *kernel, const Device &device, Variant *variant) {
  if (!kernel->build) {
    variant->reason = "the kernel's program is of unknown origin";
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
  auto size = shadow.sub_groups.find(kernel->name);
  variant->sub_group = size == shadow.sub_groups.end() ? 0 : size->second;
  auto host = shadow.host_counts.find(kernel->name);
  if (host != shadow.host_counts.end()) variant->host = host->second.get();
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

static std::shared_ptr<Variant> new_variant(Kernel *kernel, const Device &device,
                                            uint32_t local_words = most_local_words) {
  auto variant = std::make_shared<Variant>();
  variant->local_words = local_words;
  if (mode == Mode::profile)
    describe_shadow(kernel, device, variant.get());
  else
    variant->reason = timed_only;
  // Where the launch does not tell the counts, the shadow will run.
  const InstrumentedKernel *info = variant->info;
  if (info && !variant->host && (info->n_probes || info->has_accesses()))
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

// ---- entries ----------------------------------------------------------------------------------

static std::shared_ptr<Kernel> add_kernel(cl_kernel handle, cl_program program) {
  auto kernel = std::make_shared<Kernel>();
  cl_uint n = 0;
  kernel->handle = handle;
  kernel->name = kernel_name(handle);
  next.clGetKernelInfo(handle, CL_KERNEL_CONTEXT, sizeof kernel->context, &kernel->context,
                       nullptr);
  next.clGetKernelInfo(handle, CL_KERNEL_NUM_ARGS, sizeof n, &n, nullptr);
  kernel->arguments.resize(n);
  kernel->build = build_of(program);
  kernels.add(handle, kernel);
  return kernel;
}

std::shared_ptr<Kernel> kernel_of(cl_kernel handle) {
  if (auto kernel = kernels.find(handle)) return kernel;
  cl_program program = nullptr;
  if (next.clGetKernelInfo(handle, CL_KERNEL_PROGRAM, sizeof program, &program, nullptr) !=
      CL_SUCCESS)
    return nullptr;
  return add_kernel(handle, program);
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *error) {
  Api api;
  cl_kernel handle = next.clCreateKernel(program, name, error);
  if (handle) quietly([&] { add_kernel(handle, program); });
  return handle;
}

static cl_int CL_API_CALL create_kernels(cl_program program, cl_uint room, cl_kernel *handles,
                                         cl_uint *n_ret) {
  Api api;
  cl_uint n = 0;
  cl_int error = next.clCreateKernelsInProgram(program, room, handles, &n);
  if (error == CL_SUCCESS && handles)
    quietly([&] {
      for (cl_uint i = 0; i < n && i < room; i++) add_kernel(handles[i], program);
    });
  if (n_ret) *n_ret = n;
  return error;
}

static cl_kernel CL_API_CALL clone_kernel(cl_kernel source, cl_int *error) {
  Api api;
  cl_kernel handle = next.clCloneKernel(source, error);
  if (handle)
    quietly([&] {
      auto from = kernel_of(source);
      auto to = std::make_shared<Kernel>();
      std::lock_guard<std::mutex> guard(from->lock);
      to->handle = handle;
      to->name = from->name;
      to->context = from->context;
      to->build = from->build;
      to->arguments = from->arguments;
      to->exec_info = from->exec_info;
      to->set_usm = from->set_usm;
      kernels.add(handle, to);
    });
  return handle;
}

static cl_int CL_API_CALL retain_kernel(cl_kernel kernel) {
  return retain(&kernels, next.clRetainKernel, kernel);
}

static cl_int CL_API_CALL release_kernel(cl_kernel kernel) {
  return release(&kernels, next.clReleaseKernel, kernel);
}

// Passes on to the shadows that exist what the application set. A shadow that does not take what
// the application's kernel took is given up.
template <class Set>
static void set_on_shadows(Kernel *kernel, Set &&set) {
  for (auto &entry : kernel->variants) {
    if (!entry.second->shadow) continue;
    cl_int error = set(entry.second->shadow);
    if (error == CL_SUCCESS) continue;
    auto plain = std::make_shared<Variant>();
    plain->reason =
        "the instrumented kernel does not take the arguments (error " + std::to_string(error) + ")";
    plain->id = kernel_id(*kernel, *plain);
    entry.second = plain;
  }
}

static void remember(cl_kernel handle, cl_uint index, Argument argument, SetUsmPointer set_usm) {
  auto kernel = kernel_of(handle);
  if (!kernel) return;
  std::lock_guard<std::mutex> guard(kernel->lock);
  if (set_usm) kernel->set_usm = set_usm;
  set_on_shadows(kernel.get(), [&](cl_kernel shadow) {
    return set_on(shadow, index, argument, kernel->set_usm);
  });
  if (index >= kernel->arguments.size()) kernel->arguments.resize(index + 1);
  kernel->arguments[index] = std::move(argument);
}

static cl_int CL_API_CALL set_argument(cl_kernel kernel, cl_uint index, size_t size,
                                       const void *value) {
  Api api;
  cl_int error = next.clSetKernelArg(kernel, index, size, value);
  if (error == CL_SUCCESS && mode == Mode::profile)
    quietly([&] {
      Argument argument;
      argument.kind = value ? Argument::value : Argument::local;
      argument.size = size;
      if (value) argument.bytes.assign(static_cast<const char *>(value), size);
      remember(kernel, index, std::move(argument), nullptr);
    });
  return error;
}

static cl_int CL_API_CALL set_svm_pointer(cl_kernel kernel, cl_uint index, const void *pointer) {
  Api api;
  cl_int error = next.clSetKernelArgSVMPointer(kernel, index, pointer);
  if (error == CL_SUCCESS && mode == Mode::profile)
    quietly([&] {
      Argument argument;
      argument.kind = Argument::svm;
      argument.pointer = pointer;
      remember(kernel, index, std::move(argument), nullptr);
    });
  return error;
}

cl_int set_usm_pointer(SetUsmPointer native, cl_kernel kernel, cl_uint index, const void *pointer) {
  Api api;
  cl_int error = native(kernel, index, pointer);
  if (error == CL_SUCCESS && mode == Mode::profile)
    quietly([&] {
      Argument argument;
      argument.kind = Argument::usm;
      argument.pointer = pointer;
      remember(kernel, index, std::move(argument), native);
    });
  return error;
}

static cl_int CL_API_CALL set_exec_info(cl_kernel handle, cl_kernel_exec_info name, size_t size,
                                        const void *value) {
  Api api;
  cl_int error = next.clSetKernelExecInfo(handle, name, size, value);
  if (error == CL_SUCCESS && mode == Mode::profile)
    quietly([&] {
      auto kernel = kernel_of(handle);
      if (!kernel) return;
      std::lock_guard<std::mutex> guard(kernel->lock);
      kernel->exec_info[name].assign(static_cast<const char *>(value), size);
      set_on_shadows(kernel.get(), [&](cl_kernel shadow) {
        return next.clSetKernelExecInfo(shadow, name, size, value);
      });
    });
  return error;
}

void override_kernels(cl_icd_dispatch *table) {
  table->clCreateKernel = create_kernel;
  table->clCreateKernelsInProgram = create_kernels;
  if (next.clCloneKernel) table->clCloneKernel = clone_kernel;
  table->clRetainKernel = retain_kernel;
  table->clReleaseKernel = release_kernel;
  table->clSetKernelArg = set_argument;
  if (next.clSetKernelArgSVMPointer) table->clSetKernelArgSVMPointer = set_svm_pointer;
  if (next.clSetKernelExecInfo) table->clSetKernelExecInfo = set_exec_info;
}

}  // namespace layer
