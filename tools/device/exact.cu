// SPDX-License-Identifier: Apache-2.0
// Kernels that count themselves, warp by warp, how often a block is entered: what the tools must
// find in the same run. For each launch a JSON object is written, one a line: kernel, a count for
// each warp, and in how many blocks the kernel counts.
//   exact FILE CASE...     (basic brx pointers shared clusters wgmma streams graph)
//
// The leader of the entering lanes adds one, so diverged lanes of a warp count each time they are
// issued. How lanes diverge is the hardware's choice: counts of another run may differ.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WGMMA 1
#endif

#define CHECK(call)                                                               \
  do {                                                                            \
    cudaError_t status = (call);                                                  \
    if (status != cudaSuccess) {                                                  \
      std::fprintf(stderr, "exact: %s: %s\n", #call, cudaGetErrorString(status)); \
      std::exit(1);                                                               \
    }                                                                             \
  } while (0)

__device__ unsigned Warp() {
  unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  return block * ((threads + 31) / 32) + thread / 32;
}

__device__ unsigned Lane() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}

__device__ void Count(unsigned long long *mine) {
  unsigned active = __activemask();
  if (Lane() == __ffs(active) - 1) atomicAdd(&mine[Warp()], 1ull);
}

__global__ void ByWarp(unsigned long long *mine) {
#pragma unroll 1
  for (unsigned i = 0; i < Warp() % 7 + 1; i++) Count(mine);
}

__global__ void ByLane(unsigned long long *mine) {
#pragma unroll 1
  for (unsigned i = 0; i <= Lane(); i++) Count(mine);
}

__global__ void EarlyReturn(unsigned long long *mine) {
  if (Warp() % 2 || Lane() > 20) return;
#pragma unroll 1
  for (unsigned i = 0; i < 3 + Lane() / 7; i++) Count(mine);
}

__global__ void TwoSides(unsigned long long *mine, volatile int *sink) {
  if (Lane() % 3 == 0) {
#pragma unroll 1
    for (unsigned i = 0; i < 5; i++) Count(mine);
  } else {
#pragma unroll 1
    for (unsigned i = 0; i < 11; i++) *sink = i;
  }
  __syncwarp();
  *sink = 0;
}

__device__ __noinline__ void Called(unsigned long long *mine, unsigned n) {
#pragma unroll 1
  for (unsigned i = 0; i < n; i++) Count(mine);
}

__global__ void Calls(unsigned long long *mine) {
  Called(mine, Warp() % 5);
  __syncthreads();
  if (Warp() % 3 == 0) Called(mine, 2);
}

__global__ void Barriers(unsigned long long *mine) {
  __shared__ volatile int turn[1024];
  unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
#pragma unroll 1
  for (unsigned i = 0; i < 4; i++) {
    turn[thread] = i;
    __syncthreads();
    Count(mine);
    __syncthreads();
  }
}

/* The same function under another kernel. */
__global__ void AlsoCalls(unsigned long long *mine) { Called(mine, 1 + Warp() % 2); }

/* A branch table: each side has a body of its own. */
__global__ void Table(unsigned long long *mine, int *x, int which) {
  int v = x[threadIdx.x % 16];
  switch (which) {
    case 0:
      v = v * 3 + 1;
      x[1] = v;
      break;
    case 1:
      v = __popc(v);
      x[2] = v;
      break;
    case 2:
      atomicAdd(&x[3], v);
      break;
    case 3:
#pragma unroll 1
      for (unsigned i = 0; i < Warp() % 5 + 1; i++) Count(mine);
      break;
    case 4:
      x[6] = v / 7;
      break;
    case 5:
      x[7] = v % 11;
      break;
    case 6:
      v = max(v, x[8]);
      x[9] = v;
      break;
    case 7:
#pragma unroll 1
      for (unsigned i = 0; i <= Lane() / 9; i++) Count(mine);
      x[10] = __brev(v);
      break;
    case 8:
      x[11] = v << 3;
      x[12] = v >> 2;
      break;
    default:
      x[13] = 0;
  }
  x[threadIdx.x % 16] = v;
}

using Step = void (*)(unsigned long long *, unsigned);
__device__ __noinline__ void Twice(unsigned long long *mine, unsigned n) {
#pragma unroll 1
  for (unsigned i = 0; i < 2 * n; i++) Count(mine);
}
__device__ Step steps[2] = {Called, Twice};

__global__ void Pointers(unsigned long long *mine) { steps[Warp() % 2](mine, 1 + Warp() % 3); }

/* Blocks of a cluster wait for one another; below sm_90 each block is alone. */
__global__ void Clusters(unsigned long long *mine) {
#pragma unroll 1
  for (unsigned i = 0; i < 2 + Warp() % 3; i++) Count(mine);
#if __CUDA_ARCH__ >= 900
  cooperative_groups::this_cluster().sync();
#endif
}

/* The matrix unit of Hopper, by whole warp groups. */
__global__ void Wgmma(unsigned long long *mine, volatile int *sink) {
#ifdef HAS_WGMMA
  __shared__ alignas(128) unsigned char tiles[4096];
  float d[4] = {};
  unsigned long long at = (__cvta_generic_to_shared(tiles) & 0x3ffff) >> 4;
  for (unsigned i = threadIdx.x; i < sizeof tiles; i += blockDim.x) tiles[i] = 0;
  __syncthreads();
#pragma unroll 1
  for (unsigned i = 0; i < 3 + blockIdx.x % 2; i++) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(at));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    Count(mine);
  }
  *sink = static_cast<int>(d[0] + d[1] + d[2] + d[3]);
#endif
}

static FILE *results;

/* The counts of one launch to come, and where they are written afterwards. */
struct Counts {
  Counts(const char *kernel, dim3 grid, dim3 block, unsigned parts = 1)
      : name(kernel), blocks(parts) {
    warps = grid.x * grid.y * grid.z * ((block.x * block.y * block.z + 31) / 32);
    CHECK(cudaMalloc(&mine, warps * sizeof *mine));
    Clear();
  }
  void Clear() {
    CHECK(cudaMemset(mine, 0, warps * sizeof *mine));
    CHECK(cudaDeviceSynchronize());
  }
  void Write() const {
    std::vector<unsigned long long> counts(warps);
    CHECK(cudaMemcpy(counts.data(), mine, warps * sizeof *mine, cudaMemcpyDeviceToHost));
    std::fprintf(results, "{\"kernel\": \"%s\", \"blocks\": %u, \"counts\": [", name, blocks);
    for (unsigned w = 0; w < warps; w++) std::fprintf(results, "%s%llu", w ? ", " : "", counts[w]);
    std::fprintf(results, "]}\n");
  }
  const char *name;
  unsigned blocks, warps;
  unsigned long long *mine;
};

template <typename Kernel, typename... More>
void RunParts(unsigned blocks, const char *name, Kernel kernel, dim3 grid, dim3 block,
              More... more) {
  Counts counts(name, grid, block, blocks);
  kernel<<<grid, block>>>(counts.mine, more...);
  CHECK(cudaDeviceSynchronize());
  counts.Write();
  CHECK(cudaFree(counts.mine));
}

template <typename Kernel, typename... More>
void Run(const char *name, Kernel kernel, dim3 grid, dim3 block, More... more) {
  RunParts(1, name, kernel, grid, block, more...);
}

static volatile int *sink;
static const dim3 shapes[][2] = {
    {dim3(8), dim3(128)}, {dim3(3, 2, 2), dim3(5, 3, 2)}, {dim3(5, 3), dim3(33, 3)}};

static void Basic() {
  for (auto &shape : shapes) {
    Run("ByWarp", ByWarp, shape[0], shape[1]);
    Run("ByLane", ByLane, shape[0], shape[1]);
    Run("EarlyReturn", EarlyReturn, shape[0], shape[1]);
    Run("TwoSides", TwoSides, shape[0], shape[1], sink);
    Run("Calls", Calls, shape[0], shape[1]);
    Run("Barriers", Barriers, shape[0], shape[1]);
  }
}

static void Brx() {
  for (auto &shape : shapes)
    for (int which : {3, 7})
      Run("Table", Table, shape[0], shape[1], const_cast<int *>(sink), which);
}

static void FunctionPointers() {
  for (auto &shape : shapes) RunParts(2, "Pointers", Pointers, shape[0], shape[1]);
}

static void SharedFunctions() {
  for (auto &shape : shapes) {
    Run("Calls", Calls, shape[0], shape[1]);
    Run("AlsoCalls", AlsoCalls, shape[0], shape[1]);
    Run("Calls", Calls, shape[0], shape[1]);
  }
}

static bool IsHopper(bool or_later) {
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  return or_later ? device.major >= 9 : device.major == 9;
}

static void InClusters() {
  if (!IsHopper(true)) return;
  dim3 grid(8), block(96);
  Counts counts("Clusters", grid, block);
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = 2;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.attrs = &cluster;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, Clusters, counts.mine));
  CHECK(cudaDeviceSynchronize());
  counts.Write();
}

static void MatrixUnit() {
  if (IsHopper(false)) Run("Wgmma", Wgmma, dim3(6), dim3(128), sink);
}

/* 200 launches in four streams; the host waits once. */
static void Streams() {
  cudaStream_t streams[4];
  std::vector<Counts> all;
  for (cudaStream_t &stream : streams) CHECK(cudaStreamCreate(&stream));
  for (unsigned i = 0; i < 200; i++) all.emplace_back("ByWarp", dim3(1 + i % 7), dim3(64));
  for (unsigned i = 0; i < 200; i++) ByWarp<<<1 + i % 7, 64, 0, streams[i * 7 % 4]>>>(all[i].mine);
  CHECK(cudaDeviceSynchronize());
  for (const Counts &counts : all) counts.Write();
}

/* A captured graph in which a kernel stands twice, launched three times. */
static void Graph() {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  std::vector<Counts> nodes;
  for (unsigned i = 0; i < 3; i++) nodes.emplace_back(i == 1 ? "Calls" : "ByWarp", 2 + i, 64);
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ByWarp<<<2, 64, 0, stream>>>(nodes[0].mine);
  Calls<<<3, 64, 0, stream>>>(nodes[1].mine);
  ByWarp<<<4, 64, 0, stream>>>(nodes[2].mine);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; i++) {
    for (Counts &node : nodes) node.Clear();
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (const Counts &node : nodes) node.Write();
  }
}

int main(int argc, char **argv) {
  const struct {
    const char *name;
    void (*run)();
  } cases[] = {{"basic", Basic},
               {"brx", Brx},
               {"pointers", FunctionPointers},
               {"shared", SharedFunctions},
               {"clusters", InClusters},
               {"wgmma", MatrixUnit},
               {"streams", Streams},
               {"graph", Graph}};
  results = argc > 1 ? std::fopen(argv[1], "w") : nullptr;
  if (!results) return std::fprintf(stderr, "usage: exact FILE CASE...\n"), 2;
  CHECK(cudaMalloc(const_cast<int **>(&sink), 16 * sizeof *sink));
  for (int i = 2; i < argc; i++)
    for (auto &one : cases)
      if (std::strcmp(argv[i], one.name) == 0) one.run();
  return std::fclose(results);
}
