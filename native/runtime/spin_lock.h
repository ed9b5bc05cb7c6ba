/* SPDX-License-Identifier: Apache-2.0 */
/* A spin lock: no libc state, safe wherever a device runtime calls us. */
#ifndef XPUPROF_SPIN_LOCK_H
#define XPUPROF_SPIN_LOCK_H

#include <sched.h>

static inline void spin_lock(int *lock) {
  while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
}

static inline void spin_unlock(int *lock) { __atomic_store_n(lock, 0, __ATOMIC_RELEASE); }

#endif
