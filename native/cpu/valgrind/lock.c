/* SPDX-License-Identifier: GPL-2.0-or-later
 * Part of the xpuprof tool for Valgrind. Copyright (C) 2026 the xpuprof authors; see COPYING. */

/* The lock that a thread holds while it runs translated code. As Valgrind's fair one, it goes to
 * threads in the order of asking; but who waits looks for a moment before it sleeps. Threads that
 * run a device's kernels come back for a microsecond after each work-group, and to sleep and be
 * woken takes ten times as long, and more on a virtual machine. */
#include "pub_tool_basics.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "system_call.h"

extern Int VG_(gettid)(void);

enum { SLOTS = 64 };    /* tickets whose difference is a multiple of it wake one another */
enum { LOOKS = 500 };   /* about 20 us, what sleeping and being woken takes */
enum { AWAKE, ASLEEP }; /* somebody in the slot */

typedef struct sched_lock {
  UInt head, tail; /* the ticket that may run, the next one to be taken */
  Int owner;       /* thread id of the kernel, or 0 */
  UInt processors;
  UInt slots[SLOTS];
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

sched_lock *__wrap_vgModuleLocal_create_sched_lock(void) {
  sched_lock *lock = VG_(calloc)("xpuprof.lock", 1, sizeof *lock);
  lock->processors = processors();
  return lock;
}

void __wrap_vgModuleLocal_destroy_sched_lock(sched_lock *lock) { VG_(free)(lock); }

Int __wrap_vgModuleLocal_get_sched_lock_owner(const sched_lock *lock) { return lock->owner; }

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

void __wrap_vgModuleLocal_acquire_sched_lock(sched_lock *lock) {
  UInt ticket = __atomic_fetch_add(&lock->tail, 1, __ATOMIC_SEQ_CST);
  UInt *slot = &lock->slots[ticket % SLOTS];
  if (!comes_soon(lock, ticket))
    for (;;) {
      __atomic_store_n(slot, ASLEEP, __ATOMIC_SEQ_CST);
      if (load(&lock->head) == ticket) break; /* the owner may have missed the slot's mark */
      xp_system_call(__NR_futex, (Word)slot, VKI_FUTEX_WAIT | VKI_FUTEX_PRIVATE_FLAG, ASLEEP, 0);
      if (load(&lock->head) == ticket) break;
    }
  tl_assert(lock->owner == 0);
  lock->owner = VG_(gettid)();
}

void __wrap_vgModuleLocal_release_sched_lock(sched_lock *lock) {
  tl_assert(lock->owner != 0);
  lock->owner = 0;
  UInt *slot = &lock->slots[(__atomic_add_fetch(&lock->head, 1, __ATOMIC_SEQ_CST)) % SLOTS];
  if (__atomic_exchange_n(slot, AWAKE, __ATOMIC_SEQ_CST) == ASLEEP)
    xp_system_call(__NR_futex, (Word)slot, VKI_FUTEX_WAKE | VKI_FUTEX_PRIVATE_FLAG, 0x7fffffff, 0);
}
