// Results on disk, keyed by everything they depend on.
#pragma once

#include <optional>
#include <string>

#include "compile.h"

namespace clinst {

class Cache {
 public:
  // In ${XDG_CACHE_HOME:-~/.cache}/xpuprof/clinst; without a home there is no cache.
  Cache();

  // The stored response of an equal request, whose included files are as they were.
  std::optional<std::string> find(const std::string &request) const;
  // Failure to write is silent: the next run compiles again.
  void keep(const std::string &request, const std::string &response,
            const std::vector<std::string> &included) const;

 private:
  std::string path_of(const std::string &request) const;
  std::string folder_, version_;
};

}  // namespace clinst
