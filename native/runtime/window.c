/* SPDX-License-Identifier: Apache-2.0 */
#include "window.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "posix_os.h"

/* N, N-M, N- or -M at `text`; returns the rest of the text, or NULL when it is none of them. */
static const char *read_range(const char *text, uint64_t *first, uint64_t *last) {
  char *end = (char *)text;
  *first = 1, *last = UINT64_MAX;
  if (isdigit((unsigned char)*text)) *first = *last = strtoull(text, &end, 10);
  if (*end == '-') {
    const char *digits = end + 1;
    *last = UINT64_MAX;
    end = (char *)digits;
    if (isdigit((unsigned char)*digits)) *last = strtoull(digits, &end, 10);
    if (end == digits && !isdigit((unsigned char)*text)) return 0; /* a dash alone */
  } else if (end == text) {
    return 0;
  }
  return *first >= 1 && *first <= *last ? end : 0;
}

/* The state after the launches so far. */
static int is_inside(const xp_window *window, uint64_t next) {
  return next >= window->first && next <= window->last;
}

void window_read(xp_window *window, const char *spec, const char *after) {
  memset(window, 0, sizeof *window);
  window->open = 1;
  if (!spec || !*spec) return;
  const char *rest = spec;
  uint64_t first = 1, last = UINT64_MAX;
  if (*spec != '@') rest = read_range(spec, &first, &last);
  if (!rest || (*rest && *rest != '@') || strlen(rest) > sizeof window->marker) return;
  window->given = 1;
  window->first = first, window->last = last;
  window->by_marker = *rest == '@';
  if (window->by_marker) strcpy(window->marker, rest + 1);
  window->ends_program = after && !strcmp(after, "end");
  window->open = !window->by_marker && is_inside(window, 1);
}

void window_forked(xp_window *window) {
  if (!window->given) return;
  if (!window->by_marker) {
    window->open = is_inside(window, 1);
  } else if (!window->depth) {
    window->openings = 0;
  } else {
    return;
  }
  window->over = 0;
}

static int turn(xp_window *window, int open) {
  if (window->open == open) return XP_WINDOW_STAYS;
  window->open = open;
  return open ? XP_WINDOW_OPENS : XP_WINDOW_CLOSES;
}

int window_is_open(const xp_window *window, uint64_t launches) {
  return window->given && !window->by_marker ? is_inside(window, launches + 1) : window->open;
}

int window_launched(xp_window *window, uint64_t launches) {
  if (!window->given || window->by_marker) return XP_WINDOW_STAYS;
  window->over = launches >= window->last;
  return turn(window, is_inside(window, launches + 1));
}

static int is_ours(const xp_window *window, const char *marker) {
  return window->given && window->by_marker && !fnmatch(window->marker, marker, 0);
}

int window_begins(xp_window *window, const char *marker) {
  if (!is_ours(window, marker) || window->depth++) return XP_WINDOW_STAYS;
  window->openings++;
  return is_inside(window, window->openings) ? turn(window, 1) : XP_WINDOW_STAYS;
}

int window_ends(xp_window *window, const char *marker) {
  if (!is_ours(window, marker) || !window->depth || --window->depth) return XP_WINDOW_STAYS;
  window->over = window->openings >= window->last;
  return turn(window, 0);
}

/* ---- processes ------------------------------------------------------------------------------ */

static int matches(const char *glob, const char *path) {
  const char *slash = strrchr(path, '/');
  return *path && !fnmatch(glob, strchr(glob, '/') || !slash ? path : slash + 1, 0);
}

static int names_match(const char *glob, const char *exe, const char *arguments, size_t size) {
  if (matches(glob, exe) || matches(glob, arguments)) return 1;
  size_t second = strlen(arguments) + 1;
  return second < size && arguments[second] != '-' && matches(glob, arguments + second);
}

int window_process_matches(const char *globs) {
  char exe[4096], arguments[4096], glob[1024];
  if (!globs || !*globs) return 1;
  ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
  exe[length > 0 ? length : 0] = 0;
  size_t size = posix_read("/proc/self/cmdline", arguments, sizeof arguments);
  for (const char *at = globs; *at;) {
    size_t n = strcspn(at, "\n");
    if (n && n < sizeof glob) {
      memcpy(glob, at, n);
      glob[n] = 0;
      if (names_match(glob, exe, arguments, size)) return 1;
    }
    at += n + (at[n] == '\n');
  }
  return 0;
}
