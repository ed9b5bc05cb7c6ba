/* SPDX-License-Identifier: Apache-2.0 */
/* An MPI program whose ranks do different work: `ranks STEPS [EXIT|SIGKILL|SIGABRT]`. After every
 * launch that all ranks have, there is a sum over all ranks. Rank 0 prints each rank's device
 * counts; EXIT is the exit code of every rank; a signal ends rank 1 after its third launch. */
#include <mpi.h>
#include <signal.h>
#include <string.h>

#include "work.h"

static int common, launched;
static void (*die)(void);

static void kill_oneself(void) { raise(SIGKILL); }

static void exchange(void) {
  int one = 1, ranks;
  if (die && ++launched == 3) die();
  if (common-- > 0) MPI_Allreduce(&one, &ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  int rank, size, sums[64];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  common = atoi(argv[1]);
  if (argc > 2 && rank == 1 && !strcmp(argv[2], "SIGKILL")) die = kill_oneself;
  if (argc > 2 && rank == 1 && !strcmp(argv[2], "SIGABRT")) die = abort;
  int sum = work(rank, atoi(argv[1]), exchange);
  MPI_Gather(&sum, 1, MPI_INT, sums, 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (int r = 0; rank == 0 && r < size; r++) printf("rank %d counted %d\n", r, sums[r]);
  MPI_Finalize();
  return argc > 2 ? atoi(argv[2]) : 0;
}
