/* SPDX-License-Identifier: Apache-2.0 */
/* Random projection of sparse block vectors (SimPoint's, with rows hashed from identities). */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "select.h"

/* Rows of the projection matrix already made, direct-mapped: bounded however many blocks there are.
 * An evicted row is recomputed with the same values. */
struct rows {
  uint64_t seed;
  uint32_t dim;
  uint64_t mask;
  uint64_t *key; /* 0: empty */
  float *row;
};

#define CACHE_BYTES (UINT64_C(48) << 20)

static int rows_open(struct rows *rows, uint64_t seed, uint32_t dim, uint64_t dimensions) {
  uint64_t slots = 64, bytes = dim * sizeof(float) + sizeof(uint64_t);
  while (slots < 4 * dimensions && 2 * slots * bytes <= CACHE_BYTES) slots *= 2;
  rows->seed = xps_mix(seed + XPS_GOLDEN);
  rows->dim = dim;
  rows->mask = slots - 1;
  rows->key = calloc(slots, sizeof(uint64_t));
  rows->row = malloc(slots * dim * sizeof(float));
  return rows->key && rows->row ? 0 : XPS_EMEMORY;
}

static void rows_close(struct rows *rows) {
  free(rows->key);
  free(rows->row);
}

/* 24 random bits as a float in [-1, 1): exact in a float. */
static inline float unit(uint32_t bits) { return (float)((int32_t)bits >> 8) * 0x1p-23f; }

static void make_row(uint64_t start, uint32_t dim, float *row) {
  for (uint32_t d = 0; d < dim; d += 2) {
    uint64_t bits = xps_mix(start + (d + 1) * XPS_GOLDEN);
    row[d] = unit((uint32_t)bits);
    if (d + 1 < dim) row[d + 1] = unit((uint32_t)(bits >> 32));
  }
}

/* A dimension: a block within a group (thread, warp cell). */
static inline uint64_t dimension_key(uint64_t identity, uint64_t group) {
  return xps_mix(identity ^ xps_mix((group + 1) * XPS_GOLDEN)) | 1;
}

static inline const float *row_of(struct rows *rows, uint64_t key) {
  uint64_t slot = (key >> 20) & rows->mask;
  float *row = rows->row + slot * rows->dim;
  if (rows->key[slot] != key) {
    make_row(xps_mix(key ^ rows->seed), rows->dim, row);
    rows->key[slot] = key;
  }
  return row;
}

XPS_CLONES static void add_row(double *restrict sum, const float *restrict row, double value,
                               uint32_t dim) {
  for (uint32_t d = 0; d < dim; d++) sum[d] += value * (double)row[d];
}

static void finish_row(const double *sum, double length, uint32_t dim, float *out) {
  for (uint32_t d = 0; d < dim; d++) out[d] = length > 0.0 ? (float)(sum[d] / length) : 0.0f;
}

/* A projection of any kind: parts are consecutive rows, each worker has its own cache. */
struct job {
  uint64_t rows, parts, blocks, vectors, seed;
  const uint64_t *start, *end, *count, *identity, *run_length, *vector_start, *dimension;
  const uint32_t *group, *block, *instructions, *run_vector;
  const double *value;
  uint32_t dim, buckets;
  float *out;
  double *length;
  uint64_t dimensions;
  atomic_int status;
};

typedef int row_function(const struct job *, struct rows *, uint64_t row, double *sum,
                         double *length);

static int cpu_row(const struct job *job, struct rows *rows, uint64_t row, double *sum,
                   double *length) {
  for (uint64_t i = job->start[row]; i < job->end[row]; i++) {
    uint32_t block = job->block[i];
    if (block >= job->blocks) return XPS_EINPUT;
    double value = (double)job->count[i] * job->instructions[block];
    uint64_t key = dimension_key(job->identity[block], job->group[i]);
    add_row(sum, row_of(rows, key), value, job->dim);
    *length += value;
  }
  return 0;
}

static int value_row(const struct job *job, struct rows *rows, uint64_t row, double *sum,
                     double *length) {
  for (uint64_t i = job->start[row]; i < job->start[row + 1]; i++) {
    add_row(sum, row_of(rows, dimension_key(job->dimension[i], 0)), job->value[i], job->dim);
    *length += job->value[i];
  }
  return 0;
}

/* Adds `share` warps with vector `vector` to cell `cell`. */
static void add_vector(const struct job *job, struct rows *rows, uint32_t vector, double share,
                       uint64_t cell, double *sum) {
  for (uint64_t i = job->vector_start[vector]; i < job->vector_start[vector + 1]; i++) {
    uint32_t block = job->block[i];
    double value = (double)job->count[i] * job->instructions[block] * share;
    add_row(sum, row_of(rows, dimension_key(job->identity[block], cell)), value, job->dim);
  }
}

/* Instructions of one warp; negative when the vector is invalid. */
static double vector_length(const struct job *job, uint32_t vector) {
  double length = 0.0;
  if (vector >= job->vectors) return -1.0;
  for (uint64_t i = job->vector_start[vector]; i < job->vector_start[vector + 1]; i++) {
    if (job->block[i] >= job->blocks) return -1.0;
    length += (double)job->count[i] * job->instructions[job->block[i]];
  }
  return length;
}

static int gpu_row(const struct job *job, struct rows *rows, uint64_t row, double *sum,
                   double *length) {
  double warps = 0.0, before = 0.0;
  for (uint64_t r = job->start[row]; r < job->start[row + 1]; r++)
    warps += (double)job->run_length[r];
  for (uint64_t r = job->start[row]; r < job->start[row + 1]; r++) {
    double from = before, to = before + (double)job->run_length[r];
    double instructions = vector_length(job, job->run_vector[r]);
    if (instructions < 0.0) return XPS_EINPUT;
    uint64_t cell = (uint64_t)(from * job->buckets / warps);
    before = to;
    for (; cell < job->buckets && from < to; cell++) {
      double end = (double)(cell + 1) * warps / job->buckets;
      double share = (end < to && cell + 1 < job->buckets ? end : to) - from;
      if (share <= 0.0) continue;
      add_vector(job, rows, job->run_vector[r], share, cell, sum);
      from += share;
    }
    *length += instructions * (double)job->run_length[r];
  }
  return 0;
}

struct call {
  struct job *job;
  row_function *function;
};

static void project_part(void *context, uint64_t part) {
  struct call *call = context;
  struct job *job = call->job;
  uint64_t from = job->rows * part / job->parts, to = job->rows * (part + 1) / job->parts;
  struct rows rows = {0};
  double *sum = malloc(job->dim * sizeof(double));
  int status = sum ? rows_open(&rows, job->seed, job->dim, job->dimensions) : XPS_EMEMORY;
  for (uint64_t row = from; !status && row < to; row++) {
    double length = 0.0;
    memset(sum, 0, job->dim * sizeof(double));
    status = call->function(job, &rows, row, sum, &length);
    finish_row(sum, length, job->dim, job->out + row * job->dim);
    job->length[row] = length;
  }
  if (status) atomic_store(&job->status, status);
  rows_close(&rows);
  free(sum);
}

static int project(struct job *job, row_function *function, uint32_t threads) {
  struct call call = {job, function};
  if (!job->dim) return XPS_EINPUT;
  job->parts = threads;
  atomic_init(&job->status, 0);
  xps_parallel(threads, threads, project_part, &call);
  return atomic_load(&job->status);
}

int xps_project_cpu(uint64_t rows, const uint64_t *start, const uint64_t *end,
                    const uint32_t *thread, const uint32_t *block, const uint64_t *count,
                    uint64_t blocks, const uint64_t *identity, const uint32_t *instructions,
                    uint64_t seed, uint32_t dim, uint32_t threads, float *out, double *length) {
  struct job job = {.rows = rows,
                    .start = start,
                    .end = end,
                    .group = thread,
                    .block = block,
                    .count = count,
                    .blocks = blocks,
                    .identity = identity,
                    .instructions = instructions,
                    .seed = seed,
                    .dim = dim,
                    .out = out,
                    .length = length,
                    .dimensions = 2 * blocks};
  return project(&job, cpu_row, threads);
}

int xps_project_gpu(uint64_t grids, const uint64_t *grid_start, const uint32_t *run_vector,
                    const uint64_t *run_length, uint64_t vectors, const uint64_t *vector_start,
                    const uint32_t *block, const uint64_t *count, uint64_t blocks,
                    const uint64_t *identity, const uint32_t *instructions, uint32_t buckets,
                    uint64_t seed, uint32_t dim, uint32_t threads, float *out, double *length) {
  struct job job = {.rows = grids,
                    .start = grid_start,
                    .run_vector = run_vector,
                    .run_length = run_length,
                    .vectors = vectors,
                    .vector_start = vector_start,
                    .block = block,
                    .count = count,
                    .blocks = blocks,
                    .identity = identity,
                    .instructions = instructions,
                    .buckets = buckets,
                    .seed = seed,
                    .dim = dim,
                    .out = out,
                    .length = length,
                    .dimensions = blocks * buckets};
  if (!buckets) return XPS_EINPUT;
  return project(&job, gpu_row, threads);
}

int xps_project_values(uint64_t rows, const uint64_t *row_start, const uint64_t *dimension,
                       const double *value, uint64_t seed, uint32_t dim, uint32_t threads,
                       float *out, double *length) {
  struct job job = {.rows = rows,
                    .start = row_start,
                    .dimension = dimension,
                    .value = value,
                    .seed = seed,
                    .dim = dim,
                    .out = out,
                    .length = length,
                    .dimensions = 16384};
  return project(&job, value_row, threads);
}
