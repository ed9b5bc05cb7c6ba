/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that DynamoRIO takes from a program that another one executed: it renames them to text
 * without '='. Zig's start looks for that up to the end of the stack, and faulted there. */
#include "client.h"

/* Where the kernel left the arguments: the 26th number behind the program's name. */
static uint64_t first_stack_pointer(void) {
  enum { BEHIND_NAME = 26 };
  static char *text;
  static size_t room;
  uint64_t value = 0;
  int spaces = 0;
  for (const char *c = file_text("/proc/self/stat", &text, &room); *c; c++) {
    if (*c == ')') spaces = 0;
    if (*c == ' ' && ++spaces == BEHIND_NAME) value = 0;
    if (spaces == BEHIND_NAME && *c >= '0' && *c <= '9') value = 10 * value + (uint64_t)(*c - '0');
  }
  return value;
}

static bool is_taken(const char *variable) { return text_equal(variable, "__disabled__"); }

/* The place shows another variable once more, which no program takes for something new. */
void environment_mend(void) {
  const uint64_t stack = first_stack_pointer();
  if (!stack) return;
  char **const variables = (char **)stack + 1 + *(uint64_t *)stack + 1, **other = variables;
  while (*other && is_taken(*other)) other++;
  for (char **at = variables; *other && *at; at++)
    if (is_taken(*at)) *at = *other;
}
