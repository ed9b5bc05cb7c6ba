// SPDX-License-Identifier: Apache-2.0
#include "api/leaf_lock.hpp"

namespace layer {

// Made while the library is loaded, by one thread; never destroyed.
static LeafLock *leaf_locks;

LeafLock::LeafLock() : others_(leaf_locks) { leaf_locks = this; }

void hold_leaf_locks() {
  for (LeafLock *one = leaf_locks; one; one = one->others_) one->lock();
}

void release_leaf_locks() {
  for (LeafLock *one = leaf_locks; one; one = one->others_) one->unlock();
}

}  // namespace layer
