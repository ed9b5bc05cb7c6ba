// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#include <cxxabi.h>
#include <stdlib.h>

#include "cubin.h"
#include "hash128.h"
#include "xpuprof/trace_format.h"

std::string demangled(const char *name) {
  int status = 0;
  char *readable = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 && readable ? readable : name;
  free(readable);
  return result;
}

uint32_t Kernels::program(const uint8_t hash[16], const char *origin) {
  std::string key(reinterpret_cast<const char *>(hash), 16);
  auto known = programs_.find(key);
  if (known != programs_.end()) return known->second;
  return programs_[key] = xpu_program_built(hash, XP_PROGRAM_BINARY, origin);
}

void Kernels::module_loaded(const void *cubin, size_t size) {
  if (!cubin || !size) return;
  uint8_t hash[16];
  xpu_hash128(cubin, size, hash);
  std::vector<std::string> names = cubin_functions(cubin, size);
  if (cubin_launches(cubin, size)) launching_++;
  if (names.empty()) return;
  std::lock_guard<std::mutex> hold(modules_lock_);
  uint32_t id = program(hash, "cubin");
  /* Two cubins may have a kernel of the same name. The driver does not say which one a handle is
   * from; the one loaded last is more likely. */
  for (const std::string &name : names) module_kernels_[name] = id;
}

uint32_t Kernels::program_of(const std::string &mangled) {
  std::lock_guard<std::mutex> hold(modules_lock_);
  auto known = module_kernels_.find(mangled);
  if (known != module_kernels_.end()) return known->second;
  uint8_t hash[16]; /* the cubin is unknown: its name stands for it */
  xpu_hash128(mangled.data(), mangled.size(), hash);
  return program(hash, "unknown cubin");
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
  uint64_t unloads = unloads_.load();
  if (unloads != unloads_seen_) {
    by_handle_.clear();
    unloads_seen_ = unloads;
  }
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
  facts.resources.registers = attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS);
  facts.resources.local_static = attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  facts.resources.private_bytes = attribute(function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  return by_handle_.emplace(handle, facts).first->second;
}
