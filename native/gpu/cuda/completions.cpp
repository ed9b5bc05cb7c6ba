// SPDX-License-Identifier: Apache-2.0
#include "completions.h"

void Completions::expect(const Launched &launched) {
  Call &call = calls_[launched.correlation];
  if (call.empty()) {
    call.first = launched;
    call.has_first = true;
  } else {
    call.more.emplace(launched.key, launched);
  }
  if (drivers_) return;
  for (uint32_t outer : launched.outer)
    if (outer) aliases_[outer] = launched.correlation;
}

bool Completions::take(Call *call, uint64_t key, Launched *found) {
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

Completions::Calls::iterator Completions::find(uint32_t correlation) {
  auto call = calls_.find(correlation);
  if (call != calls_.end() || drivers_) return call;
  auto other = aliases_.find(correlation);
  return other == aliases_.end() ? calls_.end() : calls_.find(other->second);
}

bool Completions::match(const Completion &completion, const uint64_t *keys, int n_keys,
                        Launched *found) {
  auto call = find(completion.correlation);
  if (call == calls_.end()) return false;
  for (int k = 0; k < n_keys; k++) {
    if (!take(&call->second, keys[k], found)) continue;
    if (call->second.empty()) {
      if (!drivers_)
        for (uint32_t outer : found->outer) aliases_.erase(outer);
      calls_.erase(call);
    }
    if (!drivers_ && found->outer[0] && completion.correlation == found->correlation) {
      drivers_ = true;
      aliases_.clear();
    }
    return true;
  }
  return false;
}

uint64_t Completions::open() const {
  uint64_t sum = 0;
  for (const auto &call : calls_) sum += call.second.has_first + call.second.more.size();
  return sum;
}
