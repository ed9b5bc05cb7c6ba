/* SPDX-License-Identifier: Apache-2.0 */
/* A launch's warps as distinct vectors and a run-length coded sequence of them. The device hashes
 * each warp's row of counters; rows of equal hashes are equal (128 bits), so the host reads the
 * hashes and one row of each class instead of all rows. */
#ifndef XPUPROF_NVBIT_CLASSES_H
#define XPUPROF_NVBIT_CLASSES_H

#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "row_hash.h"

struct WarpClasses {
  std::vector<uint64_t> first_row; /* per class: a row that holds its vector */
  std::vector<RowHash> hash;       /* of each class */
  std::vector<uint32_t> run_class;
  std::vector<uint64_t> run_length;
};

/* Adds the rows from `first` on (in logical warp order) to the classes found so far. */
class ClassBuilder {
 public:
  void add(const RowHash *hashes, size_t n);
  const WarpClasses &classes() const { return classes_; }

 private:
  struct Slot {
    RowHash hash;
    uint32_t id;
  };
  uint32_t id_of(const RowHash &hash);
  void grow();
  std::vector<Slot> slots_; /* open addressing; id 0 is free, ids are stored + 1 */
  uint64_t rows_ = 0;
  WarpClasses classes_;
};

/* True when each vector (`columns` counters per class, in order) has its class's hash, so the data
 * read back is the data hashed. */
bool vectors_match(const WarpClasses &classes, const std::vector<uint64_t> &vectors,
                   uint32_t columns);

#endif
