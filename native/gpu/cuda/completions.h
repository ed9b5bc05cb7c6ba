/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs launches with the completions that the device reports later, in any order: launches keep
 * the number of their call, completions find it by CUPTI's correlation id. */
#ifndef XPUPROF_CUDA_COMPLETIONS_H
#define XPUPROF_CUDA_COMPLETIONS_H

#include <stddef.h>
#include <stdint.h>

#include <unordered_map>
#include <vector>

/* One kernel from its activity record; stamps in CUPTI's nanoseconds. */
struct Completion {
  uint32_t correlation, device;
  uint64_t node; /* of a graph; 0: an ordinary launch */
  uint64_t start, end;
};

class Completions {
 public:
  /* A driver call begins; its completions may arrive from now on. They carry its own id or that of
   * an enclosing runtime API call (outermost and innermost; 0: none). */
  void call_begins(uint32_t correlation, uint32_t outermost, uint32_t innermost);
  /* `key` is the graph node, or the device when one call launches on several. */
  struct Expected {
    uint64_t key, launch, tsc_run;
  };
  /* The launches of API call `correlation`. */
  void expect(uint32_t correlation, const Expected *launches, size_t n);
  /* The call is over. Returns the completions that came early. */
  std::vector<Completion> call_ends(uint32_t correlation);
  enum Match { MATCHED, EARLY, UNMATCHED };
  /* Finds and forgets the launch. EARLY: kept until the call ends. `keys` are tried in order. */
  Match match(const Completion &completion, const uint64_t *keys, int n_keys, uint64_t *launch,
              uint64_t *tsc_run);
  uint64_t open() const; /* launches whose completion was not seen */

 private:
  struct Call {
    Expected first; /* most calls launch one kernel: nothing is allocated */
    std::unordered_multimap<uint64_t, Expected> more; /* by key */
    std::vector<Completion> early;
    uint32_t outer[2] = {0, 0};
    bool has_first = false, over = false;
    bool empty() const { return !has_first && more.empty(); }
  };
  static bool take(Call *call, uint64_t key, Expected *found);
  using Calls = std::unordered_map<uint32_t, Call>;
  Calls::iterator find(uint32_t correlation);
  void forget(Calls::iterator call);
  Calls calls_;
  std::unordered_map<uint32_t, uint32_t> aliases_;
};

#endif
