// SPDX-License-Identifier: Apache-2.0
/* Issues launches through the driver API and prints one line on stdout for each launch that a
 * complete record holds, in order:  kernel grid(3) block(3) shared device
 *
 * usage: program CUBIN SCENARIO [N] */
#include <cuda.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

extern "C" {
CUresult fake_runtime_launch(CUfunction, unsigned grid, unsigned block, CUstream, int nested,
                             int outer_bears);
CUresult fake_add_conditional(CUgraph);
CUresult fake_profiler(int start, int runtime);
void fake_reuse_handle(CUfunction, const char *);
int fake_synchronised();
CUresult cuLaunchKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, CUstream, void **, void **);
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned,
                                        unsigned, unsigned, unsigned, CUstream, void **);
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *, CUfunction, void **, void **);
CUresult cuGraphLaunch_ptsz(CUgraphExec, CUstream);
CUresult cuStreamCreate(CUstream *, unsigned);
}

static const char PLAIN[] = "plain", FLOAT[] = "_Z5scaleIfEvPT_S0_",
                  DOUBLE[] = "_Z5scaleIdEvPT_S0_";
static std::vector<char> cubin;
static CUcontext contexts[2];
static CUmodule module;
static CUfunction plain, scale_float, scale_double;
static std::map<CUfunction, const char *> names;

static void expect(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, int device = 0) {
  printf("%s %u %u %u %u %u %u %u %d\n", names[f], gx, gy, gz, bx, by, bz, shared, device);
}

static void must(CUresult result) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "driver call failed: %d\n", result);
  exit(9);
}

static void launch(CUfunction f, unsigned grid, unsigned block, CUstream stream = nullptr) {
  must(cuLaunchKernel(f, grid, 1, 1, block, 1, 1, 0, stream, nullptr, nullptr));
}

static CUDA_KERNEL_NODE_PARAMS node_params(CUfunction f, unsigned grid, unsigned block) {
  CUDA_KERNEL_NODE_PARAMS params = {};
  params.func = f;
  params.gridDimX = grid;
  params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
  params.blockDimX = block;
  return params;
}

/* Every launch call of the driver, a failing one, and copies between them. */
static void every() {
  CUstream stream, other;
  must(cuStreamCreate(&stream, 0));
  must(cuLaunchKernel(plain, 2, 3, 4, 32, 2, 1, 100, stream, nullptr, nullptr));
  expect(plain, 2, 3, 4, 32, 2, 1, 100);
  must(cuLaunchKernel_ptsz(scale_float, 5, 1, 1, 64, 1, 1, 0, nullptr, nullptr, nullptr));
  expect(scale_float, 5, 1, 1, 64, 1, 1, 0);
  must(cuMemcpyHtoD(0, nullptr, 4096));
  must(cuMemsetD8(0, 1, 100));
  CUlaunchConfig config = {};
  config.gridDimX = 6, config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 96, config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = 7;
  config.hStream = stream;
  must(cuLaunchKernelEx(&config, scale_double, nullptr, nullptr));
  expect(scale_double, 6, 1, 1, 96, 1, 1, 7);
  config.gridDimX = 8;
  config.hStream = nullptr;
  must(cuLaunchKernelEx_ptsz(&config, scale_double, nullptr, nullptr));
  expect(scale_double, 8, 1, 1, 96, 1, 1, 7);
  must(cuLaunchCooperativeKernel(plain, 9, 1, 1, 33, 1, 1, 0, stream, nullptr));
  expect(plain, 9, 1, 1, 33, 1, 1, 0);
  must(cuLaunchCooperativeKernel_ptsz(plain, 10, 1, 1, 1, 1, 1, 0, nullptr, nullptr));
  expect(plain, 10, 1, 1, 1, 1, 1, 0);
  cuCtxSetCurrent(contexts[1]);
  must(cuStreamCreate(&other, 0));
  launch(plain, 11, 32, other);
  expect(plain, 11, 1, 1, 32, 1, 1, 0, 1);
  cuCtxSetCurrent(contexts[0]);
  CUDA_LAUNCH_PARAMS list[2] = {{scale_float, 12, 1, 1, 32, 1, 1, 0, other, nullptr},
                                {plain, 13, 1, 1, 32, 1, 1, 0, stream, nullptr}};
  must(cuLaunchCooperativeKernelMultiDevice(list, 2, 0));
  expect(scale_float, 12, 1, 1, 32, 1, 1, 0, 1);
  expect(plain, 13, 1, 1, 32, 1, 1, 0, 0);
  must(cuLaunch(plain));
  expect(plain, 1, 1, 1, 0, 0, 0, 0);
  must(cuLaunchGrid(plain, 14, 2));
  expect(plain, 14, 2, 1, 0, 0, 0, 0);
  must(cuLaunchGridAsync(plain, 15, 2, stream));
  expect(plain, 15, 2, 1, 0, 0, 0, 0);
  for (unsigned i = 0; i < 4; i++) { /* every combination of nested calls and ids in records */
    must(fake_runtime_launch(scale_float, 16 + i, 32, stream, i & 1, i & 2));
    expect(scale_float, 16 + i, 1, 1, 32, 1, 1, 0);
  }
  if (cuLaunchKernel(plain, 0, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr) == CUDA_SUCCESS) exit(8);
  launch(plain, 17, 32);
  expect(plain, 17, 1, 1, 32, 1, 1, 0);
}

/* Captured, built and nested graphs; parameters changed, nodes switched off, graphs exchanged. */
static void graphs() {
  CUstream stream;
  CUgraph captured, built, child, fresh;
  CUgraphExec exec, exec2;
  must(cuStreamCreate(&stream, 0));
  must(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  launch(plain, 2, 32, stream);
  launch(scale_float, 3, 32, stream);
  launch(plain, 4, 32); /* another stream: runs at once */
  expect(plain, 4, 1, 1, 32, 1, 1, 0);
  must(cuStreamEndCapture(stream, &captured));
  must(cuGraphInstantiateWithFlags(&exec, captured, 0));
  for (int i = 0; i < 3; i++) {
    must(cuGraphLaunch(exec, stream));
    expect(plain, 2, 1, 1, 32, 1, 1, 0);
    expect(scale_float, 3, 1, 1, 32, 1, 1, 0);
  }

  must(cuGraphCreate(&child, 0));
  CUgraphNode inner, first, second, nested;
  CUDA_KERNEL_NODE_PARAMS params = node_params(scale_double, 5, 64);
  must(cuGraphAddKernelNode(&inner, child, nullptr, 0, &params));
  must(cuGraphCreate(&built, 0));
  /* Added last, runs first. */
  CUgraphNode holder[1];
  params = node_params(scale_float, 6, 32);
  must(cuGraphAddKernelNode(&second, built, nullptr, 0, &params));
  holder[0] = second;
  must(cuGraphAddChildGraphNode(&nested, built, holder, 1, child));
  holder[0] = nested;
  params = node_params(plain, 7, 32);
  must(cuGraphAddKernelNode(&first, built, holder, 1, &params));
  must(cuGraphInstantiateWithFlags(&exec2, built, 0));
  must(cuGraphLaunch_ptsz(exec2, stream));
  expect(scale_float, 6, 1, 1, 32, 1, 1, 0);
  expect(scale_double, 5, 1, 1, 64, 1, 1, 0);
  expect(plain, 7, 1, 1, 32, 1, 1, 0);
  params = node_params(plain, 8, 96);
  must(cuGraphExecKernelNodeSetParams(exec2, first, &params));
  must(cuGraphNodeSetEnabled(exec2, second, 0));
  must(cuGraphLaunch(exec2, stream));
  expect(scale_double, 5, 1, 1, 64, 1, 1, 0);
  expect(plain, 8, 1, 1, 96, 1, 1, 0);

  must(cuGraphCreate(&fresh, 0));
  params = node_params(plain, 9, 64);
  must(cuGraphAddKernelNode(&inner, fresh, nullptr, 0, &params));
  must(cuGraphExecChildGraphNodeSetParams(exec2, nested, fresh));
  must(cuGraphLaunch(exec2, stream));
  expect(plain, 9, 1, 1, 64, 1, 1, 0);
  expect(plain, 8, 1, 1, 96, 1, 1, 0);

  must(cuGraphCreate(&fresh, 0));
  params = node_params(scale_double, 21, 32);
  CUgraphNode a, b;
  must(cuGraphAddKernelNode(&a, fresh, nullptr, 0, &params));
  params = node_params(scale_double, 22, 32);
  must(cuGraphAddKernelNode(&b, fresh, &a, 1, &params));
  CUgraphExecUpdateResultInfo info;
  must(cuGraphExecUpdate(exec, fresh, &info));
  must(cuGraphLaunch(exec, stream));
  expect(scale_double, 21, 1, 1, 32, 1, 1, 0);
  expect(scale_double, 22, 1, 1, 32, 1, 1, 0);
  must(cuGraphExecDestroy(exec));
}

/* A kernel launched by the device is noted, and disturbs nothing. */
static void conditional() {
  CUstream stream;
  CUgraph graph;
  CUgraphExec exec;
  must(cuStreamCreate(&stream, 0));
  must(cuGraphCreate(&graph, 0));
  CUgraphNode node;
  CUDA_KERNEL_NODE_PARAMS params = node_params(plain, 2, 32);
  must(cuGraphAddKernelNode(&node, graph, nullptr, 0, &params));
  must(fake_add_conditional(graph));
  must(cuGraphInstantiateWithFlags(&exec, graph, 0));
  must(cuGraphLaunch(exec, stream));
  expect(plain, 2, 1, 1, 32, 1, 1, 0);
  launch(plain, 3, 32, stream);
  expect(plain, 3, 1, 1, 32, 1, 1, 0);
}

/* Many threads, each with its own streams; the grid's x says which thread, its y which launch.
 * */
static void threads(unsigned n) {
  std::vector<std::thread> all;
  for (unsigned t = 0; t < 4; t++)
    all.emplace_back([t, n] {
      cuCtxSetCurrent(contexts[t % 2]);
      CUstream streams[2];
      must(cuStreamCreate(&streams[0], 0));
      must(cuStreamCreate(&streams[1], 0));
      for (unsigned i = 1; i <= n; i++)
        must(cuLaunchKernel(i % 3 ? plain : scale_float, t + 1, i, 1, 32, 1, 1, 0, streams[i % 2],
                            nullptr, nullptr));
    });
  for (std::thread &one : all) one.join();
}

static void dense(unsigned n) {
  CUstream stream;
  must(cuStreamCreate(&stream, 0));
  timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (unsigned i = 0; i < n; i++) launch(plain, 1, 32, stream);
  clock_gettime(CLOCK_MONOTONIC, &b);
  fprintf(stderr, "ns_a_launch %.1f\n",
          ((b.tv_sec - a.tv_sec) * 1e9 + static_cast<double>(b.tv_nsec - a.tv_nsec)) / n);
}

/* Two stretches between start and stop, the second by the runtime's calls; starts and stops without
 * effect. The grid's x numbers the launches; the long kernels are still running at each stop. */
static void profiler() {
  CUstream stream;
  must(cuStreamCreate(&stream, 0));
  unsigned n = 1;
  auto launches = [&](unsigned count) {
    for (unsigned i = 0; i < count; i++) {
      must(cuLaunchKernel(plain, n, 1000, 1, 32, 1, 1, 0, stream, nullptr, nullptr));
      expect(plain, n++, 1000, 1, 32, 1, 1, 0);
    }
    fflush(stdout);
  };
  must(fake_profiler(0, 0));
  launches(2);
  must(fake_profiler(1, 0));
  launches(3);
  must(fake_profiler(1, 0));
  launches(2);
  must(fake_profiler(0, 0));
  must(fake_profiler(0, 1));
  launches(1);
  must(fake_profiler(1, 1));
  launches(1);
  must(fake_profiler(0, 1));
  launches(1);
  fprintf(stderr, "came to its end\n");
}

/* A child that never uses the device ends by itself; its parent goes on. */
static void forks() {
  launch(plain, 2, 32);
  expect(plain, 2, 1, 1, 32, 1, 1, 0);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) exit(0);
  int status = 0;
  waitpid(child, &status, 0);
  if (status) exit(7);
  launch(plain, 3, 32);
  expect(plain, 3, 1, 1, 32, 1, 1, 0);
}

/* A handle that refers to another kernel after its module was unloaded. */
static void reuse() {
  launch(plain, 2, 32);
  expect(plain, 2, 1, 1, 32, 1, 1, 0);
  must(cuModuleUnload(module));
  fake_reuse_handle(plain, FLOAT);
  names[plain] = FLOAT;
  launch(plain, 3, 32);
  expect(plain, 3, 1, 1, 32, 1, 1, 0);
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  FILE *file = fopen(argv[1], "rb");
  if (!file) return 2;
  char block[65536];
  size_t got;
  while ((got = fread(block, 1, sizeof block, file)) > 0)
    cubin.insert(cubin.end(), block, block + got);
  fclose(file);
  must(cuInit(0));
  must(cuDevicePrimaryCtxRetain(&contexts[0], 0));
  must(cuDevicePrimaryCtxRetain(&contexts[1], 1));
  cuCtxSetCurrent(contexts[0]);
  must(cuModuleLoadData(&module, cubin.data()));
  must(cuModuleGetFunction(&plain, module, PLAIN));
  must(cuModuleGetFunction(&scale_float, module, FLOAT));
  must(cuModuleGetFunction(&scale_double, module, DOUBLE));
  names = {{plain, PLAIN}, {scale_float, FLOAT}, {scale_double, DOUBLE}};
  unsigned n = argc > 3 ? static_cast<unsigned>(atoi(argv[3])) : 1000;
  std::string scenario = argv[2];
  if (scenario == "every") every();
  if (scenario == "graphs") graphs();
  if (scenario == "conditional") conditional();
  if (scenario == "threads") threads(n);
  if (scenario == "dense") dense(n);
  if (scenario == "reuse") reuse();
  if (scenario == "forks") forks();
  if (scenario == "profiler") profiler();
  if (scenario == "exit42") {
    launch(plain, 2, 32);
    expect(plain, 2, 1, 1, 32, 1, 1, 0);
    exit(42);
  }
  if (scenario == "killed") {
    launch(plain, 2, 32);
    expect(plain, 2, 1, 1, 32, 1, 1, 0);
    fflush(stdout);
    kill(getpid(), 9);
  }
  fprintf(stderr, "synchronised %d\n", fake_synchronised());
  return 0;
}
