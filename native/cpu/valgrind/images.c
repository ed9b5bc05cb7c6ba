/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * This file is part of the xpuprof tool for Valgrind.
 *
 * Copyright (C) 2026 the xpuprof authors
 *
 * This program is free software; you can redistribute it and/or modify it under the terms of the
 * GNU General Public License as published by the Free Software Foundation; either version 2 of the
 * License, or (at your option) any later version. It comes without any warranty. */

/* Images: the files that code comes from, named by build-id. */
#include <elf.h>

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"
#include "tool.h"

extern Int VG_(cl_exec_fd); /* of Valgrind's core: the program's file, kept open */

enum { MAX_LOADS = 16, MAX_NOTES = 8192, MAX_BUILD_ID = 64 };

typedef struct image {
  ULong dev, ino;
  HChar *path;
  HChar build_id[2 * MAX_BUILD_ID + 2];
  Bool elf;
  Bool counted;
  UInt id; /* in the stream; NO_IMAGE unless it counts */
  UInt n_loads;
  Elf64_Phdr loads[MAX_LOADS];
  Addr base; /* lowest address of the image as linked */
} image;

static image *images;
static UInt n_images, images_room;
static UInt *counted_images; /* stream id -> index; the anonymous image has NO_IMAGE */
static UInt n_counted, counted_room;
static UInt anonymous_id = NO_IMAGE;

static UInt new_stream_id(UInt index) {
  if (n_counted == counted_room) {
    counted_room = counted_room ? 2 * counted_room : 64;
    counted_images =
        VG_(realloc)("xpuprof.images", counted_images, counted_room * sizeof *counted_images);
  }
  counted_images[n_counted] = index;
  return n_counted++;
}

/* ---- reading the file ------------------------------------------------------------------------ */

static Bool read_at(Int fd, ULong offset, void *to, Int size) {
  return VG_(lseek)(fd, (Off64T)offset, VKI_SEEK_SET) == (Off64T)offset &&
         VG_(read)(fd, to, size) == size;
}

static void read_build_id(image *im, const UChar *notes, SizeT size) {
  for (SizeT at = 0; at + sizeof(Elf64_Nhdr) <= size;) {
    const Elf64_Nhdr *note = (const Elf64_Nhdr *)(notes + at);
    SizeT name = at + sizeof *note, data = name + VG_ROUNDUP((SizeT)note->n_namesz, 4);
    if (data + note->n_descsz > size) return;
    if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && note->n_descsz &&
        note->n_descsz <= MAX_BUILD_ID && VG_(memcmp)(notes + name, "GNU", 4) == 0) {
      for (UInt i = 0; i < note->n_descsz; i++)
        VG_(sprintf)(im->build_id + 2 * i, "%02x", notes[data + i]);
      return;
    }
    at = data + VG_ROUNDUP((SizeT)note->n_descsz, 4);
  }
}

static void hash_file(image *im, Int fd) {
  enum { PIECE = 65536 };
  UChar *piece = VG_(malloc)("xpuprof.file", PIECE);
  ULong hash = HASH_SEED;
  Int got;
  VG_(lseek)(fd, 0, VKI_SEEK_SET);
  while ((got = VG_(read)(fd, piece, PIECE)) > 0) hash = hash_bytes(piece, (SizeT)got, hash);
  VG_(free)(piece);
  VG_(sprintf)(im->build_id, "h%016llx", hash);
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
      read_build_id(im, (const UChar *)notes, p.p_filesz);
  }
  im->elf = im->n_loads > 0;
  if (!im->build_id[0]) hash_file(im, fd);
}

static void read_file(image *im) {
  struct vg_stat now;
  Int fd = VG_(fd_open)(im->path, VKI_O_RDONLY, 0);
  if (fd < 0) return;
  /* A file replaced since it was mapped says nothing about the code. */
  if (VG_(fstat)(fd, &now) == 0 && now.dev == im->dev && now.ino == im->ino) read_headers(im, fd);
  VG_(close)(fd);
}

/* ---- the table ------------------------------------------------------------------------------- */

static Bool is_main(const image *im) {
  struct vg_stat file;
  return VG_(fstat)(VG_(cl_exec_fd), &file) == 0 && file.dev == im->dev && file.ino == im->ino;
}

static UInt add(const NSegment *segment, const HChar *path) {
  if (n_images == images_room) {
    images_room = images_room ? 2 * images_room : 64;
    images = VG_(realloc)("xpuprof.images", images, images_room * sizeof *images);
  }
  image *im = &images[n_images];
  VG_(memset)(im, 0, sizeof *im);
  im->dev = segment->dev;
  im->ino = segment->ino;
  im->path = VG_(strdup)("xpuprof.path", path);
  read_file(im);
  im->counted = option_counts_image(im->path, is_main(im));
  im->id = im->elf && im->counted ? new_stream_id(n_images) : NO_IMAGE;
  return n_images++;
}

/* Code comes from few files at a time: a direct-mapped cache makes the search rare. */
static image *find(const NSegment *segment, const HChar *path) {
  enum { CACHE = 4096 };
  static UInt cache[CACHE];
  UInt *at = &cache[segment->ino % CACHE];
  if (*at < n_images && images[*at].dev == segment->dev && images[*at].ino == segment->ino)
    return &images[*at];
  for (*at = 0; *at < n_images; ++*at)
    if (images[*at].dev == segment->dev && images[*at].ino == segment->ino) return &images[*at];
  *at = add(segment, path);
  return &images[*at];
}

static code_place anonymous(void) {
  code_place place = {NO_IMAGE, False, 0};
  if (!option_counts_image("", False)) return place;
  if (anonymous_id == NO_IMAGE) anonymous_id = new_stream_id(NO_IMAGE);
  place.image = anonymous_id;
  return place;
}

code_place image_place(Addr code) {
  code_place nothing = {NO_IMAGE, False, 0};
  const NSegment *segment = VG_(am_find_nsegment)(code);
  /* Valgrind's own trampolines stand for parts of the vdso and of libc's signal return. */
  if (!segment || segment->kind == SkAnonV || segment->kind == SkFileV) return nothing;
  const HChar *path = segment->kind == SkFileC ? VG_(am_get_filename)(segment) : NULL;
  if (!path) return anonymous();
  const image *im = find(segment, path);
  if (!im->counted) return nothing;
  if (!im->elf) return anonymous();
  ULong offset = (ULong)segment->offset + (code - segment->start);
  for (UInt i = 0; i < im->n_loads; i++) {
    const Elf64_Phdr *p = &im->loads[i];
    if (offset >= VG_PGROUNDDN(p->p_offset) && offset < p->p_offset + p->p_filesz)
      if (p->p_flags & PF_X)
        return (code_place){im->id, True, offset - p->p_offset + p->p_vaddr - im->base};
  }
  return anonymous();
}

size_t images_known(void) { return n_counted; }

void images_emit(size_t first) {
  for (size_t id = first; id < n_counted; id++) {
    const image *im = counted_images[id] == NO_IMAGE ? NULL : &images[counted_images[id]];
    image_emit(id, im ? im->build_id : "", im ? im->path : "");
  }
}
