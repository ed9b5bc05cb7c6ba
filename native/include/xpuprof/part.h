/* SPDX-License-Identifier: Apache-2.0 */
/* The name of a process's folder in an execution: `<host>-<pid>`, or `<host>-rank<rank>-<pid>`
 * where a launcher (mpirun, srun, torchrun) gave the process a rank. Every stream writer uses this
 * file, so the streams of a process share one folder. */
#ifndef XPUPROF_PART_H
#define XPUPROF_PART_H
enum { XP_PART_NAME_MAX = 320 };

/* The rank that a launcher gave this process, in decimal, or 0. `get` is getenv. */
static inline const char *xp_rank(char *(*get)(const char *)) {
  /* Open MPI, PMIx, PMI (MPICH, Intel), MVAPICH, IBM, Cray, Flux, Slurm, torchrun: the launcher of
   * the process itself comes before the one that started that launcher. launch/ranks.py lists those
   * that also give the number of ranks. */
  static const char *const variables[] = {
      "OMPI_COMM_WORLD_RANK", "PMIX_RANK",      "PMI_RANK",    "MV2_COMM_WORLD_RANK",
      "JSM_NAMESPACE_RANK",   "FLUX_TASK_RANK", "ALPS_APP_PE", "RANK",
      "SLURM_PROCID"};
  for (unsigned i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *value = get(variables[i]);
    int digits = 0;
    while (value && value[digits] >= '0' && value[digits] <= '9') digits++;
    if (digits > 0 && digits < 10 && !value[digits]) return value;
  }
  return 0;
}

/* Whether an MPI launcher started this process. It treats the end of a rank without MPI_Finalize as
 * a crash and kills the others. */
static inline int xp_is_mpi_rank(char *(*get)(const char *)) {
  static const char *const variables[] = {
      "OMPI_COMM_WORLD_RANK", "PMIX_RANK",          "PMI_RANK",
      "MV2_COMM_WORLD_RANK",  "JSM_NAMESPACE_RANK", "ALPS_APP_PE"};
  for (unsigned i = 0; i < sizeof variables / sizeof *variables; i++)
    if (get(variables[i])) return 1;
  return 0;
}

enum { XP_DECIMAL_MAX = 24 };

/* Writes `value` in decimal at the end of `text`; returns its first digit. */
static inline char *xp_decimal(char text[XP_DECIMAL_MAX], unsigned long long value) {
  char *digit = text + XP_DECIMAL_MAX - 1;
  *digit = 0;
  do *--digit = (char)('0' + value % 10);
  while (value /= 10);
  return digit;
}

/* Writes the folder's name; `host` is cut at 255 bytes. */
static inline void xp_part_name(char name[XP_PART_NAME_MAX], const char *host, const char *rank,
                                unsigned pid) {
  char digits[XP_DECIMAL_MAX];
  const char *number = xp_decimal(digits, pid);
  int n = 0;
  while (*host && n < 255) name[n++] = *host++;
  if (rank)
    for (const char *s = "-rank"; *s; s++) name[n++] = *s;
  while (rank && *rank) name[n++] = *rank++;
  name[n++] = '-';
  while (*number) name[n++] = *number++;
  name[n] = 0;
}

#endif
