/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* What Linux takes as arguments and environment of a program (fs/exec.c, bprm_stack_limits()). */
#include "executables.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { PAGE = 4096, LONGEST_STRING = 32 * PAGE, EXECVEAT = 322 };
static const SizeT LEAST = 32 * PAGE, MOST = 6 << 20;

extern struct vki_rlimit VG_(client_rlimit_stack);
static Addr arguments_at, environment_at;

void arguments_watch(UInt call, const UWord *arguments) {
  const UWord *at = call == EXECVEAT ? arguments + 2 : arguments + 1;
  if (call != __NR_execve && call != EXECVEAT) return;
  arguments_at = at[0];
  environment_at = at[1];
}

static Bool can_read(Addr at) { return VG_(am_is_valid_for_client)(at, 1, VKI_PROT_READ); }

/* With its end; 0: it cannot be read. */
static SizeT length_of(Addr string) {
  for (Addr at = string; at - string < LONGEST_STRING; at++) {
    if ((at == string || at % PAGE == 0) && !can_read(at)) return 0;
    if (*(const HChar *)at == '\0') return at - string + 1;
  }
  return LONGEST_STRING + 1;
}

/* Adds up the strings of a list and their pointers. */
static Int measure(Addr list, SizeT *total) {
  for (; list; list += sizeof(Addr)) {
    if (!can_read(list) || !can_read(list + sizeof(Addr) - 1)) return VKI_EFAULT;
    Addr string = *(const Addr *)list;
    if (!string) break;
    SizeT length = length_of(string);
    if (length == 0) return VKI_EFAULT;
    if (length > LONGEST_STRING) return VKI_E2BIG;
    *total += length + sizeof(Addr);
  }
  return 0;
}

const HChar *arguments_first(void) {
  enum { LONGEST_PATH = PAGE };
  if (!arguments_at || !can_read(arguments_at)) return "";
  Addr first = *(const Addr *)arguments_at;
  SizeT length = first ? length_of(first) : 0;
  return length && length <= LONGEST_PATH ? (const HChar *)first : "";
}

/* Of the program's limit, which the kernel gets when it executes another (main_stack.c). */
static SizeT room(void) {
  SizeT size = VG_(client_rlimit_stack).rlim_cur / 4;
  if (size > MOST) size = MOST;
  return size < LEAST ? LEAST : size;
}

Int arguments_refused(const HChar *path, SizeT more) {
  SizeT total = VG_(strlen)(path) + 1 + more;
  Int error = measure(arguments_at, &total);
  if (!error) error = measure(environment_at, &total);
  return !error && total > room() ? VKI_E2BIG : error;
}
