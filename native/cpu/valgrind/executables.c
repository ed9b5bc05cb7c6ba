/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */
#include "executables.h"

#include <asm/fcntl.h>
#include <elf.h>

#include "pub_tool_libcbase.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "system_call.h"

enum { LINE = 256, LONGEST_PATH = 4096, MOST_SCRIPTS = 5 };

extern Int VG_(check_executable)(Bool *is_setuid, const HChar *path, Bool allow_setuid);

static Int refused(const HChar *path, Int scripts);

static Word read_at(Int fd, void *to, UWord size, UWord offset) {
  return xp_system_call(__NR_pread64, fd, (Word)to, (Word)size, (Word)offset);
}

static Int missing(const HChar *path) {
  Bool is_setuid;
  return VG_(check_executable)(&is_setuid, path, True);
}

/* `line` is what follows "#!"; what the kernel finds no name in is left to the core. */
static Int script_refused(HChar *line, Int scripts) {
  HChar *end;
  while (*line == ' ' || *line == '\t') line++;
  for (end = line; *end && *end != ' ' && *end != '\t' && *end != '\n';) end++;
  if (end == line) return 0;
  *end = '\0';
  Int error = missing(line);
  if (error) return error;
  return scripts < MOST_SCRIPTS ? refused(line, scripts + 1) : VKI_ELOOP;
}

/* A program for another machine, or one whose loader is missing. */
static Int elf_refused(Int fd, const Elf64_Ehdr *head) {
  if (head->e_ident[EI_CLASS] == ELFCLASS32)
    return head->e_machine == EM_386 || head->e_machine == EM_X86_64 ? 0 : VKI_ENOEXEC;
  if (head->e_machine != EM_X86_64) return VKI_ENOEXEC;
  for (UInt i = 0; i < head->e_phnum; i++) {
    Elf64_Phdr part;
    HChar loader[LONGEST_PATH];
    if (read_at(fd, &part, sizeof part, head->e_phoff + i * sizeof part) != sizeof part) break;
    if (part.p_type != PT_INTERP || part.p_filesz < 2 || part.p_filesz > sizeof loader) continue;
    if (read_at(fd, loader, part.p_filesz, part.p_offset) != (Word)part.p_filesz) break;
    return loader[part.p_filesz - 1] ? VKI_ENOEXEC : missing(loader);
  }
  return 0;
}

static Int refused(const HChar *path, Int scripts) {
  union {
    HChar line[LINE + 1];
    Elf64_Ehdr elf;
  } head;
  Int error = 0;
  Int fd = (Int)xp_system_call(__NR_open, (Word)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, 0);
  if (fd < 0) return 0; /* it may be executed but not read */
  VG_(memset)(&head, 0, sizeof head);
  Word size = read_at(fd, head.line, LINE, 0);
  if (size > 2 && head.line[0] == '#' && head.line[1] == '!')
    error = script_refused(head.line + 2, scripts);
  else if (size >= (Word)sizeof head.elf && VG_(memcmp)(head.line, ELFMAG, SELFMAG) == 0)
    error = elf_refused(fd, &head.elf);
  xp_system_call(__NR_close, fd, 0, 0, 0);
  return error;
}

Int executable_refused(const HChar *path) { return refused(path, 0); }
