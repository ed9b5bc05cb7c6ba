// SPDX-License-Identifier: Apache-2.0
// Locks of tables that live as long as the process.
#ifndef XPUPROF_OPENCL_LEAF_LOCK_HPP
#define XPUPROF_OPENCL_LEAF_LOCK_HPP

#include <mutex>

namespace layer {

// While a thread holds one, it takes no other lock of ours: so a fork can take them all.
class LeafLock : public std::mutex {
 public:
  LeafLock();
  LeafLock(const LeafLock &) = delete;
  LeafLock &operator=(const LeafLock &) = delete;

 private:
  friend void hold_leaf_locks();
  friend void release_leaf_locks();
  LeafLock *others_;
};

// Called around a fork, after all other locks of ours: the child finds these free, and what they
// guard consistent.
void hold_leaf_locks();
void release_leaf_locks();

}  // namespace layer
#endif
