// SPDX-License-Identifier: Apache-2.0
#include "classes.h"

void ClassBuilder::grow() {
  std::vector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size(), Slot{{0, 0}, 0});
  old.swap(slots_);
  for (const Slot &slot : old) {
    if (!slot.id) continue;
    size_t at = slot.hash.a & (slots_.size() - 1);
    while (slots_[at].id) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
}

uint32_t ClassBuilder::id_of(const RowHash &hash) {
  if (2 * (classes_.first_row.size() + 1) > slots_.size()) grow();
  size_t at = hash.a & (slots_.size() - 1);
  while (slots_[at].id) {
    if (slots_[at].hash.a == hash.a && slots_[at].hash.b == hash.b) return slots_[at].id - 1;
    at = (at + 1) & (slots_.size() - 1);
  }
  classes_.first_row.push_back(rows_);
  classes_.hash.push_back(hash);
  slots_[at] = {hash, static_cast<uint32_t>(classes_.first_row.size())};
  return slots_[at].id - 1;
}

void ClassBuilder::add(const RowHash *hashes, size_t n) {
  for (size_t i = 0; i < n; i++, rows_++) {
    bool same = i > 0 && hashes[i].a == hashes[i - 1].a && hashes[i].b == hashes[i - 1].b;
    uint32_t id = same ? classes_.run_class.back() : id_of(hashes[i]);
    if (!classes_.run_class.empty() && classes_.run_class.back() == id) {
      classes_.run_length.back()++;
    } else {
      classes_.run_class.push_back(id);
      classes_.run_length.push_back(1);
    }
  }
}

bool vectors_match(const WarpClasses &classes, const std::vector<uint64_t> &vectors,
                   uint32_t columns) {
  for (size_t c = 0; c < classes.hash.size(); c++) {
    const RowHash hash = row_hash(vectors.data() + c * columns, columns);
    if (hash.a != classes.hash[c].a || hash.b != classes.hash[c].b) return false;
  }
  return true;
}
