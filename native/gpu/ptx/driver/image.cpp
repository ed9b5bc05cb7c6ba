// SPDX-License-Identifier: Apache-2.0
#include "image.h"

#include <dlfcn.h>
#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <vector>

namespace ptx {
namespace {

enum : uint32_t { WRAPPER_MAGIC = 0x466243b1, FAT_MAGIC = 0xba55ed50 };
enum : uint16_t { KIND_PTX = 1 };
enum : uint64_t {
  FLAG_LZ4 = 0x2000,
  FLAG_ZSTD = 0x8000,
  FLAG_THIS_DEVICE = 0x100000, /* sm_90a */
  FLAG_FAMILY = 0x200000       /* sm_100f */
};

/* The layouts and flags as nvcc 13.0 writes them; seen in its output. */
struct Wrapper {
  uint32_t magic, version;
  const void *data, *more;
};
struct FatHead {
  uint32_t magic;
  uint16_t version, head_bytes;
  uint64_t bytes; /* of the entries */
};
struct FatEntry {
  uint16_t kind, version;
  uint32_t head_bytes;
  uint64_t bytes; /* of its content in the file */
  uint32_t compressed_bytes, options;
  uint16_t minor, major;
  uint32_t arch, name_offset, name_bytes;
  uint64_t flags, zero, text_bytes; /* of the content when it is compressed */
};
static_assert(sizeof(FatEntry) == 64, "as in the file");

enum : uint64_t { MOST_TEXT = 1u << 30 };

using Lz4 = int (*)(const char *from, char *to, int from_bytes, int to_bytes);
using Zstd = size_t (*)(void *to, size_t to_bytes, const void *from, size_t from_bytes);

template <typename Function>
Function decoder(const char *library, const char *name, std::string *why) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  auto found = handle ? reinterpret_cast<Function>(dlsym(handle, name)) : nullptr;
  if (!found) *why = std::string("its PTX is compressed, and ") + library + " is not installed";
  return found;
}

std::string content_of(const FatEntry &entry, const char *content, std::string *why) {
  if (!(entry.flags & (FLAG_LZ4 | FLAG_ZSTD))) return std::string(content, entry.bytes);
  std::string text;
  *why = "its PTX cannot be decompressed";
  if (entry.text_bytes > MOST_TEXT || entry.compressed_bytes > entry.bytes) return "";
  text.resize(entry.text_bytes);
  uint64_t made = 0;
  if (entry.flags & FLAG_ZSTD) {
    if (auto decode = decoder<Zstd>("libzstd.so.1", "ZSTD_decompress", why))
      made = decode(&text[0], text.size(), content, entry.compressed_bytes);
  } else if (auto decode = decoder<Lz4>("liblz4.so.1", "LZ4_decompress_safe", why)) {
    made = static_cast<uint64_t>(decode(content, &text[0], static_cast<int>(entry.compressed_bytes),
                                        static_cast<int>(text.size())));
  }
  return made == text.size() ? text : "";
}

/* How well PTX suits the device; 0: it cannot run there. The newest is best, and what was made for
 * this very device or its family is better than what any later one runs, too. */
unsigned fitness(const FatEntry &entry, unsigned capability) {
  if (entry.kind != KIND_PTX || entry.arch > capability) return 0;
  if (entry.flags & FLAG_THIS_DEVICE) return entry.arch == capability ? 4 * entry.arch + 2 : 0;
  if (entry.flags & FLAG_FAMILY) return entry.arch / 10 == capability / 10 ? 4 * entry.arch + 1 : 0;
  return 4 * entry.arch;
}

std::string in_fat_binary(const char *image, unsigned capability, std::string *why) {
  FatHead head;
  memcpy(&head, image, sizeof head);
  const char *at = image + head.head_bytes, *end = at + head.bytes, *best = nullptr;
  FatEntry entry, chosen = {};
  unsigned as_good = 0, most = 0;
  while (end - at >= static_cast<ptrdiff_t>(sizeof entry)) {
    memcpy(&entry, at, sizeof entry);
    if (entry.head_bytes < sizeof entry ||
        entry.bytes > static_cast<uint64_t>(end - at) - entry.head_bytes)
      break;
    const unsigned fit = fitness(entry, capability);
    if (fit && fit >= most) {
      as_good = fit == most ? as_good + 1 : 1;
      most = fit;
      chosen = entry;
      best = at + entry.head_bytes;
    }
    at += entry.head_bytes + entry.bytes;
  }
  *why = as_good ? "its fat binary holds parts that are linked when it is loaded"
                 : "its fat binary has no PTX for this device";
  return as_good == 1 ? content_of(chosen, best, why) : "";
}

}  // namespace

std::string text_in(const void *image, unsigned capability, std::string *why) {
  uint32_t magic;
  memcpy(&magic, image, sizeof magic);
  if (magic == WRAPPER_MAGIC) {
    image = static_cast<const Wrapper *>(image)->data;
    memcpy(&magic, image, sizeof magic);
  }
  if (magic == FAT_MAGIC) {
    std::string text = in_fat_binary(static_cast<const char *>(image), capability, why);
    return text.substr(0, text.find('\0'));
  }
  *why = "it was loaded as machine code, without PTX";
  if (memcmp(image, ELFMAG, SELFMAG) == 0) return "";
  return static_cast<const char *>(image);
}

}  // namespace ptx
