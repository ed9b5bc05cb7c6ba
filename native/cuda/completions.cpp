#include "completions.h"

void Completions::expect(uint32_t correlation, uint64_t key, uint64_t launch, uint64_t tsc_run) {
  calls_[correlation].launches.push_back({key, launch, tsc_run});
}

void Completions::call_begins(uint32_t correlation, uint32_t outer) {
  Call &call = calls_[correlation];
  if (outer == 0 || outer == correlation) return;
  aliases_[outer] = correlation;
  call.outer = outer;
}

Completions::Calls::iterator Completions::find(uint32_t correlation) {
  auto call = calls_.find(correlation);
  if (call != calls_.end()) return call;
  auto other = aliases_.find(correlation);
  return other == aliases_.end() ? calls_.end() : calls_.find(other->second);
}

void Completions::forget(Calls::iterator call) {
  if (call->second.outer) aliases_.erase(call->second.outer);
  calls_.erase(call);
}

std::vector<Completion> Completions::call_ends(uint32_t correlation) {
  auto call = calls_.find(correlation);
  if (call == calls_.end()) return {};
  std::vector<Completion> early;
  early.swap(call->second.early);
  call->second.over = true;
  if (call->second.launches.empty()) forget(call);
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
  std::vector<Expected> &launches = call->second.launches;
  for (int k = 0; k < n_keys; k++)
    for (size_t i = 0; i < launches.size(); i++) {
      if (launches[i].key != keys[k]) continue;
      *launch = launches[i].launch;
      *tsc_run = launches[i].tsc_run;
      launches.erase(launches.begin() + static_cast<std::ptrdiff_t>(i));
      if (launches.empty()) forget(call);
      return MATCHED;
    }
  return UNMATCHED;
}

uint64_t Completions::open() const {
  uint64_t sum = 0;
  for (const auto &call : calls_) sum += call.second.launches.size();
  return sum;
}
