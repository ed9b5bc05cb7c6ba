/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* VEX takes some 15 microseconds for a block, a kept translation about one. What VEX makes depends
 * on the code's bytes, its address, this build of the tool and the processor's features. Block
 * numbers differ between runs, so each use patches them. */
#include "translations.h"

#include "changing_code.h"
#include "libvex.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "tool.h"

UInt counter_displacement(UInt block) { return (UInt)(COUNTERS_AT + 8ull * block); }

UInt mark_displacement(UInt block) {
  return (UInt)(COUNTERS_AT + 8ull * MAX_BLOCKS + block / GROUP);
}

/* ---- use ------------------------------------------------------------------------------------- */

static void put(UChar *code, UInt position, UInt displacement) {
  VG_(memcpy)(code + position, &displacement, sizeof displacement);
}

static Bool set_blocks(const record *r, UChar *code) {
  for (UInt i = 0; i < r->n_counted; i++) {
    const counted_block *c = &r->counted[i];
    Addr start = r->address + c->start;
    UInt id = block_of(image_place(start), (const void *)start, c->bytes, c->instructions);
    if (id == NO_BLOCK || c->counter_position + sizeof id > r->host_bytes ||
        c->mark_position + sizeof id > r->host_bytes)
      return False;
    put(code, c->counter_position, counter_displacement(id));
    if (c->mark_position) put(code, c->mark_position, mark_displacement(id));
  }
  return True;
}

/* Code that is not within one mapping of a file is translated with a check whether it changes. */
static Bool is_of_this_code(const record *r, const VexTranslateArgs *args) {
  const NSegment *segment = VG_(am_find_nsegment)(r->address);
  return segment && segment->kind == SkFileC && !segment->hasW &&
         r->address + r->guest_bytes - 1 <= segment->end &&
         VG_(memcmp)(args->guest_bytes, guest_code(r), r->guest_bytes) == 0;
}

static Bool use(const record *r, VexTranslateArgs *args) {
  if (r->host_bytes > args->host_bytes_size || !is_of_this_code(r, args)) return False;
  VG_(memcpy)(args->host_bytes, host_code(r), r->host_bytes);
  if (!set_blocks(r, args->host_bytes)) return False;
  *args->host_bytes_used = r->host_bytes;
  *args->guest_extents = (VexGuestExtents){{r->address}, {r->guest_bytes}, 1};
  return True;
}

static Bool use_kept(store *s, VexTranslateArgs *args, VexTranslateResult *result) {
  const record *r = shelf_find(&s->fresh, args->guest_bytes_addr);
  if (!r) r = kept_find(&s->kept, args->guest_bytes_addr);
  if (!r || !use(r, args)) return False;
  *result = (VexTranslateResult){
      .status = VexTransOK, .offs_profInc = -1, .n_guest_instrs = r->instructions};
  return True;
}

/* ---- keeping --------------------------------------------------------------------------------- */

enum { MAX_COUNTED = 200 }; /* VEX unrolls loops */

static struct {
  Bool of_this_run;
  UInt n;
  struct {
    UInt id;
    Bool marks;
    Addr start;
    counted_block block;
  } counted[MAX_COUNTED];
} now; /* the superblock being translated */

void translation_is_of_this_run(void) { now.of_this_run = True; }

void translation_counts(UInt block, Bool marks, Addr start, UInt bytes, UInt instructions) {
  if (now.n == MAX_COUNTED) now.of_this_run = True;
  if (now.of_this_run) return;
  now.counted[now.n].id = block;
  now.counted[now.n].marks = marks;
  now.counted[now.n].start = start;
  now.counted[now.n++].block =
      (counted_block){.bytes = (UShort)bytes, .instructions = (UShort)instructions};
}

static UInt expected(UInt i, Bool mark) {
  UInt id = now.counted[i].id;
  return mark ? mark_displacement(id) : counter_displacement(id);
}

static Bool is_expected(UInt number) {
  for (UInt i = 0; i < now.n; i++)
    if (number == expected(i, False) || number == expected(i, True)) return True;
  return False;
}

/* The next displacement of these blocks in the code, from `*at` on; numbers that are none do not
 * count, addresses of the tool's among them. */
static Bool next_displacement(const VexTranslateArgs *args, UInt *at, UInt *found) {
  for (; *at + sizeof *found <= (UInt)*args->host_bytes_used; ++*at) {
    VG_(memcpy)(found, args->host_bytes + *at, sizeof *found);
    if (*found >= COUNTERS_AT && *found <= mark_displacement(MAX_BLOCKS) && is_expected(*found))
      return True;
  }
  return False;
}

static Bool take_displacement(const VexTranslateArgs *args, UInt *at, UInt wanted,
                              UShort *position) {
  UInt found;
  if (!next_displacement(args, at, &found) || found != wanted) return False;
  *position = (UShort)*at;
  *at += sizeof found;
  return True;
}

/* They occur in the blocks' order, and once: a constant of the program may be the same number. */
static Bool find_positions(const VexTranslateArgs *args) {
  UInt at = 0, found;
  for (UInt i = 0; i < now.n; i++) {
    counted_block *c = &now.counted[i].block;
    c->start = (UShort)(now.counted[i].start - args->guest_bytes_addr);
    if (!take_displacement(args, &at, expected(i, False), &c->counter_position) ||
        (now.counted[i].marks &&
         !take_displacement(args, &at, expected(i, True), &c->mark_position)))
      return False;
  }
  return !next_displacement(args, &at, &found);
}

static Bool can_keep(const VexTranslateArgs *args, const VexTranslateResult *result) {
  const VexGuestExtents *e = args->guest_extents;
  return result->status == VexTransOK && !result->n_sc_extents && result->offs_profInc == -1 &&
         !now.of_this_run && e->n_used == 1 && e->base[0] == args->guest_bytes_addr && e->len[0] &&
         *args->host_bytes_used <= 0xffff && find_positions(args);
}

static void keep(store *s, const VexTranslateArgs *args, UInt instructions) {
  const record sizes = {.address = args->guest_bytes_addr,
                        .guest_bytes = args->guest_extents->len[0],
                        .host_bytes = (UShort)*args->host_bytes_used,
                        .instructions = (UShort)instructions,
                        .n_counted = (UShort)now.n};
  record *r = shelf_add(&s->fresh, &sizes);
  for (UInt i = 0; i < now.n; i++) r->counted[i] = now.counted[i].block;
  VG_(memcpy)(guest_code(r), args->guest_bytes, r->guest_bytes);
  VG_(memcpy)(host_code(r), args->host_bytes, r->host_bytes);
  record_seal(r);
}

/* The core may ask for more than what the code itself tells: redirections, with their preambles. */
static Bool is_plain(const VexTranslateArgs *args) {
  const VgCallbackClosure *closure = args->callback_opaque;
  return closure->nraddr == args->guest_bytes_addr && !args->preamble_function &&
         args->disp_cp_xindir && !args->addProfInc && !args->traceflags;
}

extern VexTranslateResult __real_LibVEX_Translate(VexTranslateArgs *);
extern VexTranslateResult __wrap_LibVEX_Translate(VexTranslateArgs *);

VexTranslateResult __wrap_LibVEX_Translate(VexTranslateArgs *args) {
  VexTranslateResult result;
  store *s = is_plain(args) ? store_at(args->guest_bytes_addr, args->archinfo_guest.hwcaps) : NULL;
  if (s && use_kept(s, args, &result)) return result;
  now.n = 0;
  now.of_this_run = False;
  changing_code_compare(args);
  result = __real_LibVEX_Translate(args);
  if (s && store_has_room() && can_keep(args, &result)) keep(s, args, result.n_guest_instrs);
  return result;
}
