/* SPDX-License-Identifier: Apache-2.0 */
/* Pair forces of soft spheres from a neighbour list, the leap-frog step, and the energy. */

/* The same rounding on every device: trajectories must not depend on whether it has FMA. */
#pragma OPENCL FP_CONTRACT OFF

/* Padded neighbour lists: entry j of particle i is list[j * n + i]; count[i] of them hold. */
kernel void forces(global const float4 *position, global const int *list, global const int *count,
                   int n, float box, float cutoff, global float4 *force) {
  int i = get_global_id(0);
  if (i >= n) return;
  float4 me = position[i];
  float3 sum = (float3)(0.0f);
  float potential = 0.0f;
  for (int j = 0; j < count[i]; j++) {
    float4 other = position[list[j * n + i]];
    float3 d = me.xyz - other.xyz;
    d -= box * rint(d / box);
    float r2 = dot(d, d);
    if (r2 < cutoff * cutoff) {
      float r = sqrt(r2);
      float overlap = cutoff - r;
      sum += d * (overlap / r);
      potential += 0.25f * overlap * overlap; /* half of each pair's energy */
    }
  }
  force[i] = (float4)(sum, potential);
}

kernel void integrate(global float4 *position, global float4 *velocity, global const float4 *force,
                      int n, float dt, float box) {
  int i = get_global_id(0);
  if (i >= n) return;
  float3 v = velocity[i].xyz + dt * force[i].xyz;
  float3 p = position[i].xyz + dt * v;
  p -= box * floor(p / box);
  velocity[i].xyz = v;
  position[i].xyz = p;
}

/* Sums kinetic and potential energy, one pair per work-group, by a tree in local memory. */
kernel void energy(global const float4 *velocity, global const float4 *force, int n,
                   global float2 *partial, local float2 *tree) {
  int i = get_global_id(0), lid = get_local_id(0);
  float2 mine = (float2)(0.0f);
  if (i < n) {
    float3 v = velocity[i].xyz;
    mine = (float2)(0.5f * dot(v, v), force[i].w);
  }
  tree[lid] = mine;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = get_local_size(0) / 2; half_size > 0; half_size /= 2) {
    if (lid < half_size) tree[lid] += tree[lid + half_size];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lid == 0) partial[get_group_id(0)] = tree[0];
}
