// SPDX-License-Identifier: Apache-2.0
// Kernels of known control flow: tests/native/test_clinst_counts.py models each by hand.

kernel void straight(global int *out) { out[get_global_id(0)] = 3 * get_global_id(0); }

kernel void guard(global const int *in, global int *out, int n) {
  int i = get_global_id(0);
  if (i < n) out[i] = in[i] * in[i];
}

// Both sides store, so that neither becomes a select.
kernel void branch(global const int *in, global int *out) {
  int i = get_global_id(0);
  if (in[i] & 1)
    out[i] = in[i] * 3;
  else
    out[get_global_size(0) + i] = in[i] / 7;
}

// The inner loop's length changes with the outer one's counter: known on entry.
kernel void triangle(global const int *in, global int *out, int n) {
  int i = get_global_id(0);
  int sum = 0;
  for (int j = 0; j < n; j++)
    for (int k = 0; k < j; k++) sum += in[j] * k;
  out[i] = sum;
}

// Each work-item has its own number of iterations, known only by running it.
kernel void collatz(global const int *in, global int *out) {
  int i = get_global_id(0);
  uint x = in[i] + 1;
  int steps = 0;
  while (x != 1) {
    if (x & 1) {
      x = 3 * x + 1;
      atomic_inc(&out[get_global_size(0)]);
    } else {
      x = x / 2;
    }
    steps++;
  }
  out[i] = steps;
}

kernel void early(global const int *in, global int *out, int n) {
  int i = get_global_id(0);
  if (i >= n) return;
  int sum = 0;
  for (int j = 0; j < 20; j++) {
    if (in[(i + j) % n] == 5) {
      out[i] = -j;
      return;
    }
    if (in[(i + j) % n] == 6) continue;
    if (in[(i + j) % n] == 7) break;
    sum += in[(i + j) % n];
    out[i] = sum;
  }
  out[i] += 100;
}

int triple(int x, global int *out) {
  if (x & 1) out[get_global_size(0)] = 0;
  return 3 * x;
}

int twice_triple(int x, global int *out) { return triple(x, out) + triple(x + 1, out); }

kernel void callee(global const int *in, global int *out) {
  int i = get_global_id(0);
  if (in[i] > 4) out[i] += twice_triple(in[i], out);
}

kernel void caller(global const int *in, global int *out) {
  int i = get_global_id(0);
  out[i] = 1;
  callee(in, out);
}

// Sum over the work-group with a barrier in the loop.
kernel void tree(global const int *in, global int *out, local int *part) {
  int l = get_local_id(0);
  part[l] = in[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int span = get_local_size(0) / 2; span > 0; span /= 2) {
    if (l < span) part[l] += part[l + span];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (l == 0) out[get_group_id(0)] = part[0];
}

// Barriers under a condition that is the same for the whole group, after an early return. No
// branch stands between the first one and the loop: PoCL 3.1, natively too, takes it always.
kernel void uniform_barriers(global const int *in, global int *out, int n, local int *part) {
  int i = get_global_id(0), l = get_local_id(0), size = get_local_size(0);
  part[l] = in[i];
  if (in[get_group_id(0)] == 3) {
    out[i] = -1;
    return;
  }
  if (n & 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    out[i] = part[(l + 1) % size];
  }
  for (int round = 0; round < n % 4 + 1; round++) {
    barrier(CLK_LOCAL_MEM_FENCE);
    int other = part[(l + round) % size];
    if (other > 5) {
      atomic_inc(&out[2 * get_global_size(0) + 1]);
      other -= 2;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    part[l] = other;
  }
  if (part[l] > 4) out[i] += part[l];
}

kernel void choose(global const int *in, global int *out) {
  int i = get_global_id(0);
  switch (in[i]) {
    case 1:
    case 2:
      out[i] = 10;
      break;
    case 3:
      out[i] = 20;  // falls through
    case 4:
      atomic_add(&out[get_global_size(0)], in[i]);
      break;
    case 9:
      return;
    default:
      out[i] = 30;
  }
  atomic_inc(&out[get_global_size(0) + 1]);
}

kernel void grid(global const int *in, global int *out) {
  size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
  size_t at = x + get_global_size(0) * (y + get_global_size(1) * z);
  int sum = 0;
  for (int j = 0; j < in[at]; j++) {
    if (in[j] > 3) {
      atomic_inc(&out[get_global_size(0) * get_global_size(1) * get_global_size(2)]);
    }
    sum += j;
  }
  out[at] = sum;
}

// More counters than are reduced at a time.
#define STEP(n)             \
  if (in[i + n] & 1)        \
    atomic_add(&out[i], n); \
  else                      \
    atomic_sub(&out[i + 1], 2 * n);
kernel void many(global const int *in, global int *out) {
  int i = get_global_id(0);
  STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) STEP(8) STEP(9) STEP(10) STEP(11)
}

kernel __attribute__((reqd_work_group_size(8, 6, 1))) void fixed(global const int *in,
                                                                 global int *out) {
  size_t at = get_global_id(0) + get_global_size(0) * get_global_id(1);
  int x = in[at];
  do {
    x -= 3;
    atomic_inc(&out[at]);
  } while (x > 0);
}

kernel void empty(void) {}

// An argument is the trip count as it stands, nothing to be extended or computed.
kernel void wide(global const int *in, global int *out, ulong wide_n) {
  int i = get_global_id(0);
  for (ulong j = 0; j < wide_n; j++) {
    if (in[j] > (i & 7)) atomic_inc(&out[i]);
  }
}

// Loops and branches that all work-items take alike, under and around such that they do not.
kernel void mixed(global const int *in, global int *out, int n) {
  int i = get_global_id(0), value = in[i];
  uint rounds = get_local_size(0) >> 3;
  if (n & 1) atomic_inc(&out[i]);
  if (value & 1) {
    for (int j = 0; j < (n & 7); j++) {
      for (uint k = 0; k < rounds; k++) {
        atomic_inc(&out[i]);
        if (n > 50) atomic_sub(&out[i], 3);
      }
      if (value > j) atomic_dec(&out[i]);
    }
  }
  while (value > 0) {
    if (n > 150)
      atomic_add(&out[i], value);
    else
      atomic_inc(&out[i]);
    value -= 2;
  }
}
