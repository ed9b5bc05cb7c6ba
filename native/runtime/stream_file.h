/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a stream, written through a mapped window that slides over it. No descriptor stays
 * open: a program that closes or replaces descriptors, changes its root folder or its user cannot
 * redirect our writes to a file of its own. The file is made far larger than needed, without
 * blocks, and the window moves by mremap. Plain C on system calls, no libc. */
#ifndef XPUPROF_STREAM_FILE_H
#define XPUPROF_STREAM_FILE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Mapped memory, reported to Valgrind. NULL on failure. */
typedef struct xp_os {
  void *(*map)(int fd, uint64_t size); /* the file's first bytes: shared, writable */
  void *(*move)(void *address, uint64_t size, uint64_t new_size); /* mremap(2), may move */
  void (*unmap)(void *address, uint64_t size);
} xp_os;

extern const xp_os xp_linux; /* where the kernel alone chooses addresses */

/* A file, named by a path or a descriptor. */
typedef struct xp_identity {
  uint64_t device, inode;
  uint32_t mode; /* of stat(2); 0: names nothing */
} xp_identity;

xp_identity xp_identity_of_path(const char *path); /* a link itself */
xp_identity xp_identity_of_descriptor(int fd);
int xp_same_file(xp_identity a, xp_identity b);

enum { XP_PATH_MAX = 4096 };

typedef struct xp_file {
  const xp_os *os;
  xp_identity identity; /* the file that the path must still name before a resize */
  uint64_t size, step;  /* current size of the file; growth step */
  uint8_t *window;
  uint64_t offset, room; /* the window's offset in the file and its size */
  uint64_t taken;        /* the file's bytes up to here have disk space and lie in memory */
  char path[XP_PATH_MAX];
} xp_file;

/* Creates the file (refuses an existing one) and maps its first `room` bytes. Like all functions
 * here, returns 0 or a negative error number of the kernel. */
int xp_file_create(xp_file *file, const xp_os *os, const char *path, uint64_t room);
/* Slides the window to [offset, offset + room), whole pages that start in the window or directly
 * after it. */
int xp_file_slide(xp_file *file, uint64_t offset, uint64_t room);
/* Allocates disk space for the window's first `size` bytes: stores into them cannot fail. Asked for
 * page by page as records come; a whole window at a time would show in the slice in which it is
 * opened. A page more is taken, which the window must have: on a full disk, cutting the file frees
 * it for the report. */
int xp_file_take(xp_file *file, uint64_t size);
/* Unmaps the window and cuts the file. If the path no longer leads to it (another root folder,
 * another user), the supervisor cuts. */
void xp_file_cut(xp_file *file, uint64_t size);
void xp_file_unmap(xp_file *file);

#ifdef __cplusplus
}
#endif
#endif
