// SPDX-License-Identifier: Apache-2.0
/* libxpuprof_gtpin.so: profiler and timer for Intel GPUs, by GTPin.
 *
 * In a profile each block counts its executions in one counter per thread bucket (GTPin maps
 * hardware threads to buckets); the buckets are the trace's warps, in their order, and do not
 * correspond to logical warps. Counters are GTPin's, of 32 bits, read and cleared once per launch.
 * In a timer run nothing is instrumented and the callbacks alone give the stamps. Kernels are
 * identified by the hash of their assembly text, which holds across runs. */
#include <stdlib.h>
#include <string.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "geometry.h"
#include "gtpin_api.h"
#include "gtpin_tool_utils.h"
#include "hash128.h"
#include "xpuprof/boundary.h"
#include "xpuprof/trace_format.h"

using namespace gtpin;

namespace {

enum { BUCKETS = 32 };

struct Counter {
  uint32_t executions;
};

struct KernelInfo {
  uint32_t id; /* from xpu_kernel_built */
  uint32_t blocks;
  GtProfileArray counters;
};

class Tool : public GtTool {
 public:
  static Tool *instance() {
    static Tool *tool = new Tool; /* never freed: callbacks come until the end */
    return tool;
  }
  const char *Name() const override { return "xpuprof"; }
  void OnKernelBuild(IGtKernelInstrument &kernel) override;
  void OnKernelRun(IGtKernelDispatch &dispatch) override;
  void OnKernelComplete(IGtKernelDispatch &dispatch) override;
  static bool is_timer() {
    const char *mode = getenv(XPU_ENV_MODE);
    return mode && strcmp(mode, "time") == 0;
  }

 private:
  GtProfileArray instrument(IGtKernelInstrument &kernel);
  void read(const KernelInfo &kernel, const IGtProfileBuffer &buffer, uint64_t launch);

  std::mutex lock_;
  std::map<GtKernelId, KernelInfo> kernels_;
  std::map<const IGtKernelDispatch *, uint64_t> launches_; /* between run and complete */
};

std::vector<xpu_block> blocks_of(const IGtCfg &cfg) {
  std::vector<xpu_block> blocks(cfg.NumBbls());
  for (auto block : cfg.Bbls()) {
    xpu_block &known = blocks[block->Id()];
    known.instructions = static_cast<uint32_t>(block->Instructions().size());
    known.mix[XP_MIX_OTHER] = static_cast<uint16_t>(known.instructions);
  }
  return blocks;
}

GtProfileArray Tool::instrument(IGtKernelInstrument &kernel) {
  const IGtGenCoder &coder = kernel.Coder();
  GtReg address = coder.VregFactory().Make(VREG_TYPE_PTR, VREG_FLAG_MSG_ADDR_SCRATCH, 0);
  GtProfileArray counters(sizeof(Counter), kernel.Cfg().NumBbls(), BUCKETS);
  counters.Allocate(kernel.ProfileBufferAllocator());
  for (auto block : kernel.Cfg().Bbls()) {
    if (block->IsEmpty()) continue;
    GtGenProcedure code;
    counters.ComputeAddress(coder, code, address, block->Id());
    code += coder.InstructionFactory().MakeAtomicInc(NullReg(), address, GED_DATA_TYPE_ud);
    kernel.InstrumentBbl(*block, GtIpoint::Before(), code);
  }
  return counters;
}

void Tool::OnKernelBuild(IGtKernelInstrument &built) {
  std::lock_guard<std::mutex> hold(lock_);
  const IGtKernel &kernel = built.Kernel();
  std::string text = CfgAsmText(built.Cfg());
  uint8_t hash[16];
  xpu_hash128(text.data(), text.size(), hash);
  uint32_t program = xpu_program_built(hash, XP_PROGRAM_BINARY, "assembly text");
  KernelInfo info = {};
  const char *name = kernel.Name().Get();
  if (is_timer()) {
    info.id = xpu_kernel_built(program, name, 0, nullptr, "timed, not instrumented");
  } else {
    std::vector<xpu_block> blocks = blocks_of(built.Cfg());
    info.blocks = static_cast<uint32_t>(blocks.size());
    info.counters = instrument(built);
    info.id = xpu_kernel_built(program, name, info.blocks, blocks.data(), nullptr);
  }
  kernels_[kernel.Id()] = info;
}

/* The runtime is about to enqueue the kernel: this is where CPU engines cut. */
void Tool::OnKernelRun(IGtKernelDispatch &dispatch) {
  std::lock_guard<std::mutex> hold(lock_);
  auto known = kernels_.find(dispatch.Kernel().Id());
  bool counted = false;
  if (known != kernels_.end() && known->second.blocks) {
    IGtProfileBuffer *buffer = dispatch.CreateProfileBuffer();
    counted = buffer && known->second.counters.Initialize(*buffer);
  }
  dispatch.SetProfilingMode(counted);
  if (known == kernels_.end()) return; /* built before GTPin was loaded: GTPin does not show it */
  xpu_launch launch = {};
  launch.kernel = known->second.id;
  geometry_of_call(&launch);
  if (!counted && !is_timer()) launch.reason = "GTPin could not allocate its counters";
  launches_[&dispatch] = xpu_kernel_run(&launch);
}

void Tool::read(const KernelInfo &kernel, const IGtProfileBuffer &buffer, uint64_t launch) {
  std::vector<uint64_t> counts(static_cast<size_t>(BUCKETS) * kernel.blocks);
  for (uint32_t bucket = 0; bucket < BUCKETS; bucket++)
    for (uint32_t block = 0; block < kernel.blocks; block++) {
      Counter counter = {};
      if (!kernel.counters.Read(buffer, &counter, block, 1, bucket)) return;
      counts[bucket * static_cast<size_t>(kernel.blocks) + block] = counter.executions;
    }
  uint32_t run_vector[BUCKETS];
  uint64_t run_length[BUCKETS];
  for (uint32_t bucket = 0; bucket < BUCKETS; bucket++) {
    run_vector[bucket] = bucket;
    run_length[bucket] = 1;
  }
  xpu_grid grid = {kernel.id, BUCKETS, counts.data(), BUCKETS, run_vector, run_length};
  xpu_kernel_counts(launch, &grid);
}

void Tool::OnKernelComplete(IGtKernelDispatch &dispatch) {
  std::lock_guard<std::mutex> hold(lock_);
  auto launch = launches_.find(&dispatch);
  if (launch == launches_.end()) return;
  xpu_completion completion = {};
  completion.launch = launch->second;
  completion.tsc_host = xpu_tsc();
  xpu_kernel_complete(&completion);
  auto kernel = kernels_.find(dispatch.Kernel().Id());
  if (dispatch.IsProfilingEnabled() && kernel != kernels_.end())
    read(kernel->second, *dispatch.GetProfileBuffer(), launch->second);
  launches_.erase(launch);
}

void finish() { xpu_gpu_fini(); }

}  // namespace

/* Entry point for loaders that support GTPin. */
EXPORT_C_FUNC XPU_API void GTPin_Entry(int argc, const char *argv[]) {
  static bool entered;
  if (entered) return;
  entered = true;
  ConfigureGTPin(argc, argv);
  xpu_gpu_init("gtpin", "", "warp", 1);
  xpu_meta("warps_are", "hardware thread buckets");
  Tool::instance()->Register();
  atexit(finish);
}

/* Preloaded by xpuprof, the tool starts itself. */
__attribute__((constructor)) static void start() {
  const char *folder = getenv(XPU_ENV_DIR), *arguments[] = {"xpuprof"};
  if (folder && *folder) GTPin_Entry(1, arguments);
}
