// SPDX-License-Identifier: Apache-2.0
// The address of a UNIX socket whose path may exceed the limit of 107 bytes.
#ifndef XPUPROF_OPENCL_UNIX_ADDRESS_HPP
#define XPUPROF_OPENCL_UNIX_ADDRESS_HPP

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace common {

// A long path is reached through a descriptor of its folder, which lives as long as this object.
class UnixAddress {
 public:
  explicit UnixAddress(const std::string &path) {
    std::string name = path;
    if (const size_t slash = path.rfind('/');
        path.size() >= sizeof address_.sun_path && slash != std::string::npos) {
      folder_ = open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
      name = "/proc/self/fd/" + std::to_string(folder_) + path.substr(slash);
      if (folder_ < 0) name.clear();
    }
    address_.sun_family = AF_UNIX;
    if (name.size() < sizeof address_.sun_path)
      std::memcpy(address_.sun_path, name.c_str(), name.size() + 1);
  }
  ~UnixAddress() {
    if (folder_ >= 0) close(folder_);
  }
  UnixAddress(const UnixAddress &) = delete;
  UnixAddress &operator=(const UnixAddress &) = delete;

  // False: the folder does not exist.
  bool good() const { return address_.sun_path[0] != 0; }
  const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&address_); }
  static constexpr socklen_t size = sizeof(sockaddr_un);

 private:
  int folder_ = -1;
  sockaddr_un address_{};
};

}  // namespace common
#endif
