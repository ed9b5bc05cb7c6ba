// SPDX-License-Identifier: Apache-2.0
// The kernels whose names and cubin the stand-in driver's tests use; nothing runs them.
extern "C" __global__ void plain(float *x) { x[threadIdx.x] += 1; }
template <typename T>
__global__ void scale(T *x, T by) {
  x[threadIdx.x] *= by;
}
template __global__ void scale<float>(float *, float);
template __global__ void scale<double>(double *, double);
