// SPDX-License-Identifier: Apache-2.0
#include "common/private_folder.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "common/descriptor.hpp"
#include "common/new_file.hpp"

namespace common {
namespace {

constexpr mode_t only_us = 0700, others_write = S_IWGRP | S_IWOTH;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd(fd) {}
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
  const int fd;
};

// What makes an opened file or folder untrustworthy, or empty.
std::string distrust(int fd, const std::string &name, mode_t type) {
  struct stat status;
  if (fstat(fd, &status) != 0) return name + " cannot be examined";
  if ((status.st_mode & S_IFMT) != type) return name + " has the wrong type";
  if (status.st_uid != geteuid())
    return name + " belongs to user " + std::to_string(status.st_uid) + ", not to user " +
           std::to_string(geteuid());
  if (status.st_mode & others_write)
    return "other users may write to " + name + " (check its contents, then chmod go-w)";
  return "";
}

// Unpredictable. Empty when the system has no random numbers.
std::string draft_of(const std::string &file) {
  unsigned long long number;
  if (getrandom(&number, sizeof number, 0) != sizeof number) return "";
  char digits[32];
  std::snprintf(digits, sizeof digits, ".%016llx", number);
  return file + digits;
}

std::string cache_home() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache && *cache == '/') return cache;
  return home && *home == '/' ? std::string(home) + "/.cache" : "";
}

}  // namespace

PrivateFolder::PrivateFolder(const std::string &name) {
  std::string path = cache_home();
  if (path.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(path, ignored);
  fd_ = open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);  // the user chose its location
  for (const std::string &part : {std::string("xpuprof"), name}) {
    if (fd_ < 0) return;
    path += "/" + part;
    enter(part, path);
  }
}

// Opens a folder inside the current one; -1 when it is not trusted.
void PrivateFolder::enter(const std::string &part, const std::string &path) {
  mkdirat(fd_, part.c_str(), only_us);
  const int inner = openat(fd_, part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (inner >= 0) refusal_ = distrust(inner, path, S_IFDIR);
  if (inner < 0 && errno == ENOTDIR) refusal_ = path + " is a symbolic link or not a folder";
  close(fd_);
  fd_ = inner;
  if (inner < 0 || refusal_.empty()) return;
  close(inner);
  fd_ = -1;
}

PrivateFolder::~PrivateFolder() {
  if (fd_ >= 0) close(fd_);
}

std::optional<std::string> PrivateFolder::read(const std::string &file) {
  if (fd_ < 0) return std::nullopt;
  Descriptor from(openat(fd_, file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  refusal_ = from.fd < 0 ? errno == ELOOP ? file + " is a symbolic link" : ""
                         : distrust(from.fd, file, S_IFREG);
  std::string content;
  if (from.fd < 0 || !refusal_.empty() || !read_all(from.fd, &content)) return std::nullopt;
  return content;
}

void PrivateFolder::write(const std::string &file, const std::string &content) const {
  const std::string draft = draft_of(file);
  if (fd_ < 0 || draft.empty() || !write_new_file(fd_, draft, content)) return;
  if (renameat(fd_, draft.c_str(), fd_, file.c_str()) != 0) unlinkat(fd_, draft.c_str(), 0);
}

bool PrivateFolder::writable() const { return fd_ >= 0 && faccessat(fd_, ".", W_OK, 0) == 0; }

}  // namespace common
