/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about this process for the trace. */
#ifndef XPUPROF_POSIX_OS_H
#define XPUPROF_POSIX_OS_H

#include <stddef.h>
#include <stdint.h>

/* This process and its ancestors, nearest first, as `pid:start` separated by blanks; `start` is in
 * clock ticks since boot. It orders siblings by creation, which is repeatable where pids are
 * not. */
void posix_ancestry(char *text, size_t room);

/* Nanoseconds since this process was created (by fork; exec does not count), in the resolution of
 * the kernel's clock ticks; 0 if unknown. */
uint64_t posix_age(void);

/* Up to `room` - 1 bytes of a small file of /proc, terminated by a zero; returns their number. If
 * another thread of the program replaces the descriptor meanwhile, it is left alone. */
size_t posix_read(const char *path, char *text, size_t room);

#endif
