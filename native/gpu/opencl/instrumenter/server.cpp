// SPDX-License-Identifier: Apache-2.0
#include "server.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "answer.h"
#include "common/unix_address.hpp"
#include "crash.h"
#include "request.h"

namespace clinst {
namespace {

char socket_file[PATH_MAX];

void end(int) {
  unlink(socket_file);
  _exit(0);
}

// Memory is allocated for received bytes, not for a claimed length.
bool receive(int peer, std::string &bytes) {
  std::string buffer(1 << 20, 0);
  while (uint64_t missing = missing_of_request(bytes)) {
    while (missing) {
      ssize_t n = read(peer, buffer.data(), std::min<uint64_t>(missing, buffer.size()));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      bytes.append(buffer, 0, n);
      missing -= n;
    }
  }
  return true;
}

void send(int peer, const std::string &bytes) {
  for (size_t at = 0; at < bytes.size();) {
    ssize_t n = write(peer, bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    at += n;
  }
  // Closing with unread bytes would discard the answer to a peer that sent too much.
  shutdown(peer, SHUT_WR);
  char rest[4096];
  while (read(peer, rest, sizeof rest) > 0) continue;
}

std::string refusal(const std::string &why) {
  Response response;
  response.status = 1;
  response.message = why;
  return encode(response);
}

void talk(int peer, Cache &cache) {
  std::string request;
  on_crash(peer, refusal(kCrashed), 1);
  try {
    if (!receive(peer, request)) return;
    send(peer, answer(request, cache));
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

}  // namespace

int serve(const std::string &path) {
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
  end_with_parent();
  Cache cache;
  for (;;) {
    int peer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (peer < 0) continue;
    if (fork() == 0) {
      signal(SIGTERM, SIG_DFL);
      signal(SIGCHLD, SIG_DFL);  // the compiler's exit status matters
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      close(listener);
      talk(peer, cache);
      _exit(0);
    }
    close(peer);
  }
}

}  // namespace clinst
