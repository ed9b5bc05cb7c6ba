// SPDX-License-Identifier: Apache-2.0
// Programs and launches one after the other in one process: the runtime reads its library of
// built-in functions once, which takes longer than most programs.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <csignal>
#include <functional>
#include <thread>

#include "common/descriptor.hpp"
#include "common/unix_address.hpp"
#include "runtime.hpp"

namespace clbuild {

namespace {

constexpr int idle_ms = 10'000;  // it holds a compiler's memory

int listen_on(const char *path) {
  const common::UnixAddress address(path);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  unlink(path);
  if (listener < 0 || !address.good() || bind(listener, address.get(), address.size) ||
      listen(listener, SOMAXCONN))
    _exit(2);
  return listener;
}

// The service holds the other end of our input.
void end_with_service() {
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  _exit(0);
}

// Whoever waits on the output knows now that we listen. What a runtime prints is of no interest.
void say_ready() {
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (!common::write_all(STDOUT_FILENO, "!") || dup2(nowhere, STDOUT_FILENO) < 0) _exit(2);
}

std::string file_of(const clinst::Request &request) {
  enter_folder(request);
  return request.device.count("kernel") ? compile_for_launch(request) : compile_program(request);
}

constexpr char taken = '!', compiled = '+', failed = '-', known = '?';

std::string result_of(const std::string &bytes) {
  try {
    const auto request = clinst::decode<clinst::Request>(bytes);
    const std::string file = file_of(request);
    const bool looked_up = !file.empty() || !request.device.count("kernel");
    return looked_up ? compiled + file : std::string(1, known);
  } catch (const std::exception &) {
    return std::string(1, failed);
  }
}

// False: the runtime remembers the kernel, and no longer looks into its cache. Another process
// would.
bool talk(int peer, const std::function<void()> &listen_no_more) {
  std::string request;
  if (!common::write_all(peer, std::string(1, taken)) || !common::read_all(peer, &request))
    return true;
  const std::string result = result_of(request);
  if (result[0] == known) listen_no_more();
  common::write_all(peer, result);
  return result[0] != known;
}

}  // namespace

void serve(const char *path, unsigned patience_s) {
  const int listener = listen_on(path);
  signal(SIGPIPE, SIG_IGN);
  std::thread(end_with_service).detach();
  say_ready();
  auto listen_no_more = [&] {
    unlink(path);
    close(listener);
  };
  pollfd asked{listener, POLLIN, 0};
  while (poll(&asked, 1, idle_ms) > 0) {
    const int peer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (peer < 0) continue;
    alarm(patience_s);
    if (!talk(peer, listen_no_more)) _exit(0);
    alarm(0);
    close(peer);
  }
  listen_no_more();
  _exit(0);
}

}  // namespace clbuild
