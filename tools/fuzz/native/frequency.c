/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of SimPoint's frequency vectors on any text: counted, then filled. */
#include <stdlib.h>

#include "select.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint64_t rows, entries, line, rows_again, entries_again;
  char *text = malloc(size); /* separate, so that a read past the end is detected */
  for (size_t i = 0; i < size; i++) text[i] = (char)data[i];
  if (xps_parse_frequency(text, size, &rows, &entries, NULL, NULL, NULL, &line) == 0) {
    uint64_t *row_start = malloc((rows + 1) * sizeof *row_start);
    uint64_t *dimension = malloc(entries * sizeof *dimension);
    double *value = malloc(entries * sizeof *value);
    int code = xps_parse_frequency(text, size, &rows_again, &entries_again, row_start, dimension,
                                   value, &line);
    if (code || rows != rows_again || entries != entries_again || row_start[rows] != entries)
      abort();
    free(row_start);
    free(dimension);
    free(value);
  }
  free(text);
  return 0;
}
