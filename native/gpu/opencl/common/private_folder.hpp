// SPDX-License-Identifier: Apache-2.0
// A cache on disk that trusts only this user: its contents become code that the program runs.
#ifndef XPUPROF_OPENCL_PRIVATE_FOLDER_HPP
#define XPUPROF_OPENCL_PRIVATE_FOLDER_HPP

#include <optional>
#include <string>

namespace common {

// A folder of this user's below ${XDG_CACHE_HOME:-~/.cache}/xpuprof. Folders and files that belong
// to another user, or that others may write to, are not used; symbolic links are not followed.
class PrivateFolder {
 public:
  // Creates the folder if missing. Without a home there is no folder, and nothing is kept.
  explicit PrivateFolder(const std::string &name);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder &) = delete;
  PrivateFolder &operator=(const PrivateFolder &) = delete;

  // The whole file, or nothing.
  std::optional<std::string> read(const std::string &file);
  // A reader sees the old file or the new one. Failure is silent, since a cache may be empty.
  void write(const std::string &file, const std::string &content) const;
  // Whether files can be kept at all.
  bool writable() const;
  // Why the folder, or the file read last, is not trusted; empty when it is.
  const std::string &refusal() const { return refusal_; }

 private:
  void enter(const std::string &part, const std::string &path);
  int fd_ = -1;
  std::string refusal_;
};

}  // namespace common
#endif
