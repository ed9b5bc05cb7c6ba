/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix product compiled for several machines: with FMA if the processor has it, else AVX or SSE.
 * `cpu_matrix ROUNDS`. */
#include <stdio.h>
#include <stdlib.h>

#define N 400
static float a[N][N], b[N][N], c[N][N];

__attribute__((target_clones("arch=haswell", "avx", "default"))) static void multiply(void) {
  for (int i = 0; i < N; i++)
    for (int k = 0; k < N; k++)
      for (int j = 0; j < N; j++) c[i][j] += a[i][k] * b[k][j];
}

int main(int argc, char **argv) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      a[i][j] = (float)(i - j);
      b[i][j] = (float)(i + j) / N;
    }
  for (int round = argc > 1 ? atoi(argv[1]) : 1; round > 0; round--) multiply();
  printf("%g\n", (double)c[3][4]);
  return 0;
}
