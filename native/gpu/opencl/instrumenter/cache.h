// SPDX-License-Identifier: Apache-2.0
// Results on disk, keyed by everything they depend on.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/private_folder.hpp"

namespace clinst {

class Cache {
 public:
  // In ${XDG_CACHE_HOME:-~/.cache}/xpuprof/clinst. Untrusted entries are reported on stderr.
  Cache();
  ~Cache();

  // The stored response to an equal request whose included files are unchanged.
  std::optional<std::string> find(const std::string &request);
  void keep(const std::string &request, const std::string &response,
            const std::vector<std::string> &included) const;
  // Whether it keeps anything.
  bool usable() const { return folder_.writable(); }

 private:
  friend class Claim;
  void note_refusal() const;
  std::string name_of(const std::string &request) const;
  common::PrivateFolder folder_;
  std::string version_;
  int claims_;  // a file in memory: a lock on a byte of it is the claim on a request
};

// While it lives, no other process of the service has a claim on an equal request: it waits.
class Claim {
 public:
  Claim(const Cache &cache, const std::string &request);
  ~Claim();
  Claim(const Claim &) = delete;
  Claim &operator=(const Claim &) = delete;
  // Whether another process was at work on it.
  bool waited() const { return waited_; }

 private:
  bool lock(int command, short type) const;
  int file_;
  off_t at_;
  bool waited_;
};

}  // namespace clinst
