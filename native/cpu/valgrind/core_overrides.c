/* This file is part of the xpuprof tool for Valgrind.
 *
 * Copyright (C) 2026 the xpuprof authors
 *
 * This program is free software; you can redistribute it and/or modify it under the terms of the
 * GNU General Public License as published by the Free Software Foundation; either version 2 of the
 * License, or (at your option) any later version. It comes without any warranty. */

/* Parts of Valgrind's core and of VEX that are replaced at link time (ld's --wrap), each because a
 * program would pay for something that this tool never uses, or be harmed. */
#include <elf.h>

#include "pub_tool_basics.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_vki.h"
#include "tool.h"

/* Symbols and line tables are needed for the routine filter only; reading them costs a program
 * with large libraries (LLVM in an OpenCL runtime) more than translating what it runs. */
extern ULong __real_vgPlain_di_notify_mmap(Addr, Bool, Int);
extern ULong __wrap_vgPlain_di_notify_mmap(Addr, Bool, Int);

ULong __wrap_vgPlain_di_notify_mmap(Addr address, Bool allow_valgrind_file, Int descriptor) {
  if (!option_filters_routines()) return 0;
  return __real_vgPlain_di_notify_mmap(address, allow_valgrind_file, descriptor);
}

/* VEX checks its own intermediate code after each pass: a tenth of the time of a translation. */
struct _IRSB;
extern void __wrap_sanityCheckIRSB(const struct _IRSB *, const HChar *, Bool, UInt);

void __wrap_sanityCheckIRSB(const struct _IRSB *sb, const HChar *caller, Bool flat, UInt word) {
  (void)sb, (void)caller, (void)flat, (void)word;
}

/* Programs that the device runtime starts (compilers, linkers) are none of the program's work and
 * run natively, as do 32-bit ones, for which there is no tool. */
extern Bool __real_vgPlain_should_we_trace_this_child(const HChar *, const HChar **);
extern Bool __wrap_vgPlain_should_we_trace_this_child(const HChar *, const HChar **);

static Bool is_32_bit(const HChar *path) {
  UChar head[EI_NIDENT];
  Int fd = VG_(fd_open)(path, VKI_O_RDONLY, 0);
  if (fd < 0) return False;
  Bool whole = VG_(read)(fd, head, sizeof head) == sizeof head;
  VG_(close)(fd);
  return whole && VG_(memcmp)(head, ELFMAG, SELFMAG) == 0 && head[EI_CLASS] == ELFCLASS32;
}

Bool __wrap_vgPlain_should_we_trace_this_child(const HChar *path, const HChar **arguments) {
  log_drop_empty();
  if (thread_is_off(VG_(get_running_tid)()) || (path && is_32_bit(path))) return False;
  return __real_vgPlain_should_we_trace_this_child(path, arguments);
}
