// SPDX-License-Identifier: Apache-2.0
// Kernels whose SASS has every kind of control flow; tests disassemble them, nothing runs them.
extern "C" __global__ void straight(float *x) { x[threadIdx.x] += 1; }

extern "C" __global__ void loop(float *x, int n) {
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < n; i++) sum = sum * 1.5f + x[i];
  x[threadIdx.x] = sum;
}

extern "C" __global__ void divergent(int *x, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  if (x[i] & 1) {
#pragma unroll 1
    for (int k = 0; k < x[i]; k++) atomicAdd(&x[k], i);
  } else {
    x[i] = __shfl_xor_sync(0xffffffffu, x[i], 1);
  }
  __syncwarp();
  x[i] += 1;
}

extern "C" __global__ void barriers(float *x) {
  __shared__ float s[256];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 32) x[threadIdx.x] = s[255 - threadIdx.x] * __sinf(s[threadIdx.x]);
  __syncthreads();
  x[threadIdx.x] += s[0];
}

extern "C" __global__ void switches(int *x, int which) {
  int v = x[threadIdx.x];
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
      v ^= x[4];
      x[5] = v;
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
      x[10] = __brev(v);
      break;
    case 8:
      x[11] = v << 3;
      x[12] = v >> 2;
      break;
    default:
      x[13] = 0;
  }
  x[threadIdx.x] = v;
}

__device__ __noinline__ int helper(int a, int b) {
#pragma unroll 1
  while (b) {
    int t = a % b;
    a = b;
    b = t;
  }
  return a;
}

__device__ __noinline__ int twice(int a, int b) { return helper(a, b) + helper(b, a); }

extern "C" __global__ void calls(int *x) {
  if (x[0] > 3)
    x[threadIdx.x] = twice(x[1], x[2]);
  else
    x[threadIdx.x] = helper(x[3], x[4]);
}
