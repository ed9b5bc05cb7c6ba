/* SPDX-License-Identifier: Apache-2.0 */
/* Code that a CPU engine may run outside its translator (boundary.h). The engine must see threads
 * start, and handlers of signals: the kernel has the engine's, which native code would take for the
 * program's and restore when it has crashed. So meanwhile all libraries' calls of pthread_create,
 * sigaction and signal lead here, and are translated. So do those of dlsym, before which libraries
 * that native code has loaded are found. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "spin_lock.h"
#include "system_call.h"
#include "xpuprof/boundary.h"

static _Thread_local xpu_native_call *running;
static _Thread_local pid_t process; /* that it began in */

/* Where work that was stopped returns to, 8 bytes below the return address of
 * xpu_run_natively(). */
extern const char xpu_natively_landing[] __attribute__((visibility("hidden")));
__asm__(
    ".text\n"
    ".hidden xpu_natively_landing\n"
    "xpu_natively_landing:\n"
    "  add $8, %rsp\n"
    "  mov $1, %eax\n"
    "  ret\n");

/* ---- calls that lead here --------------------------------------------------------------------
 */

typedef void any_function(void);

static struct {
  int lock;
  unsigned users;
} redirection;

static int start_thread(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int set_action(int, const struct sigaction *, struct sigaction *);
static sighandler_t set_handler(int, sighandler_t);

/* dlsym() itself depends on its caller. */
any_function look_up __attribute__((visibility("hidden")));
__asm__(
    ".text\n"
    ".hidden look_up\n"
    ".type look_up, @function\n"
    "look_up:\n"
    "  push %rdi; push %rsi; push %rdx\n"
    "  call redirect_loaded\n"
    "  pop %rdx; pop %rsi; pop %rdi\n"
    "  jmp *dlsym@GOTPCREL(%rip)\n"
    ".size look_up, .-look_up\n");

static const struct {
  const char *name;
  any_function *ours, *real;
} calls[] = {
    {"pthread_create", (any_function *)start_thread, (any_function *)pthread_create},
    {"sigaction", (any_function *)set_action, (any_function *)sigaction},
    {"signal", (any_function *)set_handler, (any_function *)signal},
    {"dlsym", look_up, (any_function *)dlsym},
};
enum { CALLS = sizeof calls / sizeof *calls };

/* What a library's dynamic section says. */
typedef struct imports {
  const ElfW(Rela) * relocations[2];
  size_t n[2], n_relative;
  const ElfW(Sym) * symbols;
  const char *names;
} imports;

static const ElfW(Phdr) * segment(const struct dl_phdr_info *library, uint32_t type) {
  for (int i = 0; i < library->dlpi_phnum; i++)
    if (library->dlpi_phdr[i].p_type == type) return &library->dlpi_phdr[i];
  return NULL;
}

static int holds(const struct dl_phdr_info *library, const ElfW(Phdr) * part, uintptr_t at) {
  return part && at - library->dlpi_addr - part->p_vaddr < part->p_memsz;
}

static imports imports_of(const struct dl_phdr_info *library) {
  imports found = {0};
  const ElfW(Phdr) *dynamic = segment(library, PT_DYNAMIC);
  if (!dynamic) return found;
  const ElfW(Dyn) *d = (const ElfW(Dyn) *)(library->dlpi_addr + dynamic->p_vaddr);
  for (; d->d_tag != DT_NULL; d++) {
    const void *at = (const void *)d->d_un.d_ptr; /* glibc has relocated it */
    if (d->d_tag == DT_JMPREL) found.relocations[0] = at;
    if (d->d_tag == DT_RELA) found.relocations[1] = at;
    if (d->d_tag == DT_PLTRELSZ) found.n[0] = d->d_un.d_val / sizeof(ElfW(Rela));
    if (d->d_tag == DT_RELASZ) found.n[1] = d->d_un.d_val / sizeof(ElfW(Rela));
    if (d->d_tag == DT_RELACOUNT) found.n_relative = d->d_un.d_val;
    if (d->d_tag == DT_SYMTAB) found.symbols = at;
    if (d->d_tag == DT_STRTAB) found.names = at;
  }
  /* Not so in the kernel's own, which imports nothing. */
  if ((uintptr_t)found.names < library->dlpi_addr) return (imports){0};
  return found;
}

typedef struct slot {
  any_function **at;
  int call;
  uintptr_t page; /* read-only, unless its length is 0 */
  size_t length;
} slot;

/* Those of the libraries loaded when there had been so many loads and unloads. */
static struct {
  slot *slots;
  size_t n, room;
  unsigned long long loads, unloads;
  int is_complete;
} found;

static void set_slot(const slot *s, int to_ours) {
  any_function *function = to_ours ? calls[s->call].ours : calls[s->call].real;
  if (s->length && mprotect((void *)s->page, s->length, PROT_READ | PROT_WRITE)) return;
  __atomic_store_n(s->at, function, __ATOMIC_RELEASE);
  if (s->length) mprotect((void *)s->page, s->length, PROT_READ);
}

/* Without memory, the libraries are searched again next time. */
static void remember(slot s) {
  if (found.n == found.room) {
    const size_t room = found.room ? 2 * found.room : 64;
    slot *grown = realloc(found.slots, room * sizeof s);
    if (!grown) found.is_complete = 0;
    if (!grown) return;
    found.slots = grown;
    found.room = room;
  }
  found.slots[found.n++] = s;
}

static slot slot_of(const struct dl_phdr_info *library, const ElfW(Rela) * r, int call) {
  slot s = {(any_function **)(library->dlpi_addr + r->r_offset), call, 0, 0};
  if (!holds(library, segment(library, PT_GNU_RELRO), (uintptr_t)s.at)) return s;
  s.page = (uintptr_t)s.at & -(uintptr_t)sysconf(_SC_PAGESIZE);
  s.length = (size_t)((uintptr_t)(s.at + 1) - s.page);
  return s;
}

/* The index of the call that this is the slot of, or CALLS. */
static int call_of(const imports *of, const ElfW(Rela) * r) {
  const uint64_t type = ELF64_R_TYPE(r->r_info);
  if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) return CALLS;
  const char *name = of->names + of->symbols[ELF64_R_SYM(r->r_info)].st_name;
  int call = 0;
  while (call < CALLS && strcmp(name, calls[call].name)) call++;
  return call;
}

/* This library's own calls are the real ones. */
static int is_ours(const struct dl_phdr_info *library) {
  for (int i = 0; i < library->dlpi_phnum; i++)
    if (library->dlpi_phdr[i].p_type == PT_LOAD &&
        holds(library, &library->dlpi_phdr[i], (uintptr_t)start_thread))
      return 1;
  return 0;
}

static void search(const struct dl_phdr_info *library, int to_ours) {
  if (is_ours(library)) return;
  const imports of = imports_of(library);
  for (int table = 0; table < 2; table++)
    for (size_t i = table ? of.n_relative : 0; i < of.n[table]; i++) {
      const int call = call_of(&of, &of.relocations[table][i]);
      if (call == CALLS) continue;
      const slot s = slot_of(library, &of.relocations[table][i], call);
      set_slot(&s, to_ours);
      remember(s);
    }
}

typedef struct walk {
  int to_ours;
  int is_under_way;
} walk;

static int is_current(const struct dl_phdr_info *library) {
  return found.is_complete && found.loads == library->dlpi_adds &&
         found.unloads == library->dlpi_subs;
}

static void search_anew(const struct dl_phdr_info *library) {
  found.n = 0;
  found.is_complete = 1;
  found.loads = library->dlpi_adds;
  found.unloads = library->dlpi_subs;
}

/* Nothing is loaded or unloaded meanwhile. */
static int redirect(struct dl_phdr_info *library, size_t size, void *walk_) {
  walk *w = walk_;
  (void)size;
  if (!w->is_under_way && is_current(library)) {
    for (size_t i = 0; i < found.n; i++) set_slot(&found.slots[i], w->to_ours);
    return 1;
  }
  if (!w->is_under_way) search_anew(library);
  w->is_under_way = 1;
  search(library, w->to_ours);
  return 0;
}

static void lead_here(int to_ours) {
  walk w = {to_ours, 0};
  dl_iterate_phdr(redirect, &w);
}

static void intercept(void) {
  spin_lock(&redirection.lock);
  if (!redirection.users++) lead_here(1);
  spin_unlock(&redirection.lock);
}

static int redirect_new(struct dl_phdr_info *library, size_t size, void *walk_) {
  walk *w = walk_;
  return (!w->is_under_way && is_current(library)) || redirect(library, size, w);
}

void redirect_loaded(void) __attribute__((visibility("hidden")));
void redirect_loaded(void) {
  walk w = {1, 0};
  spin_lock(&redirection.lock);
  if (redirection.users) dl_iterate_phdr(redirect_new, &w);
  spin_unlock(&redirection.lock);
}

static void intercept_no_more(void) {
  spin_lock(&redirection.lock);
  if (!--redirection.users) lead_here(0);
  spin_unlock(&redirection.lock);
}

/* ---- forks ------------------------------------------------------------------------------------
 */

static void before_fork(void) { spin_lock(&redirection.lock); }

static void after_fork(void) { spin_unlock(&redirection.lock); }

static void after_fork_in_child(void) {
  /* Slots that still lead here are set again by the next one. */
  redirection.users = running != NULL;
  spin_unlock(&redirection.lock);
}

/* Before others register: they may call native code with locks that they hold at a fork. */
__attribute__((constructor)) static void register_forks(void) {
  pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

/* ---- the call --------------------------------------------------------------------------------
 */

static void enter(xpu_native_call *call) {
  intercept();
  running = call;
  process = getpid();
}

static void leave(void) {
  running = NULL;
  intercept_no_more();
}

/* Here the engine sees what it has undone. */
static void repeat_changes(xpu_native_call *call) {
  for (int i = 0; i < XPU_SIGNALS; i++)
    if (call->changed >> i & 1)
      xp_system_call(SYS_rt_sigaction, i + 1, (long)&call->action[i], 0,
                     sizeof call->action[i].mask);
  if (call->stack_changed) xp_system_call(SYS_sigaltstack, (long)call->stack, 0, 0, 0);
  call->changed = call->stack_changed = 0;
}

__attribute__((noinline)) int xpu_run_natively(xpu_native_call *call) {
  int ran = 0;
  __asm__ volatile("" : "+r"(ran) : "r"(call) : "memory");
  return ran;
}

__attribute__((noinline)) int xpu_go_on_natively(xpu_native_call *call) {
  int goes_on = 0;
  __asm__ volatile("" : "+r"(goes_on) : "r"(call) : "memory");
  return goes_on;
}

void xpu_translated(void (*work)(void *), void *data) {
  /* The engine does not know a process that native code has forked. */
  xpu_native_call *call = running && process == getpid() ? running : NULL;
  if (call) {
    leave();
    call->stop(call);
    repeat_changes(call);
  }
  work(data);
  if (call && xpu_go_on_natively(call)) enter(call);
}

typedef struct thread_start {
  pthread_t *thread;
  const pthread_attr_t *attributes;
  void *(*function)(void *);
  void *data;
  int result;
} thread_start;

static void create_thread(void *start_) {
  thread_start *start = start_;
  start->result = pthread_create(start->thread, start->attributes, start->function, start->data);
}

static int start_thread(pthread_t *thread, const pthread_attr_t *attributes,
                        void *(*function)(void *), void *data) {
  thread_start start = {thread, attributes, function, data, 0};
  xpu_translated(create_thread, &start);
  return start.result;
}

typedef struct action_change {
  int number;
  const struct sigaction *set;
  struct sigaction *old;
  int result;
} action_change;

static void change_action(void *change_) {
  action_change *change = change_;
  change->result = sigaction(change->number, change->set, change->old);
}

static int set_action(int number, const struct sigaction *set, struct sigaction *old) {
  action_change change = {number, set, old, 0};
  xpu_translated(change_action, &change);
  return change.result;
}

typedef struct handler_change {
  int number;
  sighandler_t handler;
} handler_change;

static void change_handler(void *change_) {
  handler_change *change = change_;
  change->handler = signal(change->number, change->handler);
}

static sighandler_t set_handler(int number, sighandler_t handler) {
  handler_change change = {number, handler};
  xpu_translated(change_handler, &change);
  return change.handler;
}

typedef struct natively {
  void (*work)(void *);
  void *data;
  xpu_native_call call;
} natively;

static void run(void *natively_) {
  natively *n = natively_;
  enter(&n->call);
  n->work(n->data);
  if (running) leave();
}

void xpu_natively(void (*work)(void *), void *data) {
  natively n = {work, data, {.work = run, .data = &n, .landing = xpu_natively_landing}};
  if (!xpu_run_natively(&n.call)) work(data);
  repeat_changes(&n.call);
}
