// SPDX-License-Identifier: Apache-2.0
/* Loads kernels.cu in every form and launches them by every call. For each launch that a complete
 * record holds it prints one line: the name, and what `check` (ptx_emulator) needs to repeat it:
 *   kernel grid(x,y,z) block(x,y,z) shared arguments...   or: kernel - when it cannot be counted
 *
 * usage: ptx_program PTX FATBIN CUBIN SCENARIO */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" decltype(cuLaunchKernel) cuLaunchKernel_ptsz;
extern "C" size_t fake_changed_since_reset();

static void must(CUresult result) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "driver call failed: %d\n", result);
  exit(9);
}

static std::string content_of(const char *path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/* As `check` fills them: 32-bit words below 1000. */
static CUdeviceptr buffer(unsigned seed) {
  std::mt19937 random(seed);
  CUdeviceptr made;
  must(cuMemAlloc(&made, 1600));
  std::vector<uint32_t> words(400);
  for (uint32_t &word : words) word = random() % 1000;
  must(cuMemcpyHtoD(made, words.data(), 1600));
  return made;
}

struct Arguments {
  CUdeviceptr in = buffer(1), out = buffer(2);
  unsigned n = 350;
  void *list[3] = {&in, &out, &n};
};

static void expect(const char *kernel, unsigned grid, unsigned block, bool has_n = false) {
  printf("%s %u,1,1 %u,1,1 0 buffer:1600:1 buffer:1600:2%s\n", kernel, grid, block,
         has_n ? " u32:350" : "");
}

static CUfunction function(CUmodule module, const char *name) {
  CUfunction found;
  must(cuModuleGetFunction(&found, module, name));
  return found;
}

static void every(const std::string &ptx, const std::string &fat, const std::string &cubin) {
  CUmodule text, binary, machine;
  CUlibrary library;
  CUkernel kernel;
  CUstream stream;
  Arguments a, b, c, d, e, f, g;
  must(cuStreamCreate(&stream, 0));
  must(cuModuleLoadData(&text, ptx.c_str()));
  must(cuLaunchKernel(function(text, "loops"), 4, 1, 1, 100, 1, 1, 0, stream, a.list, nullptr));
  expect("loops", 4, 100, true);
  must(
      cuLaunchKernel_ptsz(function(text, "calls"), 3, 1, 1, 40, 1, 1, 0, nullptr, b.list, nullptr));
  expect("calls", 3, 40);
  if (cuLaunchKernel(function(text, "calls"), 0, 1, 1, 40, 1, 1, 0, nullptr, b.list, nullptr) ==
      CUDA_SUCCESS)
    exit(8);
  must(cuLaunchCooperativeKernel(function(text, "cases"), 2, 1, 1, 64, 1, 1, 0, stream, c.list));
  expect("cases", 2, 64);
  must(cuModuleUnload(text));

  /* The same by a fat binary, with functions asked for by name, as the CUDA runtime does. */
  void *found = nullptr;
  must(cuGetProcAddress("cuLibraryLoadData", &found, 13000, 0, nullptr));
  must(reinterpret_cast<decltype(&cuLibraryLoadData)>(found)(&library, fat.data(), nullptr, nullptr,
                                                             0, nullptr, nullptr, 0));
  must(cuLibraryGetKernel(&kernel, library, "loops"));
  must(cuGetProcAddress("cuLaunchKernelEx", &found, 13000, 0, nullptr));
  CUlaunchConfig config = {};
  config.gridDimX = 2, config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 33, config.blockDimY = config.blockDimZ = 1;
  must(reinterpret_cast<decltype(&cuLaunchKernelEx)>(found)(
      &config, reinterpret_cast<CUfunction>(kernel), d.list, nullptr));
  expect("loops", 2, 33, true);
  must(cuModuleLoadFatBinary(&binary, fat.data()));
  must(cuLaunchKernel(function(binary, "straight"), 3, 1, 1, 70, 1, 1, 0, stream, e.list, nullptr));
  expect("straight", 3, 70);
  must(cuLaunchKernel(function(binary, "also_calls"), 2, 1, 1, 64, 1, 1, 0, nullptr, f.list,
                      nullptr));
  expect("also_calls", 2, 64);

  CUgraph graph;
  CUgraphExec exec;
  must(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  must(cuLaunchKernel(function(binary, "loops"), 2, 1, 1, 32, 1, 1, 0, stream, g.list, nullptr));
  must(cuStreamEndCapture(stream, &graph));
  must(cuGraphInstantiate(&exec, graph, 0));
  must(cuGraphLaunch(exec, stream));
  must(cuGraphLaunch(exec, stream));
  printf("loops -\nloops -\n");

  must(cuModuleLoadData(&machine, cubin.data()));
  must(cuLaunchKernel(function(machine, "loops"), 1, 1, 1, 32, 1, 1, 0, stream, g.list, nullptr));
  printf("loops -\n");
}

static CUDA_KERNEL_NODE_PARAMS_v1 node_of(CUfunction f, unsigned grid, unsigned block,
                                          Arguments *arguments) {
  return {f, grid, 1, 1, block, 1, 1, 0, arguments->list, nullptr};
}

/* Every way to make and to change an executable graph, by the call that each CUDA version gives for
 * the name; between graphs, counted launches of the same module in another stream. The grid tells
 * the launches apart. */
static void graphs(const std::string &ptx) {
  CUmodule text;
  CUstream stream, other;
  Arguments a, b;
  must(cuStreamCreate(&stream, 0));
  must(cuStreamCreate(&other, 0));
  must(cuModuleLoadData(&text, ptx.c_str()));
  CUfunction loops = function(text, "loops"), calls = function(text, "calls");
  auto counted = [&] {
    must(cuLaunchKernel(loops, 4, 1, 1, 100, 1, 1, 0, other, a.list, nullptr));
    expect("loops", 4, 100, true);
  };
  auto launch = [&](CUgraphExec exec, const char *kernel, unsigned grid) {
    must(cuGraphLaunch(exec, stream));
    printf("%s - %u\n", kernel, grid);
    counted();
  };
  auto driver = [](const char *name, int version) {
    void *found = nullptr;
    must(cuGetProcAddress(name, &found, version, 0, nullptr));
    return found;
  };
  using Logged = CUresult (*)(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);

  CUgraph graph, fresh, child;
  CUgraphNode node, nested;
  CUgraphExec exec;
  CUDA_KERNEL_NODE_PARAMS_v2 kernel = {};
  auto params = [&](CUfunction f, unsigned grid) -> const CUDA_KERNEL_NODE_PARAMS_v2 * {
    auto first = node_of(f, grid, 32, &b);
    memcpy(&kernel, &first, sizeof first);
    return &kernel;
  };
  counted();
  must(cuGraphCreate(&graph, 0));
  must(cuGraphAddKernelNode(&node, graph, nullptr, 0, params(loops, 2)));
  must(reinterpret_cast<Logged>(driver("cuGraphInstantiate", 10000))(&exec, graph, nullptr, nullptr,
                                                                     0));
  launch(exec, "loops", 2);
  must(reinterpret_cast<Logged>(driver("cuGraphInstantiate", 11040))(&exec, graph, nullptr, nullptr,
                                                                     0));
  launch(exec, "loops", 2);
  CUDA_GRAPH_INSTANTIATE_PARAMS how = {};
  must(cuGraphInstantiateWithParams(&exec, graph, &how));
  launch(exec, "loops", 2);

  CUDA_KERNEL_NODE_PARAMS_v1 old = node_of(calls, 3, 32, &b);
  using SetOld = CUresult (*)(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *);
  must(reinterpret_cast<SetOld>(driver("cuGraphExecKernelNodeSetParams", 11040))(exec, node, &old));
  launch(exec, "calls", 3);
  must(cuGraphExecKernelNodeSetParams(exec, node, params(loops, 4)));
  launch(exec, "loops", 4);
  CUgraphNodeParams any = {};
  any.type = CU_GRAPH_NODE_TYPE_KERNEL;
  memcpy(&any.kernel, params(calls, 5), sizeof kernel);
  must(cuGraphExecNodeSetParams(exec, node, &any));
  launch(exec, "calls", 5);

  must(cuGraphCreate(&fresh, 0));
  must(cuGraphAddKernelNode(&node, fresh, nullptr, 0, params(loops, 6)));
  using UpdateOld = CUresult (*)(CUgraphExec, CUgraph, CUgraphNode *, CUgraphExecUpdateResult *);
  must(reinterpret_cast<UpdateOld>(driver("cuGraphExecUpdate", 11040))(exec, fresh, nullptr,
                                                                       nullptr));
  launch(exec, "loops", 6);
  must(cuGraphCreate(&graph, 0));
  must(cuGraphAddChildGraphNode(&nested, graph, nullptr, 0, fresh));
  must(cuGraphInstantiate(&exec, graph, 0));
  launch(exec, "loops", 6);
  must(cuGraphCreate(&child, 0));
  must(cuGraphAddKernelNode(&node, child, nullptr, 0, params(calls, 7)));
  must(cuGraphExecChildGraphNodeSetParams(exec, nested, child));
  launch(exec, "calls", 7);
}

/* PTX that the driver links. */
static void link_text(const std::string &ptx) {
  CUlinkState state;
  CUmodule text;
  Arguments a;
  void *image;
  size_t bytes;
  must(cuLinkCreate(0, nullptr, nullptr, &state));
  must(cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char *>(ptx.data()), ptx.size() + 1, "k",
                     0, nullptr, nullptr));
  must(cuLinkComplete(state, &image, &bytes));
  must(cuModuleLoadData(&text, image));
  must(cuLaunchKernel(function(text, "loops"), 4, 1, 1, 100, 1, 1, 0, nullptr, a.list, nullptr));
  expect("loops", 4, 100, true);
  fflush(stdout);
  pid_t child = fork(); /* a worker that never uses the device */
  if (child == 0) exit(0);
  waitpid(child, nullptr, 0);
}

/* A reset takes handles and memory with it; the last word is how many bytes of the memory that went
 * were changed afterwards. */
static void reset(const std::string &ptx) {
  CUmodule text;
  CUcontext context;
  for (int round = 0; round < 2; round++) {
    must(cuDevicePrimaryCtxRetain(&context, 0));
    must(cuCtxSetCurrent(context));
    must(cuModuleLoadData(&text, ptx.c_str()));
    Arguments a, b;
    must(cuLaunchKernel(function(text, "loops"), 4, 1, 1, 100, 1, 1, 0, nullptr, a.list, nullptr));
    expect("loops", 4, 100, true);
    must(cuLaunchKernel(function(text, "calls"), 3, 1, 1, 40, 1, 1, 0, nullptr, b.list, nullptr));
    expect("calls", 3, 40);
    if (round == 0) must(cuDevicePrimaryCtxReset(0));
  }
  fprintf(stderr, "changed %zu\n", fake_changed_since_reset());
}

/* Its results, for runs with and without the engine. */
static void results(const std::string &ptx) {
  CUmodule text;
  Arguments a;
  must(cuModuleLoadData(&text, ptx.c_str()));
  must(cuLaunchKernel(function(text, "loops"), 4, 1, 1, 100, 1, 1, 0, nullptr, a.list, nullptr));
  std::vector<uint32_t> words(400);
  must(cuMemcpyDtoH(words.data(), a.out, 1600));
  for (uint32_t word : words) printf("%u\n", word);
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  const std::string ptx = content_of(argv[1]), fat = content_of(argv[2]),
                    cubin = content_of(argv[3]);
  CUcontext context;
  must(cuInit(0));
  must(cuDevicePrimaryCtxRetain(&context, 0));
  must(cuCtxSetCurrent(context));
  if (strcmp(argv[4], "every") == 0) every(ptx, fat, cubin);
  if (strcmp(argv[4], "results") == 0) results(ptx);
  if (strcmp(argv[4], "reset") == 0) reset(ptx);
  if (strcmp(argv[4], "graphs") == 0) graphs(ptx);
  if (strcmp(argv[4], "link") == 0) link_text(ptx);
  return 0;
}
