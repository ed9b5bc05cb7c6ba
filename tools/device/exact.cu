// SPDX-License-Identifier: Apache-2.0
// Kernels that count themselves, warp by warp, how often their loop body is entered: the expected
// result of the NVBit tool. Prints one JSON object per line: kernel, and a count for each warp.
//
// The leader of the entering lanes adds one, so diverged lanes of a warp count each time they are
// issued.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

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

template <typename Kernel, typename... More>
void Run(const char *name, Kernel kernel, dim3 grid, dim3 block, More... more) {
  unsigned warps = grid.x * grid.y * grid.z * ((block.x * block.y * block.z + 31) / 32);
  unsigned long long *mine;
  CHECK(cudaMalloc(&mine, warps * sizeof *mine));
  CHECK(cudaMemset(mine, 0, warps * sizeof *mine));
  kernel<<<grid, block>>>(mine, more...);
  CHECK(cudaDeviceSynchronize());
  std::vector<unsigned long long> counts(warps);
  CHECK(cudaMemcpy(counts.data(), mine, warps * sizeof *mine, cudaMemcpyDeviceToHost));
  std::printf("{\"kernel\": \"%s\", \"counts\": [", name);
  for (unsigned w = 0; w < warps; w++) std::printf("%s%llu", w ? ", " : "", counts[w]);
  std::printf("]}\n");
  CHECK(cudaFree(mine));
}

int main() {
  int *sink;
  CHECK(cudaMalloc(&sink, sizeof *sink));
  dim3 shapes[][2] = {
      {dim3(8), dim3(128)}, {dim3(3, 2, 2), dim3(5, 3, 2)}, {dim3(5, 3), dim3(33, 3)}};
  for (auto &shape : shapes) {
    Run("ByWarp", ByWarp, shape[0], shape[1]);
    Run("ByLane", ByLane, shape[0], shape[1]);
    Run("EarlyReturn", EarlyReturn, shape[0], shape[1]);
    Run("TwoSides", TwoSides, shape[0], shape[1], static_cast<volatile int *>(sink));
    Run("Calls", Calls, shape[0], shape[1]);
    Run("Barriers", Barriers, shape[0], shape[1]);
  }
  return 0;
}
