/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

void *enlarged(void *array, size_t *room, size_t need, size_t item) {
  if (need <= *room) return array;
  size_t more = *room ? *room : 64;
  while (more < need) more *= 2;
  void *result = engine_allocate(more * item);
  __builtin_memcpy(result, array, *room * item);
  if (array) engine_free(array, *room * item);
  *room = more;
  return result;
}

void *grown(void *array, size_t *room, size_t need, size_t item) {
  size_t before = *room;
  char *result = enlarged(array, room, need, item);
  __builtin_memset(result + before * item, 0, (*room - before) * item);
  return result;
}

size_t text_length(const char *text) {
  size_t n = 0;
  while (text[n]) n++;
  return n;
}

bool text_equal(const char *a, const char *b) {
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}

bool text_starts(const char *text, const char *start) {
  while (*start && *text == *start) text++, start++;
  return !*start;
}

char *text_copy(const char *text) {
  size_t size = text_length(text) + 1;
  return __builtin_memcpy(engine_allocate(size), text, size);
}

const char *file_name(const char *path) {
  const char *name = path;
  for (; *path; path++)
    if (*path == '/') name = path + 1;
  return name;
}

/* Length of the pattern's first element when it matches that character, else 0. */
static size_t match_one(const char *pattern, char c) {
  size_t end = 1;
  bool found = false;
  if (*pattern != '[') return *pattern == '?' || *pattern == c;
  for (; pattern[end] && pattern[end] != ']'; end++) found |= pattern[end] == c;
  return found && pattern[end] ? end + 1 : 0;
}

bool glob_match(const char *pattern, const char *text) {
  const char *star = NULL, *retry = NULL;
  while (*text) {
    size_t matched;
    if (*pattern == '*') {
      star = ++pattern;
      retry = text;
    } else if ((matched = *pattern ? match_one(pattern, *text) : 0)) {
      pattern += matched, text++;
    } else if (star) {
      pattern = star;
      text = ++retry;
    } else {
      return false;
    }
  }
  while (*pattern == '*') pattern++;
  return !*pattern;
}
