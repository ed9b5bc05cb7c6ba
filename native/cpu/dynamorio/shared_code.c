/* SPDX-License-Identifier: Apache-2.0 */
/* Code in shared mappings of files. Runtimes that generate code (Erlang) write it through a
 * second mapping, which DynamoRIO does not notice: it went on with the code that it had copied. So
 * each block there is compared with its code whenever it begins. */
#include <sys/mman.h>

#include "client.h"

enum { MOST = 64 };

static struct range {
  app_pc start, end;
} ranges[MOST]; /* they stay: a comparison too many does no harm */
static int n_ranges;

static void add(app_pc start, app_pc end) {
  lock();
  if (n_ranges < MOST) {
    ranges[n_ranges] = (struct range){start, end};
    __atomic_store_n(&n_ranges, n_ranges + 1, __ATOMIC_RELEASE);
  } else {
    struct range *last = &ranges[MOST - 1];
    if (start < last->start) last->start = start;
    if (end > last->end) last->end = end;
  }
  unlock();
}

void shared_code_after_mmap(void *drcontext) {
  const long start = (long)dr_syscall_get_result(drcontext);
  const size_t size = (size_t)dr_syscall_get_param(drcontext, 1);
  const int access = (int)dr_syscall_get_param(drcontext, 2);
  const int flags = (int)dr_syscall_get_param(drcontext, 3);
  if ((start < 0 && start > -4096) || !(access & PROT_EXEC) || !(flags & MAP_SHARED) ||
      flags & MAP_ANONYMOUS)
    return;
  add((app_pc)start, (app_pc)start + size);
}

bool shared_code_has(app_pc code) {
  const int n = __atomic_load_n(&n_ranges, __ATOMIC_ACQUIRE);
  for (int i = 0; i < n; i++)
    if (code >= ranges[i].start && code < ranges[i].end) return true;
  return false;
}

static uint64_t hash(const byte *code, size_t size) {
  uint64_t value = 0xcbf29ce484222325;
  for (size_t i = 0; i < size; i++) value = (value ^ code[i]) * 0x100000001b3;
  return value;
}

static void compare(app_pc start, size_t size, uint64_t wanted) {
  dr_mcontext_t registers = {.size = sizeof registers, .flags = DR_MC_ALL};
  if (hash(start, size) == wanted) return;
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
  dr_insert_clean_call(drcontext, code, instrlist_first(code), (void *)compare, true, 3,
                       OPND_CREATE_INTPTR(start), OPND_CREATE_INTPTR(size),
                       OPND_CREATE_INTPTR(hash(start, size)));
}
