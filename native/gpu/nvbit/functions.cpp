// SPDX-License-Identifier: Apache-2.0
#include "functions.h"

#include <cxxabi.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "cubin.h"
#include "hash128.h"
#include "xpuprof/boundary.h"
#include "xpuprof/trace_format.h"

static std::vector<SassInstruction> code_of(CUcontext context, CUfunction function,
                                            std::vector<Instr *> *instructions) {
  std::vector<SassInstruction> code;
  *instructions = nvbit_get_instrs(context, function);
  for (Instr *instruction : *instructions)
    code.push_back({instruction->getOffset(), instruction->getSass()});
  return code;
}

static CUmodule module_of(CUfunction function) {
  CUmodule module = nullptr;
  return cuFuncGetModule(&module, function) == CUDA_SUCCESS ? module : nullptr;
}

/* A called function is analysed once, whoever calls it. */
DeviceFunction &Functions::look_into(CUcontext context, CUfunction function) {
  auto known = called_.find(function);
  if (known != called_.end()) return known->second;
  DeviceFunction &made = called_[function];
  made.module = module_of(function);
  made.number = numbers_++;
  std::vector<Instr *> instructions;
  made.blocks = sass_blocks(code_of(context, function, &instructions));
  for (uint32_t b = 0; b < made.blocks.size(); b++) {
    Instr *first = instructions[made.blocks[b].first];
    nvbit_insert_call(first, "xpuprof_count_called", IPOINT_BEFORE);
    nvbit_add_call_arg_const_val32(first, made.number);
    nvbit_add_call_arg_const_val32(first, b);
    nvbit_add_call_arg_const_val32(first, made.blocks[b].block.instructions);
    nvbit_add_call_arg_launch_val64(first, 0);
  }
  return made;
}

static std::string readable(const char *mangled) {
  int status = 0;
  char *text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string result = status == 0 && text ? text : mangled;
  free(text);
  return result;
}

/* The cubin of the function, as NVBit dumps it. */
static std::string cubin_of(CUcontext context, CUfunction function) {
  char path[] = "/tmp/xpuprof-cubin-XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0) return "";
  close(fd);
  std::string content;
  if (nvbit_dump_cubin(context, function, path)) {
    std::ifstream file(path, std::ios::binary);
    content.assign(std::istreambuf_iterator<char>(file), {});
  }
  unlink(path);
  return content;
}

uint32_t Functions::program_of(CUcontext context, CUfunction function, const std::string &name) {
  uint8_t hash[16];
  std::string cubin = cubin_of(context, function);
  const std::string &identity = cubin.empty() ? name : cubin;
  xpu_hash128(identity.data(), identity.size(), hash);
  std::string key(reinterpret_cast<char *>(hash), sizeof hash);
  auto known = programs_.find(key);
  if (known != programs_.end()) return known->second;
  if (cubin_launches(cubin.data(), cubin.size())) launching_++;
  const char *origin = cubin.empty() ? "unknown cubin" : "cubin";
  return programs_[key] = xpu_program_built(hash, XP_PROGRAM_BINARY, origin);
}

Kernel Functions::make(CUcontext context, CUfunction function) {
  Kernel kernel = {};
  kernel.module = module_of(function);
  const char *mangled = nvbit_get_func_name(context, function, true);
  kernel.name = readable(mangled);
  std::vector<Instr *> instructions;
  std::vector<SassBlock> own = sass_blocks(code_of(context, function, &instructions));
  std::vector<xpu_block> blocks;
  for (uint32_t b = 0; b < own.size(); b++) {
    blocks.push_back(own[b].block);
    Instr *first = instructions[own[b].first];
    nvbit_insert_call(first, "xpuprof_count_block", IPOINT_BEFORE);
    nvbit_add_call_arg_const_val32(first, b);
    nvbit_add_call_arg_const_val32(first, own[b].block.instructions);
    nvbit_add_call_arg_launch_val64(first, 0);
  }
  for (CUfunction called : nvbit_get_related_functions(context, function)) {
    const DeviceFunction &known = look_into(context, called);
    kernel.bases.resize(numbers_, 0xffffffffu);
    kernel.bases[known.number] = static_cast<uint32_t>(blocks.size());
    for (const SassBlock &block : known.blocks) blocks.push_back(block.block);
  }
  kernel.bases.resize(numbers_, 0xffffffffu);
  kernel.columns = static_cast<uint32_t>(blocks.size());
  if (blocks.empty()) kernel.reason = "NVBit shows no instructions for it";
  uint32_t program = program_of(context, function, mangled);
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

Kernel *Functions::kernel(CUcontext context, CUfunction function) {
  auto known = kernels_.find(function);
  if (known == kernels_.end()) known = kernels_.emplace(function, make(context, function)).first;
  return &known->second;
}

template <typename Map>
static void erase_of(CUmodule module, Map *map) {
  for (auto it = map->begin(); it != map->end();)
    it = it->second.module == module ? map->erase(it) : std::next(it);
}

void Functions::forget(CUmodule module) {
  erase_of(module, &called_);
  erase_of(module, &kernels_);
}
