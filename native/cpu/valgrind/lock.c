/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* The lock that a thread holds while it runs translated code. As Valgrind's fair one, it goes to
 * threads in the order of asking; but who waits looks for a moment before it sleeps. Threads that
 * run a device's kernels come back for a microsecond after each work-group, and to sleep and be
 * woken takes ten times as long, and more on a virtual machine. */
#include "lock.h"

#include "pub_tool_basics.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "system_call.h"

extern Int VG_(gettid)(void);

#ifndef SLOTS
#define SLOTS 64u /* tickets that are a multiple of it apart wake one another */
#endif
enum { LOOKS = 2500 }; /* some 50 us: what a chain of three threads that sleep takes to wake */

typedef struct slot {
  UInt turns;    /* of its tickets, so far: what threads sleep on */
  UInt sleepers; /* threads that sleep, or are about to */
} slot;

typedef struct sched_lock {
  UInt head __attribute__((aligned(64))); /* the ticket that may run: what waiting threads read */
  UInt tail __attribute__((aligned(64))); /* the next ticket to be taken */
  UInt processors;
  slot slots[SLOTS];
} sched_lock;

static UInt load(const UInt *from) { return __atomic_load_n(from, __ATOMIC_SEQ_CST); }

static UInt processors(void) {
  UChar mask[1024] = {0};
  Word bytes = xp_system_call(__NR_sched_getaffinity, 0, sizeof mask, (Word)mask, 0);
  UInt n = 0;
  for (Word i = 0; i < bytes; i++) n += (UInt)__builtin_popcount(mask[i]);
  return n;
}

extern sched_lock *__wrap_vgModuleLocal_create_sched_lock(void);
extern void __wrap_vgModuleLocal_destroy_sched_lock(sched_lock *);
extern Int __wrap_vgModuleLocal_get_sched_lock_owner(const sched_lock *);
extern void __wrap_vgModuleLocal_acquire_sched_lock(sched_lock *);
extern void __wrap_vgModuleLocal_release_sched_lock(sched_lock *);

static sched_lock big; /* a forked child destroys its parent's before it makes its own */

Bool lock_is_wanted(void) { return load(&big.tail) != load(&big.head) + 1; }

sched_lock *__wrap_vgModuleLocal_create_sched_lock(void) {
  big = (sched_lock){.processors = processors()};
  return &big;
}

void __wrap_vgModuleLocal_destroy_sched_lock(sched_lock *lock) { (void)lock; }

static Bool is_free(const sched_lock *lock) { return load(&lock->tail) == load(&lock->head); }

/* Only the thread that should own it asks, to make sure. To write its number down at each turn
 * would take a system call. */
Int __wrap_vgModuleLocal_get_sched_lock_owner(const sched_lock *lock) {
  return is_free(lock) ? 0 : VG_(gettid)();
}

/* Whoever is further back than there are processors waits for longer than a moment. */
static Bool comes_soon(const sched_lock *lock, UInt ticket) {
  for (Int i = 0; i < LOOKS; i++) {
    UInt before = ticket - load(&lock->head);
    if (!before) return True;
    if (before >= lock->processors) return False;
    __builtin_ia32_pause();
  }
  return False;
}

/* The owner makes a ticket the head, counts its slot's turn, and looks for sleepers. So a thread
 * that is a sleeper before it looks at the head is either woken or finds that the turns have
 * changed since it read them. */
static void sleep_until(sched_lock *lock, UInt ticket) {
  slot *in = &lock->slots[ticket % SLOTS];
  __atomic_add_fetch(&in->sleepers, 1, __ATOMIC_SEQ_CST);
  for (;;) {
    UInt turns = load(&in->turns);
    if (load(&lock->head) == ticket) break;
    xp_system_call(__NR_futex, (Word)&in->turns, VKI_FUTEX_WAIT | VKI_FUTEX_PRIVATE_FLAG,
                   (Word)turns, 0);
  }
  __atomic_sub_fetch(&in->sleepers, 1, __ATOMIC_SEQ_CST);
}

void __wrap_vgModuleLocal_acquire_sched_lock(sched_lock *lock) {
  UInt ticket = __atomic_fetch_add(&lock->tail, 1, __ATOMIC_SEQ_CST);
  if (!comes_soon(lock, ticket)) sleep_until(lock, ticket);
}

void __wrap_vgModuleLocal_release_sched_lock(sched_lock *lock) {
  tl_assert(!is_free(lock));
  UInt next = __atomic_add_fetch(&lock->head, 1, __ATOMIC_SEQ_CST);
  slot *in = &lock->slots[next % SLOTS];
  __atomic_add_fetch(&in->turns, 1, __ATOMIC_SEQ_CST);
  if (load(&in->sleepers))
    xp_system_call(__NR_futex, (Word)&in->turns, VKI_FUTEX_WAKE | VKI_FUTEX_PRIVATE_FLAG,
                   0x7fffffff, 0);
}
