// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#include <iterator>
#include <vector>

#include "cubin.h"
#include "demangle.h"
#include "hash128.h"
#include "xpuprof/trace_format.h"

void Kernels::module_loaded(const void *file, size_t size) {
  if (!file || !size) return;
  Cubin cubin(file, size);
  if (cubin.launches()) launching_++;
  std::lock_guard<std::mutex> hold(modules_lock_);
  /* Two cubins may have a kernel of the same name. The driver does not say which one a handle is
   * from; the one loaded last is more likely when a handle is first seen. */
  for (const std::string &name : cubin.functions()) {
    std::string code = cubin.code(name);
    xpu_hash128(code.data(), code.size(), code_[name].data());
  }
}

/* The module's handles may name other functions later; those of other modules stay what they are,
 * also when a kernel of the same name was loaded since. */
void Kernels::module_unloaded(const void *file, size_t size) {
  std::vector<std::string> names = Cubin(file, file ? size : 0).functions();
  std::lock_guard<std::mutex> hold(modules_lock_);
  unloaded_.insert(names.begin(), names.end());
  all_unloaded_ |= names.empty();
}

void Kernels::forget_unloaded() {
  std::lock_guard<std::mutex> hold(modules_lock_);
  if (unloaded_.empty() && !all_unloaded_) return;
  for (auto it = by_handle_.begin(); it != by_handle_.end();)
    it =
        all_unloaded_ || unloaded_.count(it->second.mangled) ? by_handle_.erase(it) : std::next(it);
  unloaded_.clear();
  all_unloaded_ = false;
}

uint32_t Kernels::program_of(const std::string &mangled) {
  std::array<uint8_t, 16> hash;
  const char *origin = "cubin";
  {
    std::lock_guard<std::mutex> hold(modules_lock_);
    auto known = code_.find(mangled);
    if (known != code_.end()) {
      hash = known->second;
    } else { /* the cubin is unknown: its name stands for it */
      xpu_hash128(mangled.data(), mangled.size(), hash.data());
      origin = "unknown cubin";
    }
  }
  auto known = programs_.find(hash);
  if (known != programs_.end()) return known->second;
  return programs_[hash] = xpu_program_built(hash.data(), XP_PROGRAM_BINARY, origin);
}

/* The driver reports the mangled name, as in cubins; older drivers do not report it. */
static std::string name_of(CUfunction function, const char *otherwise) {
  const char *name = nullptr;
  if (driver.cuFuncGetName && driver.cuFuncGetName(&name, function) == CUDA_SUCCESS && name)
    return name;
  return otherwise && *otherwise ? otherwise : "unknown kernel";
}

static uint32_t attribute(CUfunction function, CUfunction_attribute which) {
  int value = 0;
  if (driver.cuFuncGetAttribute(&value, which, function) != CUDA_SUCCESS || value < 0) return 0;
  return static_cast<uint32_t>(value);
}

/* cuLaunchKernel also accepts a CUkernel instead of a function. */
static CUfunction resolved(CUfunction handle) {
  int value;
  CUfunction function;
  if (driver.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, handle) == CUDA_SUCCESS)
    return handle;
  if (driver.cuKernelGetFunction &&
      driver.cuKernelGetFunction(&function, reinterpret_cast<CUkernel>(handle)) == CUDA_SUCCESS)
    return function;
  return handle;
}

const KernelFacts &Kernels::find(CUfunction handle, const char *name) {
  forget_unloaded();
  auto known = by_handle_.find(handle);
  if (known != by_handle_.end()) return known->second;
  CUfunction function = resolved(handle);
  std::string mangled = name_of(function, name);
  uint32_t program_id = program_of(mangled);
  std::string key = std::to_string(program_id) + ' ' + mangled;
  auto kernel = kernels_.find(key);
  if (kernel == kernels_.end())
    kernel = kernels_
                 .emplace(key, xpu_kernel_built(program_id, demangled(mangled.c_str()).c_str(), 0,
                                                nullptr, reason_))
                 .first;
  KernelFacts facts = {};
  facts.id = kernel->second;
  facts.mangled = mangled;
  facts.resources.registers = attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS);
  facts.resources.local_static = attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  facts.resources.private_bytes = attribute(function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  return by_handle_.emplace(handle, facts).first->second;
}
