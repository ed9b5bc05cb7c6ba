// SPDX-License-Identifier: Apache-2.0
#include "ahead.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "answer.h"
#include "build_natively.h"
#include "crash.h"

namespace clinst {
namespace {

// One processor is left to the program, which starts meanwhile.
unsigned spare_processors() {
  cpu_set_t ours;
  const int n = sched_getaffinity(0, sizeof ours, &ours) ? 2 : CPU_COUNT(&ours);
  return static_cast<unsigned>(std::max(1, n - 1));
}

std::vector<std::string> files_in(const std::string &folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto &entry : std::filesystem::directory_iterator(folder, error))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

void answer_one(const std::string &file, Cache &cache) {
  try {
    std::ifstream from(file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(from), {}};
    const auto launch = decode<Request>(bytes);
    if (launch.flags & CLINST_BUILD && surely_counts(launch, program_of(launch, cache)))
      answer(bytes, cache);
  } catch (const Failure &) {  // the run was killed while it wrote
  }
}

bool wait_for_one() {
  pid_t child;
  while ((child = wait(nullptr)) < 0 && errno == EINTR) {
  }
  return child > 0;
}

}  // namespace

void answer_ahead(const std::string &folder, Cache &cache) {
  unsigned running = 0;
  for (const std::string &file : files_in(folder)) {
    if (running == spare_processors() && wait_for_one()) running--;
    const pid_t parent = getpid(), child = fork();
    if (child < 0) return;
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != parent) _exit(0);
      on_crash(open("/dev/null", O_WRONLY | O_CLOEXEC), "", 1);
      answer_one(file, cache);
      _exit(0);
    }
    running++;
  }
  while (wait_for_one()) {
  }
}

}  // namespace clinst
