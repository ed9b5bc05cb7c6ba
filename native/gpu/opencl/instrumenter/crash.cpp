// SPDX-License-Identifier: Apache-2.0
#include "crash.h"

#include <llvm/Support/ErrorHandling.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>

namespace clinst {
namespace {

std::string *words;  // never freed: a handler may need it until the end
int target, exit_code;
bool armed;

void end() {
  if (!armed) return;
  size_t at = 0;
  while (at < words->size()) {
    ssize_t n = write(target, words->data() + at, words->size() - at);
    if (n <= 0) break;
    at += n;
  }
  _exit(exit_code);
}

void end_on_signal(int) { end(); }
void end_on_error(void *, const char *, bool) { end(); }

}  // namespace

void on_crash(int descriptor, const std::string &last_words, int code) {
  words = new std::string(last_words);
  target = descriptor;
  exit_code = code;
  armed = true;
  for (int number : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) signal(number, end_on_signal);
  atexit(end);
  llvm::install_fatal_error_handler(end_on_error);
}

void no_crash() { armed = false; }

void leave_no_core() {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
}

}  // namespace clinst
