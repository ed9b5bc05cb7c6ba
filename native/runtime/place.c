/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <asm/errno.h>
#include <asm/fcntl.h>
#include <asm/unistd.h>
#include <stddef.h>

#include "system_call.h"
#include "xpuprof/part.h"

enum { UNIX = 1, DATAGRAM = 2, NO_SIGNAL = 0x4000 }; /* AF_UNIX, SOCK_DGRAM, MSG_NOSIGNAL */

static unsigned process(void) { return (unsigned)xp_system_call(__NR_getpid, 0, 0, 0, 0); }

/* `folder`/`name`; 0 when it does not fit. */
static int join(char path[XP_PATH_MAX], const char *folder, const char *name) {
  unsigned n = 0;
  while (*folder && n < XP_PATH_MAX - 1) path[n++] = *folder++;
  if (n < XP_PATH_MAX - 1) path[n++] = '/';
  while (*name && n < XP_PATH_MAX - 1) path[n++] = *name++;
  path[n] = 0;
  return n < XP_PATH_MAX - 1;
}

/* The host's name is the second of six fields of 65 bytes. */
int xp_place_file(const xp_place *place, const char *name, char path[XP_PATH_MAX]) {
  char folder[XP_PATH_MAX], part[XP_PART_NAME_MAX], names[6 * 65] = {0};
  xp_system_call(__NR_uname, (long)names, 0, 0, 0);
  xp_part_name(part, names + 65, place->rank, process());
  if (!join(folder, place->directory, part) || !join(path, folder, name)) return -ENAMETOOLONG;
  int error = (int)xp_system_call(__NR_mkdir, (long)folder, 0777, 0, 0);
  return error == -EEXIST ? 0 : error; /* the process's other stream may have created it */
}

int xp_place_full(const xp_place *place) {
  char path[XP_PATH_MAX];
  return place->directory && join(path, place->directory, "full") &&
         xp_identity_of_path(path).mode != 0;
}

/* ---- failures -------------------------------------------------------------------------------- */

typedef struct text {
  char bytes[256];
  unsigned size; /* without the zero at the end */
} text;

static void append(text *to, const char *from) {
  while (*from && to->size < sizeof to->bytes - 1) to->bytes[to->size++] = *from++;
  to->bytes[to->size] = 0;
}

static void append_number(text *to, unsigned value) {
  char digits[XP_DECIMAL_MAX];
  append(to, xp_decimal(digits, value));
}

/* A symbolic link that holds the line: it is made by path, whereas a file needs a descriptor, which
 * another thread of the program may replace. */
static int to_folder(const xp_place *place, const text *line) {
  enum { MOST = 8 };
  char path[XP_PATH_MAX];
  long error = -EEXIST;
  for (unsigned n = 0; n < MOST && error == -EEXIST && place->directory; n++) {
    text name = {"", 0};
    append(&name, "failures/");
    append_number(&name, process());
    if (n) append(&name, "-");
    if (n) append_number(&name, n);
    if (!join(path, place->directory, name.bytes)) return 0;
    error = xp_system_call(__NR_symlink, (long)line->bytes, (long)path, 0, 0);
  }
  return error == 0;
}

static void to_socket(const xp_place *place, const text *line) {
  struct {
    uint16_t family;
    char path[108]; /* an abstract name begins with a zero */
  } address = {UNIX, {0}};
  unsigned n = 1;
  if (!place->failures) return;
  for (const char *s = place->failures; *s && n < sizeof address.path; s++) address.path[n++] = *s;
  int fd = (int)xp_system_call(__NR_socket, UNIX, DATAGRAM | O_NONBLOCK | O_CLOEXEC, 0, 0);
  if (fd < 0) return;
  xp_identity ours = xp_identity_of_descriptor(fd);
  xp_system_call6(__NR_sendto, fd, (long)line->bytes, line->size, NO_SIGNAL, (long)&address,
                  (long)(offsetof(__typeof__(address), path) + n));
  if (xp_same_file(xp_identity_of_descriptor(fd), ours)) xp_system_call(__NR_close, fd, 0, 0, 0);
}

void xp_place_failure(const xp_place *place, const char *reason) {
  text line = {"", 0};
  append_number(&line, process());
  append(&line, " ");
  append(&line, reason);
  if (!to_folder(place, &line)) to_socket(place, &line);
}
