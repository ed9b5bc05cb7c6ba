/* An MPI program whose ranks do different work: `ranks STEPS [EXIT]`. Every launch is followed by a
 * sum over all ranks as far as all of them have one. Rank 0 prints what each rank's device counted;
 * EXIT is the exit code of every rank. */
#include <mpi.h>

#include "work.h"

static int common;

static void exchange(void) {
  int one = 1, ranks;
  if (common-- > 0) MPI_Allreduce(&one, &ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  int rank, size, sums[64];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  common = atoi(argv[1]);
  int sum = work(rank, atoi(argv[1]), exchange);
  MPI_Gather(&sum, 1, MPI_INT, sums, 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (int r = 0; rank == 0 && r < size; r++) printf("rank %d counted %d\n", r, sums[r]);
  MPI_Finalize();
  return argc > 2 ? atoi(argv[2]) : 0;
}
