/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* Images: the files that code comes from, named by build-id. */
#include <elf.h>

#include "pub_tool_aspacemgr.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"
#include "tool.h"

extern Int VG_(cl_exec_fd); /* of Valgrind's core: the program's file, kept open */

enum { MAX_LOADS = 16, MAX_NOTES = 8192, MAX_POCL = 1 << 28 };

typedef struct image {
  ULong dev, ino;
  HChar *path;
  HChar build_id[BUILD_ID_ROOM];
  Bool elf;
  Bool counted;
  UInt id; /* in the stream, from the first block that counts on; else NO_IMAGE */
  UInt n_loads;
  Elf64_Phdr loads[MAX_LOADS];
  Addr base; /* lowest address of the image as linked */
  image_role role;
  Bool symbols_read;
  Addr *entries; /* of kernels, offsets from `base` */
  UInt n_entries;
} image;

static image *images;
static size_t n_images, images_room;
static Bool pocl_is_known; /* how it calls its kernels */

/* ---- reading the file ------------------------------------------------------------------------ */

static Bool read_at(Int fd, ULong offset, void *to, Int size) {
  return VG_(lseek)(fd, (Off64T)offset, VKI_SEEK_SET) == (Off64T)offset &&
         VG_(read)(fd, to, size) == size;
}

/* Names the image's kept translations only, which are compared with its code at each use. */
static void hash_facts(image *im, Int fd) {
  struct vg_stat now;
  VG_(fstat)(fd, &now);
  const ULong facts[] = {im->dev, im->ino, (ULong)now.size, now.mtime, now.mtime_nsec};
  build_id_of_hash(im->build_id, hash_bytes(facts, sizeof facts, HASH_SEED));
}

static void hash_file(image *im, Int fd) {
  enum { PIECE = 65536 };
  UChar *piece = VG_(malloc)("xpuprof.file", PIECE);
  ULong hash = HASH_SEED;
  Int got;
  VG_(lseek)(fd, 0, VKI_SEEK_SET);
  while ((got = VG_(read)(fd, piece, PIECE)) > 0) hash = hash_bytes(piece, (SizeT)got, hash);
  VG_(free)(piece);
  build_id_of_hash(im->build_id, hash);
}

static void read_headers(image *im, Int fd) {
  Elf64_Ehdr head;
  static ULong notes[MAX_NOTES / 8];
  if (!read_at(fd, 0, &head, sizeof head) || VG_(memcmp)(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr))
    return;
  im->base = ~(Addr)0;
  for (UInt i = 0; i < head.e_phnum; i++) {
    Elf64_Phdr p;
    if (!read_at(fd, head.e_phoff + i * sizeof p, &p, sizeof p)) return;
    if (p.p_type == PT_LOAD && im->n_loads < MAX_LOADS) {
      im->loads[im->n_loads++] = p;
      if (VG_PGROUNDDN(p.p_vaddr) < im->base) im->base = VG_PGROUNDDN(p.p_vaddr);
    }
    if (p.p_type == PT_NOTE && p.p_filesz <= MAX_NOTES && !im->build_id[0] &&
        read_at(fd, p.p_offset, notes, (Int)p.p_filesz))
      build_id_in_notes(im->build_id, (const uint8_t *)notes, p.p_filesz);
  }
  im->elf = im->n_loads > 0;
  if (im->build_id[0]) return;
  if (im->counted)
    hash_file(im, fd);
  else /* a device runtime may have 100 MB */
    hash_facts(im, fd);
}

static void with_file(image *im, void (*read)(image *, Int)) {
  struct vg_stat now;
  Int fd = VG_(fd_open)(im->path, VKI_O_RDONLY, 0);
  if (fd < 0) return;
  /* A file replaced since it was mapped says nothing about the code. */
  if (VG_(fstat)(fd, &now) == 0 && now.dev == im->dev && now.ino == im->ino) read(im, fd);
  VG_(close)(fd);
}

/* PoCL finds a kernel in the library that it compiled by the name that this text makes. */
static void look_for_entries(image *im, Int fd) {
  (void)im;
  static const HChar text[] = "_pocl_kernel_%s_workgroup";
  struct vg_stat file;
  if (VG_(fstat)(fd, &file) || file.size > MAX_POCL) return;
  HChar *bytes = VG_(malloc)("xpuprof.pocl", (SizeT)file.size + 1);
  if (read_at(fd, 0, bytes, (Int)file.size))
    for (SizeT i = 0; i + sizeof text <= (SizeT)file.size && !pocl_is_known; i++)
      pocl_is_known = bytes[i] == '_' && VG_(memcmp)(bytes + i, text, sizeof text - 1) == 0;
  VG_(free)(bytes);
}

static void find_role(image *im) {
  static const struct {
    const HChar *name;
    image_role role;
  } known[] = {{"libOpenCL.so*", ROLE_LOADER}, {"libxpuprof_*", ROLE_LOADER},
               {"libpocl.so*", ROLE_POCL},     {"libpocl-*", ROLE_POCL},
               {"libLLVM*", ROLE_COMPILER},    {"libhwloc.so*", ROLE_COMPILER},
               {"libintelocl.so*", ROLE_INTEL}};
  const HChar *slash = VG_(strrchr)(im->path, '/'), *name = slash ? slash + 1 : im->path;
  for (UInt i = 0; i < sizeof known / sizeof *known; i++)
    if (glob_match(known[i].name, name)) im->role = known[i].role;
  if (im->role == ROLE_POCL) with_file(im, look_for_entries);
}

/* ---- the table ------------------------------------------------------------------------------- */

static Bool is_main(const image *im) {
  struct vg_stat file;
  return VG_(fstat)(VG_(cl_exec_fd), &file) == 0 && file.dev == im->dev && file.ino == im->ino;
}

static UInt add(const NSegment *segment, const HChar *path) {
  images = grown(images, &images_room, n_images + 1, sizeof *images);
  image *im = &images[n_images];
  im->dev = segment->dev;
  im->ino = segment->ino;
  im->path = VG_(strdup)("xpuprof.path", path);
  im->counted = option_counts_image(im->path, is_main(im));
  with_file(im, read_headers);
  find_role(im);
  im->id = NO_IMAGE;
  return (UInt)n_images++;
}

static Bool is_file(const image *im, const NSegment *segment, const HChar *path) {
  return im->dev == segment->dev && im->ino == segment->ino && text_equal(im->path, path);
}

/* Code comes from few files at a time: a direct-mapped cache makes the search rare. Files whose
 * kernels ran are deleted when PoCL keeps no cache, and others get their numbers. */
static image *find(const NSegment *segment, const HChar *path) {
  enum { CACHE = 4096 };
  static UInt cache[CACHE];
  UInt *at = &cache[segment->ino % CACHE];
  if (*at < n_images && is_file(&images[*at], segment, path)) return &images[*at];
  for (*at = 0; *at < n_images; ++*at)
    if (is_file(&images[*at], segment, path)) return &images[*at];
  *at = add(segment, path);
  return &images[*at];
}

/* The file at `code`, or NULL. */
static image *image_at(const NSegment *segment) {
  const HChar *path = segment && segment->kind == SkFileC ? VG_(am_get_filename)(segment) : NULL;
  return path ? find(segment, path) : NULL;
}

/* Whether the code lies in the image as its headers say, and where. */
static Bool place_in(const image *im, const NSegment *segment, Addr code, uint64_t *place) {
  ULong offset = (ULong)segment->offset + (code - segment->start);
  for (UInt i = 0; i < im->n_loads; i++) {
    const Elf64_Phdr *p = &im->loads[i];
    if (offset >= VG_PGROUNDDN(p->p_offset) && offset < p->p_offset + p->p_filesz &&
        p->p_flags & PF_X) {
      *place = offset - p->p_offset + p->p_vaddr - im->base;
      return True;
    }
  }
  return False;
}

static Bool routine_counts(Addr code) {
  const HChar *routine = "";
  if (!option_filters_routines()) return True;
  VG_(get_fnname)(VG_(current_DiEpoch)(), code, &routine);
  return option_counts_routine(routine);
}

code_place image_place(Addr code) {
  code_place place = {NO_IMAGE, True, 0};
  if (!routine_counts(code)) return place;
  const NSegment *segment = VG_(am_find_nsegment)(code);
  /* Valgrind's own trampolines stand for parts of the vdso and of libc's signal return. */
  if (!segment || segment->kind == SkAnonV || segment->kind == SkFileV) return place;
  image *im = image_at(segment);
  if (im && !im->counted) return place;
  if (!im || !im->elf || !place_in(im, segment, code, &place.offset)) return place_of_no_image();
  if (im->id == NO_IMAGE) im->id = image_new(im->build_id, im->path);
  place.image = im->id;
  return place;
}

Bool image_is_program(Addr code) {
  const image *im = image_at(VG_(am_find_nsegment)(code));
  return im && im->elf;
}

/* ---- the device runtime ---------------------------------------------------------------------- */

image_role image_role_of(Addr code) {
  const image *im = image_at(VG_(am_find_nsegment)(code));
  return im ? im->role : ROLE_NONE;
}

Bool kernels_are_known(void) { return pocl_is_known; }

/* Entries are dynamic symbols. PoCL makes one small library for each kernel and work-group size. */
static void read_entries(image *im, Int fd, const Elf64_Shdr *symbols, const Elf64_Shdr *names) {
  enum { MAX_SYMBOLS = 1024, MAX_NAMES = 1 << 20 };
  if (symbols->sh_size > MAX_SYMBOLS * sizeof(Elf64_Sym) || names->sh_size > MAX_NAMES) return;
  Elf64_Sym *symbol = VG_(malloc)("xpuprof.symbols", symbols->sh_size);
  HChar *name = VG_(calloc)("xpuprof.symbols", 1, names->sh_size + 1);
  UInt n = (UInt)(symbols->sh_size / sizeof *symbol);
  if (read_at(fd, symbols->sh_offset, symbol, (Int)symbols->sh_size) &&
      read_at(fd, names->sh_offset, name, (Int)names->sh_size)) {
    im->entries = VG_(calloc)("xpuprof.symbols", n + 1, sizeof *im->entries);
    for (UInt i = 0; i < n; i++)
      if (symbol[i].st_shndx != SHN_UNDEF && symbol[i].st_name < names->sh_size &&
          glob_match("_pocl_kernel_*_workgroup*", name + symbol[i].st_name))
        im->entries[im->n_entries++] = symbol[i].st_value - im->base;
  }
  VG_(free)(symbol);
  VG_(free)(name);
}

static void read_symbols(image *im, Int fd) {
  Elf64_Ehdr head;
  Elf64_Shdr symbols, names;
  if (!read_at(fd, 0, &head, sizeof head) || head.e_shentsize != sizeof symbols) return;
  for (UInt i = 0; i < head.e_shnum; i++) {
    if (!read_at(fd, head.e_shoff + i * sizeof symbols, &symbols, sizeof symbols)) return;
    if (symbols.sh_type != SHT_DYNSYM) continue;
    if (read_at(fd, head.e_shoff + symbols.sh_link * sizeof names, &names, sizeof names))
      read_entries(im, fd, &symbols, &names);
    return;
  }
}

static Bool has_entry(image *im, uint64_t place) {
  if (!im->symbols_read) {
    im->symbols_read = True;
    with_file(im, read_symbols);
  }
  for (UInt i = 0; i < im->n_entries; i++)
    if (im->entries[i] == place) return True;
  return False;
}

static Bool is_kernel_entry(image *im, uint64_t place) {
  return pocl_is_known && im->role == ROLE_NONE && has_entry(im, place);
}

Bool image_is_kernel_entry(Addr code) {
  uint64_t place;
  const NSegment *segment = VG_(am_find_nsegment)(code);
  image *im = pocl_is_known ? image_at(segment) : NULL;
  return im && im->elf && place_in(im, segment, code, &place) && is_kernel_entry(im, place);
}

/* Whether the instruction before is an indirect call, of 2 to 7 bytes. */
static Bool follows_call(const UChar *code) {
  enum { GROUP_5 = 0xff, CALL = 2 };
  for (Int length = 2; length <= 7; length++)
    if (code[-length] == GROUP_5 && (code[-length + 1] >> 3 & 7) == CALL) return True;
  return False;
}

Bool image_calls_kernel(Addr code, Addr stack) {
  const NSegment *segment = VG_(am_find_nsegment)(code);
  if (!segment || segment->kind != SkAnonC || !segment->hasX ||
      !VG_(am_is_valid_for_client)(stack, sizeof(Addr), VKI_PROT_READ))
    return False;
  Addr back = *(const Addr *)stack;
  return image_role_of(back - 1) == ROLE_INTEL && follows_call((const UChar *)back);
}

/* ---- kept translations ----------------------------------------------------------------------- */

/* Not where the program writes, and not at a kernel's entry, where a request stands instead. */
UInt image_to_keep(Addr code, Bool *counts) {
  uint64_t place;
  const NSegment *segment = VG_(am_find_nsegment)(code);
  image *im = image_at(segment);
  if (!im || !im->build_id[0] || segment->hasW || !place_in(im, segment, code, &place) ||
      is_kernel_entry(im, place))
    return NO_IMAGE;
  *counts = im->counted;
  return (UInt)(im - images);
}

void image_key(UInt number, HChar key[IMAGE_KEY_ROOM]) {
  VG_(snprintf)(key, IMAGE_KEY_ROOM, "%s-%u", images[number].build_id, images[number].role);
}
