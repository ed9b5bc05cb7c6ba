// SPDX-License-Identifier: Apache-2.0
#include "programs.h"

#include "demangle.h"
#include "hash128.h"
#include "image.h"
#include "xpuprof/trace_format.h"

namespace ptx {
namespace {

/* Of the current device; of the first one before there is a context. */
unsigned capability() {
  CUdevice device = 0;
  int major = 0, minor = 0;
  if (driver.cuCtxGetDevice(&device) != CUDA_SUCCESS) device = 0;
  driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  return static_cast<unsigned>(10 * major + minor);
}

CUfunction resolved(CUfunction handle) {
  CUmodule module;
  CUfunction function;
  if (driver.cuFuncGetModule(&module, handle) == CUDA_SUCCESS) return handle;
  return driver.cuKernelGetFunction(&function, reinterpret_cast<CUkernel>(handle)) == CUDA_SUCCESS
             ? function
             : handle;
}

}  // namespace

const char *Programs::rewritten(const void *image, std::string *why) {
  std::string text = text_in(image, capability(), why);
  if (text.empty()) return nullptr;
  auto known = programs_.find(text);
  if (known != programs_.end()) return known->second->text.c_str();
  try {
    auto made = std::make_shared<const Program>(rewrite(text, unit_));
    programs_[text] = made;
    for (const CountedFunction &function : made->functions)
      if (function.entry) sources_.emplace(function.name, Source{made, &function});
    return made->text.c_str();
  } catch (const SyntaxError &error) {
    *why = std::string("its PTX cannot be rewritten: ") + error.what();
    return nullptr;
  }
}

const char *Programs::rewritten_part(const void *image) {
  std::string why;
  const char *text = rewritten(image, &why);
  if (text) linked_.insert(programs_.at(static_cast<const char *>(image))->variable);
  return text;
}

std::string Programs::why_not(CUmodule module) {
  auto known = modules_.find(module);
  if (known != modules_.end()) return known->second;
  for (const auto &[library, why] : libraries_) {
    CUmodule its_module;
    if (driver.cuLibraryGetModule(&its_module, library) == CUDA_SUCCESS && its_module == module)
      return why;
  }
  return "its module was loaded by a call that the engine does not know";
}

/* Kernels are the same when their own text and that of the functions below them is. */
uint32_t Programs::built(const Kernel &kernel, const std::string &mangled) {
  uint8_t hash[16];
  const std::string &identity = kernel.function ? kernel.function->identity : mangled;
  xpu_hash128(identity.data(), identity.size(), hash);
  std::string key(reinterpret_cast<char *>(hash), sizeof hash);
  key += mangled;
  auto known = ids_.find(key);
  if (known != ids_.end()) return known->second;
  uint32_t program = kernel.function ? xpu_program_built(hash, XP_PROGRAM_IL, "PTX")
                                     : xpu_program_built(hash, XP_PROGRAM_BINARY, "no PTX");
  std::vector<xpu_block> blocks;
  if (kernel.function) blocks = blocks_of(*kernel.program, *kernel.function);
  const char *reason = kernel.reason.empty() ? nullptr : kernel.reason.c_str();
  return ids_[key] = xpu_kernel_built(program, kernel.name.c_str(),
                                      static_cast<uint32_t>(blocks.size()), blocks.data(), reason);
}

/* On which the memory is. */
static CUdevice device_of(CUdeviceptr at) {
  CUdevice device = -1;
  driver.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at);
  return device;
}

/* The variable is in the module if, and only if, the driver compiled our text for it. */
Kernel Programs::find(CUfunction function) {
  const char *mangled = "";
  CUmodule module = nullptr;
  driver.cuFuncGetName(&mangled, function);
  driver.cuFuncGetModule(&module, function);
  Kernel kernel = {0, demangled(mangled), "", nullptr, nullptr, 0, 0, {}};
  CUdeviceptr at = 0, own = 0;
  size_t bytes = 0;
  auto [first, last] = sources_.equal_range(mangled);
  for (auto source = first; source != last && !kernel.function; ++source) {
    const Program &program = *source->second.program;
    if (driver.cuModuleGetGlobal_v2(&at, &bytes, module, program.variable.c_str()) != CUDA_SUCCESS)
      continue;
    kernel.program = source->second.program;
    kernel.function = source->second.function;
    kernel.reason = kernel.function->reason;
    own = at;
    if (kernel.function->is_counted()) kernel.slot = at + 8 * uint64_t{kernel.function->slot};
  }
  if (!kernel.function) kernel.reason = why_not(module);
  if (own) kernel.device = device_of(own);
  for (const std::string &name : linked_)
    if (driver.cuModuleGetGlobal_v2(&at, &bytes, module, name.c_str()) == CUDA_SUCCESS && at != own)
      kernel.other_slots.push_back(at);
  kernel.id = built(kernel, mangled);
  return kernel;
}

const Kernel &Programs::kernel(CUcontext context, CUfunction handle) {
  auto known = kernels_.find({context, handle});
  if (known == kernels_.end())
    known = kernels_.emplace(std::make_pair(context, handle), find(resolved(handle))).first;
  return known->second;
}

std::vector<CUdeviceptr> Programs::slots_in(CUmodule module) const {
  std::vector<CUdeviceptr> found;
  CUdeviceptr at = 0;
  size_t bytes = 0;
  for (const auto &[text, program] : programs_)
    if (driver.cuModuleGetGlobal_v2(&at, &bytes, module, program->variable.c_str()) == CUDA_SUCCESS)
      for (uint32_t slot = 0; slot < program->slots; slot++) found.push_back(at + 8 * slot);
  return found;
}

void Programs::unloaded(CUmodule module) {
  modules_.erase(module);
  forget_handles();
}

void Programs::unloaded(CUlibrary library) {
  libraries_.erase(library);
  forget_handles();
}

}  // namespace ptx
