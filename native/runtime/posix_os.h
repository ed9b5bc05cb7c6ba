/* SPDX-License-Identifier: Apache-2.0 */
/* What the runtime tells of its process. */
#ifndef XPUPROF_POSIX_OS_H
#define XPUPROF_POSIX_OS_H

#include <stddef.h>
#include <stdint.h>

/* This process and its ancestors, nearest first, as `pid:start` separated by blanks; `start` is in
 * clock ticks since boot. Siblings' order of creation, which repeats where numbers do not. */
void posix_ancestry(char *text, size_t room);

/* Nanoseconds since this process was created (by fork; exec does not count), as fine as the
 * kernel's clock ticks; 0 when it cannot be known. */
uint64_t posix_age(void);

/* Up to `room` - 1 bytes of a small file of /proc, ended by a zero; gives their number. Another
 * thread of the program may replace the descriptor meanwhile, which is then left alone. */
size_t posix_read(const char *path, char *text, size_t room);

#endif
