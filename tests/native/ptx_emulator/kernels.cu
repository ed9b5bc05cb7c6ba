// SPDX-License-Identifier: Apache-2.0
/* Kernels for the tests of the PTX engine; nvcc makes their PTX. */
extern "C" __global__ void saxpy(unsigned n, float a, const float *x, float *y) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void straight(const unsigned *in, unsigned *out) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] * 3 + 1;
}

extern "C" __global__ void loops(const unsigned *in, unsigned *out, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned sum = 0;
  for (unsigned k = 0; k < in[i] % 7; k++) {
    if ((k ^ i) & 1)
      sum += in[(i + k) % n];
    else
      for (unsigned j = 0; j < (i & 3); j++) sum ^= in[(i + j) % n] * 3;
    if (sum > 5000) break;
  }
  out[i] = sum;
}

__device__ __noinline__ unsigned collatz(unsigned v) {
  unsigned steps = 0;
  while (v > 1 && steps < 100) {
    v = v & 1 ? 3 * v + 1 : v / 2;
    steps++;
  }
  return steps;
}

extern "C" __global__ void calls(const unsigned *in, unsigned *out) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, steps = 0;
  if (in[i] & 1) steps = collatz(in[i]);
  out[i] = steps + collatz(in[i] + 1);
}

extern "C" __global__ void only_calls(const unsigned *in, unsigned *out) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = collatz(in[i]);
}

extern "C" __global__ void also_calls(const unsigned *in, unsigned *out) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  for (unsigned k = 0; k < i % 3; k++) out[i] += collatz(in[i] + k);
}

extern "C" __global__ void reduce(const unsigned *in, unsigned *out) {
  __shared__ unsigned part[128];
  unsigned t = threadIdx.x + blockDim.x * threadIdx.y;
  part[t] = in[blockIdx.x * 128 + t];
  __syncthreads();
  for (unsigned k = 64; k > 0; k /= 2) {
    if (t < k) part[t] += part[t + k];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x + gridDim.x * blockIdx.y] = part[0];
}

extern "C" __global__ void cases(const unsigned *in, unsigned *out) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i], r = 0;
  switch (v % 9) {
    case 0:
      r = v * 3;
      break;
    case 1:
      for (unsigned k = 0; k < v % 5; k++) r += in[k];
      break;
    case 2:
      r = v / 3;
      break;
    case 3:
      r = v << 3;
      break;
    case 4:
      r = ~v;
      break;
    case 5:
      out[i] = 5;
      return;
    case 6:
      r = v % 17;
      break;
    case 7:
      r = v - 9;
      break;
    default:
      r = 1;
  }
  out[i] = r;
}

extern "C" __global__ void histogram(const unsigned *in, unsigned *out, unsigned n) {
  extern __shared__ unsigned bins[];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&bins[in[i] & 15], 1u);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}
