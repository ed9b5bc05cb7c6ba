/* SPDX-License-Identifier: Apache-2.0 */
/* Projection, merging and k-means on any values, not-a-number and infinity among them. */
#include <stdlib.h>
#include <string.h>

#include "select.h"

enum { DIM = 3, MAX_K = 5, THREADS = 2, CANDIDATES = 4 };

static void sweep_over(uint64_t points, const float *x, const double *weight, uint64_t seed) {
  xps_sweep *sweep = xps_sweep_new(points, DIM, x, weight, MAX_K, CANDIDATES, seed, THREADS);
  if (!sweep) return;
  double wcss, mass[MAX_K], offset[MAX_K * DIM], square[MAX_K];
  float centre[MAX_K * DIM], *distance2 = malloc(points * sizeof *distance2);
  uint32_t *label = malloc(points * sizeof *label);
  int k = 0;
  for (int i = 0; i < MAX_K; i++) k = xps_sweep_grow(sweep, 3, 1e-4);
  for (; k > 2; k--) k = xps_sweep_shrink(sweep, 3, 1e-4);
  if (k > 0 && xps_sweep_result(sweep, &wcss, mass, centre, label) >= 0) {
    if (xps_nearest(points, DIM, x, (uint32_t)k, centre, THREADS, label) >= 0 &&
        xps_distances(points, DIM, x, centre, label, THREADS, distance2) >= 0)
      xps_partial(points, DIM, x, weight, (uint32_t)k, centre, label, distance2, mass, offset,
                  square);
    xps_sweep_start(sweep, (uint32_t)k, centre, 2, 1e-4);
  }
  xps_sweep_free(sweep);
  free(distance2);
  free(label);
}

/* Input: pairs of a dimension (1 byte) and a value (8 bytes), a row of four pairs each. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { PAIR = 9, PAIRS = 4 };
  uint64_t rows = size / (PAIR * PAIRS);
  if (!rows || rows > 64) return 0;
  uint64_t row_start[65], dimension[64 * PAIRS], count[64 * PAIRS], first[64], points;
  double value[64 * PAIRS], weight[64], uniform[64], length[64];
  float x[64 * DIM];
  uint32_t point[64], group[64 * PAIRS];
  for (uint64_t i = 0; i < rows * PAIRS; i++) {
    dimension[i] = data[PAIR * i];
    memcpy(&value[i], data + PAIR * i + 1, sizeof value[i]);
  }
  for (uint64_t r = 0; r <= rows; r++) row_start[r] = r * PAIRS;
  for (uint64_t r = 0; r < rows; r++) weight[r] = 1 + (double)data[PAIR * r];
  if (xps_project_values(rows, row_start, dimension, value, size, DIM, THREADS, x, length))
    return 0;
  if (xps_merge(rows, DIM, x, point, first, &points) || points > rows) abort();
  for (uint64_t i = 0; i < rows * PAIRS; i++) {
    group[i] = (uint32_t)dimension[i] & 3;
    memcpy(&count[i], &value[i], sizeof count[i]);
  }
  if (xps_merge_cpu(rows, row_start, group, group, count, point, first, &points) || points > rows)
    abort();
  if (xps_draw(rows, DIM, x, size, uniform)) abort();
  sweep_over(rows, x, weight, size);
  return 0;
}
