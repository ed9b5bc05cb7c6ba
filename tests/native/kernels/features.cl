// SPDX-License-Identifier: Apache-2.0
// Features beyond plain control flow. Every kernel has the arguments (in, out) of 256
// ints, or says otherwise in tests/native/test_clinst_programs.py.

#pragma OPENCL EXTENSION cl_khr_fp64 : enable

constant int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;

typedef struct {
  int a;
  float b[3];
  short4 c;
} Parameters;

kernel void by_value(global const int *in, global int *out, Parameters p) {
  int i = get_global_id(0);
  if (in[i] > p.a) out[i] = in[i] * (int)p.b[i % 3] + p.c.z;
}

kernel void program_scope(global const int *in, global int *out) {
  int i = get_global_id(0), sum = 0;
  for (int j = 0; j < in[i]; j++) sum += table[j & 7];
  out[i] = sum;
}

kernel void private_array(global const int *in, global int *out) {
  int i = get_global_id(0), bins[5] = {0};
  for (int j = 0; j < 16; j++) bins[in[(i + j) & 255] % 5]++;
  out[i] = bins[0] + 10 * bins[1] + 100 * bins[2];
}

kernel void vectors(global const int4 *in, global int4 *out) {
  int i = get_global_id(0);
  int4 v = in[i];
  float4 f = convert_float4(v.wzyx) * (float4)(0.5f, 2, 3, 4);
  if (any(v > 9)) f = select(f, sqrt(f), v.xyzw > 4);
  out[i] = convert_int4_rte(f) + rotate(v, 3) + as_int4(hadd(v, v.yxwz));
  vstore4(vload4(i, (global const int *)in) * 2, i + 256, (global int *)out);
}

kernel void doubles(global const int *in, global double *out) {
  int i = get_global_id(0);
  double x = in[i];
  for (int j = 0; x > 1e-3 && j < 50; j++) x = fma(x, 0.5, -1e-4) * pow(1.01, -(double)j);
  out[i] = exp(x) + sin((double)in[i]);
}

kernel void integers(global const int *in, global int *out) {
  int i = get_global_id(0);
  uint x = in[i] * 2654435761u;
  out[i] = mad24(in[i], 3, 1) + clz(x) + popcount(x) + mul_hi(x, 77u) + clamp(in[i], 2, 7) +
           max(in[i], 4) + abs_diff(in[i], 5) + (int)upsample((short)1, (ushort)in[i]);
  if (x & 64) out[i] = -out[i];
}

kernel void atomics(global const int *in, global int *out) {
  local int sum, most;
  if (get_local_id(0) == 0) sum = most = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_add(&sum, in[get_global_id(0)]);
  if (in[get_global_id(0)] > 3) atomic_max(&most, in[get_global_id(0)]);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (get_local_id(0) == 1) out[get_group_id(0)] = sum * 100 + most;
  for (;;) {  // compare and swap until it holds
    int old = out[255];
    if (atomic_cmpxchg(&out[255], old, old + 1) == old) break;
  }
}

kernel void staged(global const int *in, global int *out) {
  local int part[32];
  event_t copied = async_work_group_copy(part, in + 32 * get_group_id(0), 32, 0);
  wait_group_events(1, &copied);
  int i = get_global_id(0);
  if (part[get_local_id(0)] & 1) out[i] = part[31 - get_local_id(0)];
}

// A jump into a loop: a cycle without a header.
kernel void jumps(global const int *in, global int *out) {
  int i = get_global_id(0), n = 0;
  if (in[i] & 1) goto middle;
first:
  n += 3;
  atomic_inc(&out[0]);
middle:
  n += 5;
  atomic_inc(&out[1]);
  if (n < 8 * in[i]) goto first;
  atomic_add(&out[2], n);
}

// A part that never ends and never runs, and one that is never reached.
kernel void endless(global const int *in, global int *out) {
  int i = get_global_id(0);
  if (in[i] > 1000) {
    for (;;) out[0]++;
  }
  out[i] = in[i];
  if (0) out[i] = 7;
}

kernel void unreachable(global const int *in, global int *out) {
  int i = get_global_id(0);
  switch (in[i] & 3) {
    case 0:
      out[i] = 1;
      break;
    case 1:
      out[i] = 5;
      break;
    case 2:
      atomic_inc(&out[i]);
      break;
    case 3:
      out[i] = 7;
      break;
    default:
      __builtin_unreachable();
  }
}

kernel void pixels(read_only image2d_t from, write_only image2d_t to, sampler_t given) {
  int2 at = (int2)(get_global_id(0), get_global_id(1));
  uint4 v = read_imageui(from, nearest, at) + read_imageui(from, given, at + (int2)(1, 0));
  if (v.x & 1) v.y += 3;
  write_imageui(to, at, v);
}

kernel __attribute__((reqd_work_group_size(32, 1, 1))) __attribute__((vec_type_hint(float4))) void
talks(global const int *in, global int *out) {
  int i = get_global_id(0);
  out[i] = in[i];
  if (i == 5) printf("%d says %s %.1f %v4hld\n", i, "hello", 2.5f, (int4)(1, 2, 3, 4));
  if (i == 5) printf("%v2hhx %v3hd %v4hhd %d\n", (uchar2)(1, 2), (short3)(3), (char4)(4), 5);
  if (i == 5) printf("%v8hhd %v2hld %v2hlf %d\n", (char8)(6), (int2)(7), (float2)(8), 9);
}

#ifdef cl_khr_made_up
#error the device has no such extension
#endif
kernel void configured(global const int *in, global int *out) {
  out[get_global_id(0)] = in[get_global_id(0)] + __OPENCL_VERSION__ + __OPENCL_C_VERSION__;
#ifdef cl_khr_fp16
  out[get_global_id(0)] = 16;
#endif
#ifdef cl_khr_int64_base_atomics
  out[get_global_id(0)] += 64;
#endif
#ifdef __IMAGE_SUPPORT__
  out[get_global_id(0)] += 2;
#endif
#ifdef __ENDIAN_LITTLE__
  out[get_global_id(0)] += 1000;
#endif
}
