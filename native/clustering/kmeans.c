/* SPDX-License-Identifier: Apache-2.0 */
/* Weighted k-means for a sweep over k.
 *
 * Lloyd steps with one upper and one lower bound per point (Hamerly, "Making k-means even faster",
 * SDM 2010), so most points are not examined; centres are added greedily (Arthur and Vassilvitskii,
 * "k-means++", SODA 2007, best of several draws) and removed where it costs least, so each k starts
 * from its neighbour's result. Distances are sums of squared differences in float (no cancellation
 * for points that nearly coincide), sums over points are double.
 *
 * Points are handled in parts whose number depends on the points alone, and partial sums are
 * reduced in the order of the parts: the result does not depend on the number of threads.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "select.h"

#define LANES 16
#define POINTS 4      /* scanned together: each load of a centre serves four points */
#define CANDIDATES 16 /* one vector of lanes: sixteen cost what one does */
#define PART_POINTS 2048
#define MAX_PARTS 64

/* Bounds are float and carry rounding of about dim x 2^-24; this covers it. */
#define SLACK 1.0001f

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

struct xps_sweep {
  uint64_t n, parts, rng;
  uint32_t dim, maxk, candidates, k, threads;
  const float *x;
  const double *weight;
  double norm2;       /* sum of weight x |x|^2 */
  double *sum, *mass; /* maxk x dim, maxk: of the present labels */
  float *centre;      /* maxk x dim */
  float *across;      /* dim x padded k: the centres, one lane each */
  float *move, *half; /* distance a centre moved; half the distance to the nearest other centre */
  float max_move, second_move;
  uint32_t max_mover;
  uint32_t *label;
  float *upper, *lower;         /* of the distance to the own and to the nearest other centre */
  double *delta;                /* parts x (maxk x (dim + 1)): change of sum and mass */
  uint64_t *changed;            /* parts */
  double *partial;              /* parts x max(CANDIDATES, maxk) */
  float *candidate;             /* CANDIDATES x dim */
  float *gap;                   /* maxk: distance of the new centre(s) to each centre */
  uint32_t home[CANDIDATES];    /* cluster of a candidate */
  float reach2[CANDIDATES];     /* its squared distance to that cluster's centre */
  uint8_t *hot;                 /* maxk: some candidate's home */
  uint32_t merged, merged_into; /* the clusters that become one */
  int split;                    /* the new centre halves its home instead of taking nearer points */
};

static uint32_t padded(uint32_t k) { return (k + LANES - 1) / LANES * LANES; }

static uint64_t part_start(const xps_sweep *s, uint64_t part) { return s->n * part / s->parts; }

static uint32_t partial_width(const xps_sweep *s) {
  return s->maxk > 3 * CANDIDATES ? s->maxk : 3 * CANDIDATES;
}

static double *part_delta(const xps_sweep *s, uint64_t part) {
  return s->delta + part * s->maxk * ((uint64_t)s->dim + 1);
}

/* ---- distances ------------------------------------------------------------------------------ */

/* Squared distances of four points to `width` transposed centres: out[point x width]. Each is
 * summed over d in order, whatever the register width. */
static inline __attribute__((always_inline)) void scan(const float *const p[POINTS],
                                                       const float *across, uint32_t width,
                                                       uint32_t dim, float *out) {
  for (uint32_t j = 0; j < width; j += LANES) {
    lanes a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0};
    for (uint32_t d = 0; d < dim; d++) {
      lanes c = *(const lanes *)(across + (uint64_t)d * width + j);
      lanes t0 = p[0][d] - c, t1 = p[1][d] - c, t2 = p[2][d] - c, t3 = p[3][d] - c;
      a0 += t0 * t0;
      a1 += t1 * t1;
      a2 += t2 * t2;
      a3 += t3 * t3;
    }
    *(lanes *)(out + j) = a0;
    *(lanes *)(out + width + j) = a1;
    *(lanes *)(out + 2 * width + j) = a2;
    *(lanes *)(out + 3 * width + j) = a3;
  }
}

/* Squared distance of two points. */
static inline __attribute__((always_inline)) float distance2(const float *a, const float *b,
                                                             uint32_t dim) {
  lanes sum = {0};
  uint32_t d = 0;
  float tail = 0.0f;
  for (; d + LANES <= dim; d += LANES) {
    lanes t = *(const lanes *)(a + d) - *(const lanes *)(b + d);
    sum += t * t;
  }
  for (; d < dim; d++) tail += (a[d] - b[d]) * (a[d] - b[d]);
  for (uint32_t half = LANES / 2; half; half /= 2)
    for (uint32_t l = 0; l < half; l++) sum[l] += sum[l + half];
  return sum[0] + tail;
}

static void lay_across(const float *centre, uint32_t k, uint32_t dim, float *across) {
  uint32_t width = padded(k);
  memset(across, 0, (uint64_t)width * dim * sizeof(float));
  for (uint32_t j = 0; j < k; j++)
    for (uint32_t d = 0; d < dim; d++)
      across[(uint64_t)d * width + j] = centre[(uint64_t)j * dim + d];
}

/* ---- one Lloyd step ------------------------------------------------------------------------- */

static void shift(double *delta, const float *x, double weight, uint32_t dim) {
  for (uint32_t d = 0; d < dim; d++) delta[d] += weight * (double)x[d];
  delta[dim] += weight;
}

/* Gives point i the label `to`, and its part the change of both clusters. */
static void relabel(xps_sweep *s, uint64_t part, uint64_t i, uint32_t to) {
  double *delta = part_delta(s, part);
  const float *x = s->x + i * s->dim;
  shift(delta + (uint64_t)s->label[i] * (s->dim + 1), x, -s->weight[i], s->dim);
  shift(delta + (uint64_t)to * (s->dim + 1), x, s->weight[i], s->dim);
  s->label[i] = to;
  s->changed[part]++;
}

XPS_CLONES static void scan_points(xps_sweep *s, uint64_t part, const uint64_t *index,
                                   uint32_t many, float *room) {
  uint32_t width = padded(s->k);
  const float *p[POINTS];
  for (uint32_t j = 0; j < POINTS; j++) p[j] = s->x + index[j < many ? j : 0] * s->dim;
  scan(p, s->across, width, s->dim, room);
  for (uint32_t j = 0; j < many; j++) {
    const float *row = room + j * width;
    uint64_t i = index[j];
    /* The present label wins ties, then the lowest: points do not wander between equal centres. */
    uint32_t best = s->label[i];
    float first = row[best], second = INFINITY;
    for (uint32_t c = 0; c < s->k; c++) {
      if (row[c] < first) {
        second = first;
        first = row[c];
        best = c;
      } else if (row[c] < second && c != best) {
        second = row[c];
      }
    }
    s->upper[i] = sqrtf(first);
    s->lower[i] = sqrtf(second);
    if (best != s->label[i]) relabel(s, part, i, best);
  }
}

/* Labels of one part under the present centres; `all` ignores the bounds. */
XPS_CLONES static void assign_part(xps_sweep *s, uint64_t part, int all) {
  uint64_t from = part_start(s, part), to = part_start(s, part + 1), index[POINTS];
  uint32_t many = 0;
  float *room = malloc(POINTS * padded(s->maxk) * sizeof(float));
  if (!room) {
    s->changed[part] = UINT64_MAX;
    return;
  }
  s->changed[part] = 0;
  memset(part_delta(s, part), 0, (uint64_t)s->k * (s->dim + 1) * sizeof(double));
  for (uint64_t i = from; i < to; i++) {
    uint32_t own = s->label[i];
    float upper = s->upper[i] + s->move[own];
    float lower = s->lower[i] - (own == s->max_mover ? s->second_move : s->max_move);
    s->upper[i] = upper;
    s->lower[i] = lower;
    float bound = lower > s->half[own] ? lower : s->half[own];
    if (!all && upper * SLACK < bound) continue;
    if (!all) {
      /* The upper bound may only be stale: one distance may save k of them. */
      upper = sqrtf(distance2(s->x + i * s->dim, s->centre + (uint64_t)own * s->dim, s->dim));
      s->upper[i] = upper;
      if (upper * SLACK < bound) continue;
    }
    index[many++] = i;
    if (many == POINTS) {
      scan_points(s, part, index, many, room);
      many = 0;
    }
  }
  if (many) scan_points(s, part, index, many, room);
  free(room);
}

/* First labels under given centres: all points count as changed, from nowhere. */
static void restart_work(void *context, uint64_t part) {
  xps_sweep *s = context;
  uint64_t from = part_start(s, part), to = part_start(s, part + 1);
  for (uint64_t i = from; i < to; i++) s->label[i] = 0;
  assign_part(s, part, 1);
  if (s->changed[part] == UINT64_MAX) return;
  /* assign_part subtracted the points from cluster 0, which was empty. */
  double *delta = part_delta(s, part);
  for (uint64_t i = from; i < to; i++) shift(delta, s->x + i * s->dim, s->weight[i], s->dim);
  s->changed[part] = to - from;
}

static void assign_work(void *context, uint64_t part) { assign_part(context, part, 0); }

/* Adds up the changes of the parts; UINT64_MAX: out of memory. */
static uint64_t reduce(xps_sweep *s) {
  uint64_t changes = 0;
  for (uint64_t part = 0; part < s->parts; part++) {
    if (s->changed[part] == UINT64_MAX) return UINT64_MAX;
    if (!s->changed[part]) continue;
    changes += s->changed[part];
    const double *delta = part_delta(s, part);
    for (uint32_t c = 0; c < s->k; c++, delta += s->dim + 1) {
      double *sum = s->sum + (uint64_t)c * s->dim;
      for (uint32_t d = 0; d < s->dim; d++) sum[d] += delta[d];
      s->mass[c] += delta[s->dim];
    }
  }
  return changes;
}

/* Half the distance from each centre to its nearest neighbour. */
XPS_CLONES static void neighbours(xps_sweep *s) {
  for (uint32_t a = 0; a < s->k; a++) s->half[a] = INFINITY;
  for (uint32_t a = 0; a < s->k; a++) {
    for (uint32_t b = a + 1; b < s->k; b++) {
      float d2 =
          distance2(s->centre + (uint64_t)a * s->dim, s->centre + (uint64_t)b * s->dim, s->dim);
      float half = 0.5f * sqrtf(d2) / SLACK;
      if (half < s->half[a]) s->half[a] = half;
      if (half < s->half[b]) s->half[b] = half;
    }
  }
}

/* Centres become the means of their clusters; the centre of an empty cluster stays. */
static void update_centres(xps_sweep *s) {
  s->max_move = s->second_move = 0.0f;
  s->max_mover = 0;
  for (uint32_t c = 0; c < s->k; c++) {
    double moved = 0.0;
    float *centre = s->centre + (uint64_t)c * s->dim;
    const double *sum = s->sum + (uint64_t)c * s->dim;
    for (uint32_t d = 0; s->mass[c] > 0.0 && d < s->dim; d++) {
      float mean = (float)(sum[d] / s->mass[c]);
      double step = (double)mean - (double)centre[d];
      moved += step * step;
      centre[d] = mean;
    }
    s->move[c] = (float)sqrt(moved) * SLACK;
    if (s->move[c] > s->max_move) {
      s->second_move = s->max_move;
      s->max_move = s->move[c];
      s->max_mover = c;
    } else if (s->move[c] > s->second_move) {
      s->second_move = s->move[c];
    }
  }
  lay_across(s->centre, s->k, s->dim, s->across);
  neighbours(s);
}

/* Sum of weight x squared distance to the clusters' means, from the sums alone. */
static double within(const xps_sweep *s) {
  double total = s->norm2;
  for (uint32_t c = 0; c < s->k; c++) {
    double square = 0.0;
    const double *sum = s->sum + (uint64_t)c * s->dim;
    for (uint32_t d = 0; d < s->dim; d++) square += sum[d] * sum[d];
    if (s->mass[c] > 0.0) total -= square / s->mass[c];
  }
  return total > 0.0 ? total : 0.0;
}

/* Steps until no label changes, or a step gains less than `tolerance` of the remaining sum. */
static int lloyd(xps_sweep *s, uint32_t iterations, double tolerance) {
  double before = within(s);
  for (uint32_t i = 0; i < iterations; i++) {
    update_centres(s);
    xps_parallel(s->threads, s->parts, assign_work, s);
    uint64_t changes = reduce(s);
    if (changes == UINT64_MAX) return XPS_EMEMORY;
    if (!changes) break;
    double now = within(s);
    if (before - now < tolerance * now) break;
    before = now;
  }
  return (int)s->k;
}

/* ---- one centre more ------------------------------------------------------------------------ */

/* Makes upper bounds exact, and adds up weight x squared distance. */
XPS_CLONES static void tighten_work(void *context, uint64_t part) {
  xps_sweep *s = context;
  double cost = 0.0;
  for (uint64_t i = part_start(s, part); i < part_start(s, part + 1); i++) {
    float d2 = distance2(s->x + i * s->dim, s->centre + (uint64_t)s->label[i] * s->dim, s->dim);
    s->upper[i] = sqrtf(d2);
    cost += s->weight[i] * (double)d2;
  }
  s->partial[part * partial_width(s)] = cost;
}

static double next_uniform(xps_sweep *s) {
  s->rng += XPS_GOLDEN;
  return (double)(xps_mix(s->rng) >> 11) * 0x1p-53;
}

/* The point where the running sum of weight x squared distance passes `target`. */
static uint64_t pick(const xps_sweep *s, double target) {
  uint64_t part = 0, last = 0;
  while (part + 1 < s->parts && target >= s->partial[part * partial_width(s)])
    target -= s->partial[part++ * partial_width(s)];
  last = part_start(s, part);
  for (uint64_t i = last; i < s->n; i++) {
    double cost = s->weight[i] * (double)s->upper[i] * (double)s->upper[i];
    if (cost > 0.0) last = i;
    if (target < cost) break;
    target -= cost;
  }
  return last;
}

/* Distance from each centre to the nearest candidate. */
XPS_CLONES static void candidate_gaps(xps_sweep *s, const float *candidate, uint32_t many) {
  for (uint32_t c = 0; c < s->k; c++) {
    float nearest = INFINITY;
    for (uint32_t j = 0; j < many; j++) {
      float d2 =
          distance2(s->centre + (uint64_t)c * s->dim, candidate + (uint64_t)j * s->dim, s->dim);
      if (d2 < nearest) nearest = d2;
    }
    s->gap[c] = sqrtf(nearest);
  }
}

/* Two ways to use a candidate. As a centre it saves weight x (squared distance now - then), where
 * positive. In many dimensions hardly any point is nearer to another point than to the mean, so it
 * may be better to halve its cluster by the plane through the centre, perpendicular to the line
 * from there to the candidate. This needs the weight and the sum of the offsets along the line, for
 * the candidate's half. */
XPS_CLONES static void candidate_work(void *context, uint64_t part) {
  xps_sweep *s = context;
  double *saved = s->partial + part * partial_width(s);
  double *half = saved + CANDIDATES, *offset = half + CANDIDATES;
  float room[POINTS * CANDIDATES];
  uint64_t index[POINTS], to = part_start(s, part + 1);
  uint32_t many = 0;
  memset(saved, 0, 3 * CANDIDATES * sizeof(double));
  for (uint64_t i = part_start(s, part); i <= to; i++) {
    /* Nearer to its own centre than half the way to any candidate: nothing to save. */
    if (i < to && !s->hot[s->label[i]] && 2.0f * s->upper[i] * SLACK < s->gap[s->label[i]])
      continue;
    if (i < to) index[many++] = i;
    if (!many || (many < POINTS && i < to)) continue;
    const float *p[POINTS];
    for (uint32_t j = 0; j < POINTS; j++) p[j] = s->x + index[j < many ? j : 0] * s->dim;
    scan(p, s->across, CANDIDATES, s->dim, room);
    for (uint32_t j = 0; j < many; j++) {
      float now = s->upper[index[j]] * s->upper[index[j]];
      double weight = s->weight[index[j]];
      for (uint32_t c = 0; c < s->candidates; c++) {
        float gain = now - room[j * CANDIDATES + c];
        float along = gain + s->reach2[c];
        saved[c] += gain > 0.0f ? weight * (double)gain : 0.0;
        if (along > 0.0f && s->label[index[j]] == s->home[c]) {
          half[c] += weight;
          offset[c] += weight * 0.5 * (double)along;
        }
      }
    }
    many = 0;
  }
}

/* The candidate that saves most, and how. Halves whose means lie a and b off the centre along the
 * line save at least what the line shows: offset^2 (1/half + 1/other half). */
static uint32_t best_candidate(xps_sweep *s) {
  double sum[3 * CANDIDATES] = {0}, most = -1.0;
  uint32_t best = 0;
  for (uint64_t part = 0; part < s->parts; part++)
    for (uint32_t c = 0; c < 3 * CANDIDATES; c++) sum[c] += s->partial[part * partial_width(s) + c];
  for (uint32_t c = 0; c < s->candidates; c++) {
    double half = sum[CANDIDATES + c], other = s->mass[s->home[c]] - half;
    double offset = sum[2 * CANDIDATES + c], saved = 0.0;
    if (half > 0.0 && other > 0.5 && s->reach2[c] > 0.0f)
      saved = offset * offset / (double)s->reach2[c] * (1.0 / half + 1.0 / other);
    if (sum[c] > most || saved > most) {
      s->split = saved > sum[c];
      most = s->split ? saved : sum[c];
      best = c;
    }
  }
  return best;
}

/* Moves points to the new (last) centre where it is nearer, and updates the other bounds. */
XPS_CLONES static void join_work(void *context, uint64_t part) {
  xps_sweep *s = context;
  uint32_t new = s->k - 1;
  const float *centre = s->centre + (uint64_t) new * s->dim;
  s->changed[part] = 0;
  memset(part_delta(s, part), 0, (uint64_t)s->k * (s->dim + 1) * sizeof(double));
  for (uint64_t i = part_start(s, part); i < part_start(s, part + 1); i++) {
    float upper = s->upper[i], gap = s->gap[s->label[i]];
    float distance = gap - upper;
    int at_home = s->split && s->label[i] == s->home[0];
    if (at_home || 2.0f * upper * SLACK >= gap) {
      float d2 = distance2(s->x + i * s->dim, centre, s->dim);
      distance = sqrtf(d2);
      if (at_home ? d2 < upper * upper + s->reach2[0] : distance < upper) {
        relabel(s, part, i, new);
        s->upper[i] = distance;
        distance = upper;
      }
    }
    if (distance / SLACK < s->lower[i]) s->lower[i] = distance / SLACK;
  }
}

/* Draws candidates and makes the best one centre k; 0 when every point lies on its centre. */
static int add_centre(xps_sweep *s) {
  double total = 0.0;
  uint32_t best, width = partial_width(s);
  xps_parallel(s->threads, s->parts, tighten_work, s);
  for (uint64_t part = 0; part < s->parts; part++) total += s->partial[part * width];
  if (total <= 0.0) return 0;
  memset(s->hot, 0, s->k);
  for (uint32_t c = 0; c < s->candidates; c++) {
    uint64_t i = pick(s, next_uniform(s) * total);
    s->home[c] = s->label[i];
    s->reach2[c] = s->upper[i] * s->upper[i];
    s->hot[s->label[i]] = 1;
    memcpy(s->candidate + (uint64_t)c * s->dim, s->x + i * s->dim, s->dim * sizeof(float));
  }
  candidate_gaps(s, s->candidate, s->candidates);
  lay_across(s->candidate, s->candidates, s->dim, s->across);
  xps_parallel(s->threads, s->parts, candidate_work, s);
  best = best_candidate(s);

  const float *chosen = s->candidate + (uint64_t)best * s->dim;
  s->home[0] = s->home[best];
  s->reach2[0] = s->reach2[best];
  candidate_gaps(s, chosen, 1);
  memcpy(s->centre + (uint64_t)s->k * s->dim, chosen, s->dim * sizeof(float));
  memset(s->sum + (uint64_t)s->k * s->dim, 0, s->dim * sizeof(double));
  s->mass[s->k] = 0.0;
  s->k++;
  xps_parallel(s->threads, s->parts, join_work, s);
  reduce(s);
  return 1;
}

static void first_work(void *context, uint64_t part) {
  xps_sweep *s = context;
  double *delta = part_delta(s, part), norm2 = 0.0;
  memset(delta, 0, (s->dim + 1) * sizeof(double));
  for (uint64_t i = part_start(s, part); i < part_start(s, part + 1); i++) {
    const float *x = s->x + i * s->dim;
    double square = 0.0;
    for (uint32_t d = 0; d < s->dim; d++) square += (double)x[d] * (double)x[d];
    norm2 += s->weight[i] * square;
    shift(delta, x, s->weight[i], s->dim);
    s->label[i] = 0;
    s->upper[i] = 0.0f;
    s->lower[i] = INFINITY;
  }
  s->changed[part] = part_start(s, part + 1) - part_start(s, part);
  s->partial[part * partial_width(s)] = norm2;
}

static void first_centre(xps_sweep *s) {
  s->k = 1;
  xps_parallel(s->threads, s->parts, first_work, s);
  for (uint64_t part = 0; part < s->parts; part++) s->norm2 += s->partial[part * partial_width(s)];
  reduce(s);
  update_centres(s);
}

/* ---- one centre less ------------------------------------------------------------------------ */

/* The last cluster takes the number of the one merged into its neighbour. */
static void merge_work(void *context, uint64_t part) {
  xps_sweep *s = context;
  uint32_t gone = s->merged, into = s->merged_into, last = s->k;
  for (uint64_t i = part_start(s, part); i < part_start(s, part + 1); i++) {
    if (s->label[i] == gone) {
      s->label[i] = into;
      s->upper[i] += s->gap[0];
    } else if (s->label[i] == last) {
      s->label[i] = gone;
    }
  }
}

/* Merges the two clusters whose union adds least to the sum of squares (Ward, 1963):
 * mass a x mass b / (mass a + mass b) x squared distance of the means. */
XPS_CLONES static void remove_centre(xps_sweep *s) {
  double least = INFINITY;
  update_centres(s);
  xps_parallel(s->threads, s->parts, assign_work, s);
  reduce(s);
  for (uint32_t a = 0; a < s->k; a++) {
    for (uint32_t b = a + 1; b < s->k; b++) {
      float d2 =
          distance2(s->centre + (uint64_t)a * s->dim, s->centre + (uint64_t)b * s->dim, s->dim);
      double both = s->mass[a] + s->mass[b];
      double loss = both > 0.0 ? s->mass[a] * s->mass[b] / both * (double)d2 : 0.0;
      if (loss < least) {
        least = loss;
        s->merged_into = a;
        s->merged = b;
        s->gap[0] = sqrtf(d2) * SLACK;
      }
    }
  }
  uint32_t into = s->merged_into, gone = s->merged, last = s->k - 1;
  double *sum = s->sum + (uint64_t)into * s->dim, *from = s->sum + (uint64_t)gone * s->dim;
  for (uint32_t d = 0; d < s->dim; d++) sum[d] += from[d];
  s->mass[into] += s->mass[gone];
  s->k = last;
  memmove(s->centre + (uint64_t)gone * s->dim, s->centre + (uint64_t)last * s->dim,
          s->dim * sizeof(float));
  memmove(from, s->sum + (uint64_t)last * s->dim, s->dim * sizeof(double));
  s->mass[gone] = s->mass[last];
  xps_parallel(s->threads, s->parts, merge_work, s);
}

/* ---- what Python calls ---------------------------------------------------------------------- */

xps_sweep *xps_sweep_new(uint64_t points, uint32_t dim, const float *x, const double *weight,
                         uint32_t maxk, uint32_t candidates, uint64_t seed, uint32_t threads) {
  xps_sweep *s = calloc(1, sizeof *s);
  if (!s || !points || !dim || !maxk || !candidates || candidates > CANDIDATES)
    return free(s), NULL;
  s->n = points;
  s->dim = dim;
  s->x = x;
  s->weight = weight;
  s->maxk = maxk;
  s->candidates = candidates;
  s->rng = xps_mix(seed + XPS_GOLDEN);
  s->threads = threads;
  s->parts = (points + PART_POINTS - 1) / PART_POINTS;
  if (s->parts > MAX_PARTS) s->parts = MAX_PARTS;
  uint64_t k = maxk, width = partial_width(s);
  s->sum = calloc(k * dim, sizeof(double));
  s->mass = calloc(k, sizeof(double));
  s->centre = calloc(k * dim, sizeof(float));
  s->across = calloc((uint64_t)padded(maxk > CANDIDATES ? maxk : CANDIDATES) * dim, sizeof(float));
  s->move = calloc(k, sizeof(float));
  s->half = calloc(k, sizeof(float));
  s->gap = calloc(k, sizeof(float));
  s->candidate = calloc((uint64_t)CANDIDATES * dim, sizeof(float));
  s->label = calloc(points, sizeof(uint32_t));
  s->upper = calloc(points, sizeof(float));
  s->lower = calloc(points, sizeof(float));
  s->hot = calloc(k, sizeof(uint8_t));
  s->delta = calloc(s->parts * k * ((uint64_t)dim + 1), sizeof(double));
  s->changed = calloc(s->parts, sizeof(uint64_t));
  s->partial = calloc(s->parts * width, sizeof(double));
  if (s->sum && s->mass && s->centre && s->across && s->move && s->half && s->gap && s->candidate &&
      s->hot && s->label && s->upper && s->lower && s->delta && s->changed && s->partial)
    return s;
  xps_sweep_free(s);
  return NULL;
}

void xps_sweep_free(xps_sweep *s) {
  if (!s) return;
  free(s->sum);
  free(s->mass);
  free(s->centre);
  free(s->across);
  free(s->move);
  free(s->half);
  free(s->gap);
  free(s->candidate);
  free(s->hot);
  free(s->label);
  free(s->upper);
  free(s->lower);
  free(s->delta);
  free(s->changed);
  free(s->partial);
  free(s);
}

int xps_sweep_grow(xps_sweep *s, uint32_t iterations, double tolerance) {
  if (!s->k) {
    first_centre(s);
    return 1;
  }
  if (s->k == s->maxk || !add_centre(s)) return (int)s->k;
  return lloyd(s, iterations, tolerance);
}

int xps_sweep_shrink(xps_sweep *s, uint32_t iterations, double tolerance) {
  if (s->k < 2) return (int)s->k;
  remove_centre(s);
  return lloyd(s, iterations, tolerance);
}

int xps_sweep_start(xps_sweep *s, uint32_t k, const float *centre, uint32_t iterations,
                    double tolerance) {
  if (!k || k > s->maxk) return XPS_EINPUT;
  if (!s->k) first_centre(s);
  s->k = k;
  memcpy(s->centre, centre, (uint64_t)k * s->dim * sizeof(float));
  lay_across(s->centre, k, s->dim, s->across);
  xps_parallel(s->threads, s->parts, restart_work, s);
  memset(s->sum, 0, (uint64_t)k * s->dim * sizeof(double));
  memset(s->mass, 0, k * sizeof(double));
  if (reduce(s) == UINT64_MAX) return XPS_EMEMORY;
  return lloyd(s, iterations, tolerance);
}

int xps_sweep_result(xps_sweep *s, double *wcss, double *mass, float *centre, uint32_t *label) {
  if (wcss) *wcss = within(s);
  if (mass) memcpy(mass, s->mass, s->k * sizeof(double));
  for (uint64_t i = 0; centre && i < (uint64_t)s->k * s->dim; i++)
    centre[i] = s->mass[i / s->dim] > 0.0 ? (float)(s->sum[i] / s->mass[i / s->dim]) : s->centre[i];
  if (label) memcpy(label, s->label, s->n * sizeof(uint32_t));
  return (int)s->k;
}

struct measure {
  uint64_t points, parts;
  uint32_t dim;
  const float *x, *centre;
  const uint32_t *label;
  float *out;
};

XPS_CLONES static void measure_work(void *context, uint64_t part) {
  const struct measure *m = context;
  for (uint64_t i = m->points * part / m->parts; i < m->points * (part + 1) / m->parts; i++)
    m->out[i] = distance2(m->x + i * m->dim, m->centre + (uint64_t)m->label[i] * m->dim, m->dim);
}

int xps_distances(uint64_t points, uint32_t dim, const float *x, const float *centre,
                  const uint32_t *label, uint32_t threads, float *distances) {
  struct measure m = {points, threads, dim, x, centre, label, distances};
  xps_parallel(threads, threads, measure_work, &m);
  return 0;
}

struct nearest {
  uint64_t points, parts;
  uint32_t dim, k;
  const float *x, *across;
  float *room; /* parts x POINTS x padded k */
  uint32_t *label;
};

XPS_CLONES static void nearest_work(void *context, uint64_t part) {
  const struct nearest *n = context;
  uint32_t width = padded(n->k);
  float *room = n->room + part * POINTS * width;
  uint64_t to = n->points * (part + 1) / n->parts;
  for (uint64_t i = n->points * part / n->parts; i < to; i += POINTS) {
    const float *p[POINTS];
    for (uint32_t j = 0; j < POINTS; j++) p[j] = n->x + (i + j < to ? i + j : i) * n->dim;
    scan(p, n->across, width, n->dim, room);
    for (uint32_t j = 0; j < POINTS && i + j < to; j++) {
      uint32_t best = 0;
      for (uint32_t c = 1; c < n->k; c++)
        if (room[j * width + c] < room[j * width + best]) best = c;
      n->label[i + j] = best;
    }
  }
}

int xps_nearest(uint64_t points, uint32_t dim, const float *x, uint32_t k, const float *centre,
                uint32_t threads, uint32_t *label) {
  float *across = calloc((uint64_t)padded(k) * dim, sizeof(float));
  float *room = calloc((uint64_t)threads * POINTS * padded(k), sizeof(float));
  struct nearest n = {points, threads, dim, k, x, across, room, label};
  int status = across && room && k ? 0 : XPS_EMEMORY;
  if (!status) {
    lay_across(centre, k, dim, across);
    xps_parallel(threads, threads, nearest_work, &n);
  }
  free(across);
  free(room);
  return status;
}
