/* xp_os for ordinary processes, and where a process's part of a run lies. */
#ifndef XPUPROF_POSIX_OS_H
#define XPUPROF_POSIX_OS_H

#include "writer.h"

extern const xp_os posix_os;

/* `<dir>/<part>/<file>`; makes the folder. 0 when it does not fit or cannot be made. */
int posix_part_path(char *path, size_t room, const char *dir, const char *part, const char *file);

/* This process and its ancestors, nearest first, as `pid:start` separated by blanks; `start` is in
 * clock ticks since boot. Siblings' order of creation, which repeats where numbers do not. */
void posix_ancestry(char *text, size_t room);

/* Nanoseconds since this process was created (by fork; exec does not count), as fine as the
 * kernel's clock ticks; 0 when it cannot be known. */
uint64_t posix_age(void);

#endif
