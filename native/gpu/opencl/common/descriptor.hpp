// SPDX-License-Identifier: Apache-2.0
// All bytes of a descriptor at once, through interrupts and short transfers.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string>

namespace common {

// False when a read failed; `content` then holds what came before.
inline bool read_all(int fd, std::string *content) {
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n == 0;
    content->append(buffer, static_cast<size_t>(n));
  }
}

inline bool write_all(int fd, const std::string &content) {
  for (size_t at = 0; at < content.size();) {
    const ssize_t n = write(fd, content.data() + at, content.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace common
