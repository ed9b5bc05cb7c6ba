// SPDX-License-Identifier: Apache-2.0
// Results on disk, keyed by everything they depend on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/private_folder.hpp"

namespace clinst {

class Cache {
 public:
  // In ${XDG_CACHE_HOME:-~/.cache}/xpuprof/clinst. Untrusted entries are reported on stderr.
  Cache();

  // The stored response to an equal request whose included files are unchanged.
  std::optional<std::string> find(const std::string &request);
  void keep(const std::string &request, const std::string &response,
            const std::vector<std::string> &included) const;

 private:
  void note_refusal() const;
  std::string name_of(const std::string &request) const;
  common::PrivateFolder folder_;
  std::string version_;
};

}  // namespace clinst
