// SPDX-License-Identifier: Apache-2.0
#include "client/client.hpp"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "api/settings.hpp"
#include "client/wire.hpp"
#include "common/unix_address.hpp"
#include "protocol/clinst_protocol.h"

namespace layer {

namespace {

constexpr int patience_s = 300;  // a large program on a busy machine takes long

class Socket {
 public:
  explicit Socket(const std::string &path) {
    const common::UnixAddress address(path);
    if (!address.good()) return;
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    timeval patience{patience_s, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    int error;
    while ((error = connect(fd_, address.get(), address.size)) < 0 && errno == EINTR) {
    }
    connected_ = error == 0;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket &) = delete;
  Socket &operator=(const Socket &) = delete;

  bool send_all(const std::string &data) {
    size_t at = 0;
    while (connected_ && at < data.size()) {
      ssize_t n = send(fd_, data.data() + at, data.size() - at, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      at += static_cast<size_t>(n);
    }
    return connected_ && shutdown(fd_, SHUT_WR) == 0;
  }
  bool receive_all(std::string *data) {
    char buffer[1 << 16];
    for (;;) {
      ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return n == 0;
      data->append(buffer, static_cast<size_t>(n));
    }
  }

 private:
  int fd_ = -1;
  bool connected_ = false;
};

std::string encode(const std::vector<Part> &parts, uint32_t flags, uint32_t output,
                   const std::string &features) {
  Message message;
  message.u32(CLINST_MAGIC);
  message.u32(flags);
  message.u32(output);
  message.bytes(features);
  add_parts(&message, parts);
  return message.data();
}

}  // namespace

// Reported once per process: later failures have the same cause.
static void tell_failure(const std::string &reason) {
  static std::atomic<bool> told;
  if (!told.exchange(true)) xpu_failed(("kernels are not counted: " + reason).c_str());
}

Instrumented instrument(const std::vector<Part> &parts, uint32_t flags, uint32_t output,
                        const std::string &features) {
  Instrumented result;
  std::string data;
  if (settings.instrumenter.empty()) {
    result.reason = "no instrumenter is running";
  } else if (Socket socket(settings.instrumenter);
             !socket.send_all(encode(parts, flags, output, features)) ||
             !socket.receive_all(&data)) {
    result.reason = "the instrumenter does not answer";
  } else {
    return decode_answer(data);
  }
  tell_failure(result.reason);
  return result;
}

}  // namespace layer
