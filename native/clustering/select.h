/* SPDX-License-Identifier: Apache-2.0 */
/* Includes for the code behind `xpuprof._select`. */
#ifndef XPUPROF_SELECT_H
#define XPUPROF_SELECT_H

#include <stddef.h>
#include <stdint.h>

#include "select_api.h"

#define XPS_EMEMORY (-1)
#define XPS_EINPUT (-2)

/* The same arithmetic in wider registers: contraction is off (CMakeLists.txt), so every clone
 * rounds identically. */
#if !defined(__x86_64__) || !defined(__GNUC__) || defined(__clang__)
#define XPS_CLONES
#elif __GNUC__ < 12 /* which cannot dispatch by level */
#define XPS_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define XPS_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif

/* Finaliser of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators). */
static inline uint64_t xps_mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

#define XPS_GOLDEN 0x9e3779b97f4a7c15u

/* Calls work(context, part) for part = 0..parts-1 on at most `threads` threads. The assignment of
 * parts to threads varies; results must not depend on it. */
void xps_parallel(uint32_t threads, uint64_t parts, void (*work)(void *, uint64_t), void *context);

#endif
