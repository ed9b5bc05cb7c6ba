/* SPDX-License-Identifier: Apache-2.0 */
#include "images_left_alone.h"

#include <asm/errno.h>
#include <asm/fcntl.h>
#include <asm/unistd.h>
#include <stddef.h>

#include "stream_file.h"
#include "system_call.h"

enum { SET_USER = 04000, SET_GROUP = 02000, GROUP_EXECUTES = 010, CLASS = 4, CLASS_32 = 1 };

/* Privileges that exec(2) grants, only to a program it starts itself. */
static int gives_rights(const char *path, int fd) {
  char capabilities[64];
  uint32_t mode = xp_identity_of_descriptor(fd).mode;
  if (mode & SET_USER || (mode & SET_GROUP && mode & GROUP_EXECUTES)) return 1;
  return xp_system_call(__NR_getxattr, (long)path, (long)"security.capability", (long)capabilities,
                        sizeof capabilities) > 0;
}

static int is_32_bit(int fd) {
  unsigned char head[5] = {0};
  return xp_system_call(__NR_read, fd, (long)head, sizeof head, 0) == sizeof head &&
         head[0] == 0x7f && head[1] == 'E' && head[2] == 'L' && head[3] == 'F' &&
         head[CLASS] == CLASS_32;
}

const char *image_left_alone(const char *path) {
  int fd = (int)xp_system_call(__NR_open, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, 0);
  if (fd == -EACCES) return "a program that may be executed but not read";
  if (fd < 0) return NULL;
  const char *reason = NULL;
  if (gives_rights(path, fd)) reason = "a program with rights of its own (setuid, setgid, setcap)";
  if (!reason && is_32_bit(fd)) reason = "a 32-bit program";
  xp_system_call(__NR_close, fd, 0, 0, 0);
  return reason;
}
