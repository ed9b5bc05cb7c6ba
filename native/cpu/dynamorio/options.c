/* What to count and where to write: one option a line in a file, since DynamoRIO's own option
 * strings are short and know no quotes in quotes. */
#include "client.h"
#include "xpuprof/uncounted.h"

enum { MAX_LINE = 8192 };

client_options options;

typedef struct patterns {
  const char **item;
  size_t n, room;
} patterns;

static const char *const uncounted[] = {XP_UNCOUNTED_IMAGES};
static patterns include_images, exclude_images, chosen_routines, thread_numbers, processes;

static void add(patterns *list, const char *pattern) {
  list->item = grown(list->item, &list->room, list->n + 1, sizeof *list->item);
  list->item[list->n++] = pattern;
}

static long number_of(const char *digits) {
  long value = 0;
  while (*digits >= '0' && *digits <= '9') value = 10 * value + (*digits++ - '0');
  return value;
}

/* The option's value when the line holds that option. */
static const char *value_of(const char *line, const char *name) {
  size_t size = text_length(name);
  return text_starts(line, name) && line[size] == '=' ? line + size + 1 : NULL;
}

static void take(const char *line) {
  const char *value;
  if ((value = value_of(line, "dir"))) options.directory = value;
  if ((value = value_of(line, "supervisor"))) options.supervisor = number_of(value);
  if ((value = value_of(line, "clock"))) options.raw_clock = text_equal(value, "monotonic_raw");
  if ((value = value_of(line, "include-image"))) add(&include_images, value);
  if ((value = value_of(line, "exclude-image"))) add(&exclude_images, value);
  if ((value = value_of(line, "routine"))) add(&chosen_routines, value);
  if ((value = value_of(line, "count-thread"))) add(&thread_numbers, value);
  if ((value = value_of(line, "process"))) add(&processes, value);
  if ((value = value_of(line, "window"))) options.has_window = *value;
  if (value_of(line, "window-closed")) options.window_closed = true;
  if (value_of(line, "main-image-only")) options.main_image_only = true;
}

void options_read(const char *folder) {
  char path[4096];
  size_t size;
  dr_snprintf(path, sizeof path - 1, "%s/dynamorio.options", folder ? folder : "");
  path[sizeof path - 1] = 0;
  const char *content = file_map(path, &size);
  if (!content) return;
  char *text = dr_global_alloc(size + 1), *line = text; /* for good: options point into it */
  for (size_t i = 0; i < size; i++) {
    text[i] = content[i];
    if (text[i] != '\n') continue;
    text[i] = 0;
    take(line);
    line = text + i + 1;
  }
  file_unmap(content, size);
}

static bool matches_one(const char *pattern, const char *path) {
  const char *name = path;
  bool on_path = false;
  for (const char *p = path; *p; p++)
    if (*p == '/') name = p + 1;
  for (const char *p = pattern; *p; p++) on_path |= *p == '/';
  return glob_match(pattern, on_path ? path : name);
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

static size_t append_all(char *line, size_t used, const char *name, const patterns *list) {
  for (size_t i = 0; i < list->n; i++) {
    if (used) used = append(line, used, " ");
    used = append(line, used, name);
    used = append(line, used, list->item[i]);
  }
  return used;
}

const char *option_filters(void) {
  static char line[MAX_LINE];
  size_t used = 0;
  line[0] = 0;
  if (options.main_image_only) used = append(line, used, "main-image-only");
  used = append_all(line, used, "include-image=", &include_images);
  used = append_all(line, used, "exclude-image=", &exclude_images);
  used = append_all(line, used, "routine=", &chosen_routines);
  used = append_all(line, used, "thread=", &thread_numbers);
  append_all(line, used, "process=", &processes);
  return line;
}
