// SPDX-License-Identifier: Apache-2.0
// The origins of native binaries. A program may extract the binary of a build and pass it to the
// driver later: in the same process or, from its own cache, in a later run.
#ifndef XPUPROF_OPENCL_ORIGINS_HPP
#define XPUPROF_OPENCL_ORIGINS_HPP

#include <memory>
#include <string>
#include <vector>

#include "client/client.hpp"
#include "common/content_hash.hpp"

namespace layer {

using common::Hash;

struct Origin {
  static constexpr uint32_t magic = 0x324f5058u;  // "XPO2"
  std::vector<Part> parts;
  std::string options;  // of the build or link itself
  std::string text;     // for the reader of a report
  Hash hash;            // the program's identity
  // The files that the sources include, with the hashes of their contents.
  std::vector<std::pair<std::string, Hash>> files;

  template <class Self, class Fields>
  static void each(Self &self, Fields &&fields) {
    fields(self.parts, self.options, self.text, self.hash, self.files);
  }
};

// Remembers the origin of a binary, for later runs in ${XDG_CACHE_HOME:-~/.cache}/xpuprof/origins.
void keep_origin(const std::string &binary, const Origin &origin);
// The same for a program whose included files are not known: not for later runs.
void keep_origin_for_now(const std::string &binary, const Origin &origin);
// The content's hash; of an absent file, that of nothing.
Hash hash_of_file(const std::string &path);

// NULL: the binary's build was never seen, or a file that it included has changed.
std::shared_ptr<const Origin> origin_of(const std::string &binary);

// Names this user's store of origins: appended to the driver's version, it makes programs that key
// their caches by device and driver miss what they kept without us, and what we have forgotten.
std::string store_name();

// Called around a fork, so that the child finds the lock free and its data consistent.
void hold_origins();
void release_origins();

}  // namespace layer
#endif
