/* SPDX-License-Identifier: Apache-2.0 */
/* The address ranges of an image that belong to the requested routines, from its symbol table (for
 * a stripped file, the dynamic one). Names are as linked. */
#include <elf.h>

#include "client.h"

typedef struct stretch {
  uint64_t start, end;
} stretch;

struct routines {
  stretch *chosen;
  size_t n, room;
};

typedef struct elf_file {
  const uint8_t *data;
  size_t size;
  uint64_t base; /* lowest address as linked, page-aligned */
} elf_file;

/* `size` bytes of the file at `offset`; NULL when the file has fewer. */
static const void *piece(const elf_file *f, uint64_t offset, uint64_t size) {
  return offset <= f->size && size <= f->size - offset ? f->data + offset : NULL;
}

static const Elf64_Shdr *section(const elf_file *f, const Elf64_Ehdr *head, unsigned index) {
  if (index >= head->e_shnum) return NULL;
  return piece(f, head->e_shoff + index * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr));
}

static void choose(routines *r, const elf_file *f, const Elf64_Sym *symbol, const char *name) {
  unsigned type = ELF64_ST_TYPE(symbol->st_info);
  if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol->st_shndx == SHN_UNDEF) return;
  if (!option_counts_routine(name)) return;
  r->chosen = grown(r->chosen, &r->room, r->n + 1, sizeof *r->chosen);
  uint64_t start = symbol->st_value - f->base;
  r->chosen[r->n++] = (stretch){start, start + (symbol->st_size ? symbol->st_size : 1)};
}

static bool choose_from(routines *r, const elf_file *f, const Elf64_Ehdr *head, unsigned type) {
  for (unsigned i = 0; i < head->e_shnum; i++) {
    const Elf64_Shdr *table = section(f, head, i), *texts;
    if (!table || table->sh_type != type || !(texts = section(f, head, table->sh_link))) continue;
    const Elf64_Sym *symbols = piece(f, table->sh_offset, table->sh_size);
    const char *names = piece(f, texts->sh_offset, texts->sh_size);
    if (!symbols || !names || !texts->sh_size || names[texts->sh_size - 1]) return false;
    for (size_t s = 0; s < table->sh_size / sizeof *symbols; s++)
      if (symbols[s].st_name < texts->sh_size)
        choose(r, f, &symbols[s], names + symbols[s].st_name);
    return true;
  }
  return false;
}

static uint64_t lowest_address(const elf_file *f, const Elf64_Ehdr *head) {
  uint64_t lowest = ~0ull;
  for (unsigned i = 0; i < head->e_phnum; i++) {
    const Elf64_Phdr *p = piece(f, head->e_phoff + i * sizeof *p, sizeof *p);
    if (p && p->p_type == PT_LOAD && p->p_vaddr < lowest) lowest = p->p_vaddr;
  }
  return lowest & ~(uint64_t)4095;
}

routines *routines_read(const char *path) {
  elf_file f = {0};
  routines *r = dr_global_alloc(sizeof *r);
  *r = (routines){0};
  f.data = file_map(path, &f.size);
  const Elf64_Ehdr *head = f.data ? piece(&f, 0, sizeof *head) : NULL;
  if (head && head->e_shentsize == sizeof(Elf64_Shdr) && head->e_phentsize == sizeof(Elf64_Phdr)) {
    f.base = lowest_address(&f, head);
    if (!choose_from(r, &f, head, SHT_SYMTAB)) choose_from(r, &f, head, SHT_DYNSYM);
  }
  if (f.data) file_unmap(f.data, f.size);
  return r;
}

bool routines_chosen(const routines *r, uint64_t offset) {
  for (size_t i = 0; r && i < r->n; i++)
    if (offset >= r->chosen[i].start && offset < r->chosen[i].end) return true;
  return false;
}
