/* SPDX-License-Identifier: Apache-2.0 */
/* Code in shared mappings of files. Runtimes that generate code (Erlang) write it through a
 * second mapping, which DynamoRIO does not notice: it went on with the code that it had copied. So
 * each block there is compared with its code whenever it begins. */
#include <sys/mman.h>

#include "client.h"

typedef struct range {
  app_pc start, end;
} range;

/* They stay when they are unmapped: a comparison too many does no harm. But the answer for a block
 * must not change while DynamoRIO has it, since it is made again to translate a state. */
static range *ranges;
static size_t n_ranges, ranges_room;

static bool joins(range *r, app_pc start, app_pc end) {
  if (start > r->end || end < r->start) return false;
  if (start < r->start) r->start = start;
  if (end > r->end) r->end = end;
  return true;
}

static bool is_covered(app_pc start, app_pc end) {
  for (size_t i = 0; i < n_ranges; i++)
    if (start >= ranges[i].start && end <= ranges[i].end) return true;
  return false;
}

/* Whether the range is new. */
static bool add(app_pc start, app_pc end) {
  if (is_covered(start, end)) return false;
  for (size_t i = 0; i < n_ranges; i++)
    if (joins(&ranges[i], start, end)) return true;
  ranges = grown(ranges, &ranges_room, n_ranges + 1, sizeof *ranges);
  ranges[n_ranges++] = (range){start, end};
  return true;
}

void shared_code_after_mmap(void *drcontext) {
  const long start = (long)dr_syscall_get_result(drcontext);
  const size_t page = dr_page_size();
  const size_t size = ((size_t)dr_syscall_get_param(drcontext, 1) + page - 1) & -page;
  const int access = (int)dr_syscall_get_param(drcontext, 2);
  const int flags = (int)dr_syscall_get_param(drcontext, 3);
  if (call_failed(start) || !(access & PROT_EXEC) || !(flags & MAP_SHARED) || flags & MAP_ANONYMOUS)
    return;
  lock();
  const bool is_new = add((app_pc)start, (app_pc)start + size);
  unlock();
  if (is_new) dr_unlink_flush_region((app_pc)start, size);
}

bool shared_code_has(app_pc code) {
  lock();
  const bool has = is_covered(code, code + 1);
  unlock();
  return has;
}

static void compare(app_pc start, size_t size, uint64_t wanted) {
  dr_mcontext_t registers = {.size = sizeof registers, .flags = DR_MC_ALL};
  if (hash_bytes(start, size, HASH_SEED) == wanted) return;
  dr_get_mcontext(dr_get_current_drcontext(), &registers);
  registers.pc = start;
  dr_unlink_flush_region(start, size); /* other threads need not stop */
  dr_redirect_execution(&registers);
}

/* Of a block as it comes, before anything is added. Its addresses may be those of DynamoRIO's copy.
 */
size_t shared_code_size(instrlist_t *code) {
  instr_t *last = instrlist_last_app(code);
  const app_pc end = instr_get_app_pc(last) + instr_length(dr_get_current_drcontext(), last);
  return (size_t)(end - instr_get_app_pc(instrlist_first_app(code)));
}

void shared_code_insert(void *drcontext, app_pc start, size_t size, instrlist_t *code) {
  dr_insert_clean_call(drcontext, code, instrlist_first(code), (void *)compare, false, 3,
                       OPND_CREATE_INTPTR(start), OPND_CREATE_INTPTR(size),
                       OPND_CREATE_INTPTR(hash_bytes(start, size, HASH_SEED)));
}
