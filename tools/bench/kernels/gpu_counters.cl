// SPDX-License-Identifier: Apache-2.0
// Small kernels in the manner of the public suites, for tools/bench/gpu_counters.py.

kernel void scale(global float *a, global float *b, global float *c, int n) {
  int i = get_global_id(0) + get_global_size(0) * get_global_id(1);
  if (i < n * n) c[i] = 2.0f * a[i] + b[i];
}

kernel void gemm(global float *a, global float *b, global float *c, int n) {
  int j = get_global_id(0), i = get_global_id(1);
  if (i < n && j < n) {
    c[i * n + j] *= 0.5f;
    for (int k = 0; k < n; k++) c[i * n + j] += 1.5f * a[i * n + k] * b[k * n + j];
  }
}

kernel void gemm_register(global float *a, global float *b, global float *c, int n) {
  int j = get_global_id(0), i = get_global_id(1);
  float sum = 0;
  for (int k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
  c[i * n + j] = sum;
}

// Tiles in local memory, two barriers per step.
kernel void gemm_tiled(global float *a, global float *b, global float *c, int n) {
  local float as[16][16], bs[16][16];
  int x = get_local_id(0), y = get_local_id(1), j = get_global_id(0), i = get_global_id(1);
  float sum = 0;
  for (int t = 0; t < n; t += 16) {
    as[y][x] = a[i * n + t + x];
    bs[y][x] = b[(t + y) * n + j];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < 16; k++) sum += as[y][k] * bs[k][x];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[i * n + j] = sum;
}

kernel void convolution(global float *a, global float *b, global float *c, int n) {
  int j = get_global_id(0), i = get_global_id(1);
  if (i > 0 && j > 0 && i < n - 1 && j < n - 1) {
    c[i * n + j] = 0.2f * a[(i - 1) * n + j - 1] + 0.5f * a[(i - 1) * n + j] -
                   0.8f * a[(i - 1) * n + j + 1] - 0.3f * a[i * n + j - 1] + 0.6f * a[i * n + j] -
                   0.9f * a[i * n + j + 1] + 0.4f * a[(i + 1) * n + j - 1] +
                   0.7f * a[(i + 1) * n + j] + 0.1f * a[(i + 1) * n + j + 1];
  }
}

kernel void fdtd(global float *a, global float *b, global float *c, int n) {
  int j = get_global_id(0), i = get_global_id(1);
  if (i < n && j < n) {
    if (i == 0)
      c[i * n + j] = b[j];
    else
      c[i * n + j] = c[i * n + j] - 0.5f * (a[i * n + j] - a[(i - 1) * n + j]);
  }
}

kernel void atax(global float *a, global float *b, global float *c, int n) {
  int i = get_global_id(0) + get_global_size(0) * get_global_id(1);
  if (i < n) {
    for (int j = 0; j < n; j++) c[i] += a[i * n + j] * b[j];
  }
}

kernel void correlation(global float *a, global float *b, global float *c, int n) {
  int j1 = get_global_id(0) + get_global_size(0) * get_global_id(1);
  if (j1 < n / 2) {
    c[j1 * n + j1] = 1.0f;
    for (int j2 = j1 + 1; j2 < n / 2; j2++) {
      c[j1 * n + j2] = 0.0f;
      for (int i = 0; i < n; i++) c[j1 * n + j2] += a[i * n + j1] * a[i * n + j2];
      c[j2 * n + j1] = c[j1 * n + j2];
    }
  }
}

kernel void mandelbrot(global float *a, global float *b, global float *c, int n) {
  int j = get_global_id(0), i = get_global_id(1), steps = 0;
  float cx = 3.0f * j / n - 2.0f, cy = 2.0f * i / n - 1.0f, x = 0, y = 0;
  while (x * x + y * y < 4.0f && steps < 100) {
    float t = x * x - y * y + cx;
    y = 2 * x * y + cy;
    x = t;
    steps++;
  }
  c[i * n + j] = steps;
}

kernel void collatz(global float *a, global float *b, global float *c, int n) {
  int i = get_global_id(0) + get_global_size(0) * get_global_id(1);
  uint x = i + 1, steps = 0;
  while (x != 1) {
    if (x & 1)
      x = 3 * x + 1;
    else
      x /= 2;
    if (x % 5 == 2) c[i] = x;
    steps++;
  }
  c[i] += steps;
}

// Rows of uneven length.
kernel void spmv(global float *a, global float *b, global float *c, int n) {
  int i = get_global_id(0) + get_global_size(0) * get_global_id(1);
  int length = (i * 7) % 64;
  float sum = 0;
  for (int k = 0; k < length; k++) sum += a[(i + k * 31) % (n * n)] * b[(i * k) % n];
  c[i] = sum;
}

kernel void bodies(global float *a, global float *b, global float *c, int n) {
  int i = get_global_id(0) + get_global_size(0) * get_global_id(1);
  if (i >= n) return;
  float force = 0;
  for (int j = 0; j < n; j++) {
    float d = a[j] - a[i];
    if (d * d < 0.01f) {
      force += d * rsqrt(d * d + 0.001f);
      if (j != i && d > 0) c[i] = force;
    }
  }
  b[i] = force;
}

kernel void reduction(global float *a, global float *b, global float *c, int n) {
  local float part[256];
  int l = get_local_id(0) + get_local_size(0) * get_local_id(1);
  int i = get_global_id(0) + get_global_size(0) * get_global_id(1);
  part[l] = a[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = get_local_size(0) * get_local_size(1) / 2; s > 0; s >>= 1) {
    if (l < s) part[l] += part[l + s];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (l == 0) c[get_group_id(0) + get_num_groups(0) * get_group_id(1)] = part[0];
}

kernel void bitonic(global float *a, global float *b, global float *c, int n) {
  int i = get_global_id(0) + get_global_size(0) * get_global_id(1);
  int other = i ^ 64;
  if (other > i) {
    float x = a[i], y = a[other];
    if ((i & 128) == 0 ? x > y : x < y) {
      c[i] = y;
      c[other] = x;
    } else {
      c[i] = x;
      c[other] = y;
    }
  }
}

// From here on: cases that should cost nothing. No branch at all ...
kernel void straight(global float *a, global float *b, global float *c, int n) {
  int i = get_global_id(0) + get_global_size(0) * get_global_id(1);
  c[i] = 2.0f * a[i] + b[i];
}

// ... a loop whose trip count only the launch knows ...
kernel void uniform_loop(global float *a, global float *b, global float *c, int n) {
  int i = get_global_id(0) + get_global_size(0) * get_global_id(1);
  float sum = a[i];
  for (int k = 0; k < n; k++) sum = 0.5f * sum + b[k];
  c[i] = sum;
}

// ... such loops nested ...
kernel void uniform_nest(global float *a, global float *b, global float *c, int n) {
  int i = get_global_id(0) + get_global_size(0) * get_global_id(1), few = n >> 4;
  float sum = a[i];
  for (int j = 0; j < few; j++) {
    sum += 1.0f;
    for (int k = 0; k < few; k++) sum = 0.5f * sum + b[j * few + k];
  }
  c[i] = sum;
}

// ... and next to data-dependent branches: the same nest for some work-items only.
kernel void mixed(global float *a, global float *b, global float *c, int n) {
  int i = get_global_id(0) + get_global_size(0) * get_global_id(1), few = n >> 4;
  float sum = a[i];
  if (sum > 0.25f) {
    for (int j = 0; j < few; j++) {
      if (n & 1) sum += 1.0f;
      for (int k = 0; k < few; k++) sum = 0.5f * sum + b[j * few + k];
    }
  }
  c[i] = sum;
}
