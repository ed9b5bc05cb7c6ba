/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Programs that handle faults of memory accesses, or of divisions by a number in memory: garbage
 * collectors protect pages, and their handlers let the access be made again. VEX leaves registers
 * behind that only the rest of a block needs, so the access would be made with old ones. To have
 * them up to date at each access makes code slower, by up to a quarter: it is done once the program
 * has such a handler. */
#include "faults.h"

#include "pub_tool_libcsignal.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "tool.h"

/* Declared in Valgrind's core. */
extern void VG_(discard_translations)(Addr, ULong, const HChar *);
extern SysRes VG_(do_sys_sigaction)(Int, const vki_sigaction_toK_t *, vki_sigaction_fromK_t *);

static Bool handled;

Bool faults_are_handled(void) { return handled; }

/* A device runtime's handler is LLVM's, which tells where it crashed and repairs nothing. */
static Bool program_handles(Int signal) {
  vki_sigaction_fromK_t programs;
  return !sr_isError(VG_(do_sys_sigaction)(signal, NULL, &programs)) &&
         programs.ksa_handler != VKI_SIG_DFL && programs.ksa_handler != VKI_SIG_IGN &&
         image_role_of((Addr)programs.ksa_handler) == ROLE_NONE;
}

void faults_after_call(UInt call, const UWord *arguments) {
  const Addr first_page = 0x1000;
  if (handled || call != __NR_rt_sigaction) return;
  Int signal = (Int)arguments[0];
  if ((signal != VKI_SIGSEGV && signal != VKI_SIGBUS && signal != VKI_SIGFPE) ||
      !program_handles(signal))
    return;
  handled = True;
  VG_(discard_translations)(first_page, ~0ull - first_page, "faults are handled");
}
