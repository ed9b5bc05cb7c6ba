/* xp_os for ordinary processes, and where a process's part of a run lies. */
#ifndef XPUPROF_POSIX_OS_H
#define XPUPROF_POSIX_OS_H

#include "writer.h"

extern const xp_os posix_os;

/* `<dir>/<host>-<pid>/<file>`; makes the folder. 0 when it does not fit or cannot be made. */
int posix_part_path(char *path, size_t room, const char *dir, const char *host, int pid,
                    const char *file);

#endif
