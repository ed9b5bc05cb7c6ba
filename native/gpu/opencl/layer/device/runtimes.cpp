// SPDX-License-Identifier: Apache-2.0
#include "device/runtimes.hpp"

#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <future>
#include <sstream>

#include "api/natively.hpp"
#include "common/sub_groups.hpp"
#include "protocol/clinst_protocol.h"

namespace layer {

template <class T>
static T info_number(cl_device_id device, cl_device_info name) {
  T value = 0;
  next.clGetDeviceInfo(device, name, sizeof value, &value, nullptr);
  return value;
}

unsigned version_number(const std::string &text) {
  size_t digit = text.find_first_of("0123456789");
  if (digit == std::string::npos || digit + 2 >= text.size()) return 120;
  return 100u * (unsigned)(text[digit] - '0') + 10u * (unsigned)(text[digit + 2] - '0');
}

static std::string c_features(cl_device_id device) {
  size_t size = 0;
  if (next.clGetDeviceInfo(device, CL_DEVICE_OPENCL_C_FEATURES, 0, nullptr, &size) != CL_SUCCESS)
    return "";
  std::vector<cl_name_version> features(size / sizeof(cl_name_version));
  if (next.clGetDeviceInfo(device, CL_DEVICE_OPENCL_C_FEATURES, size, features.data(), nullptr) !=
      CL_SUCCESS)
    return "";
  std::string names;
  for (const cl_name_version &feature : features)
    names += (names.empty() ? "" : " ") + std::string(feature.name);
  return names;
}

static SuggestLocal suggest_local(cl_device_id device, const std::string &extensions) {
  cl_platform_id platform = nullptr;
  if (extensions.find("cl_khr_suggested_local_work_size") == std::string::npos ||
      !next.clGetExtensionFunctionAddressForPlatform ||
      next.clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr))
    return nullptr;
  return reinterpret_cast<SuggestLocal>(next.clGetExtensionFunctionAddressForPlatform(
      platform, "clGetKernelSuggestedLocalWorkSizeKHR"));
}

static bool shares_memory(cl_device_id device) {
  if (settings.copied_counters) return false;
  return info_number<cl_device_type>(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU;
}

static bool is_cpu_of(cl_device_id device, const char *vendor) {
  cl_platform_id platform = nullptr;
  return info_number<cl_device_type>(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU &&
         !next.clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr) &&
         info_text(platform, CL_PLATFORM_VENDOR) == vendor;
}

// Intel's CPU runtime (seen: 2026.2) takes SPV_INTEL_fp_fast_math_mode, but does not report it
// among its CL_DEVICE_SPIRV_EXTENSIONS_KHR. A program made from its binary builds in 3 ms.
static bool is_intels_cpu(cl_device_id device) { return is_cpu_of(device, "Intel(R) Corporation"); }

// PoCL's runs a group's work-items one after the other on one thread, and its compile time grows
// with the square of the merges of registers: 600 conditions took 2.5 s natively and 17 s with
// counters in registers (seen: 3.1).
static bool is_pocls_cpu(cl_device_id device) { return is_cpu_of(device, "The pocl project"); }

// As PoCL reads the variable.
static bool pocl_keeps_kernels() {
  const char *keep = std::getenv("POCL_KERNEL_CACHE");
  return !keep || keep[0] == '1';
}

Device describe_device(cl_device_id handle) {
  Device device{};
  device.handle = handle;
  device.max_work_group = info_number<size_t>(handle, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  device.local_memory = info_number<cl_ulong>(handle, CL_DEVICE_LOCAL_MEM_SIZE);
  device.shares_memory = shares_memory(handle);
  std::string extensions = info_text(handle, CL_DEVICE_EXTENSIONS);
  unsigned version = version_number(info_text(handle, CL_DEVICE_VERSION));
  // Only devices from OpenCL 2.1 on support the query.
  if (version >= 210)
    device.takes_spirv = info_text(handle, CL_DEVICE_IL_VERSION).find("SPIR-V") == 0;
  device.suggest_local = suggest_local(handle, extensions);
  // Only sizes that can be requested, so that the counted kernel has the program's own size.
  device.sub_groups = device.takes_spirv && next.clGetKernelSubGroupInfo &&
                      info_number<cl_uint>(handle, CL_DEVICE_MAX_NUM_SUB_GROUPS) &&
                      extensions.find("cl_intel_required_subgroup_size") != std::string::npos;
  device.takes_bitcode = extensions.find("cl_khr_spir") != std::string::npos;
  device.features = {
      {"extensions", extensions},
      {"version", std::to_string(version)},
      {"c_features", version >= 300 ? c_features(handle) : ""},
      {"endian_little", std::to_string(info_number<cl_bool>(handle, CL_DEVICE_ENDIAN_LITTLE))},
      {"image_support", std::to_string(info_number<cl_bool>(handle, CL_DEVICE_IMAGE_SUPPORT))}};
  device.loads_code = device.takes_spirv && is_intels_cpu(handle);
  if (device.loads_code) device.features["contracts"] = "1";
  if (is_pocls_cpu(handle)) device.features["most_in_registers"] = "32";
  device.keeps_kernels = is_pocls_cpu(handle) && pocl_keeps_kernels();
  return device;
}

std::map<std::string, uint32_t> sub_group_sizes(cl_kernel kernel, const Device &device) {
  std::map<std::string, uint32_t> sizes;
  if (!device.sub_groups) return sizes;
  cl_program program = nullptr;
  next.clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof program, &program, nullptr);
  const size_t most = device.max_work_group;
  if (program) sizes = common::sub_group_sizes(next, program, device.handle, most);
  if (sizes.empty())
    sizes[kernel_name(kernel)] = common::even_sub_group_size(next, kernel, device.handle, most);
  return sizes;
}

static std::atomic<bool> announced;

void forget_announcement() { announced = false; }

void announce_runtime(cl_context context) {
  if (announced.exchange(true)) return;
  cl_device_id device = nullptr;
  cl_platform_id platform = nullptr;
  size_t size = 0;
  next.clGetContextInfo(context, CL_CONTEXT_DEVICES, 0, nullptr, &size);
  std::vector<cl_device_id> devices(size / sizeof device + 1);
  next.clGetContextInfo(context, CL_CONTEXT_DEVICES, size, devices.data(), nullptr);
  if (devices[0])
    next.clGetDeviceInfo(devices[0], CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr);
  std::string version = platform ? info_text(platform, CL_PLATFORM_NAME) + ", " +
                                       info_text(platform, CL_PLATFORM_VERSION)
                                 : "unknown";
  bool sub_groups = devices[0] && device_of(devices[0]).sub_groups;
  xpu_gpu_init("opencl", version.c_str(), "lane", sub_groups ? 0 : CLINST_WARP);
}

uint32_t module_kind(const Device &device) {
  return device.takes_spirv ? CLINST_TO_SPIRV : CLINST_TO_BITCODE;
}

// OpenCL C before 2.0 has only uniform groups, and runtimes refuse other launches; a module has to
// state it.
static bool uniform_groups(bool from_source, const std::string &user_options) {
  if (user_options.find("-cl-uniform-work-group-size") != std::string::npos) return true;
  size_t at = user_options.find("-cl-std=CL");
  return from_source &&
         (at == std::string::npos || user_options.compare(at, 11, "-cl-std=CL1") == 0);
}

std::string module_options(const Device &device, bool from_source,
                           const std::string &user_options) {
  static const char *const late[] = {
      "-cl-opt-disable",       "-cl-mad-enable",
      "-cl-no-signed-zeros",   "-cl-denorms-are-zero",
      "-cl-finite-math-only",  "-cl-unsafe-math-optimizations",
      "-cl-fast-relaxed-math", "-cl-fp32-correctly-rounded-divide-sqrt"};
  std::string options = device.takes_spirv ? "" : "-x spir -spir-std=1.2";
  std::istringstream words(user_options);
  for (std::string word; words >> word;)
    for (const char *option : late)
      if (word == option) options += " " + word;
  if (device.takes_spirv && uniform_groups(from_source, user_options))
    options += " -cl-uniform-work-group-size";
  return options;
}

static cl_program load(cl_context context, const Device &device, const std::string &module, bool il,
                       cl_int *error) {
  if (il) return next.clCreateProgramWithIL(context, module.data(), module.size(), error);
  size_t size = module.size();
  const unsigned char *bytes = reinterpret_cast<const unsigned char *>(module.data());
  return next.clCreateProgramWithBinary(context, 1, &device.handle, &size, &bytes, nullptr, error);
}

// The most informative line: the first that names a symbol, or mentions an error, else the first.
static std::string telling_log_line(cl_program program, const Device &device) {
  const std::string log =
      text_from(next.clGetProgramBuildInfo, program, device.handle, CL_PROGRAM_BUILD_LOG);
  for (const char *word : {"symbol", "rror", ""})
    if (size_t at = log.find(word); at != log.npos) {
      const size_t before = log.rfind('\n', at), start = before == log.npos ? 0 : before + 1;
      return log.substr(start, log.find('\n', at) - start);
    }
  return "";
}

// The program's signal handlers run on its own threads only.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked &) = delete;
  SignalsBlocked &operator=(const SignalsBlocked &) = delete;

 private:
  sigset_t before_;
};

// After a build in one of its callbacks, Intel's runtime (seen: 2026.2) executes nothing that the
// callback enqueues, and calls it complete. It does after a build on another thread.
template <class Work>
static auto apart_from_callbacks(Work &&work) {
  if (!Callback::is_running()) return work();
  SignalsBlocked blocked;
  return std::async(std::launch::async,
                    [&] {
                      Api api;
                      return work();
                    })
      .get();
}

static std::string build_here(cl_context context, const Device &device, const std::string &module,
                              bool il, const std::string &options, cl_program *program) {
  cl_int error = CL_SUCCESS;
  *program = natively(context, [&] { return load(context, device, module, il, &error); });
  if (!*program)
    return "the device does not take the instrumented program (error " + std::to_string(error) +
           ")";
  error = natively(context, [&] {
    return next.clBuildProgram(*program, 1, &device.handle, options.c_str(), nullptr, nullptr);
  });
  if (error == CL_SUCCESS) return "";
  std::string reason = "the device's compiler refused the instrumented program (error " +
                       std::to_string(error) + "): " + telling_log_line(*program, device);
  next.clReleaseProgram(*program);
  *program = nullptr;
  return reason;
}

static std::string build(cl_context context, const Device &device, const std::string &module,
                         bool il, const std::string &options, cl_program *program) {
  return apart_from_callbacks(
      [&] { return build_here(context, device, module, il, options, program); });
}

std::string build_module(cl_context context, const Device &device, const std::string &module,
                         const std::string &options, cl_program *program) {
  xpu_kernels_loaded(false);
  return build(context, device, module, device.takes_spirv, options, program);
}

std::string build_binary(cl_context context, const Device &device, const std::string &binary,
                         const std::string &options, cl_program *program) {
  return build(context, device, binary, false, options, program);
}

cl_mem counter_buffer(cl_context context, void *memory, size_t bytes, bool in_place) {
  cl_int error = CL_SUCCESS;
  cl_mem_flags how = in_place ? CL_MEM_USE_HOST_PTR : CL_MEM_COPY_HOST_PTR;
  return next.clCreateBuffer(context, CL_MEM_READ_WRITE | how, bytes, memory, &error);
}

}  // namespace layer
