/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the kernels and device functions in a cubin (an ELF64 file with one `.text.<name>`
 * section each). The file is not trusted. */
#ifndef XPUPROF_CUDA_CUBIN_H
#define XPUPROF_CUDA_CUBIN_H

#include <stddef.h>

#include <string>
#include <vector>

std::vector<std::string> cubin_functions(const void *cubin, size_t size);

/* Whether its kernels can launch kernels (dynamic parallelism): it contains the name of the device
 * runtime's launch function. */
bool cubin_launches(const void *cubin, size_t size);

#endif
