/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* What a program finds as its name, argv[0]. Valgrind gives it the path of its file, since it has
 * no place for another name; programs with several commands (busybox) choose one by it. */
#include "program_name.h"

#include "executables.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"

static const HChar OPTION[] = "--program-name=";
enum { OPTION_LENGTH = sizeof OPTION - 1 };

static const HChar *given = "";

static Bool is_option(const HChar *argument) {
  return VG_(strncmp)(argument, OPTION, OPTION_LENGTH) == 0;
}

Bool program_name_take(const HChar *argument) {
  if (!is_option(argument)) return False;
  given = argument + OPTION_LENGTH;
  return True;
}

/* The kernel names an interpreter itself. The stack has the path there, and room for no more. */
void program_name_give(ThreadId tid) {
  HChar *name = ((HChar **)VG_(get_SP)(tid))[1];
  SizeT length = VG_(strlen)(given);
  if (length && name && length <= VG_(strlen)(name) && !executable_is_script())
    VG_(memcpy)(name, given, length + 1);
}

void program_name_pass(const HChar **options, const HChar **end) {
  const HChar *name = arguments_first();
  for (; options < end; options++) {
    if (!is_option(*options)) continue;
    SizeT size = OPTION_LENGTH + VG_(strlen)(name) + 1;
    HChar *option = VG_(malloc)("xpuprof.program-name", size);
    VG_(snprintf)(option, (Int)size, "%s%s", OPTION, name);
    *options = option;
  }
}
