/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of a process is in the profile: the window of `--window`, and the processes of
 * `--process`. State alone: the caller reports changes. docs/filters.md defines the meaning. */
#ifndef XPUPROF_WINDOW_H
#define XPUPROF_WINDOW_H

#include <stdint.h>

typedef struct xp_window {
  int given;            /* 0: the whole process is in the profile, and `open` stays 1 */
  int by_marker;        /* opened by marker calls, else by launches */
  uint64_t first, last; /* launches, or openings of the marker; 1-based, inclusive */
  char marker[256];     /* glob on names of markers */
  int open;
  int over;          /* closed permanently */
  int ends_program;  /* --after-window end */
  uint64_t openings; /* of the marker, in the window or not */
  uint64_t depth;    /* of markers that are open */
} xp_window;

enum { XP_WINDOW_STAYS, XP_WINDOW_OPENS, XP_WINDOW_CLOSES };

/* From XPUPROF_WINDOW and XPUPROF_AFTER_WINDOW. A malformed window (the launcher checks it) counts
 * as none. */
void window_read(xp_window *window, const char *spec, const char *after);
/* After a fork: the child counts its own launches and openings; an opening active at the fork
 * continues under the parent's number. */
void window_forked(xp_window *window);

/* For the launch after so many. */
int window_is_open(const xp_window *window, uint64_t launches);

/* Events: `launches` launched so far, a marker begins, a marker ends. Each returns the change of
 * the window. */
int window_launched(xp_window *window, uint64_t launches);
int window_begins(xp_window *window, const char *marker);
int window_ends(xp_window *window, const char *marker);

/* Whether `globs` (one per line) match this process: its executable, the name by which it was
 * called, or its first argument (the script of an interpreter); the file name, or the whole path if
 * the glob contains a '/'. Without globs every process matches. */
int window_process_matches(const char *globs);

#endif
