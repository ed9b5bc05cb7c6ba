/* SPDX-License-Identifier: Apache-2.0 */
/* Faults in traces. The program leaves such a trace at the faulting instruction, where no exit is
 * counted. The trace's code identifies the path that led there. */
#include "client.h"

dr_signal_action_t count_until_fault(void *drcontext, dr_siginfo_t *signal) {
  const dr_fault_fragment_info_t *in = &signal->fault_fragment_info;
  if (waited_was_answered(drcontext, signal->sig)) return DR_SIGNAL_SUPPRESS;
  if (!signal->raw_mcontext_valid) return DR_SIGNAL_DELIVER;
  if (natively_calls_zero(drcontext, signal)) return DR_SIGNAL_REDIRECT;
  if (!in->is_trace || !in->cache_start_pc) return DR_SIGNAL_DELIVER;
  lock();
  uint32_t path = trace_pending(drcontext, in->cache_start_pc, signal->raw_mcontext->pc);
  unlock();
  if (path != NO_PATH) thread_count(PATH_CELLS + path, 1);
  return DR_SIGNAL_DELIVER;
}
