// SPDX-License-Identifier: Apache-2.0
/* A stand-in for GTPin behind the declarations of gtpin_interface: two kernels of three blocks. A
 * launch n gives block b of bucket u the count n + 10 * b in buckets 0 and 1, and 0 in others.
 *
 * Rules, and how they were seen: OnKernelBuild comes before a kernel's first run; OnKernelRun is
 * called inside the call that enqueues (OpenCL) or appends (Level Zero) the kernel, on its thread
 * (documentation of kit 4.7.1, GtKernelExecStage; Intel's compute runtime, gtpinNotifyKernelSubmit
 * in clEnqueueNDRangeKernel); OnKernelComplete comes from another thread. */
#include <mutex>
#include <thread>

#include "gtpin_tool_utils.h"

using namespace gtpin;

namespace {

GtTool *tool;
IGtKernel kernels[2];
IGtKernelInstrument instruments;
IGtCfg cfg;
IGtBbl bbls[3];
IGtGenCoder coder;
IGtVregFactory registers;
IGtInsFactory instructions;
IGtProfileBufferAllocator allocator;
IGtProfileBuffer buffer;
thread_local int current; /* kernel of the callback under way */
thread_local uint32_t launch;
thread_local bool profiling;
bool built[2];
uint32_t launches;
std::mutex lock;

}  // namespace

/* Called by the stand-ins for the runtimes. */
extern "C" __attribute__((visibility("default"))) void fake_gtpin_run(int kernel) {
  std::lock_guard<std::mutex> hold(lock);
  if (!tool) return;
  auto *dispatch = new IGtKernelDispatch;
  current = kernel;
  if (!built[kernel]) tool->OnKernelBuild(instruments);
  built[kernel] = true;
  profiling = false;
  tool->OnKernelRun(*dispatch);
  uint32_t number = launches++;
  bool counts = profiling;
  std::thread([=] {
    current = kernel;
    launch = number;
    profiling = counts;
    tool->OnKernelComplete(*dispatch);
    delete dispatch;
  }).join();
}

namespace gtpin {
GtReg NullReg() { return {}; }
GtIpoint GtIpoint::Before() { return {}; }
const char *GtName::Get() const { return current ? "second" : "first"; }
BblId IGtBbl::Id() const { return static_cast<BblId>(this - bbls); }
bool IGtBbl::IsEmpty() const { return false; }
const std::vector<const IGtIns *> &IGtBbl::Instructions() const {
  static const std::vector<const IGtIns *> of_each(4, nullptr);
  return of_each;
}
uint32_t IGtCfg::NumBbls() const { return 3; }
const std::vector<const IGtBbl *> &IGtCfg::Bbls() const {
  static const std::vector<const IGtBbl *> all = {&bbls[0], &bbls[1], &bbls[2]};
  return all;
}
GtKernelId IGtKernel::Id() const { return static_cast<GtKernelId>(this - kernels); }
GtName IGtKernel::Name() const { return {}; }
GtGenProcedure &GtGenProcedure::operator+=(const GtGenProcedure &) { return *this; }
GtReg IGtVregFactory::Make(int, int, int) { return {}; }
GtGenProcedure IGtInsFactory::MakeAtomicInc(GtReg, GtReg, GED_DATA_TYPE) { return {}; }
IGtVregFactory &IGtGenCoder::VregFactory() const { return registers; }
IGtInsFactory &IGtGenCoder::InstructionFactory() const { return instructions; }
const IGtKernel &IGtKernelInstrument::Kernel() { return kernels[current]; }
const IGtCfg &IGtKernelInstrument::Cfg() { return cfg; }
const IGtGenCoder &IGtKernelInstrument::Coder() { return coder; }
IGtProfileBufferAllocator &IGtKernelInstrument::ProfileBufferAllocator() { return allocator; }
void IGtKernelInstrument::InstrumentBbl(const IGtBbl &, GtIpoint, const GtGenProcedure &) {}
const IGtKernel &IGtKernelDispatch::Kernel() const { return kernels[current]; }
IGtProfileBuffer *IGtKernelDispatch::CreateProfileBuffer() { return &buffer; }
const IGtProfileBuffer *IGtKernelDispatch::GetProfileBuffer() { return &buffer; }
void IGtKernelDispatch::SetProfilingMode(bool on) { profiling = on; }
bool IGtKernelDispatch::IsProfilingEnabled() const { return profiling; }
GtTool::~GtTool() {}
bool GtTool::Register() {
  tool = this;
  return true;
}
GtProfileArray::GtProfileArray() {}
GtProfileArray::GtProfileArray(uint32_t, uint32_t, uint32_t) {}
bool GtProfileArray::Allocate(IGtProfileBufferAllocator &) { return true; }
bool GtProfileArray::Initialize(IGtProfileBuffer &) const { return true; }
void GtProfileArray::ComputeAddress(const IGtGenCoder &, GtGenProcedure &, GtReg, uint32_t) const {}
bool GtProfileArray::Read(const IGtProfileBuffer &, void *to, uint32_t record, uint32_t,
                          uint32_t bucket) const {
  *static_cast<uint32_t *>(to) = bucket < 2 ? launch + 10 * record : 0;
  return true;
}
std::string CfgAsmText(const IGtCfg &) { return current ? "mov add send" : "mov mul send"; }
void ConfigureGTPin(int, const char *[]) {}
}  // namespace gtpin
