/* SPDX-License-Identifier: Apache-2.0 */
/* Layer <-> instrumented kernel, when accesses are recorded (CLINST_MEMORY): the area in which the
 * work-items leave the addresses that they load, store and change in global memory.
 *
 * The area lies in the launch's counter buffer; the word (u64) at index `first` -
 * CLINST_PREFACE_WORDS of that buffer tells where it begins, counted from `first`. Words of the
 * area:
 *
 *   head     the words of clinst_access_word, by the host; then, from the kernel, the value of each
 *            of its pointer arguments, zero for an image
 *   levels   one word a slot, by the host
 *   states   one word a work-item of a slot, zero before the launch: accesses in the low half, the
 *            number of its chunk under way in the high half (CLINST_NO_CHUNK: it found no room)
 *   chunks   CLINST_CHUNK_WORDS each: a tag (the work-item's place among the states, and in the
 *            high half the number of the chunk among those of the work-item), then entries; those
 *            of the levels, then those that are reserved
 *
 * A work-group whose linear id is a multiple of STEP is recorded, in slot id / STEP. Each level has
 * its own chunks, taken in arbitrary order with an atomic counter; a counter above CHUNKS means
 * that some work-item of the level found no room. This depends on the total accesses of the level's
 * groups, never on the order in which they run. The first chunks of the work-items of slot 0 are
 * reserved, so that their first accesses are always present. */
#ifndef XPUPROF_ACCESS_AREA_H
#define XPUPROF_ACCESS_AREA_H

#define CLINST_PREFACE_WORDS 8
#define CLINST_CHUNK_WORDS 8
#define CLINST_CHUNK_ENTRIES 7
#define CLINST_MOST_LEVELS 16
#define CLINST_NO_CHUNK 0xffffffffu

enum clinst_access_word {
  CLINST_ACCESS_STEP = 0,
  CLINST_ACCESS_CHUNKS = 1,    /* of a level */
  CLINST_ACCESS_LEVELS_AT = 2, /* where each part begins in the area */
  CLINST_ACCESS_STATES_AT = 3,
  CLINST_ACCESS_CHUNKS_AT = 4,
  /* Elements that asynchronous copies moved, in all groups: the low 32 bits of these two words. */
  CLINST_ACCESS_COPIED = 5,
  CLINST_ACCESS_COPIED_HIGH = 6,
  CLINST_ACCESS_NOWHERE = 7, /* scratch: never read */
  /* Chunks reserved for each work-item of slot 0, and the number of the first: the first chunks of
   * all these work-items come first, then their second ones ... */
  CLINST_ACCESS_RESERVED = 8,
  CLINST_ACCESS_RESERVED_AT = 9,
  CLINST_ACCESS_RESERVED_ITEMS = 10,
  CLINST_ACCESS_TAKEN = 11, /* a counter of taken chunks per level, in the low half of its word */
  CLINST_ACCESS_BASES = CLINST_ACCESS_TAKEN + CLINST_MOST_LEVELS,
};

/* An entry: the address above 16 bits that hold the width in bytes and whether the pointer was
 * generic (it may then refer to local or private memory). */
#define CLINST_ENTRY_BITS 16
#define CLINST_ENTRY_GENERIC 0x8000u
#define CLINST_ENTRY_IMAGE 0x4000u
#define CLINST_ENTRY_WIDEST 0x3fffu

/* For an image, the address is the index of its argument among those whose values the kernel
 * stores, above a texel's coordinates, x in the lowest bits: each nonnegative, and clamped to the
 * largest number that its bits hold. With one, two or three coordinates: */
#define CLINST_IMAGE_BITS 42
#define CLINST_MOST_IMAGES 64
static const unsigned clinst_coordinate_bits[3][3] = {{42, 0, 0}, {21, 21, 0}, {15, 15, 12}};

#endif
