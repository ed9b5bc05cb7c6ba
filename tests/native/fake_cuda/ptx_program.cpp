// SPDX-License-Identifier: Apache-2.0
/* Loads kernels.cu in every form and launches them by every call. For each launch that a complete
 * record holds it prints one line: the name, and what `check` (ptx_emulator) needs to repeat it:
 *   kernel grid(x,y,z) block(x,y,z) shared arguments...   or, when it cannot be counted:
 *   kernel - the reason
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
extern "C" CUresult fake_add_conditional(CUgraph);

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

/* Kernels of graphs run after their call: theirs are static. */
struct Arguments {
  CUdeviceptr in = buffer(1), out = buffer(2);
  unsigned n = 350;
  void *list[3] = {&in, &out, &n};
};

static void expect(const char *kernel, unsigned grid, unsigned block, bool has_n = false) {
  printf("%s %u,1,1 %u,1,1 0 buffer:1600:1 buffer:1600:2%s\n", kernel, grid, block,
         has_n ? " u32:350" : "");
}

static void refused(const char *kernel, const char *reason) { printf("%s - %s\n", kernel, reason); }

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
  static Arguments a, b, c, d, e, f, g;
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
  expect("loops", 2, 32, true);
  expect("loops", 2, 32, true);

  must(cuModuleLoadData(&machine, cubin.data()));
  must(cuLaunchKernel(function(machine, "loops"), 1, 1, 1, 32, 1, 1, 0, stream, g.list, nullptr));
  refused("loops", "it was loaded as machine code, without PTX");
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
  static Arguments a, b;
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
    expect(kernel, grid, 32, !strcmp(kernel, "loops"));
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

/* Graphs in which the host cannot come between the kernels: one function in several nodes,
 * functions that share another, child graphs, two graphs at once, nodes that change. */
static void chains(const std::string &ptx) {
  CUmodule text;
  CUstream stream, other;
  CUgraph captured, added, parent;
  CUgraphExec first, second, third;
  static Arguments a;
  must(cuStreamCreate(&stream, 0));
  must(cuStreamCreate(&other, 0));
  must(cuModuleLoadData(&text, ptx.c_str()));
  struct Node {
    const char *kernel;
    unsigned grid, block;
  };
  using Nodes = std::vector<Node>;
  auto expected = [](const Nodes &nodes) {
    for (const Node &node : nodes)
      expect(node.kernel, node.grid, node.block, !strcmp(node.kernel, "loops"));
  };
  auto launch = [&](CUgraphExec exec, CUstream where, const Nodes &nodes) {
    must(cuGraphLaunch(exec, where));
    expected(nodes);
  };
  auto plainly = [&](const Node &node) {
    must(cuLaunchKernel(function(text, node.kernel), node.grid, 1, 1, node.block, 1, 1, 0, other,
                        a.list, nullptr));
    expected({node});
  };
  auto params = [&](const Node &node) {
    CUDA_KERNEL_NODE_PARAMS_v2 kernel = {};
    auto old = node_of(function(text, node.kernel), node.grid, node.block, &a);
    memcpy(&kernel, &old, sizeof old);
    return kernel;
  };
  auto add = [&](CUgraph graph, const Node &node, std::vector<CUgraphNode> after) {
    CUgraphNode made;
    CUDA_KERNEL_NODE_PARAMS_v2 kernel = params(node);
    must(cuGraphAddKernelNode(&made, graph, after.data(), after.size(), &kernel));
    return made;
  };

  /* Captured; three launches in a row, then others between. */
  const Nodes one = {{"loops", 3, 64}, {"calls", 2, 64}, {"straight", 2, 32},  {"loops", 2, 100},
                     {"cases", 4, 32}, {"loops", 1, 33}, {"also_calls", 2, 50}};
  must(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  for (const Node &node : one)
    must(cuLaunchKernel(function(text, node.kernel), node.grid, 1, 1, node.block, 1, 1, 0, stream,
                        a.list, nullptr));
  must(cuStreamEndCapture(stream, &captured));
  must(cuGraphInstantiate(&first, captured, 0));
  for (int round = 0; round < 3; round++) launch(first, stream, one);
  plainly({"loops", 4, 70});
  plainly({"calls", 1, 40});

  /* Branches that come together: two functions at the same time, one function one after the other.
   * Both graphs have `loops`, and run in two streams. */
  Nodes two = {{"loops", 2, 40}, {"cases", 3, 40}, {"calls", 1, 70}, {"loops", 3, 32}};
  must(cuGraphCreate(&added, 0));
  CUgraphNode top = add(added, two[0], {});
  CUgraphNode left = add(added, two[1], {top}), right = add(added, two[2], {top});
  CUgraphNode bottom = add(added, two[3], {left, right});
  must(cuGraphInstantiate(&second, added, 0));
  launch(second, other, two);
  launch(first, stream, one);
  launch(second, other, two);

  /* Changed between launches: another grid, another function, one switched off. */
  two[0] = {"calls", 2, 96};
  CUDA_KERNEL_NODE_PARAMS_v2 kernel = params(two[0]);
  must(cuGraphExecKernelNodeSetParams(second, top, &kernel));
  launch(second, other, two);
  must(cuGraphNodeSetEnabled(second, bottom, 0));
  launch(second, stream, {two[0], two[1], two[2]});
  must(cuGraphNodeSetEnabled(second, bottom, 1));
  launch(second, stream, two);

  /* A graph inside a graph, between two kernels of its functions. */
  CUgraphNode nested;
  must(cuGraphCreate(&parent, 0));
  CUgraphNode begin = add(parent, {"loops", 1, 64}, {});
  must(cuGraphAddChildGraphNode(&nested, parent, &begin, 1, captured));
  add(parent, {"loops", 5, 32}, {nested});
  must(cuGraphInstantiate(&third, parent, 0));
  Nodes all = {{"loops", 1, 64}};
  all.insert(all.end(), one.begin(), one.end());
  all.push_back({"loops", 5, 32});
  launch(third, stream, all);
  launch(third, other, all);
  plainly({"loops", 2, 90});
}

/* Graphs whose launches of one function nobody can tell apart. */
static void unclear(const std::string &ptx) {
  CUmodule text;
  CUgraph graph;
  CUgraphExec exec;
  static Arguments a;
  CUgraphNode node;
  const char *const together = "its graph may run it twice at the same time";
  must(cuModuleLoadData(&text, ptx.c_str()));
  auto add = [&](const char *name, unsigned grid) {
    CUDA_KERNEL_NODE_PARAMS_v2 kernel = {};
    auto old = node_of(function(text, name), grid, 64, &a);
    memcpy(&kernel, &old, sizeof old);
    must(cuGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
  };
  must(cuGraphCreate(&graph, 0));
  add("loops", 2);
  add("cases", 3);
  add("loops", 3);
  must(cuGraphInstantiate(&exec, graph, 0));
  must(cuGraphLaunch(exec, nullptr));
  refused("loops", together);
  expect("cases", 3, 64);
  refused("loops", together);

  must(cuGraphCreate(&graph, 0));
  add("loops", 2);
  add("straight", 2);
  must(fake_add_conditional(graph));
  must(cuGraphInstantiate(&exec, graph, 0));
  must(cuGraphLaunch(exec, nullptr));
  refused("loops", "the device decides what its graph runs");
  expect("straight", 2, 64);
  must(cuLaunchKernel(function(text, "loops"), 4, 1, 1, 100, 1, 1, 0, nullptr, a.list, nullptr));
  expect("loops", 4, 100, true);

  must(cuGraphCreate(&graph, 0));
  add("cases", 2);
  must(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
  must(cuGraphLaunch(exec, nullptr));
  refused("cases", "the device decides what its graph runs");
}

/* PTX that the driver links, from memory or from a file. */
static void link_text(const std::string &ptx, const char *path) {
  CUlinkState state;
  CUmodule text;
  Arguments a;
  void *image;
  size_t bytes;
  must(cuLinkCreate(0, nullptr, nullptr, &state));
  if (path)
    must(cuLinkAddFile(state, CU_JIT_INPUT_PTX, path, 0, nullptr, nullptr));
  else
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
static void reset(const std::string &ptx, bool unload) {
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
    if (unload) must(cuModuleUnload(text));
    if (round == 0) must(cuDevicePrimaryCtxReset(0));
  }
  fprintf(stderr, "changed %zu\n", fake_changed_since_reset());
}

/* Modules that come and go, as those of compilers at run time. */
static void modules(const std::string &ptx) {
  static Arguments a;
  for (int round = 0; round < 60; round++) {
    CUmodule text;
    must(cuModuleLoadData(&text, ptx.c_str()));
    must(cuLaunchKernel(function(text, "loops"), 4, 1, 1, 100, 1, 1, 0, nullptr, a.list, nullptr));
    expect("loops", 4, 100, true);
    must(cuModuleUnload(text));
  }
}

/* Libraries that go while no context is current. */
static void libraries(const std::string &ptx) {
  static Arguments a;
  CUcontext context;
  must(cuCtxGetCurrent(&context));
  for (int round = 0; round < 3; round++) {
    CUlibrary library;
    CUkernel kernel;
    must(cuLibraryLoadData(&library, ptx.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    must(cuLibraryGetKernel(&kernel, library, "only_calls"));
    must(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 3, 1, 1, 100, 1, 1, 0, nullptr,
                        a.list, nullptr));
    expect("only_calls", 3, 100);
    must(cuCtxSetCurrent(nullptr));
    must(cuLibraryUnload(library));
    must(cuCtxSetCurrent(context));
  }
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
  if (strcmp(argv[4], "reset") == 0) reset(ptx, false);
  if (strcmp(argv[4], "unload and reset") == 0) reset(ptx, true);
  if (strcmp(argv[4], "modules") == 0) modules(ptx);
  if (strcmp(argv[4], "libraries") == 0) libraries(ptx);
  if (strcmp(argv[4], "graphs") == 0) graphs(ptx);
  if (strcmp(argv[4], "chains") == 0) chains(ptx);
  if (strcmp(argv[4], "unclear") == 0) unclear(ptx);
  if (strcmp(argv[4], "link") == 0) link_text(ptx, nullptr);
  if (strcmp(argv[4], "link a file") == 0) link_text(ptx, argv[1]);
  return 0;
}
