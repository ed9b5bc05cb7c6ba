/* SPDX-License-Identifier: Apache-2.0 */
/* libxpuprof_rt in the program: its functions are stable symbols, and a block that starts at one of
 * them calls us first. */
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

static void on_api_enter(void) { thread_enters(false); }
static void on_callback_enter(void) { thread_enters(true); }

static const struct {
  const char *name;
  void (*call)(void);
  void *call_with; /* the function's first argument */
} functions[] = {
    {"xpu_cut", NULL, (void *)on_cut},
    {"xpu_window_turned", NULL, (void *)on_window_turned},
    {"xpu_api_enter", on_api_enter, NULL},
    {"xpu_api_leave", thread_leaves, NULL},
    {"xpu_callback_enter", on_callback_enter, NULL},
    {"xpu_callback_leave", thread_leaves, NULL},
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
  if (!name || !text_starts(name, "libxpuprof_rt")) return;
  for (int f = 0; f < FUNCTIONS; f++) {
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
    if (hooks[i].at != start) continue;
    if (functions[hooks[i].function].call)
      dr_insert_clean_call(drcontext, code, first, (void *)functions[hooks[i].function].call, false,
                           0);
    else
      dr_insert_clean_call(drcontext, code, first, functions[hooks[i].function].call_with, false, 1,
                           opnd_create_reg(DR_REG_RDI));
  }
}
