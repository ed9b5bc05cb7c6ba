/* SPDX-License-Identifier: Apache-2.0 */
/* What one part of the points adds to a clustering over all of them: for points distributed over
 * several memories (xpuprof/clustering/distributed.py). */
#include <string.h>

#include "select.h"

int xps_partial(uint64_t points, uint32_t dim, const float *x, const double *weight, uint32_t k,
                const float *centre, const uint32_t *label, const float *distance2, double *mass,
                double *offset, double *square) {
  memset(mass, 0, k * sizeof(double));
  memset(square, 0, k * sizeof(double));
  memset(offset, 0, (uint64_t)k * dim * sizeof(double));
  for (uint64_t i = 0; i < points; i++) {
    if (label[i] >= k) return XPS_EINPUT;
    const float *row = x + i * dim, *from = centre + (uint64_t)label[i] * dim;
    double *to = offset + (uint64_t)label[i] * dim;
    /* Offsets from the centre, not the points themselves: nothing cancels. */
    for (uint32_t d = 0; d < dim; d++) to[d] += weight[i] * (double)(row[d] - from[d]);
    mass[label[i]] += weight[i];
    square[label[i]] += weight[i] * (double)distance2[i];
  }
  return 0;
}
