// SPDX-License-Identifier: Apache-2.0
#include "functions.h"

#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "counters.h"
#include "demangle.h"
#include "hash128.h"
#include "xpuprof/boundary.h"
#include "xpuprof/trace_format.h"

static CUmodule module_of(CUfunction function) {
  CUmodule module = nullptr;
  return cuFuncGetModule(&module, function) == CUDA_SUCCESS ? module : nullptr;
}

/* The cubin of the function, as NVBit dumps it; empty without one. */
static std::string cubin_of(CUcontext context, CUfunction function) {
  char path[] = "/tmp/xpuprof-cubin-XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0) return "";
  close(fd);
  nvbit_dump_cubin(context, function, path); /* 1.7.7.1 returns false when it has written it, too */
  std::ifstream file(path, std::ios::binary);
  unlink(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/* A function's instructions, cut into blocks; `fault` when that cannot be done. */
struct Cut {
  std::vector<Instr *> instructions;
  std::vector<SassBlock> blocks;
  std::string fault;
};

static Cut cut(CUcontext context, CUfunction function, const Cubin &cubin) {
  Cut result;
  std::vector<SassInstruction> code;
  result.instructions = nvbit_get_instrs(context, function);
  for (Instr *instruction : result.instructions)
    code.push_back({instruction->getOffset(), instruction->getSass()});
  SassTargets targets = cubin.indirect_branches(nvbit_get_func_name(context, function, true));
  result.fault = code.empty() ? "NVBit shows no instructions for it" : sass_fault(code, targets);
  if (result.fault.empty()) result.blocks = sass_blocks(code, targets);
  return result;
}

/* A called function is analysed once, whoever calls it. */
DeviceFunction &Functions::look_into(CUcontext context, CUfunction function, const Cubin &cubin) {
  auto known = called_.find(function);
  if (known != called_.end()) return known->second;
  DeviceFunction &made = called_[function];
  made.module = module_of(function);
  made.number = numbers_++;
  Cut found = cut(context, function, cubin);
  made.fault = found.fault;
  made.blocks = found.blocks;
  for (uint32_t b = 0; b < made.blocks.size(); b++) {
    Instr *first = found.instructions[made.blocks[b].first];
    nvbit_insert_call(first, "xpuprof_count_called", IPOINT_BEFORE);
    nvbit_add_call_arg_const_val32(first, made.number);
    nvbit_add_call_arg_const_val32(first, b);
    nvbit_add_call_arg_const_val32(first, made.blocks[b].block.instructions);
    nvbit_add_call_arg_launch_val64(first, 0);
  }
  return made;
}

/* A kernel is identified by its own code, whatever else its cubin holds. */
uint32_t Functions::program_of(const Cubin &cubin, const std::string &name) {
  uint8_t hash[16];
  std::string code = cubin.code(name);
  const std::string &identity = code.empty() ? name : code;
  xpu_hash128(identity.data(), identity.size(), hash);
  std::string key(reinterpret_cast<char *>(hash), sizeof hash);
  auto known = programs_.find(key);
  if (known != programs_.end()) return known->second;
  if (cubin.launches()) launching_++;
  const char *origin = code.empty() ? "unknown cubin" : "cubin";
  return programs_[key] = xpu_program_built(hash, XP_PROGRAM_BINARY, origin);
}

Kernel Functions::make(CUcontext context, CUfunction function) {
  Kernel kernel = {};
  kernel.number = kernel_numbers_++;
  kernel.module = module_of(function);
  const char *mangled = nvbit_get_func_name(context, function, true);
  kernel.name = demangled(mangled);
  std::string file = cubin_of(context, function);
  Cubin cubin(file.data(), file.size());
  Cut own = cut(context, function, cubin);
  kernel.reason = own.fault;
  std::vector<xpu_block> blocks;
  for (const SassBlock &block : own.blocks) blocks.push_back(block.block);
  std::vector<CUfunction> related = nvbit_get_related_functions(context, function);
  kernel.related = !related.empty();
  for (CUfunction called : related) {
    if (nvbit_is_func_kernel(context, called)) continue; /* 1.7.6 lists kernels of the module */
    const DeviceFunction &known = look_into(context, called, cubin);
    if (kernel.reason.empty() && !known.fault.empty())
      kernel.reason = "a function that it calls cannot be counted: " + known.fault;
    kernel.bases.resize(numbers_, NO_COLUMN);
    kernel.bases[known.number] = static_cast<uint32_t>(blocks.size());
    for (const SassBlock &block : known.blocks) blocks.push_back(block.block);
  }
  kernel.bases.resize(numbers_, NO_COLUMN);
  kernel.columns = static_cast<uint32_t>(blocks.size());
  for (uint32_t b = 0; kernel.reason.empty() && b < own.blocks.size(); b++) {
    Instr *first = own.instructions[own.blocks[b].first];
    nvbit_insert_call(first, "xpuprof_count_block", IPOINT_BEFORE);
    nvbit_add_call_arg_const_val32(first, b);
    nvbit_add_call_arg_const_val32(first, own.blocks[b].block.instructions);
    nvbit_add_call_arg_launch_val64(first, 0);
  }
  uint32_t program = program_of(cubin, mangled);
  std::string key = std::to_string(program) + ' ' + mangled;
  auto known = ids_.find(key);
  if (known == ids_.end()) {
    const char *reason = kernel.reason.empty() ? nullptr : kernel.reason.c_str();
    uint32_t id =
        xpu_kernel_built(program, kernel.name.c_str(), kernel.columns, blocks.data(), reason);
    known = ids_.emplace(key, id).first;
  }
  kernel.id = known->second;
  return kernel;
}

const std::shared_ptr<Kernel> &Functions::kernel(CUcontext context, CUfunction function) {
  std::shared_ptr<Kernel> &known = kernels_[function];
  if (!known) known = std::make_shared<Kernel>(make(context, function));
  return known;
}

static CUmodule module_of(const DeviceFunction &function) { return function.module; }
static CUmodule module_of(const std::shared_ptr<Kernel> &kernel) { return kernel->module; }

template <typename Map>
static void erase_of(CUmodule module, Map *map) {
  for (auto it = map->begin(); it != map->end();)
    it = module_of(it->second) == module ? map->erase(it) : std::next(it);
}

void Functions::forget(CUmodule module) {
  erase_of(module, &called_);
  erase_of(module, &kernels_);
}
