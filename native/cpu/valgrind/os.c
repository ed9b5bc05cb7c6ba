/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Valgrind's services for the common part of the engines. */
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "system_call.h"
#include "tool.h"

const char *const engine_name = "valgrind";
const char *const engine_version = XPUPROF_VERSION "+valgrind-" VALGRIND_VERSION;

const char *engine_hidden_isa(void) {
  return fma_was_hidden ? "avx2 bmi1 bmi2 erms fma lzcnt movbe" : "";
}

void *engine_allocate(size_t size) { return VG_(malloc)("xpuprof", size); }

void engine_free(void *memory, size_t size) {
  (void)size;
  VG_(free)(memory);
}

char *engine_environment(const char *name) { return VG_(getenv)(name); }

/* ---- mappings -------------------------------------------------------------------------------- */

/* Valgrind core function: mappings known to its address-space manager. */
extern SysRes VG_(am_shared_mmap_file_float_valgrind)(SizeT length, UInt prot, Int fd,
                                                      Off64T offset);
extern SysRes VG_(am_mmap_anon_float_valgrind)(SizeT length);

static void *os_map(int fd, uint64_t size) {
  SysRes result =
      VG_(am_shared_mmap_file_float_valgrind)(size, VKI_PROT_READ | VKI_PROT_WRITE, fd, 0);
  return sr_isError(result) ? NULL : (void *)sr_Res(result);
}

static void os_unmap(void *address, uint64_t size) { VG_(am_munmap_valgrind)((Addr)address, size); }

/* The address-space manager chooses the place and is told that the old one is free. */
static void *os_move(void *address, uint64_t size, uint64_t new_size) {
  enum { MAY_MOVE = 1, FIXED = 2 };
  SysRes place = VG_(am_mmap_anon_float_valgrind)(new_size);
  if (sr_isError(place)) return NULL;
  long to = (long)sr_Res(place);
  long at = xp_system_call6(__NR_mremap, (long)address, (long)size, (long)new_size,
                            MAY_MOVE | FIXED, to, 0);
  os_unmap(at == to ? address : (void *)to, at == to ? size : new_size);
  return at == to ? (void *)at : NULL;
}

static const xp_os valgrind_os = {os_map, os_move, os_unmap};

const xp_os *const engine_os = &valgrind_os;

/* ---- the log --------------------------------------------------------------------------------- */

/* The launcher has Valgrind log to this file of the execution folder. */
void log_drop_empty(void) {
  struct vg_stat file;
  if (!options.directory) return;
  SizeT room = VG_(strlen)(options.directory) + 64;
  HChar *path = VG_(malloc)("xpuprof.path", room);
  VG_(snprintf)(path, room, "%s/valgrind-%d.log", options.directory, VG_(getpid)());
  if (!sr_isError(VG_(stat)(path, &file)) && file.size == 0) VG_(unlink)(path);
  VG_(free)(path);
}
