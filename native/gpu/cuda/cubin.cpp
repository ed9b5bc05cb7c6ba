// SPDX-License-Identifier: Apache-2.0
#include "cubin.h"

#include <elf.h>
#include <string.h>

/* Bytes [offset, offset + count) of the file, or NULL when it has fewer. */
static const char *part(const void *file, size_t size, uint64_t offset, uint64_t count) {
  if (offset > size || count > size - offset) return nullptr;
  return static_cast<const char *>(file) + offset;
}

std::vector<std::string> cubin_functions(const void *cubin, size_t size) {
  std::vector<std::string> names;
  Elf64_Ehdr head;
  const char *at = part(cubin, size, 0, sizeof head);
  if (!at || memcmp(at, ELFMAG, SELFMAG) != 0) return names;
  memcpy(&head, at, sizeof head);
  if (head.e_shentsize != sizeof(Elf64_Shdr) || head.e_shstrndx >= head.e_shnum) return names;
  at = part(cubin, size, head.e_shoff, static_cast<uint64_t>(head.e_shnum) * sizeof(Elf64_Shdr));
  if (!at) return names;
  std::vector<Elf64_Shdr> sections(head.e_shnum);
  memcpy(sections.data(), at, sections.size() * sizeof sections[0]);
  const Elf64_Shdr &strings = sections[head.e_shstrndx];
  const char *text = part(cubin, size, strings.sh_offset, strings.sh_size);
  if (!text || strings.sh_size == 0 || text[strings.sh_size - 1] != 0) return names;
  const char prefix[] = ".text.";
  for (const Elf64_Shdr &section : sections) {
    if (section.sh_name >= strings.sh_size) continue;
    const char *name = text + section.sh_name;
    if (strncmp(name, prefix, sizeof prefix - 1) == 0) names.push_back(name + sizeof prefix - 1);
  }
  return names;
}

bool cubin_launches(const void *cubin, size_t size) {
  static const char name[] = "__cudaCDP2LaunchDevice"; /* from CUDA 12 on */
  return memmem(cubin, size, name, sizeof name - 1) != nullptr;
}
