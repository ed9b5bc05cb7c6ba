/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the program is in its window, and whether this process counts at all (--process). Outside
 * the window code keeps its counters, and threads count into an unread reservation; a process that
 * does not count has no counters. */
#include "client.h"

enum { MAX_ARGUMENTS = 2, MAX_ARGUMENT = 4096 };

static bool is_open = true, excluded;

static bool executable_counts(void) {
  module_data_t *main = dr_get_main_module();
  bool counts = main && main->full_path && option_counts_process(main->full_path);
  if (main) dr_free_module_data(main);
  return counts;
}

/* The name by which the process was called, or its first argument: an interpreter's script. */
static bool arguments_count(void) {
  static char text[MAX_ARGUMENT];
  dr_app_arg_t *arguments;
  int n = dr_num_app_args(), got;
  bool counts = false;
  if (n <= 0) return false;
  arguments = dr_global_alloc((size_t)n * sizeof *arguments);
  got = dr_get_app_args(arguments, n);
  for (int i = 0; i < got && i < MAX_ARGUMENTS && !counts; i++) {
    const char *argument = dr_app_arg_as_cstring(&arguments[i], text, sizeof text);
    counts = argument && (i == 0 || argument[0] != '-') && option_counts_process(argument);
  }
  dr_global_free(arguments, (size_t)n * sizeof *arguments);
  return counts;
}

void window_init(void) {
  excluded = option_filters_processes() && !executable_counts() && !arguments_count();
  is_open = !excluded && !options.window_closed;
}

void window_turn(bool open) {
  if (excluded) return;
  is_open = open;
  threads_turned();
}

bool window_is_open(void) { return is_open; }

bool window_excludes_process(void) { return excluded; }
