/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"
#include "xpuprof/uncounted.h"

enum { MAX_LINE = 8192 };

engine_options options;

typedef struct patterns {
  const char *name; /* of the option */
  const char *said; /* in the line of filters, if different */
  const char **item;
  size_t n, room;
} patterns;

static const char *const uncounted[] = {XP_UNCOUNTED_IMAGES};
static patterns include_images = {.name = "include-image"};
static patterns exclude_images = {.name = "exclude-image"};
static patterns chosen_routines = {.name = "routine"};
static patterns thread_numbers = {.name = "count-thread", .said = "thread"};
static patterns processes = {.name = "process"};
static patterns *const lists[] = {&include_images, &exclude_images, &chosen_routines,
                                  &thread_numbers, &processes};
enum { LISTS = sizeof lists / sizeof *lists };

static long number_of(const char *digits) {
  long value = 0;
  while (*digits >= '0' && *digits <= '9') value = 10 * value + (*digits++ - '0');
  return value;
}

/* The option's value when the text is that option. */
static const char *value_of(const char *text, const char *name) {
  size_t size = text_length(name);
  return text_starts(text, name) && text[size] == '=' ? text + size + 1 : NULL;
}

static bool take_pattern(const char *text) {
  const char *value = NULL;
  for (size_t i = 0; i < LISTS && !value; i++) {
    patterns *list = lists[i];
    if (!(value = value_of(text, list->name))) continue;
    list->item = grown(list->item, &list->room, list->n + 1, sizeof *list->item);
    list->item[list->n++] = value;
  }
  return value;
}

bool option_take(const char *text) {
  const char *value;
  if ((value = value_of(text, "xpuprof-dir")))
    options.directory = value;
  else if ((value = value_of(text, "supervisor")))
    options.supervisor = number_of(value);
  else if ((value = value_of(text, "clock")))
    options.raw_clock = text_equal(value, "monotonic_raw");
  else if ((value = value_of(text, "translations")))
    options.translations = value;
  else if ((value = value_of(text, "window")))
    options.has_window = *value;
  else if ((value = value_of(text, "window-closed")))
    options.window_closed = text_equal(value, "yes");
  else if ((value = value_of(text, "main-image-only")))
    options.main_image_only = text_equal(value, "yes");
  else if ((value = value_of(text, "start-up")))
    options.native_start_up = text_equal(value, "native");
  else if ((value = value_of(text, "memory")))
    options.memory = text_equal(value, "yes");
  return value || take_pattern(text);
}

static bool matches_one(const char *pattern, const char *path) {
  bool on_path = false;
  for (const char *p = pattern; *p; p++) on_path |= *p == '/';
  return glob_match(pattern, on_path ? path : file_name(path));
}

static bool matches(const patterns *list, const char *path) {
  for (size_t i = 0; i < list->n; i++)
    if (matches_one(list->item[i], path)) return true;
  return false;
}

bool option_counts_image(const char *path, bool is_main) {
  for (size_t i = 0; i < sizeof uncounted / sizeof *uncounted; i++)
    if (matches_one(uncounted[i], path)) return false;
  if (matches(&exclude_images, path)) return false;
  if (options.main_image_only) return is_main;
  return include_images.n == 0 || matches(&include_images, path);
}

bool option_filters_routines(void) { return chosen_routines.n > 0; }

bool option_counts_routine(const char *name) {
  for (size_t i = 0; i < chosen_routines.n; i++)
    if (glob_match(chosen_routines.item[i], name)) return true;
  return false;
}

bool option_counts_thread(uint32_t number) {
  for (size_t i = 0; i < thread_numbers.n; i++)
    if (number_of(thread_numbers.item[i]) == (long)number) return true;
  return thread_numbers.n == 0;
}

bool option_filters_processes(void) { return processes.n > 0; }

bool option_counts_process(const char *path) { return matches(&processes, path); }

static size_t append(char *line, size_t used, const char *text) {
  while (*text && used + 1 < MAX_LINE) line[used++] = *text++;
  line[used] = 0;
  return used;
}

const char *option_filters(void) {
  static char line[MAX_LINE];
  size_t used = append(line, 0, options.main_image_only ? "main-image-only" : "");
  for (size_t l = 0; l < LISTS; l++)
    for (size_t i = 0; i < lists[l]->n; i++) {
      if (used) used = append(line, used, " ");
      used = append(line, used, lists[l]->said ? lists[l]->said : lists[l]->name);
      used = append(line, used, "=");
      used = append(line, used, lists[l]->item[i]);
    }
  return line;
}
