/* What a C library would give. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "client.h"

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

long system_call6(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

long system_call(long number, long a, long b, long c, long d) {
  return system_call6(number, a, b, c, d, 0, 0);
}

static bool failed(long result) { return result < 0 && result > -4096; }

void *reserve(size_t size) {
  long at = system_call6(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return failed(at) ? NULL : (void *)at;
}

void release(void *memory, size_t size) {
  if (memory) system_call(SYS_munmap, (long)memory, (long)size, 0, 0);
}

const void *file_map(const char *path, size_t *size) {
  long fd = system_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return NULL;
  long length = system_call(SYS_lseek, fd, 0, 2, 0), at = -1;
  if (length > 0) at = system_call6(SYS_mmap, 0, length, PROT_READ, MAP_PRIVATE, fd, 0);
  system_call(SYS_close, fd, 0, 0, 0);
  if (length <= 0 || failed(at)) return NULL;
  *size = (size_t)length;
  return (const void *)at;
}

void file_unmap(const void *content, size_t size) { release((void *)(uintptr_t)content, size); }

char *environment(const char *name) {
  static char *text;
  static size_t room;
  size_t size = text_length(name);
  if (!text) { /* nobody says how long it is */
    size_t used = 0;
    long got, fd = system_call(SYS_openat, AT_FDCWD, (long)"/proc/self/environ", O_RDONLY, 0);
    do {
      text = grown(text, &room, used + 4096, 1);
      got = system_call(SYS_read, fd, (long)(text + used), (long)(room - used - 2), 0);
      used += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    system_call(SYS_close, fd, 0, 0, 0);
    text[used] = text[used + 1] = 0;
  }
  for (char *entry = text; *entry; entry += text_length(entry) + 1)
    if (text_starts(entry, name) && entry[size] == '=') return entry + size + 1;
  return NULL;
}

void *grown(void *array, size_t *room, size_t need, size_t item) {
  if (need <= *room) return array;
  size_t more = *room ? *room : 64;
  while (more < need) more *= 2;
  char *result = dr_global_alloc(more * item);
  memcpy(result, array, *room * item);
  memset(result + *room * item, 0, (more - *room) * item);
  if (array) dr_global_free(array, *room * item);
  *room = more;
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
  return memcpy(dr_global_alloc(size), text, size);
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

uint64_t hash_bytes(const void *data, size_t size, uint64_t seed) { /* FNV-1a */
  const uint8_t *p = data;
  for (size_t i = 0; i < size; i++) seed = (seed ^ p[i]) * 0x100000001b3ull;
  return seed;
}
