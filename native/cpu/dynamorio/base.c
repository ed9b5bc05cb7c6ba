/* SPDX-License-Identifier: Apache-2.0 */
/* Replacements for a C library from the kernel and DynamoRIO, also for the common part. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "client.h"
#include "system_call.h"

/* The compiler and the writer may call these by name. */
void *memcpy(void *to, const void *from, size_t size) {
  void *result = to;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
  return result;
}

void *memset(void *to, int value, size_t size) {
  void *result = to;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(value) : "memory");
  return result;
}

void release(void *memory, size_t size) {
  if (memory) xp_system_call(SYS_munmap, (long)memory, (long)size, 0, 0);
}

const void *file_map(const char *path, size_t *size) {
  long fd = xp_system_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return NULL;
  long length = xp_system_call(SYS_lseek, fd, 0, 2, 0), at = -1;
  if (length > 0) at = xp_system_call6(SYS_mmap, 0, length, PROT_READ, MAP_PRIVATE, fd, 0);
  xp_system_call(SYS_close, fd, 0, 0, 0);
  if (length <= 0 || call_failed(at)) return NULL;
  *size = (size_t)length;
  return (const void *)at;
}

void file_unmap(const void *content, size_t size) { release((void *)(uintptr_t)content, size); }

char *file_text(const char *path, char **text, size_t *room) {
  size_t used = 0;
  long got, fd = xp_system_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
  do {
    *text = grown(*text, room, used + 4096, 1);
    got = xp_system_call(SYS_read, fd, (long)(*text + used), (long)(*room - used - 2), 0);
    used += got > 0 ? (size_t)got : 0;
  } while (got > 0);
  xp_system_call(SYS_close, fd, 0, 0, 0);
  (*text)[used] = (*text)[used + 1] = 0;
  return *text;
}

char *engine_environment(const char *name) {
  static char *text;
  static size_t room;
  size_t size = text_length(name);
  if (!text) file_text("/proc/self/environ", &text, &room);
  for (char *entry = text; *entry; entry += text_length(entry) + 1)
    if (text_starts(entry, name) && entry[size] == '=') return entry + size + 1;
  return NULL;
}

/* dr_global_alloc() takes from the memory for code, which is scarce. */
void *engine_allocate(size_t size) {
  return dr_custom_alloc(NULL, 0, size, DR_MEMPROT_READ | DR_MEMPROT_WRITE, NULL);
}

void engine_free(void *memory, size_t size) { dr_custom_free(NULL, 0, memory, size); }

const char *const engine_name = "dynamorio";
const char *const engine_version = XPUPROF_VERSION "+dynamorio-" DYNAMORIO_VERSION;
const xp_os *const engine_os = &xp_linux;

const char *engine_hidden_isa(void) { return ""; }

/* One option per line: DynamoRIO's own option strings are short and do not support nested
 * quotes. */
void options_read(const char *folder) {
  char path[4096];
  size_t size;
  dr_snprintf(path, sizeof path - 1, "%s/dynamorio.options", folder ? folder : "");
  path[sizeof path - 1] = 0;
  const char *content = file_map(path, &size);
  if (!content) return;
  char *text = dr_global_alloc(size + 1), *line = text; /* never unmapped: options point into it */
  for (size_t i = 0; i < size; i++) {
    text[i] = content[i];
    if (text[i] != '\n') continue;
    text[i] = 0;
    option_take(line);
    line = text + i + 1;
  }
  file_unmap(content, size);
}
