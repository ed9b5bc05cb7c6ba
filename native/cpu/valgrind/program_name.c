/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* What a program finds as its name, argv[0]. Valgrind gives it the path of its file, since it has
 * no place for another name; programs with several commands (busybox) choose one by it. */
#include "program_name.h"

#include "executables.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "system_call.h"

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

/* What the program finds in /proc/self/cmdline, which Valgrind keeps in a file of its own. */
extern Int VG_(cl_cmdline_fd);

static void name_in_command_line(void) {
  const Int file = VG_(cl_cmdline_fd);
  const OffT size = file < 0 ? 0 : VG_(lseek)(file, 0, VKI_SEEK_END);
  if (size <= 0) return;
  HChar *line = VG_(malloc)("xpuprof.command-line", (SizeT)size);
  VG_(lseek)(file, 0, VKI_SEEK_SET);
  const SizeT path = VG_(read)(file, line, (Int)size) == size ? VG_(strlen)(line) + 1 : 0;
  if (path && xp_system_call(__NR_ftruncate, file, 0, 0, 0) == 0) {
    VG_(lseek)(file, 0, VKI_SEEK_SET);
    VG_(write)(file, given, (Int)VG_(strlen)(given) + 1);
    VG_(write)(file, line + path, (Int)((SizeT)size - path));
  }
  VG_(free)(line);
}

/* The kernel names an interpreter itself. The stack has the path there, and room for no more. */
void program_name_give(ThreadId tid) {
  HChar *name = ((HChar **)VG_(get_SP)(tid))[1];
  SizeT length = VG_(strlen)(given);
  if (!length || !name || length > VG_(strlen)(name) || executable_is_script()) return;
  VG_(memcpy)(name, given, length + 1);
  name_in_command_line();
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
