/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_distance.h"

enum { FIRST_ROOM = 1 << 12 };

void xp_stack_init(xp_stack *s, const xp_heap *heap, uint32_t most) {
  *s = (xp_stack){.heap = heap, .most = most};
}

void xp_stack_clear(xp_stack *s) {
  s->heap->release(s->table);
  s->heap->release(s->tree);
  s->heap->release(s->slot_line);
  xp_stack_init(s, s->heap, s->most);
}

/* ---- every line in the stack ----------------------------------------------------------------- */

static xp_stack_entry *find(const xp_stack *s, uint64_t line) {
  uint32_t mask = s->table_room - 1, at = (uint32_t)(line * 0x9e3779b97f4a7c15u >> 32) & mask;
  while (s->table[at].line && s->table[at].line != line + 1) at = (at + 1) & mask;
  return &s->table[at];
}

static int new_table(xp_stack *s, uint32_t room) {
  xp_stack_entry *table = (xp_stack_entry *)s->heap->zeroed(room * sizeof *table);
  if (!table) {
    s->failed = 1;
    return 0;
  }
  s->table = table;
  s->table_room = room;
  return 1;
}

static void grow_table(xp_stack *s) {
  xp_stack_entry *old = s->table;
  uint32_t old_room = s->table_room;
  if (!new_table(s, 2 * old_room)) return;
  for (uint32_t i = 0; i < old_room; i++)
    if (old[i].line) *find(s, old[i].line - 1) = old[i];
  s->heap->release(old);
}

/* ---- older lines ----------------------------------------------------------------------------- */

static void tree_add(xp_stack *s, uint32_t slot, uint32_t amount) {
  for (; slot <= s->slots_room; slot += slot & -slot) s->tree[slot] += amount;
}

static uint32_t tree_sum(const xp_stack *s, uint32_t slot) {
  uint32_t sum = 0;
  for (; slot; slot &= slot - 1) sum += s->tree[slot];
  return sum;
}

/* Rebuilds the table from the front and the lines in slots. */
static void rebuild_table(xp_stack *s) {
  s->heap->release(s->table);
  s->table = 0;
  if (!new_table(s, s->table_room)) return;
  for (uint32_t i = 0; i < s->front_used; i++)
    *find(s, s->front[i]) = (xp_stack_entry){s->front[i] + 1, 0};
  for (uint32_t slot = 1; slot <= s->slots_used; slot++)
    *find(s, s->slot_line[slot]) = (xp_stack_entry){s->slot_line[slot] + 1, slot};
  s->table_used = s->front_used + s->slots_used;
}

/* Gives the live lines the lowest slots, in order, and room for as many again. Above the limit the
 * oldest are forgotten. */
static void renumber(xp_stack *s) {
  uint32_t skip = s->most && s->live > s->most ? s->live - s->most : 0;
  uint32_t kept = s->live - skip, room = FIRST_ROOM, slots = 0;
  while (room < 2 * (kept + 1)) room *= 2;
  uint64_t *lines = (uint64_t *)s->heap->zeroed(((size_t)room + 1) * sizeof *lines);
  uint32_t *tree = (uint32_t *)s->heap->zeroed(((size_t)room + 1) * sizeof *tree);
  if (!lines || !tree) {
    s->heap->release(lines);
    s->heap->release(tree);
    s->failed = 1;
    return;
  }
  for (uint32_t slot = 1, seen = 0; slot <= s->slots_used; slot++) {
    xp_stack_entry *e = find(s, s->slot_line[slot]);
    if (e->slot != slot || seen++ < skip) continue;
    lines[++slots] = s->slot_line[slot];
    e->slot = slots;
  }
  s->heap->release(s->slot_line);
  s->heap->release(s->tree);
  s->slot_line = lines;
  s->tree = tree;
  s->slots_used = s->live = slots;
  s->slots_room = room;
  for (uint32_t slot = 1; slot <= slots; slot++) tree_add(s, slot, 1);
  if (!skip) return;
  s->forgot = 1;
  rebuild_table(s);
}

static void push_old(xp_stack *s, uint64_t line) {
  if (s->slots_used == s->slots_room) renumber(s);
  if (s->failed) return;
  uint32_t slot = ++s->slots_used;
  s->slot_line[slot] = line;
  find(s, line)->slot = slot;
  tree_add(s, slot, 1);
  s->live++;
}

/* ---- an access ------------------------------------------------------------------------------- */

static unsigned bucket(uint64_t distance) {
  return distance ? 64 - (unsigned)__builtin_clzll(distance) : 0;
}

/* Bucket of an access to a line that is not in the front; takes it out of the older lines. */
static unsigned take_old(xp_stack *s, uint64_t line) {
  xp_stack_entry *e = find(s, line);
  if (!e->line) {
    *e = (xp_stack_entry){line + 1, 0};
    if (4 * (uint64_t)++s->table_used > 3 * (uint64_t)s->table_room) grow_table(s);
    return XP_LDV_COLD;
  }
  uint32_t younger = s->live - tree_sum(s, e->slot);
  tree_add(s, e->slot, (uint32_t)-1);
  e->slot = 0;
  s->live--;
  return bucket((uint64_t)s->front_used + younger);
}

unsigned xp_stack_touch(xp_stack *s, uint64_t line) {
  uint32_t at = 0;
  unsigned found;
  if (s->failed || (!s->table && !new_table(s, FIRST_ROOM))) return XP_LDV_COLD;
  while (at < s->front_used && s->front[at] != line) at++;
  if (at < s->front_used) {
    found = bucket(at);
  } else {
    found = take_old(s, line);
    if (s->front_used == XP_STACK_FRONT)
      push_old(s, s->front[at = XP_STACK_FRONT - 1]);
    else
      s->front_used++;
  }
  for (; at; at--) s->front[at] = s->front[at - 1];
  s->front[0] = line;
  return found;
}
