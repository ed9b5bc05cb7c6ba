// SPDX-License-Identifier: Apache-2.0
#include "client/client.hpp"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <optional>

#include "api/settings.hpp"
#include "common/unix_address.hpp"

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

  // Whether files that the instrumenter makes belong to whom this process's would.
  bool is_of_our_user() const {
    ucred peer{};
    socklen_t size = sizeof peer;
    return connected_ && getsockopt(fd_, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           peer.uid == geteuid() && peer.gid == getegid();
  }

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

// Whether a node refers only to earlier nodes and to what exists.
bool is_sound(const clinst::Node &node, uint32_t at, uint32_t n_args) {
  if (node.bits < 1 || node.bits > 64 || node.op >= CLINST_OPS) return false;
  if (node.op == CLINST_ARGUMENT) return node.value < n_args;
  if (node.op == CLINST_QUERY) return node.a < CLINST_QUERIES && node.b < 3;
  if (node.op == CLINST_CONSTANT) return true;
  return node.a < at && (node.op >= CLINST_ZEXT || node.b < at) &&
         (node.op != CLINST_SELECT || node.c < at);
}

bool is_sound(const InstrumentedKernel &kernel) {
  if (kernel.derivation.size() != kernel.blocks.size()) return false;
  for (const auto &terms : kernel.derivation)
    for (const auto &term : terms)
      if (term.probe < -1 || term.probe >= static_cast<int64_t>(kernel.n_probes)) return false;
  for (uint32_t n = 0; n < kernel.nodes.size(); n++)
    if (!is_sound(kernel.nodes[n], n, kernel.n_args)) return false;
  for (const auto &output : kernel.outputs)
    if (output.node >= kernel.nodes.size() || output.shift > 63 || output.bits > 64) return false;
  for (uint32_t argument : kernel.pointers)
    if (argument >= kernel.n_args) return false;
  return (kernel.nodes.empty() || kernel.outputs.size() == kernel.n_probes) &&
         (kernel.accesses.empty() || kernel.accesses.size() == kernel.blocks.size());
}

// Throws Failure also when the numbers do not fit together.
Instrumented decode_answer(const std::string &bytes) {
  auto answer = clinst::decode<Instrumented>(bytes);
  for (const InstrumentedKernel &kernel : answer.kernels)
    if (!is_sound(kernel)) throw clinst::Failure("a kernel of the answer is not sound");
  return answer;
}

}  // namespace

// Reported once per process: later failures have the same cause.
static void tell_failure(const std::string &reason) {
  static std::atomic<bool> told;
  if (!told.exchange(true)) xpu_failed(("kernels are not counted: " + reason).c_str());
}

// The answer, or nothing if the instrumenter does not answer.
static std::optional<std::string> exchange(Socket *socket, const clinst::Request &request) {
  std::string data;
  if (!socket->send_all(clinst::encode(request)) || !socket->receive_all(&data))
    return std::nullopt;
  return data;
}

Instrumented instrument(const clinst::Request &request) {
  Instrumented result;
  if (settings.instrumenter.empty()) {
    result.reason = "no instrumenter is running";
  } else if (Socket socket(settings.instrumenter); const auto data = exchange(&socket, request)) {
    try {
      return decode_answer(*data);
    } catch (const clinst::Failure &) {
      result.reason = "the instrumenter's answer cannot be read";
      return result;
    }
  } else {
    result.reason = "the instrumenter does not answer";
  }
  tell_failure(result.reason);
  return result;
}

void build_natively(const clinst::Request &request) {
  Socket socket(settings.instrumenter);
  if (socket.is_of_our_user()) exchange(&socket, request);
}

}  // namespace layer
