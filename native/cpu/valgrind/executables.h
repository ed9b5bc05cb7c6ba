/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */
#ifndef XPUPROF_VALGRIND_EXECUTABLES_H
#define XPUPROF_VALGRIND_EXECUTABLES_H

#include "pub_tool_basics.h"

/* The error with which the kernel refuses to execute a file that may be executed: its interpreter
 * or loader is missing, or it is for another machine. 0 if there is none. */
extern Int executable_refused(const HChar *path);

/* The path of the program's own file where `path` leads to the tool's, as /proc/self/exe does in a
 * process of Valgrind; otherwise `path`. Valid until the next call. */
extern const HChar *executable_meant(const HChar *path);

/* The file that the kernel executes for `path`: a script's interpreter. Valid until the next call.
 */
extern const HChar *executable_run_for(const HChar *path);

/* A descriptor to read an executable by, or negative; as many bytes as could be read. */
extern Int executable_open(const HChar *path);
extern Word executable_read(Int fd, void *to, UWord size, UWord offset);

/* Whether the program's own file is a script. */
extern Bool executable_is_script(void);

/* To be called before each system call of the program. */
void arguments_watch(UInt call, const UWord *arguments);
/* The first argument of that call, if it is not longer than a path; else empty. */
const HChar *arguments_first(void);
/* The error with which the kernel refuses the arguments and environment of the call that executes
 * `path`, or 0; `more` bytes are added to them. */
Int arguments_refused(const HChar *path, SizeT more);

#endif
