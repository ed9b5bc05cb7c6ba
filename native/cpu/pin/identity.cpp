/* SPDX-License-Identifier: Apache-2.0 */
#include "identity.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <vector>

static bool read_at(int fd, uint64_t offset, void *to, size_t size) {
  return lseek(fd, static_cast<off_t>(offset), SEEK_SET) == static_cast<off_t>(offset) &&
         read(fd, to, size) == static_cast<ssize_t>(size);
}

static std::string note_of(int fd) {
  Elf64_Ehdr head;
  if (!read_at(fd, 0, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_phentsize != sizeof(Elf64_Phdr))
    return "";
  for (int i = 0; i < head.e_phnum; i++) {
    Elf64_Phdr segment;
    if (!read_at(fd, head.e_phoff + static_cast<uint64_t>(i) * sizeof segment, &segment,
                 sizeof segment))
      return "";
    if (segment.p_type != PT_NOTE || segment.p_filesz > 4096) continue;
    std::vector<uint8_t> notes(segment.p_filesz);
    if (!read_at(fd, segment.p_offset, notes.data(), notes.size())) continue;
    char id[BUILD_ID_ROOM] = "";
    build_id_in_notes(id, notes.data(), notes.size());
    if (*id) return id;
  }
  return "";
}

static std::string hash_of(int fd) {
  std::vector<uint8_t> piece(65536);
  uint64_t hash = HASH_SEED;
  ssize_t got;
  lseek(fd, 0, SEEK_SET);
  while ((got = read(fd, piece.data(), piece.size())) > 0)
    hash = hash_bytes(piece.data(), static_cast<uint64_t>(got), hash);
  char text[BUILD_ID_ROOM];
  build_id_of_hash(text, hash);
  return text;
}

std::string build_id_of(const std::string &path) {
  int fd = open(path.c_str(), O_RDONLY);
  if (fd < 0) return "";
  std::string id = note_of(fd);
  if (id.empty()) id = hash_of(fd);
  close(fd);
  return id;
}
