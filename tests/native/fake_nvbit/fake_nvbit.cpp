// SPDX-License-Identifier: Apache-2.0
/* A stand-in for NVBit and the driver under the tool, for tests on machines without a GPU.
 *
 * It is a mock: device memory is the host's, kernels are lists of SASS with made-up counts, and the
 * work of the patched-in functions is done here, from counters.h. It tests the tool's host side:
 * columns of kernels and called functions, buffers in flight and reused, classes read back, memory
 * beyond the limit, graphs, failed launches. It cannot show what NVBit does on a GPU.
 *
 * It ends the program where the tool breaks a rule of the kit's (seen in libnvbit.a 1.7.7.1, by
 * disassembly):
 * - nvbit_enable_instrumented hands the value of nvbit_set_at_launch to the driver; setting a value
 *   afterwards concerns the launch after (Nvbit::enable_instrumented, Nvbit::set_at_launch).
 * - It replaces the function's code in place, on the null stream, while kernels run. It does the
 * same with the related functions, which get the flag and the value, too
 * (Nvbit::enable_instrumented of 1.7.1: the loop over get_related_functions that ends in
 * patch_func).
 * - Related functions of 1.7.6 are also the kernel itself and other kernels of its module
 *   (github.com/NVlabs/NVBit/issues/158).
 * - A graph's nodes are walked, with the kit's mutex held, before any of them runs
 *   (nvbitToolsCallbackFunc): a driver call in that callback can deadlock.
 * - No device memory is allocated in nvbit_at_ctx_init, nothing of the driver's is called in
 *   nvbit_at_init (nvbit.h of 1.7.6, at their declarations). Contexts come before nvbit_tool_init,
 *   that before the first launch (the same).
 * Nodes name a kernel by function or by handle (CUDA_KERNEL_NODE_PARAMS_v2 and later in cuda.h), in
 * any of the ten calls that take parameters of nodes (generated_cuda_meta.h of 1.7.6).
 * And where it would hang a program whose kernels wait for its later calls: a callback that waits
 * for a kernel.
 *
 * Prints a line for each launch that ran: kernel warps lane-instructions count(warp 0, block 0)
 * count(0, 1) ... */
#define __device__
#define __noinline__
#include "kit.h"
/* the kit's header comes first */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "counters.h"
#include "row_hash.h"

static void broken(const char *rule) {
  fprintf(stderr, "the tool broke a rule: %s\n", rule);
  abort();
}

/* ---- what the tool calls -------------------------------------------------------------------- */

struct Text {
  uint32_t offset;
  std::string sass;
};

Instr::Instr(const char *sass) : reserved(new Text{0, sass}) {}
const char *Instr::getSass() { return static_cast<const Text *>(reserved)->sass.c_str(); }
uint32_t Instr::getOffset() { return static_cast<const Text *>(reserved)->offset; }

struct Function {
  std::string name;
  std::vector<Instr *> code;
  std::vector<CUfunction> related;
  std::map<const Instr *, std::vector<uint64_t>> calls; /* arguments of the inserted call */
  std::map<const Instr *, std::string> callee;
  bool kernel = true, enabled = false, running = false;
  uint64_t set = 0, argument = 0; /* by nvbit_set_at_launch; as the driver has it */
  std::map<uint64_t, uint64_t> node_argument;
  func_config_t config = {};
};

static std::vector<Function *> functions;
static Function *of(CUfunction f) { return reinterpret_cast<Function *>(f); }
static Function *holder(const Instr *instruction) {
  for (Function *f : functions)
    for (Instr *i : f->code)
      if (i == instruction) return f;
  abort();
}

static CUfunction make(const char *name, std::vector<std::string> code,
                       std::vector<CUfunction> related = {}) {
  Function *f = new Function;
  f->name = name;
  f->related = related;
  for (size_t i = 0; i < code.size(); i++) {
    Instr *one = new Instr(code[i].c_str());
    struct Layout {
      Text *text;
    };
    reinterpret_cast<Layout *>(one)->text->offset = static_cast<uint32_t>(16 * i);
    f->code.push_back(one);
  }
  functions.push_back(f);
  return reinterpret_cast<CUfunction>(f);
}

extern "C" {
std::vector<CUfunction> nvbit_get_related_functions(CUcontext, CUfunction f) {
  return of(f)->related;
}
bool nvbit_is_func_kernel(CUcontext, CUfunction f) { return of(f)->kernel; }
const std::vector<Instr *> &nvbit_get_instrs(CUcontext, CUfunction f) { return of(f)->code; }
const char *nvbit_get_func_name(CUcontext, CUfunction f, bool) { return of(f)->name.c_str(); }
/* As kit 1.7.7.1 was seen to do: the file is written, and the answer is no. */
bool nvbit_dump_cubin(CUcontext, CUfunction, const char *path) {
  FILE *file = fopen(path, "w");
  fputs("the one cubin", file);
  fclose(file);
  return false;
}
void nvbit_get_func_config(CUcontext, CUfunction f, func_config_t *config) {
  *config = of(f)->config;
}
void nvbit_insert_call(const Instr *i, const char *name, ipoint_t) { holder(i)->callee[i] = name; }
void nvbit_add_call_arg_const_val32(const Instr *i, uint32_t value, bool) {
  holder(i)->calls[i].push_back(value);
}
void nvbit_add_call_arg_launch_val64(const Instr *, int, bool) {}
void nvbit_enable_instrumented(CUcontext, CUfunction f, bool on, bool apply_to_related) {
  std::vector<CUfunction> switched = {f};
  if (apply_to_related)
    switched.insert(switched.end(), of(f)->related.begin(), of(f)->related.end());
  for (CUfunction each : switched) {
    if (of(each)->running && of(each)->enabled != on) broken("code is replaced while it runs");
    of(each)->enabled = on;
    of(each)->argument = of(each)->set = of(f)->set;
  }
}
void nvbit_set_at_launch(CUcontext, CUfunction f, uint64_t value, CUstream, uint64_t node) {
  if (node)
    of(f)->node_argument[node] = value;
  else
    of(f)->set = value;
}
static pthread_t reader;
void nvbit_set_tool_pthread(pthread_t thread) { reader = thread; }
void nvbit_set_nvdisasm(const char *) {}
int nvbit_load_tool_module(CUcontext, const void *, CUmodule *) { return 0; }
int nvbit_find_function_by_name(CUcontext, CUmodule, const char *name, CUfunction *f) {
  *f = make(name, {});
  return 0;
}
int nvbit_launch_kernel(CUcontext, CUfunction f, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
                        uint32_t, uint32_t, CUstream, void **a, void **) {
  const uint64_t *counters = *static_cast<uint64_t **>(a[0]);
  if (of(f)->name == "xpuprof_hash_rows") {
    uint64_t rows = *static_cast<uint64_t *>(a[1]);
    uint32_t columns = *static_cast<uint32_t *>(a[2]);
    RowHash *hashes = *static_cast<RowHash **>(a[3]);
    uint64_t *lanes = *static_cast<uint64_t **>(a[4]);
    for (uint64_t row = 0; row < rows; row++) {
      hashes[row] = {0, 0};
      for (uint32_t c = 0; c < columns; c++)
        row_hash_add(&hashes[row], c, counters[row * (columns + 1) + c]);
      *lanes += counters[row * (columns + 1) + columns];
    }
  } else {
    const uint64_t *which = *static_cast<uint64_t **>(a[1]);
    uint64_t n = *static_cast<uint64_t *>(a[2]);
    uint32_t columns = *static_cast<uint32_t *>(a[3]);
    uint64_t *to = *static_cast<uint64_t **>(a[4]);
    for (uint64_t i = 0; i < n; i++)
      memcpy(to + i * columns, counters + which[i] * (columns + 1), columns * sizeof *to);
  }
  return 1; /* undocumented: the tool must ignore it */
}

static int unfinished; /* number of last events that are not complete */
static std::atomic<int> events_recorded;
static bool walking; /* a graph's nodes, with the kit's lock held */
static enum { PROGRAM_STARTS, CONTEXT_STARTS, RUNS } stage;
static void driver_call() {
  if (stage == PROGRAM_STARTS) broken("a driver call in nvbit_at_init");
  if (walking && !pthread_equal(pthread_self(), reader))
    broken("a driver call in nvbit_at_graph_node_launch");
}
CUresult cuMemAllocAsync(CUdeviceptr *at, size_t n, CUstream) {
  driver_call();
  if (stage == CONTEXT_STARTS) broken("memory is allocated in nvbit_at_ctx_init");
  *at = reinterpret_cast<CUdeviceptr>(memset(malloc(n), 0xa5, n)); /* not cleared, as on a device */
  return CUDA_SUCCESS;
}
CUresult cuMemFreeAsync(CUdeviceptr at, CUstream) {
  return free(reinterpret_cast<void *>(at)), CUDA_SUCCESS;
}
CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *all) {
  return *free_bytes = *all = size_t{8} << 30, CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) { return driver_call(), CUDA_SUCCESS; }
CUresult cuCtxSynchronize() {
  driver_call();
  for (Function *f : functions) f->running = false;
  return CUDA_SUCCESS;
}
enum { HANDLE = 1 }; /* set in a CUkernel, which is otherwise its CUfunction */
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute, CUfunction f) {
  driver_call();
  if (reinterpret_cast<uintptr_t>(f) & HANDLE) return CUDA_ERROR_INVALID_HANDLE;
  return *value = 0, CUDA_SUCCESS;
}
CUresult cuKernelGetFunction(CUfunction *f, CUkernel handle) {
  driver_call();
  *f = reinterpret_cast<CUfunction>(reinterpret_cast<uintptr_t>(handle) & ~uintptr_t{HANDLE});
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream) {
  return memcpy(reinterpret_cast<void *>(to), from, n), CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream) {
  return memcpy(to, reinterpret_cast<void *>(from), n), CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t n, CUstream) {
  return memset(reinterpret_cast<void *>(at), value, n), CUDA_SUCCESS;
}
CUresult cuMemsetD2D8Async(CUdeviceptr at, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream) {
  for (size_t row = 0; row < height; row++)
    memset(reinterpret_cast<char *>(at) + row * pitch, value, width);
  return CUDA_SUCCESS;
}
CUresult cuMemAllocHost_v2(void **at, size_t n) {
  if (getenv("FAKE_NO_HOST_MEMORY")) return CUDA_ERROR_OUT_OF_MEMORY;
  return *at = malloc(n), CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void *at) { return free(at), CUDA_SUCCESS; }
CUresult cuEventCreate(CUevent *event, unsigned) {
  return *event = reinterpret_cast<CUevent>(new int(0)), CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream) {
  static int failing = atoi(getenv("FAKE_FAILING_EVENT") ?: "0"); /* this call, from 1 */
  if (failing && !--failing) return CUDA_ERROR_OUT_OF_MEMORY;
  return *reinterpret_cast<int *>(event) = ++events_recorded, CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent event) {
  if (!pthread_equal(pthread_self(), reader)) broken("a callback waits for a kernel");
  if (*reinterpret_cast<int *>(event) > events_recorded - unfinished) usleep(1000);
  return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent event) {
  return *reinterpret_cast<int *>(event) > events_recorded - unfinished ? CUDA_ERROR_NOT_READY
                                                                        : CUDA_SUCCESS;
}
CUresult cuEventDestroy_v2(CUevent event) {
  return delete reinterpret_cast<int *>(event), CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream *stream, unsigned) {
  return *stream = reinterpret_cast<CUstream>(8), CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  bool captured = stream == reinterpret_cast<CUstream>(99);
  return *status = captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE,
         CUDA_SUCCESS;
}
CUresult cuStreamGetCtx(CUstream, CUcontext *context) { return *context = nullptr, CUDA_SUCCESS; }
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *) { return CUDA_SUCCESS; }
CUresult cuFuncGetModule(CUmodule *module, CUfunction) { return *module = nullptr, CUDA_SUCCESS; }
CUresult cuLibraryGetModule(CUmodule *, CUlibrary) { return CUDA_ERROR_INVALID_VALUE; }
CUresult cuCtxGetDevice(CUdevice *device) { return driver_call(), *device = 0, CUDA_SUCCESS; }
CUresult cuCtxPushCurrent_v2(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxPopCurrent_v2(CUcontext *) { return CUDA_SUCCESS; }
}

extern const unsigned char xpuprof_rows_fatbin[];
const unsigned char xpuprof_rows_fatbin[] = {0};

/* ---- the device ----------------------------------------------------------------------------- */

static CUcontext context = reinterpret_cast<CUcontext>(1);

/* How often a warp enters a block: made up, repeatable, different for every launch. */
static uint64_t times(uint64_t launch, uint64_t warp, uint32_t block) {
  return (warp % 3 + 1) * (block * 7 + launch % 5) % 11;
}

/* How many lanes are active in the block: made up, 1 to 32. */
static uint64_t lanes(uint64_t launch, uint64_t warp, uint32_t block) {
  return 1 + (launch * 5 + warp * 3 + block * 11) % 32;
}

struct Expected {
  std::vector<uint64_t> counts;
  uint64_t lane_instructions = 0;
};

/* Instructions of the block that starts at `code[at]`: up to the next inserted call. */
static uint64_t block_length(const Function *f, size_t at) {
  size_t end = at + 1;
  while (end < f->code.size() && !f->calls.count(f->code[end])) end++;
  return end - at;
}

/* Does the work of the functions in inject_funcs.cu, from the inserted arguments. */
static void execute(Function *f, uint64_t argument, uint64_t launch, uint64_t warp, uint32_t *block,
                    Expected *expected) {
  CounterHead *head = reinterpret_cast<CounterHead *>(argument);
  uint64_t *counters = reinterpret_cast<uint64_t *>(head + 1);
  for (size_t at = 0; at < f->code.size(); at++) {
    auto call = f->calls.find(f->code[at]);
    if (call == f->calls.end()) continue;
    uint64_t n = times(launch, warp, *block), active = lanes(launch, warp, *block);
    expected->counts.push_back(n);
    expected->lane_instructions += n * active * block_length(f, at);
    (*block)++;
    uint64_t column = call->second[0], instructions = call->second.back();
    if (f->callee[f->code[at]] == "xpuprof_count_called")
      column = reinterpret_cast<uint32_t *>(head->bases)[call->second[0]] + call->second[1];
    if (warp >= head->warps || column >= head->row) {
      head->strays += n;
      continue;
    }
    counters[warp * (head->row + 1) + column] += head->lanes ? n * active : n;
    counters[warp * (head->row + 1) + head->row] += n * active * instructions;
  }
}

static uint64_t launches;

static void run(CUfunction f, uint64_t warps, uint64_t argument) {
  Function *kernel = of(f);
  std::vector<CUfunction> called;
  for (CUfunction related : kernel->related)
    if (!of(related)->kernel) called.push_back(related);
  kernel->running = unfinished > 0;
  for (CUfunction each : called) of(each)->running = unfinished > 0;
  uint64_t launch = launches++;
  Expected expected;
  for (uint64_t warp = 0; kernel->enabled && argument && warp < warps; warp++) {
    uint32_t block = 0;
    execute(kernel, argument, launch, warp, &block, &expected);
    for (CUfunction each : called)
      if (of(each)->enabled) execute(of(each), argument, launch, warp, &block, &expected);
  }
  printf("%s %lu %lu", kernel->name.c_str(), static_cast<unsigned long>(warps),
         static_cast<unsigned long>(expected.lane_instructions));
  for (uint64_t n : expected.counts) printf(" %lu", static_cast<unsigned long>(n));
  printf("\n");
}

static void launch(CUfunction f, unsigned grid, unsigned block, CUresult status = CUDA_SUCCESS,
                   CUstream stream = nullptr) {
  cuLaunchKernel_params params = {f, grid, 1, 1, block, 1, 1, 0, stream, nullptr, nullptr};
  nvbit_at_cuda_event(context, 0, API_CUDA_cuLaunchKernel, "cuLaunchKernel", &params, &status);
  if (status == CUDA_SUCCESS && stream != reinterpret_cast<CUstream>(99))
    run(f, grid * ((block + 31) / 32), of(f)->argument);
  nvbit_at_cuda_event(context, 1, API_CUDA_cuLaunchKernel, "cuLaunchKernel", &params, &status);
}

template <typename Node>
static Node sized(Node node) {
  node.gridDimX = 5;
  node.blockDimX = 64;
  node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
  return node;
}

template <typename Node>
static Node by_function(CUfunction f) {
  Node node = {};
  node.func = f;
  return sized(node);
}

static CUDA_KERNEL_NODE_PARAMS_v2 by_handle(CUfunction f) {
  CUDA_KERNEL_NODE_PARAMS_v2 node = {};
  node.kern = reinterpret_cast<CUkernel>(reinterpret_cast<uintptr_t>(f) | HANDLE);
  return sized(node);
}

static CUgraphNodeParams of_any_kind(CUDA_KERNEL_NODE_PARAMS_v2 kernel) {
  CUgraphNodeParams node = {};
  node.type = CU_GRAPH_NODE_TYPE_KERNEL;
  memcpy(&node.kernel, &kernel, sizeof kernel); /* version 3 begins with version 2 */
  return node;
}

template <typename Params, typename Node>
static void sets_node(nvbit_api_cuda_t cbid, const char *name, Node node) {
  CUresult status = CUDA_SUCCESS;
  Params params = {};
  params.nodeParams = &node;
  nvbit_at_cuda_event(context, 0, cbid, name, &params, &status);
  nvbit_at_cuda_event(context, 1, cbid, name, &params, &status);
}
#define SETS_NODE(name, node) sets_node<name##_params>(API_CUDA_##name, #name, node)

static void add_node(CUfunction f) {
  SETS_NODE(cuGraphAddKernelNode_v2, by_function<CUDA_KERNEL_NODE_PARAMS_v2>(f));
}

/* Every node has 5 blocks of 64 threads. */
static void launch_graph(const std::vector<CUfunction> &nodes) {
  CUresult status = CUDA_SUCCESS;
  cuGraphLaunch_params params = {};
  nvbit_at_cuda_event(context, 0, API_CUDA_cuGraphLaunch, "cuGraphLaunch", &params, &status);
  walking = true;
  for (size_t node = 0; node < nodes.size(); node++) {
    func_config_t &config = of(nodes[node])->config;
    config.blockDimX = 64;
    config.gridDimX = 5;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    nvbit_at_graph_node_launch(context, nodes[node], nullptr, 77 + node);
  }
  walking = false;
  for (size_t node = 0; node < nodes.size(); node++)
    run(nodes[node], 10, of(nodes[node])->node_argument[77 + node]);
  nvbit_at_cuda_event(context, 1, API_CUDA_cuGraphLaunch, "cuGraphLaunch", &params, &status);
}

/* Kernels that the tool meets in these calls only, each in one. */
static void nodes_by_every_call() {
  std::vector<CUfunction> f;
  for (int i = 0; i < 10; i++) f.push_back(make("noded", {"LDG.E R1, [R2] ;", "EXIT ;"}));
  SETS_NODE(cuGraphAddKernelNode, by_function<CUDA_KERNEL_NODE_PARAMS_v1>(f[0]));
  SETS_NODE(cuGraphAddKernelNode_v2, by_handle(f[1]));
  SETS_NODE(cuGraphKernelNodeSetParams, by_function<CUDA_KERNEL_NODE_PARAMS_v1>(f[2]));
  SETS_NODE(cuGraphKernelNodeSetParams_v2, by_handle(f[3]));
  SETS_NODE(cuGraphExecKernelNodeSetParams, by_function<CUDA_KERNEL_NODE_PARAMS_v1>(f[4]));
  SETS_NODE(cuGraphExecKernelNodeSetParams_v2, by_function<CUDA_KERNEL_NODE_PARAMS_v2>(f[5]));
  SETS_NODE(cuGraphAddNode, of_any_kind(by_handle(f[6])));
  SETS_NODE(cuGraphAddNode_v2, of_any_kind(by_function<CUDA_KERNEL_NODE_PARAMS_v2>(f[7])));
  SETS_NODE(cuGraphNodeSetParams, of_any_kind(by_handle(f[8])));
  SETS_NODE(cuGraphExecNodeSetParams, of_any_kind(by_function<CUDA_KERNEL_NODE_PARAMS_v2>(f[9])));
  launch_graph(f);
}

static void profiler(nvbit_api_cuda_t cbid) {
  CUresult status = CUDA_SUCCESS;
  nvbit_at_cuda_event(context, 0, cbid, "cuProfiler", nullptr, &status);
  nvbit_at_cuda_event(context, 1, cbid, "cuProfiler", nullptr, &status);
}

int main(int argc, char **argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0); /* _exit would lose it */
  unfinished = argc > 1 ? atoi(argv[1]) : 0;
  CUfunction helper = make("helper", {"IADD3 R0, R1, R2 ;", "@P0 BRA 0x30 ;", "NOP ;", "RET ;"});
  CUfunction other =
      make("other", {"LDS R0, [R2] ;", "FADD R0, R1, R2 ;", "STS [R2], R0 ;", "RET ;"});
  CUfunction plain =
      make("plain", {"LDG.E R1, [R2] ;", "STG.E [R2], R1 ;", "RED.E.ADD [R2], R1 ;", "EXIT ;"});
  CUfunction branchy = make(
      "branchy",
      {"@P0 BRA 0x20 ;", "IADD3 R0, R1, R2 ;", "BSYNC B0 ;", "CALL.REL.NOINC 0x500 ;", "EXIT ;"},
      {other});
  CUfunction caller = make("caller", {"CALL.REL.NOINC 0x700 ;", "EXIT ;"}, {helper, other});
  of(helper)->kernel = of(other)->kernel = false;
  CUfunction twins[2];
  for (CUfunction &twin : twins)
    twin = make("twin", {"LDG.E R1, [R2] ;", "@P0 BRA 0x30 ;", "NOP ;", "EXIT ;"});
  for (CUfunction twin : twins) of(twin)->related = {twins[0], twins[1]};
  nvbit_at_init();
  stage = CONTEXT_STARTS;
  nvbit_at_ctx_init(context);
  stage = RUNS;
  nvbit_tool_init(context);
  for (unsigned i = 1; i <= 40; i++) {
    if (i == 4) profiler(API_CUDA_cuProfilerStart); /* launches 10 to 21 */
    if (i == 6) profiler(API_CUDA_cuProfilerStart); /* without effect */
    if (i == 8) profiler(API_CUDA_cuProfilerStop);
    launch(plain, i, 32);
    launch(i % 2 ? branchy : caller, 41 - i, 33 + i);
    launch(twins[i % 2], i, 64);
    if (i % 10 == 0) launch(plain, 3, 64, CUDA_ERROR_INVALID_VALUE);
  }
  pid_t child = fork(); /* a worker that never uses the device */
  if (child == 0) exit(0);
  waitpid(child, nullptr, 0);
  launch(caller, 5, 64, CUDA_SUCCESS, reinterpret_cast<CUstream>(99)); /* captured */
  for (CUfunction f : {plain, branchy, plain}) add_node(f);
  for (int i = 0; i < 3; i++) launch_graph({caller, plain, branchy, plain});
  nodes_by_every_call();
  launch(branchy, 20000, 64);
  nvbit_at_ctx_term(context);
  nvbit_at_term();
  fprintf(stderr, "ended by itself\n");
}
