/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Whether the program is in its window, and whether this process counts at all. Outside, no thread
 * counts. Before the first opening, after the last closing and in processes that do not count, code
 * is translated without counters; switching retranslates all code, so it is not done at closings
 * that an opening may follow. */
#include "pub_tool_basics.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_transtab.h"
#include "pub_tool_vki.h"
#include "pub_tool_xarray.h"
#include "tool.h"

static Bool is_open = True, counting = True, excluded;

/* The executable by its system path; a path that cannot be opened is used unchanged. */
static const HChar *resolved(const HChar *path) {
  static HChar real[4096];
  HChar link[32];
  Int fd = VG_(fd_open)(path, VKI_O_RDONLY, 0);
  if (fd < 0) return path;
  VG_(snprintf)(link, sizeof link, "/proc/self/fd/%d", fd);
  SSizeT length = VG_(readlink)(link, real, sizeof real - 1);
  VG_(close)(fd);
  if (length <= 0) return path;
  real[length] = 0;
  return real;
}

static Bool process_counts(void) {
  const HChar *name = VG_(args_the_exename);
  if (option_counts_process(resolved(name)) || option_counts_process(name)) return True;
  if (VG_(sizeXA)(VG_(args_for_client)) == 0) return False;
  const HChar *first = *(HChar **)VG_(indexXA)(VG_(args_for_client), 0);
  return first[0] != '-' && option_counts_process(first);
}

void window_init(void) {
  excluded = option_filters_processes() && !process_counts();
  is_open = !excluded && !options.window_closed;
  counting = is_open;
}

static void translate_anew(void) {
  VG_(discard_translations_safely)(0x1000, ~(SizeT)0 - 0x1000, "xpuprof.window");
}

void window_turn(Bool open, Bool for_good) {
  if (excluded) return;
  is_open = open;
  Bool wanted = open || (counting && !for_good);
  if (wanted == counting) return;
  counting = wanted;
  translate_anew();
}

Bool window_is_open(void) { return is_open; }

Bool window_adds_counters(void) { return counting; }

Bool window_excludes_process(void) { return excluded; }
