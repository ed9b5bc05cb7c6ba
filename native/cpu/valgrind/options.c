/* This file is part of the xpuprof tool for Valgrind.
 *
 * Copyright (C) 2026 the xpuprof authors
 *
 * This program is free software; you can redistribute it and/or modify it under the terms of the
 * GNU General Public License as published by the Free Software Foundation; either version 2 of the
 * License, or (at your option) any later version. It comes without any warranty. */

/* The tool's options: where to write, and what counts. */
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_options.h"
#include "pub_tool_seqmatch.h"
#include "tool.h"
#include "xpuprof/uncounted.h"

enum { MAX_PATTERNS = 256, MAX_LINE = 8192 };

tool_options options;

typedef struct patterns {
  const HChar *item[MAX_PATTERNS];
  UInt n;
} patterns;

static const HChar *const uncounted[] = {XP_UNCOUNTED_IMAGES};
static patterns include_images, exclude_images, routines, thread_numbers, processes;

static Bool add(patterns *list, const HChar *option, const HChar *pattern) {
  if (list->n == MAX_PATTERNS)
    VG_(fmsg_bad_option)(option, "at most %d of these\n", (Int)MAX_PATTERNS);
  list->item[list->n++] = pattern;
  return True;
}

Bool option_parse(const HChar *argument) {
  const HChar *text = NULL;
  if VG_STR_CLO (argument, "--xpuprof-dir", options.directory) {
  } else if VG_INT_CLO (argument, "--supervisor", options.supervisor) {
  } else if VG_BOOL_CLO (argument, "--main-image-only", options.main_image_only) {
  } else if VG_BOOL_CLO (argument, "--memory", options.memory) {
  } else if VG_BOOL_CLO (argument, "--window-closed", options.window_closed) {
  } else if VG_STR_CLO (argument, "--process", text) {
    return add(&processes, argument, text);
  } else if VG_STR_CLO (argument, "--include-image", text) {
    return add(&include_images, argument, text);
  } else if VG_STR_CLO (argument, "--exclude-image", text) {
    return add(&exclude_images, argument, text);
  } else if VG_STR_CLO (argument, "--routine", text) {
    return add(&routines, argument, text);
  } else if VG_STR_CLO (argument, "--count-thread", text) {
    return add(&thread_numbers, argument, text);
  } else {
    return False;
  }
  return True;
}

void option_usage(void) {
  VG_(printf)
  ("    --xpuprof-dir=DIR         execution folder; cpu.xpt goes to DIR/<host>-<pid>/\n"
   "    --supervisor=PID          the process whose parent is PID always gets a part\n"
   "    --memory=no|yes           LRU stack distances of data accesses, by slice and thread\n"
   "    --include-image=GLOB      count only these images (path, or file name); repeatable\n"
   "    --exclude-image=GLOB      never count these images; repeatable\n"
   "    --main-image-only=no|yes  count only the program's own executable\n"
   "    --routine=GLOB            count only blocks that start in these routines; repeatable\n"
   "    --count-thread=N          count only these logical threads; repeatable\n"
   "    --process=GLOB            count only processes of these programs; repeatable\n"
   "    --window-closed=no|yes    count nothing before the program's window opens\n");
}

static Bool matches_any(const HChar *const *patterns, UInt n, const HChar *path) {
  const HChar *slash = VG_(strrchr)(path, '/'), *name = slash ? slash + 1 : path;
  for (UInt i = 0; i < n; i++) {
    const HChar *subject = VG_(strchr)(patterns[i], '/') ? path : name;
    if (VG_(string_match)(patterns[i], subject)) return True;
  }
  return False;
}

static Bool matches(const patterns *list, const HChar *path) {
  return matches_any(list->item, list->n, path);
}

Bool option_counts_image(const HChar *path, Bool is_main) {
  if (matches_any(uncounted, sizeof uncounted / sizeof *uncounted, path)) return False;
  if (matches(&exclude_images, path)) return False;
  if (options.main_image_only) return is_main;
  return include_images.n == 0 || matches(&include_images, path);
}

Bool option_filters_routines(void) { return routines.n > 0; }

Bool option_counts_routine(const HChar *name) {
  for (UInt i = 0; i < routines.n; i++)
    if (VG_(string_match)(routines.item[i], name)) return True;
  return False;
}

Bool option_counts_thread(UInt number) {
  for (UInt i = 0; i < thread_numbers.n; i++)
    if ((UInt)VG_(strtoll10)(thread_numbers.item[i], NULL) == number) return True;
  return thread_numbers.n == 0;
}

Bool option_counts_process(const HChar *path) {
  return processes.n == 0 || matches(&processes, path);
}

static void append(HChar *line, const HChar *name, const patterns *list) {
  for (UInt i = 0; i < list->n; i++) {
    SizeT used = VG_(strlen)(line);
    if (used + VG_(strlen)(name) + VG_(strlen)(list->item[i]) + 3 > MAX_LINE) return;
    VG_(sprintf)(line + used, "%s%s=%s", used ? " " : "", name, list->item[i]);
  }
}

const HChar *option_filters(void) {
  static HChar line[MAX_LINE];
  line[0] = 0;
  if (options.main_image_only) VG_(strcpy)(line, "main-image-only");
  append(line, "include-image", &include_images);
  append(line, "exclude-image", &exclude_images);
  append(line, "routine", &routines);
  append(line, "thread", &thread_numbers);
  append(line, "process", &processes);
  return line;
}
