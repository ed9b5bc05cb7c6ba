/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* AddressSanitizer maps 16 TiB of shadow memory at a fixed address, where Valgrind's own memory
 * lies, and must be the first library. It ends the program before main() otherwise. */
#include "address_sanitizer.h"

#include <elf.h>

#include "executables.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_vkiscnums.h"
#include "system_call.h"

static const HChar NAME[] = "\0__asan_init"; /* with the zero behind it */

static Bool read_at(Int fd, void *to, UWord size, UWord offset) {
  return executable_read(fd, to, size, offset) == (Word)size;
}

static Bool read_section(Int fd, const Elf64_Ehdr *head, UInt i, Elf64_Shdr *section) {
  return i < head->e_shnum &&
         read_at(fd, section, sizeof *section, head->e_shoff + (UWord)i * sizeof *section);
}

static Bool holds_name(const HChar *text, UWord size) {
  for (UWord i = 0; i + sizeof NAME <= size; i++)
    if (text[i + 1] == NAME[1] && VG_(memcmp)(text + i, NAME, sizeof NAME) == 0) return True;
  return False;
}

/* Pieces overlap, so that the name is whole in one of them. */
static Bool names_it(Int fd, const Elf64_Shdr *names) {
  enum { PIECE = 4096, STEP = PIECE - sizeof NAME + 1, MOST = 256 << 20 };
  HChar piece[PIECE];
  if (names->sh_size > MOST) return False;
  for (UWord at = 0; at < names->sh_size; at += STEP) {
    const UWord left = names->sh_size - at, size = left < PIECE ? left : PIECE;
    if (!read_at(fd, piece, size, names->sh_offset + at)) return False;
    if (holds_name(piece, size)) return True;
  }
  return False;
}

/* The dynamic symbols do not have it where GCC linked it statically. */
static Bool file_has(Int fd) {
  enum { TABLES = 2 }; /* that a file has, if it is no made-up one */
  Int tables = 0;
  Elf64_Ehdr head;
  Elf64_Shdr symbols, names;
  if (!read_at(fd, &head, sizeof head, 0) || VG_(memcmp)(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof symbols)
    return False;
  for (UInt i = 0; tables < TABLES && read_section(fd, &head, i, &symbols); i++)
    if ((symbols.sh_type == SHT_DYNSYM || symbols.sh_type == SHT_SYMTAB) && ++tables &&
        read_section(fd, &head, symbols.sh_link, &names) && names_it(fd, &names))
      return True;
  return False;
}

Bool has_address_sanitizer(const HChar *path) {
  const Int fd = executable_open(executable_run_for(path));
  if (fd < 0) return False;
  const Bool has = file_has(fd);
  xp_system_call(__NR_close, fd, 0, 0, 0);
  return has;
}
