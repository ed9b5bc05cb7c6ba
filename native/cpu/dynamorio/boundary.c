/* SPDX-License-Identifier: Apache-2.0 */
/* libxpuprof_rt in the program: its functions are stable symbols, and a block that starts at one of
 * them calls us first. So does libc's dlopen(). */
#include "client.h"

static void on_cut(uint64_t slice) {
  lock();
  cut(slice);
  unlock();
}

static void on_window_turned(int open) {
  lock();
  window_turn(open != 0);
  unlock();
}

static void on_api_enter(void) {
  kernels_expected();
  thread_enters(false);
}
static void on_callback_enter(void) { thread_enters(true); }

static const char RUNTIME[] = "libxpuprof_rt", LIBC[] = "libc.so.6";

static const struct {
  const char *library, *name;
  void *call;
  unsigned arguments; /* taken by `call`: of the function's first two and its address */
} functions[] = {
    {RUNTIME, "xpu_cut", (void *)on_cut, 1},
    {RUNTIME, "xpu_window_turned", (void *)on_window_turned, 1},
    {RUNTIME, "xpu_api_enter", (void *)on_api_enter, 0},
    {RUNTIME, "xpu_api_leave", (void *)thread_leaves, 0},
    {RUNTIME, "xpu_callback_enter", (void *)on_callback_enter, 0},
    {RUNTIME, "xpu_callback_leave", (void *)thread_leaves, 0},
    {RUNTIME, "xpu_run_natively", (void *)natively_run, 1},
    {RUNTIME, "xpu_go_on_natively", (void *)natively_go_on, 1},
    {LIBC, "dlopen", (void *)natively_load, 3},
};

enum { FUNCTIONS = sizeof functions / sizeof *functions };

typedef struct hook {
  app_pc at, module;
  int function;
} hook;

static hook
    *hooks; /* few; read when a block is built, changed when a library is loaded or unloaded */
static size_t n_hooks, hooks_room;

void boundary_loaded(const module_data_t *module) {
  const char *name = dr_module_preferred_name(module);
  if (!name) return;
  if (text_starts(name, LIBC))
    natively_break_at((void *)dr_get_proc_address(module->handle, "__curbrk"));
  for (int f = 0; f < FUNCTIONS; f++) {
    if (!text_starts(name, functions[f].library)) continue;
    app_pc at = (app_pc)dr_get_proc_address(module->handle, functions[f].name);
    if (!at) continue;
    hooks = grown(hooks, &hooks_room, n_hooks + 1, sizeof *hooks);
    hooks[n_hooks++] = (hook){at, module->start, f};
  }
}

void boundary_unloaded(const module_data_t *module) {
  size_t kept = 0;
  for (size_t i = 0; i < n_hooks; i++)
    if (hooks[i].module != module->start) hooks[kept++] = hooks[i];
  n_hooks = kept;
}

void boundary_insert(void *drcontext, app_pc start, instrlist_t *code) {
  instr_t *first = instrlist_first(code);
  for (size_t i = 0; i < n_hooks; i++) {
    int f = hooks[i].function;
    if (hooks[i].at == start)
      dr_insert_clean_call(drcontext, code, first, functions[f].call, false, functions[f].arguments,
                           opnd_create_reg(DR_REG_RDI), opnd_create_reg(DR_REG_RSI),
                           OPND_CREATE_INTPTR(start));
  }
}
