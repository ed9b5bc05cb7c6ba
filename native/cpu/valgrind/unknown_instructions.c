/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* An instruction that Valgrind does not know raises SIGILL, so that a program built for this very
 * processor (`-march=native` where that has AVX-512) seems to crash. If nobody handles the signal,
 * the run names the cause. */
#include "unknown_instructions.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_vki.h"
#include "tool.h"

enum { SHOWN = 6, EACH = 3 }; /* an AVX-512 instruction's prefix, opcode and operands */

static HChar bytes[SHOWN * EACH + 1]; /* empty: nothing unknown was met */

/* UD0, UD1 and UD2 are invalid on every processor: the program means to end. */
static Bool is_meant(const UChar *code, UInt n) {
  return n >= 2 && code[0] == 0x0f && (code[1] == 0x0b || code[1] == 0xb9 || code[1] == 0xff);
}

/* HLT, CLI, STI, IN and OUT fault in programs; musl ends by HLT where it finds its heap damaged. */
static Bool is_privileged(UChar code) {
  return code == 0xf4 || code == 0xfa || code == 0xfb || (code & 0xf4) == 0xe4;
}

static UInt readable(Addr at) {
  UInt rest = VKI_PAGE_SIZE - (UInt)(at % VKI_PAGE_SIZE);
  return rest < SHOWN ? rest : SHOWN;
}

static void note(const UChar *code, UInt n) {
  for (UInt i = 0; i < n; i++) VG_(sprintf)(bytes + EACH * i, "%02x ", code[i]);
  bytes[EACH * n - 1] = 0;
}

/* Called when a program arrives at such an instruction. */
extern void __wrap_vgPlain_synth_sigill(ThreadId, Addr);
extern void VG_(synth_fault)(ThreadId);

void __wrap_vgPlain_synth_sigill(ThreadId tid, Addr at) {
  const UChar *code = (const UChar *)at;
  if (is_privileged(code[0])) {
    VG_(synth_fault)(tid);
    return;
  }
  if (!is_meant(code, readable(at))) note(code, readable(at));
  __real_vgPlain_synth_sigill(tid, at);
}

void unknown_instruction_ends(Int signal) {
  if (signal != VKI_SIGILL || !bytes[0]) return;
  stream_lacks("what follows an instruction that Valgrind does not know (", bytes,
               "); a program built for AVX-512, as by -march=native, needs another --cpu, or none");
}
