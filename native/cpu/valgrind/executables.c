/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */
#include "executables.h"

#include <asm/fcntl.h>
#include <elf.h>

#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "system_call.h"

enum { LINE = 256, LONGEST_PATH = 4096, MOST_SCRIPTS = 5 };

extern Int VG_(cl_exec_fd);
extern Int VG_(check_executable)(Bool *is_setuid, const HChar *path, Bool allow_setuid);

static Int refused(const HChar *path, Int scripts);

Word executable_read(Int fd, void *to, UWord size, UWord offset) {
  return xp_system_call(__NR_pread64, fd, (Word)to, (Word)size, (Word)offset);
}

Int executable_open(const HChar *path) {
  return (Int)xp_system_call(__NR_open, (Word)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, 0);
}

static Int missing(const HChar *path) {
  Bool is_setuid;
  return VG_(check_executable)(&is_setuid, path, True);
}

static Bool is_script(const HChar *start) { return start[0] == '#' && start[1] == '!'; }

/* The interpreter in a file's first line; NULL if it is no script, or names none. */
static HChar *interpreter_in(HChar *line) {
  HChar *end;
  if (!is_script(line)) return NULL;
  for (line += 2; *line == ' ' || *line == '\t';) line++;
  for (end = line; *end && *end != ' ' && *end != '\t' && *end != '\n';) end++;
  *end = '\0';
  return end == line ? NULL : line;
}

static Int interpreter_refused(const HChar *path, Int scripts) {
  Int error = missing(path);
  if (error) return error;
  return scripts < MOST_SCRIPTS ? refused(path, scripts + 1) : VKI_ELOOP;
}

/* A program for another machine, or one whose loader is missing. */
static Int elf_refused(Int fd, const Elf64_Ehdr *head) {
  if (head->e_ident[EI_CLASS] == ELFCLASS32)
    return head->e_machine == EM_386 || head->e_machine == EM_X86_64 ? 0 : VKI_ENOEXEC;
  if (head->e_machine != EM_X86_64) return VKI_ENOEXEC;
  for (UInt i = 0; i < head->e_phnum; i++) {
    Elf64_Phdr part;
    HChar loader[LONGEST_PATH];
    if (executable_read(fd, &part, sizeof part, head->e_phoff + i * sizeof part) != sizeof part)
      break;
    if (part.p_type != PT_INTERP || part.p_filesz < 2 || part.p_filesz > sizeof loader) continue;
    if (executable_read(fd, loader, part.p_filesz, part.p_offset) != (Word)part.p_filesz) break;
    return loader[part.p_filesz - 1] ? VKI_ENOEXEC : missing(loader);
  }
  return 0;
}

static Int refused(const HChar *path, Int scripts) {
  union {
    HChar line[LINE + 1];
    Elf64_Ehdr elf;
  } head;
  HChar *interpreter;
  Int error = 0, fd = executable_open(path);
  if (fd < 0) return 0; /* it may be executed but not read */
  VG_(memset)(&head, 0, sizeof head);
  Word size = executable_read(fd, head.line, LINE, 0);
  if ((interpreter = interpreter_in(head.line)))
    error = interpreter_refused(interpreter, scripts);
  else if (size >= (Word)sizeof head.elf && VG_(memcmp)(head.line, ELFMAG, SELFMAG) == 0)
    error = elf_refused(fd, &head.elf);
  xp_system_call(__NR_close, fd, 0, 0, 0);
  return error;
}

Int executable_refused(const HChar *path) { return refused(path, 0); }

Bool executable_is_script(void) {
  HChar start[2] = {0, 0};
  executable_read(VG_(cl_exec_fd), start, sizeof start, 0);
  return is_script(start);
}

/* The kernel's executable of a script is its interpreter. */
static void interpreter_to(HChar *path) {
  for (Int scripts = 0; scripts < MOST_SCRIPTS; scripts++) {
    HChar line[LINE + 1], *interpreter;
    Int fd = executable_open(path);
    if (fd < 0) return;
    VG_(memset)(line, 0, sizeof line);
    executable_read(fd, line, LINE, 0);
    xp_system_call(__NR_close, fd, 0, 0, 0);
    if (!(interpreter = interpreter_in(line))) return;
    VG_(strcpy)(path, interpreter);
  }
}

const HChar *executable_run_for(const HChar *path) {
  static HChar own[LONGEST_PATH];
  if (VG_(strlen)(path) >= sizeof own) return path;
  VG_(strcpy)(own, path);
  interpreter_to(own);
  return own;
}

const HChar *executable_meant(const HChar *path) {
  static HChar own[LONGEST_PATH];
  HChar name[64];
  struct vg_stat tool, that;
  if (sr_isError(VG_(stat)("/proc/self/exe", &tool)) || sr_isError(VG_(stat)(path, &that)) ||
      tool.dev != that.dev || tool.ino != that.ino)
    return path;
  VG_(snprintf)(name, sizeof name, "/proc/self/fd/%d", VG_(cl_exec_fd));
  Word length = xp_system_call(__NR_readlink, (Word)name, (Word)own, sizeof own - 1, 0);
  if (length <= 0) return path;
  own[length] = '\0';
  interpreter_to(own);
  return own;
}
