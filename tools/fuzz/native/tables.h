/* SPDX-License-Identifier: Apache-2.0 */
/* Every table of a stream, for code that visits all of them: TABLE(array, count). */
#define TABLES(TABLE)               \
  TABLE(texts, texts)               \
  TABLE(metas, metas)               \
  TABLE(programs, programs)         \
  TABLE(kernels, kernels)           \
  TABLE(gpu_blocks, gpu_blocks)     \
  TABLE(launches, launches)         \
  TABLE(completes, completes)       \
  TABLE(stamps, stamps)             \
  TABLE(vectors, vectors)           \
  TABLE(vector_block, vector_pairs) \
  TABLE(vector_count, vector_pairs) \
  TABLE(grids, grids)               \
  TABLE(run_vector, run_pairs)      \
  TABLE(run_length, run_pairs)      \
  TABLE(launch_grids, launch_grids) \
  TABLE(copies, copies)             \
  TABLE(hosts, hosts)               \
  TABLE(resources, resources)       \
  TABLE(lanes, lanes)               \
  TABLE(uncounted, uncounted)       \
  TABLE(device_ldvs, device_ldvs)   \
  TABLE(windows, windows)           \
  TABLE(images, images)             \
  TABLE(cpu_blocks, cpu_blocks)     \
  TABLE(threads, threads)           \
  TABLE(bbvs, bbvs)                 \
  TABLE(bbv_block, bbv_pairs)       \
  TABLE(bbv_count, bbv_pairs)       \
  TABLE(cuts, cuts)                 \
  TABLE(ldvs, ldvs)                 \
  TABLE(ldv_bucket, ldv_pairs)      \
  TABLE(ldv_count, ldv_pairs)
