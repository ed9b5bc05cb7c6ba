/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs launches with the completions that the device reports later, in any order: launches keep
 * the numbers of the calls around them, completions find them by CUPTI's correlation id. */
#ifndef XPUPROF_CUDA_COMPLETIONS_H
#define XPUPROF_CUDA_COMPLETIONS_H

#include <stddef.h>
#include <stdint.h>

#include <unordered_map>

/* One kernel from its activity record; stamps in CUPTI's nanoseconds. */
struct Completion {
  uint32_t correlation, device;
  uint64_t node; /* of a graph; 0: an ordinary launch */
  uint64_t start, end;
};

/* A launch whose call has returned. */
struct Launched {
  uint32_t correlation; /* the driver call's */
  uint32_t outer[2];    /* the runtime calls' around it, outermost and innermost; 0: none */
  uint64_t key;         /* the graph node, or the device when one call launches on several */
  uint64_t launch, tsc_run;
};

class Completions {
 public:
  void expect(const Launched &launched);
  /* Finds and forgets the launch. `keys` are tried in order. */
  bool match(const Completion &completion, const uint64_t *keys, int n_keys, Launched *found);
  uint64_t open() const; /* launches whose completion was not seen */
  /* A completion carried the driver call's id although a runtime call was around it: so they all
   * do, and runtime calls need not be known. */
  bool carry_the_drivers_id() const { return drivers_; }

 private:
  struct Call {
    Launched first; /* most calls launch one kernel: nothing more is allocated */
    std::unordered_multimap<uint64_t, Launched> more; /* by key */
    bool has_first = false;
    bool empty() const { return !has_first && more.empty(); }
  };
  static bool take(Call *call, uint64_t key, Launched *found);
  using Calls = std::unordered_map<uint32_t, Call>;
  Calls::iterator find(uint32_t correlation);
  Calls calls_;
  std::unordered_map<uint32_t, uint32_t> aliases_;
  bool drivers_ = false;
};

#endif
