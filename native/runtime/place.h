/* SPDX-License-Identifier: Apache-2.0 */
/* The place of a process's streams in an execution, and of its failure reports. */
#ifndef XPUPROF_PLACE_H
#define XPUPROF_PLACE_H

#include "stream_file.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Strings must stay valid; NULL: not set. */
typedef struct xp_place {
  const char *directory; /* XPU_ENV_DIR */
  const char *rank;      /* of xp_rank() */
  const char *failures;  /* XPU_ENV_FAILURES */
} xp_place;

/* Makes this process's folder and writes the path of a file in it. 0, or a negative error number
 * of the kernel. */
int xp_place_file(const xp_place *place, const char *name, char path[XP_PATH_MAX]);
/* Whether the launcher has made the file `<directory>/full`: the traces have reached the size that
 * the user allows. */
int xp_place_full(const xp_place *place);
/* Tells the launcher what this process could not record: the line `pid reason`, as the target of a
 * link `<directory>/failures/<pid>`, or, if that fails, sent to the launcher's socket. */
void xp_place_failure(const xp_place *place, const char *reason);

#ifdef __cplusplus
}
#endif
#endif
