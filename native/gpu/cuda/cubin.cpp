// SPDX-License-Identifier: Apache-2.0
#include "cubin.h"

#include <string.h>

/* Bytes [offset, offset + count) of the file, or NULL when it has fewer. */
const char *Cubin::part(uint64_t offset, uint64_t count) const {
  if (offset > size_ || count > size_ - offset) return nullptr;
  return file_ + offset;
}

Cubin::Cubin(const void *file, size_t size) : file_(static_cast<const char *>(file)), size_(size) {
  Elf64_Ehdr head;
  const char *at = part(0, sizeof head);
  if (!at || memcmp(at, ELFMAG, SELFMAG) != 0) return;
  memcpy(&head, at, sizeof head);
  if (head.e_shentsize != sizeof(Elf64_Shdr) || head.e_shstrndx >= head.e_shnum) return;
  at = part(head.e_shoff, static_cast<uint64_t>(head.e_shnum) * sizeof(Elf64_Shdr));
  if (!at) return;
  std::vector<Elf64_Shdr> sections(head.e_shnum);
  memcpy(sections.data(), at, sections.size() * sizeof sections[0]);
  const Elf64_Shdr &strings = sections[head.e_shstrndx];
  const char *text = part(strings.sh_offset, strings.sh_size);
  if (!text || strings.sh_size == 0 || text[strings.sh_size - 1] != 0) return;
  strings_ = text;
  strings_size_ = strings.sh_size;
  sections_ = sections;
}

const char *Cubin::name_of(const Elf64_Shdr &section) const {
  return section.sh_name < strings_size_ ? strings_ + section.sh_name : "";
}

static const char TEXT[] = ".text.";

std::vector<std::string> Cubin::functions() const {
  std::vector<std::string> names;
  for (const Elf64_Shdr &section : sections_) {
    const char *name = name_of(section);
    if (strncmp(name, TEXT, sizeof TEXT - 1) == 0) names.push_back(name + sizeof TEXT - 1);
  }
  return names;
}

std::string Cubin::section(const std::string &name) const {
  for (const Elf64_Shdr &section : sections_) {
    if (name != name_of(section)) continue;
    const char *content = part(section.sh_offset, section.sh_size);
    return content ? std::string(content, section.sh_size) : "";
  }
  return "";
}

std::string Cubin::code(const std::string &function) const { return section(TEXT + function); }

/* Attributes: a byte of format, a byte of kind, two bytes of value; in the format with a size these
 * two are the number of bytes that follow. As ptxas 13 writes them (cuobjdump -elf). */
enum : uint8_t { WITH_SIZE = 4, INDIRECT_BRANCH_TARGETS = 0x34 };

static uint32_t word(const std::string &bytes, size_t at) {
  uint32_t value;
  memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/* Each branch has its offset, a zero, the number of its targets, their offsets. */
static void take_targets(const std::string &value,
                         std::map<uint32_t, std::vector<uint32_t>> *branches) {
  for (size_t at = 0; at + 12 <= value.size();) {
    uint32_t branch = word(value, at), n = word(value, at + 8);
    at += 12;
    if (n > (value.size() - at) / 4) return;
    for (uint32_t i = 0; i < n; i++) (*branches)[branch].push_back(word(value, at + 4 * i));
    at += 4ull * n;
  }
}

std::map<uint32_t, std::vector<uint32_t>> Cubin::indirect_branches(
    const std::string &function) const {
  std::map<uint32_t, std::vector<uint32_t>> branches;
  std::string info = section(".nv.info." + function);
  for (size_t at = 0; at + 4 <= info.size();) {
    uint16_t size = 0;
    memcpy(&size, info.data() + at + 2, sizeof size);
    if (info[at] != WITH_SIZE) size = 0;
    if (info[at] == WITH_SIZE && info[at + 1] == INDIRECT_BRANCH_TARGETS)
      take_targets(info.substr(at + 4, size), &branches);
    at += 4u + size;
  }
  return branches;
}

bool Cubin::launches() const {
  static const char name[] = "__cudaCDP2LaunchDevice"; /* from CUDA 12 on */
  return size_ && memmem(file_, size_, name, sizeof name - 1) != nullptr;
}
