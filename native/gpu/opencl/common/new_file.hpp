// SPDX-License-Identifier: Apache-2.0
// A file that appears whole, or not at all.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "common/descriptor.hpp"

namespace common {

// Above the limit a write would kill the program (SIGXFSZ).
inline bool fits_limit(size_t size) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && size <= limit.rlim_cur;
}

// A file for our user alone; `name` as for openat(2). False: there is none, or one of that name was
// there before.
inline bool write_new_file(int folder, const std::string &name, const std::string &content) {
  if (!fits_limit(content.size())) return false;
  constexpr int how = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const int file = openat(folder, name.c_str(), how, S_IRUSR | S_IWUSR);
  if (file < 0) return false;
  const bool whole = write_all(file, content);
  close(file);
  if (!whole) unlinkat(folder, name.c_str(), 0);
  return whole;
}

}  // namespace common
