/* SPDX-License-Identifier: Apache-2.0 */
/* Interface of the cffi module `xpuprof._select`. Plain declarations only: the builder passes this
 * file to cffi unchanged. Every function gives the same bytes for the same input whatever the
 * number of threads and the instruction set. All return 0, or a negative XPS_E... code. */

/* ---- project.c: basic-block vectors to dense matrices ---------------------------------------
 *
 * The projection matrix is never stored. The row of a dimension is computed from its identity and
 * the seed: `dim` values uniform in [-1, 1), as SimPoint's. `out` is rows x dim, row-major. Each
 * output row is divided by its length (the sum of its instructions), so it is a mix; `length` gets
 * the sum and `squares` the sum of the squared (unprojected) mix. */

/* CPU vectors, each from entry `start` up to entry `end`; a dimension is (thread, block
 * identity). */
int xps_project_cpu(uint64_t rows, const uint64_t *start, const uint64_t *end,
                    const uint32_t *thread, const uint32_t *block, const uint64_t *count,
                    uint64_t blocks, const uint64_t *identity, const uint32_t *instructions,
                    uint64_t seed, uint32_t dim, uint32_t threads, float *out, double *length);

/* GPU vectors of distinct grids. The warp axis of every grid is resampled to `buckets` equal cells
 * (a warp that straddles cells is divided among them), a dimension is (cell, block identity). */
int xps_project_gpu(uint64_t grids, const uint64_t *grid_start, const uint32_t *run_vector,
                    const uint64_t *run_length, uint64_t vectors, const uint64_t *vector_start,
                    const uint32_t *block, const uint64_t *count, uint64_t blocks,
                    const uint64_t *identity, const uint32_t *instructions, uint32_t buckets,
                    uint64_t seed, uint32_t dim, uint32_t threads, float *out, double *length);

/* Rows of values with 64-bit dimensions (SimPoint frequency vectors, launch names). */
int xps_project_values(uint64_t rows, const uint64_t *row_start, const uint64_t *dimension,
                       const double *value, uint64_t seed, uint32_t dim, uint32_t threads,
                       float *out, double *length);

/* ---- merge.c ---------------------------------------------------------------------------------
 * Finds equal rows (byte for byte). point[i] gets the dense number of row i's class in order of
 * first appearance, first[p] the first row of class p (room for `rows`); *points their number. */
int xps_merge(uint64_t rows, uint32_t dim, const float *x, uint32_t *point, uint64_t *first,
              uint64_t *points);
/* The same for CPU vectors in CSR form. */
int xps_merge_cpu(uint64_t slices, const uint64_t *slice_start, const uint32_t *thread,
                  const uint32_t *block, const uint64_t *count, uint32_t *point, uint64_t *first,
                  uint64_t *points);
/* uniform[i] in [0, 1): hashed from the row's bytes and the seed, so that equal points draw equal
 * numbers everywhere. */
int xps_draw(uint64_t rows, uint32_t dim, const float *x, uint64_t seed, double *uniform);

/* ---- kmeans.c --------------------------------------------------------------------------------
 * Weighted k-means in the Euclidean distance. A sweep goes up from k = 1 and down again, each k
 * starting from the one before; `xps_sweep_result` reads the result for the current k. */
typedef struct xps_sweep xps_sweep;

xps_sweep *xps_sweep_new(uint64_t points, uint32_t dim, const float *x, const double *weight,
                         uint32_t maxk, uint32_t candidates, uint64_t seed, uint32_t threads);
void xps_sweep_free(xps_sweep *sweep);
/* One centre more (the first call: the mean), then at most `iterations` Lloyd steps, fewer when a
 * step gains less than `tolerance` of the remaining sum. The new centre is chosen by `candidates`
 * points (1 to 16) drawn with probability weight x squared distance. Returns the k reached, the old
 * one when every point already lies on its centre, or a negative code. */
int xps_sweep_grow(xps_sweep *sweep, uint32_t iterations, double tolerance);
/* Removes the centre whose loss costs least, then Lloyd steps. Returns the k reached. */
int xps_sweep_shrink(xps_sweep *sweep, uint32_t iterations, double tolerance);
/* Restarts from k given centres, then Lloyd steps. Returns k. */
int xps_sweep_start(xps_sweep *sweep, uint32_t k, const float *centre, uint32_t iterations,
                    double tolerance);
/* At the present k: wcss = sum of weight x squared distance, mass[k] = weight of each cluster,
 * centre[k x dim], label[points]; NULL skips an output. */
int xps_sweep_result(xps_sweep *sweep, double *wcss, double *mass, float *centre, uint32_t *label);
/* label[i] = the centre nearest to point i, the lowest label among equally near centres. */
int xps_nearest(uint64_t points, uint32_t dim, const float *x, uint32_t k, const float *centre,
                uint32_t threads, uint32_t *label);
/* distance2[i] = squared distance of point i to centre label[i]. */
int xps_distances(uint64_t points, uint32_t dim, const float *x, const float *centre,
                  const uint32_t *label, uint32_t threads, float *distance2);

/* ---- partial.c -------------------------------------------------------------------------------
 * Sums over the points with each label: mass[k] = sum of weights, offset[k x dim] = weighted sum of
 * offsets from their centre, square[k] = sum of weight x squared distance. */
int xps_partial(uint64_t points, uint32_t dim, const float *x, const double *weight, uint32_t k,
                const float *centre, const uint32_t *label, const float *distance2, double *mass,
                double *offset, double *square);

/* ---- frequency_file.c: SimPoint's .bb text --------------------------------------------------
 * First call counts (arrays NULL), second fills. `line` gets the number of the faulty line. Lines
 * that do not begin with T are skipped; an empty vector is a row without entries. */
int xps_parse_frequency(const char *text, uint64_t size, uint64_t *rows, uint64_t *entries,
                        uint64_t *row_start, uint64_t *dimension, double *value, uint64_t *line);
