/* SPDX-License-Identifier: Apache-2.0 */
/* libxpuprof_rt in the program: its functions are stable symbols, and a block that starts at one of
 * them calls us first. So does libc's dlopen(). */
#include "client.h"

/* Gets the function's first two arguments and its address. */
typedef void (*hook_call)(uint64_t a, uint64_t b, app_pc at);

static void on_cut(uint64_t slice, uint64_t unused, app_pc at) {
  (void)unused, (void)at;
  lock();
  cut(slice);
  unlock();
}

static void on_window_turned(uint64_t open, uint64_t for_good, app_pc at) {
  (void)for_good, (void)at;
  lock();
  window_turn(open != 0);
  unlock();
}

static void on_api_enter(uint64_t a, uint64_t b, app_pc at) {
  (void)a, (void)b, (void)at;
  thread_enters(false);
}

static void on_callback_enter(uint64_t a, uint64_t b, app_pc at) {
  (void)a, (void)b, (void)at;
  thread_enters(true);
}

static void on_leave(uint64_t a, uint64_t b, app_pc at) {
  (void)a, (void)b, (void)at;
  thread_leaves();
}

static void on_run_natively(uint64_t call, uint64_t unused, app_pc at) {
  (void)unused, (void)at;
  natively_run((xpu_native_call *)call);
}

static void on_dlopen(uint64_t path, uint64_t flags, app_pc at) {
  natively_load((const char *)path, flags, at);
}

static const char RUNTIME[] = "libxpuprof_rt", LIBC[] = "libc.so.6";

static const struct {
  const char *library, *name;
  hook_call call;
} functions[] = {
    {RUNTIME, "xpu_cut", on_cut},
    {RUNTIME, "xpu_window_turned", on_window_turned},
    {RUNTIME, "xpu_api_enter", on_api_enter},
    {RUNTIME, "xpu_api_leave", on_leave},
    {RUNTIME, "xpu_callback_enter", on_callback_enter},
    {RUNTIME, "xpu_callback_leave", on_leave},
    {RUNTIME, "xpu_run_natively", on_run_natively},
    {LIBC, "dlopen", on_dlopen},
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
    if (hooks[i].at == start)
      dr_insert_clean_call(drcontext, code, first, (void *)functions[hooks[i].function].call, false,
                           3, opnd_create_reg(DR_REG_RDI), opnd_create_reg(DR_REG_RSI),
                           OPND_CREATE_INTPTR(start));
  }
}
