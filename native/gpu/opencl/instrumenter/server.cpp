// SPDX-License-Identifier: Apache-2.0
#include "server.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "ahead.h"
#include "answer.h"
#include "builders.h"
#include "common/unix_address.hpp"
#include "crash.h"
#include "protocol/messages.hpp"

namespace clinst {
namespace {

// More than any program needs: a foreign peer.
constexpr size_t kLongest = size_t{1} << 30;

char socket_file[PATH_MAX];

void end(int) {
  unlink(socket_file);
  _exit(0);
}

// A request ends where its sender shuts its side down.
std::string receive(int peer) {
  std::string bytes;
  char buffer[1 << 16];
  for (;;) {
    ssize_t n = read(peer, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return bytes;
    bytes.append(buffer, n);
    if (bytes.size() > kLongest)
      throw Failure("a message of the OpenCL layer is longer than 1 GiB");
  }
}

void send(int peer, const std::string &bytes) {
  for (size_t at = 0; at < bytes.size();) {
    ssize_t n = write(peer, bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    at += n;
  }
}

std::string refusal(const std::string &why) {
  Response response;
  response.reason = why;
  return encode(response);
}

void talk(int peer, Cache &cache, const std::string &ahead) {
  on_crash(peer, refusal(kCrashed), 1);
  try {
    const std::string bytes = receive(peer);
    send(peer, is_compiled(ahead, bytes) ? encode(Response()) : answer(bytes, cache));
  } catch (const Failure &failure) {  // not our request
    send(peer, refusal(failure.what()));
  }
}

void end_with_parent() {
  pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) end(0);
}

// The socket is renamed into place only once it listens: whoever sees the file can connect.
int listen_on(const std::string &path) {
  const std::string draft = path + ".new";
  const common::UnixAddress address(draft);
  if (path.size() >= sizeof socket_file || !address.good()) return -1;
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return -1;
  unlink(draft.c_str());
  if (bind(listener, address.get(), address.size) || listen(listener, SOMAXCONN) ||
      rename(draft.c_str(), path.c_str())) {
    close(listener);
    return -1;
  }
  strcpy(socket_file, path.c_str());
  return listener;
}

template <class Work>
void in_a_child(int listener, Work &&work) {
  if (fork()) return;
  signal(SIGTERM, SIG_DFL);
  signal(SIGCHLD, SIG_DFL);  // the compiler's exit status matters
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  close(listener);
  work();
  _exit(0);
}

}  // namespace

int serve(const std::string &path, const std::string &ahead) {
  int listener = listen_on(path);
  if (listener < 0) {
    fprintf(stderr, "xpuprof-clinst: cannot listen on %s: %s\n", path.c_str(), strerror(errno));
    return 2;
  }
  struct sigaction action = {};
  action.sa_handler = end;
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_IGN);  // children are reaped by the kernel
  leave_no_core();
  end_with_parent();
  Cache cache;
  offer_builders(path);
  if (!ahead.empty()) in_a_child(listener, [&] { answer_ahead(ahead, cache); });
  for (;;) {
    int peer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (peer < 0) continue;
    in_a_child(listener, [&] { talk(peer, cache, ahead); });
    close(peer);
  }
}

}  // namespace clinst
