/* SPDX-License-Identifier: Apache-2.0 */
/* A file in memory, for readers that take a path. */
#ifndef XPUPROF_FUZZ_SCRATCH_FILE_H
#define XPUPROF_FUZZ_SCRATCH_FILE_H

#include <stddef.h>

/* Writes the bytes to the process's only scratch file and returns its path. */
const char *scratch_file(const void *data, size_t size);

#endif
