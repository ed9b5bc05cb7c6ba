// SPDX-License-Identifier: Apache-2.0
#include "builders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "common/content_hash.hpp"
#include "common/descriptor.hpp"
#include "common/unix_address.hpp"
#include "versions.h"

namespace clinst {
namespace {

std::string beside(const char *name) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) return name;
  const std::string self(path, static_cast<size_t>(length));
  return self.substr(0, self.rfind('/') + 1) + name;
}

// Those that the application has removed decide nothing either.
void forget_runtimes_variables() {
  std::vector<std::string> names;
  for (char **entry = environ; entry && *entry; entry++)
    for (const char *start : runtime_variables)
      if (starts_with(*entry, start)) names.emplace_back(*entry, std::strcspn(*entry, "="));
  for (const std::string &name : names) unsetenv(name.c_str());
}

// In the child, with the application's variables; `socket` may be NULL. What the runtime prints is
// of no interest.
[[noreturn]] void execute(const char *socket, const Request &request, int input, int output) {
  const std::string program = beside("xpuprof-clbuild");
  forget_runtimes_variables();
  for (const auto &[name, value] : request.device)
    if (starts_with(name, environment_prefix))
      setenv(name.c_str() + sizeof environment_prefix - 1, value.c_str(), 1);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
  execl(program.c_str(), program.c_str(), socket ? "--serve" : nullptr, socket, nullptr);
  _exit(127);
}

// Whether a builder that failed would fail again: it was not killed, nor without the means to
// start.
bool would_fail_again(int status) {
  constexpr int not_started = 127;
  if (WIFEXITED(status)) return WEXITSTATUS(status) != not_started;
  return WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGTERM;
}

// A builder's socket is named after what it sees of the application, and its priority.
std::string &sockets = *new std::string;
int service_lives = -1;  // the end of a pipe that closes with the service's last process

std::string socket_for(const Request &request) {
  common::ContentHash hash;
  hash.add(std::to_string(getpriority(PRIO_PROCESS, 0)));
  for (const auto &[name, value] : request.device)
    if (starts_with(name, environment_prefix)) {
      hash.add(name);
      hash.add(value);
    }
  return sockets + "-" + common::hex_of(hash.get()).substr(0, 8);
}

int connected(const std::string &path) {
  const common::UnixAddress address(path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (address.good() && !connect(fd, address.get(), address.size)) return fd;
  close(fd);
  return -1;
}

bool reads_one_byte(int fd) {
  char byte;
  ssize_t n;
  while ((n = read(fd, &byte, 1)) < 0 && errno == EINTR) {
  }
  return n == 1;
}

// False: it does not come up.
bool start(const std::string &path, const Request &request) {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC)) return false;
  const pid_t child = fork();
  if (child == 0) execute(path.c_str(), request, service_lives, ready[1]);
  close(ready[1]);
  const bool listens = child > 0 && reads_one_byte(ready[0]);
  close(ready[0]);
  return listens;
}

// To one that runs, or to one that we start; nobody else starts another meanwhile.
int connected_or_started(const std::string &path, const Request &request) {
  int fd = connected(path);
  if (fd >= 0) return fd;
  const int lock = open((path + ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (lock >= 0 && !flock(lock, LOCK_EX)) {
    fd = connected(path);
    if (fd < 0 && start(path, request)) fd = connected(path);
  }
  if (lock >= 0) close(lock);
  return fd;
}

// Nothing said: it ended before it took the request.
std::string talk(int fd, const std::string &request) {
  std::string said;
  if (common::write_all(fd, request) && !shutdown(fd, SHUT_WR)) common::read_all(fd, &said);
  return said;
}

}  // namespace

Printed run_builder(const Request &request) {
  Printed printed;
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) return printed;
  const pid_t child = fork();
  if (child == 0) execute(nullptr, request, in[0], out[1]);
  close(in[0]);
  close(out[1]);
  if (child > 0) common::write_all(in[1], encode(request));
  close(in[1]);
  common::read_all(out[0], &printed.text);
  close(out[0]);
  int status = 1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  printed.good = child > 0 && status == 0;
  printed.lasting = printed.good || (child > 0 && would_fail_again(status));
  return printed;
}

void offer_builders(const std::string &socket) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return;
  service_lives = ends[0];
  sockets = socket;
}

Printed ask_builder(const Request &request) {
  Printed printed;
  const std::string path = socket_for(request), bytes = encode(request);
  std::string said;
  for (int tries = 0; tries < 3 && (said.empty() || said == "!?"); tries++) {
    const int fd = service_lives < 0 ? -1 : connected_or_started(path, request);
    if (fd < 0) break;
    said = talk(fd, bytes);
    close(fd);
  }
  // One that died may have been killed.
  printed.lasting = said.size() > 1 && said != "!?";
  printed.good = printed.lasting && said[1] == '+';
  if (printed.good) printed.text = said.substr(2);
  return printed;
}

}  // namespace clinst
