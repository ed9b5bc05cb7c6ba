/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of a process is in the profile: the window of `--window`, and the processes of
 * `--process`. State alone: who is told of a change is the caller's affair. docs/filters.md has
 * the meaning. */
#ifndef XPUPROF_WINDOW_H
#define XPUPROF_WINDOW_H

#include <stdint.h>

typedef struct xp_window {
  int given;            /* 0: the whole process is in the profile, and `open` stays 1 */
  int by_marker;        /* opened by marker calls, else by launches */
  uint64_t first, last; /* launches, or openings of the marker, from 1; both belong to it */
  char marker[256];     /* glob on names of markers */
  int open;
  int over;          /* closed for good */
  int ends_program;  /* --after-window end */
  uint64_t openings; /* of the marker, in the window or not */
  uint64_t depth;    /* of markers that are open */
} xp_window;

enum { XP_WINDOW_STAYS, XP_WINDOW_OPENS, XP_WINDOW_CLOSES };

/* From XPUPROF_WINDOW and XPUPROF_AFTER_WINDOW. A malformed window (the launcher checks it) counts
 * as none. */
void window_read(xp_window *window, const char *spec, const char *after);
/* A process forked off: it counts its own launches and openings, and stays where its parent is in
 * the code: an opening that it was forked in goes on, by the number that its parent gave it. */
void window_forked(xp_window *window);

/* What happens: `launches` were launched so far, a marker begins, a marker ends. Each gives how
 * the window changes. */
int window_launched(xp_window *window, uint64_t launches);
int window_begins(xp_window *window, const char *marker);
int window_ends(xp_window *window, const char *marker);

/* Is this process one of those that `globs` (one a line) name? By its executable, by the name that
 * it was called by, or by its first argument (the script of an interpreter): the file's name, or
 * the whole path when the glob holds a '/'. No globs: every process is. */
int window_process_matches(const char *globs);

#endif
