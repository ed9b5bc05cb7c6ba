/* Faults in traces. The program leaves such a trace where nothing counts the way out: at the
 * instruction that faults. The path to there is the start of one that is counted farther on, which
 * can be read from the code itself. */
#include "client.h"

typedef struct counting_code {
  byte *at;      /* behind it */
  uint32_t path; /* NO_PATH: there is none */
  bool skipped;  /* by what stays in the trace */
} counting_code;

static uint32_t path_in(instr_t *i) {
  for (int s = 0, n = instr_num_srcs(i); s < n; s++) {
    uint32_t cell = counted_cell(instr_get_src(i, s));
    if (cell != NO_CELL && cell >= PATH_CELLS) return cell - PATH_CELLS;
  }
  return NO_PATH;
}

/* Branches inside the fragment stay in the trace, over code that counts a way out. */
static byte *branch_within(instr_t *i, byte *pc, const byte *end) {
  byte *target = instr_is_cbr(i) ? instr_get_branch_target_pc(i) : NULL;
  return target > pc && target < end ? target : NULL;
}

/* The first code from `pc` on that counts a path. */
static counting_code next_counting(void *drcontext, byte *pc, const byte *end) {
  counting_code found = {pc, NO_PATH, false};
  byte *stays_at = NULL;
  bool has_base = false; /* a register points to the thread's counters */
  instr_t i;
  instr_init(drcontext, &i);
  while (found.path == NO_PATH && found.at && found.at < end) {
    instr_reset(drcontext, &i);
    found.at = decode(drcontext, found.at, &i);
    if (!found.at) break;
    if (branch_within(&i, found.at, end)) stays_at = branch_within(&i, found.at, end);
    if (has_base) found.path = path_in(&i);
    has_base |= instr_num_srcs(&i) == 1 && thread_is_base(instr_get_src(&i, 0));
  }
  found.skipped = found.at < stays_at;
  instr_free(drcontext, &i);
  return found;
}

/* Of `path`, up to the last block that holds `pc`, and longer than what was passed. */
static uint32_t until(void *drcontext, uint32_t path, uint32_t passed, app_pc pc) {
  for (; path != passed && path != NO_PATH; path = path_before(path))
    if (block_holds(drcontext, path_block(path), pc)) return path;
  return NO_PATH;
}

dr_signal_action_t count_until_fault(void *drcontext, dr_siginfo_t *signal) {
  const dr_fault_fragment_info_t *in = &signal->fault_fragment_info;
  if (!signal->raw_mcontext_valid || !in->is_trace || !in->cache_start_pc) return DR_SIGNAL_DELIVER;
  byte *pc = in->cache_start_pc, *fault = signal->raw_mcontext->pc;
  const byte *end = pc + dr_fragment_size(drcontext, in->tag);
  counting_code next = next_counting(drcontext, pc, end);
  uint32_t passed = NO_PATH;
  while (next.path != NO_PATH && next.at <= fault) {
    passed = next.skipped ? next.path : NO_PATH; /* or counted, and another begins */
    next = next_counting(drcontext, next.at, end);
  }
  lock();
  uint32_t path = until(drcontext, next.path, passed, signal->mcontext->pc);
  unlock();
  if (path != NO_PATH) thread_count(PATH_CELLS + path);
  return DR_SIGNAL_DELIVER;
}
