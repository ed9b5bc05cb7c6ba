// SPDX-License-Identifier: Apache-2.0
// N small launches in a row, or N launches of a kernel that is busy for a given time: for
// overheads.
//   launches N [MICROSECONDS]
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

__global__ void Busy(long long ns) {
  long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - start < ns);
}

int main(int argc, char **argv) {
  int n = argc > 1 ? std::atoi(argv[1]) : 100000;
  long long ns = argc > 2 ? std::atoll(argv[2]) * 1000 : 0;
  Busy<<<1, 32>>>(0);
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < n; i++) Busy<<<1, 32>>>(ns);
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%.6f\n", took.count());
  return 0;
}
