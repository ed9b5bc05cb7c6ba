// SPDX-License-Identifier: Apache-2.0
#include "completions.h"

void Completions::expect(uint32_t correlation, const Expected *launches, size_t n) {
  Call &call = calls_[correlation];
  if (n > 1) call.more.reserve(call.more.size() + n);
  for (const Expected *launch = launches; launch < launches + n; launch++) {
    if (call.empty()) {
      call.first = *launch;
      call.has_first = true;
    } else {
      call.more.emplace(launch->key, *launch);
    }
  }
}

bool Completions::take(Call *call, uint64_t key, Expected *found) {
  if (call->has_first && call->first.key == key) {
    *found = call->first;
    call->has_first = false;
    return true;
  }
  auto known = call->more.find(key);
  if (known == call->more.end()) return false;
  *found = known->second;
  call->more.erase(known);
  return true;
}

void Completions::call_begins(uint32_t correlation, uint32_t outermost, uint32_t innermost) {
  Call &call = calls_[correlation];
  call.outer[0] = outermost;
  call.outer[1] = innermost == outermost ? 0 : innermost;
  for (uint32_t outer : call.outer)
    if (outer) aliases_[outer] = correlation;
}

Completions::Calls::iterator Completions::find(uint32_t correlation) {
  auto call = calls_.find(correlation);
  if (call != calls_.end()) return call;
  auto other = aliases_.find(correlation);
  return other == aliases_.end() ? calls_.end() : calls_.find(other->second);
}

void Completions::forget(Calls::iterator call) {
  for (uint32_t outer : call->second.outer)
    if (outer) aliases_.erase(outer);
  calls_.erase(call);
}

std::vector<Completion> Completions::call_ends(uint32_t correlation) {
  auto call = calls_.find(correlation);
  if (call == calls_.end()) return {};
  std::vector<Completion> early;
  early.swap(call->second.early);
  call->second.over = true;
  if (call->second.empty()) forget(call);
  return early;
}

Completions::Match Completions::match(const Completion &completion, const uint64_t *keys,
                                      int n_keys, uint64_t *launch, uint64_t *tsc_run) {
  auto call = find(completion.correlation);
  if (call == calls_.end()) return UNMATCHED;
  if (!call->second.over) {
    call->second.early.push_back(completion);
    return EARLY;
  }
  for (int k = 0; k < n_keys; k++) {
    Expected found;
    if (!take(&call->second, keys[k], &found)) continue;
    *launch = found.launch;
    *tsc_run = found.tsc_run;
    if (call->second.empty()) forget(call);
    return MATCHED;
  }
  return UNMATCHED;
}

uint64_t Completions::open() const {
  uint64_t sum = 0;
  for (const auto &call : calls_) sum += call.second.has_first + call.second.more.size();
  return sum;
}
