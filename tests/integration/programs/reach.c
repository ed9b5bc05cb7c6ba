/* SPDX-License-Identifier: Apache-2.0 */
/* reach SMALL LARGE PHASES: phases of equal code with different memory. Every launch gathers
 * equally many numbers from hashed positions: in odd phases from a buffer of SMALL KiB, in even
 * ones of LARGE KiB (powers of two). Prints a sum. */
#include "one_queue.h"

enum { ITEMS = 1 << 14 };

static const char *source =
    "kernel void gather(global const uint *table, uint mask, uint round, global uint *sums) {"
    "  uint i = get_global_id(0), at = i * 2654435761u + round, sum = 0;"
    "  for (int n = 0; n < 32; n++) {"
    "    at = at * 1664525u + 1013904223u;"
    "    sum += table[(at >> 4) & mask];"
    "  }"
    "  sums[i] += sum;"
    "}";

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  size_t size[2] = {(size_t)atoi(argv[1]) << 10, (size_t)atoi(argv[2]) << 10};
  int phases = atoi(argv[3]);
  set_up(source);
  cl_kernel kernel = kernel_of("gather");

  cl_int error;
  cl_mem table[2], sums;
  cl_uint zero = 0, one = 1;
  for (int i = 0; i < 2; i++) {
    table[i] = clCreateBuffer(context, CL_MEM_READ_ONLY, size[i], NULL, &error);
    check(error);
    check(clEnqueueFillBuffer(queue, table[i], &one, sizeof one, 0, size[i], 0, NULL, NULL));
  }
  sums = clCreateBuffer(context, CL_MEM_READ_WRITE, ITEMS * sizeof one, NULL, &error);
  check(error);
  check(clEnqueueFillBuffer(queue, sums, &zero, sizeof zero, 0, ITEMS * sizeof one, 0, NULL, NULL));
  check(clSetKernelArg(kernel, 3, sizeof sums, &sums));

  cl_uint round = 0;
  for (int phase = 1; phase <= phases; phase++) {
    int which = phase % 2 == 0;
    cl_uint mask = (cl_uint)(size[which] / sizeof one - 1);
    check(clSetKernelArg(kernel, 0, sizeof table[which], &table[which]));
    check(clSetKernelArg(kernel, 1, sizeof mask, &mask));
    for (int n = 0; n < 4 + phase * 7 % 5; n++, round++) {
      size_t items = ITEMS, group = 64;
      check(clSetKernelArg(kernel, 2, sizeof round, &round));
      check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL));
      check(clFinish(queue));
    }
  }
  cl_uint total = 0, *result = malloc(ITEMS * sizeof one);
  check(clEnqueueReadBuffer(queue, sums, CL_TRUE, 0, ITEMS * sizeof one, result, 0, NULL, NULL));
  for (int i = 0; i < ITEMS; i++) total += result[i];
  printf("%u\n", total);
  return 0;
}
