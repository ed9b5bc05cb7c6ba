// SPDX-License-Identifier: Apache-2.0
#include "ahead.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "answer.h"
#include "build_natively.h"
#include "crash.h"

namespace clinst {
namespace {

// The program, which starts meanwhile, goes before them (kNicer); while it waits for one of them,
// all processors are theirs. A compiler takes 200 MB.
constexpr int kNicer = 5;

unsigned most_at_once() {
  constexpr int most = 4;
  cpu_set_t ours;
  int n = sched_getaffinity(0, sizeof ours, &ours) ? 2 : CPU_COUNT(&ours);
  double quota, period;  // of a container
  if (std::ifstream("/sys/fs/cgroup/cpu.max") >> quota >> period && period > 0)
    n = std::min(n, static_cast<int>(std::ceil(quota / period)));
  return static_cast<unsigned>(std::clamp(n, 1, most));
}

std::vector<std::string> files_in(const std::string &folder) {
  std::vector<std::string> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error), end;
  for (; !error && entry != end; entry.increment(error)) files.push_back(entry->path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string content_of(const std::string &file) {
  std::ifstream from(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(from), {}};
}

// Nothing: the run was killed while it wrote.
std::optional<Request> launch_of(const std::string &bytes) {
  try {
    return decode<Request>(bytes);
  } catch (const Failure &) {
    return std::nullopt;
  }
}

enum : int { kAnswered, kProgramFails };

constexpr const char *kKernel = "launch:kernel", *kOwn = "launch:own";

// Throws Failure when the program's own binary cannot be made.
void fill_in_sub_groups(Request *launch, const std::string &folder, Cache &cache) {
  const auto sizes = launch->device.find("sub_group_sizes");
  const auto file = launch->device.find(kOwn);
  if (sizes == launch->device.end() || file == launch->device.end()) return;
  const auto own = decode<Response>(answer(content_of(folder + "/" + file->second), cache));
  if (!own.reason.empty()) throw Failure(own.reason);
  sizes->second = own.sub_groups;
}

// The request as the profile will make it.
std::string bytes_of(Request launch) {
  if (launch.flags & CLINST_BINARY) {
    launch.device.erase(kKernel);
    launch.device.erase(kOwn);
  }
  return encode(launch);
}

int answer_one(Request launch, const std::string &folder, Cache &cache) {
  if (launch.flags & CLINST_UNCHANGED) {
    answer(bytes_of(launch), cache);
    return kAnswered;
  }
  if (launch.flags & CLINST_BINARY) fill_in_sub_groups(&launch, folder, cache);
  const Response program = program_of(launch, cache);
  if (!program.reason.empty()) return kProgramFails;
  const bool builds = launch.flags & (CLINST_BUILD | CLINST_BINARY);
  if (builds && surely_counts(launch, program)) answer(bytes_of(launch), cache);
  return kAnswered;
}

// Processes that each answer one request.
class Workers {
 public:
  Workers(const std::string &folder, Cache *cache) : folder_(folder), cache_(*cache) {}

  // False: the system refuses further processes.
  bool give(const std::string &bytes) {
    const std::optional<Request> launch = launch_of(bytes);
    if (!launch) return true;
    const std::string program = encode(program_request(*launch));
    while (running_.size() >= most_ && wait_for_one()) {
    }
    if (failed_.count(program)) return true;
    const pid_t parent = getpid(), child = fork();
    if (child == 0) work(parent, *launch);
    if (child > 0) running_[child] = program;
    return child > 0;
  }
  bool wait_for_one() {
    int status = 0;
    pid_t child;
    while ((child = wait(&status)) < 0 && errno == EINTR) {
    }
    const auto ended = running_.find(child);
    if (ended == running_.end()) return false;
    if (status) failed_.insert(ended->second);
    running_.erase(ended);
    return true;
  }

 private:
  [[noreturn]] void work(pid_t parent, const Request &launch) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)!nice(kNicer);
    if (getppid() != parent) _exit(kAnswered);
    on_crash(open("/dev/null", O_WRONLY | O_CLOEXEC), "", kProgramFails);
    try {
      _exit(answer_one(launch, folder_, cache_));
    } catch (const std::exception &) {
      _exit(kProgramFails);
    }
  }

  const std::string &folder_;
  Cache &cache_;
  const unsigned most_ = most_at_once();
  std::map<pid_t, std::string> running_;  // the programs that they are at
  std::set<std::string> failed_;          // programs that cannot be instrumented
};

}  // namespace

void answer_ahead(const std::string &folder, Cache &cache) {
  if (!cache.usable()) return;
  Workers workers(folder, &cache);
  std::set<std::string> given;  // the ranks of a job leave the same
  for (const std::string &file : files_in(folder)) {
    const std::string bytes = content_of(file);
    if (given.insert(bytes).second && !workers.give(bytes)) break;
  }
  while (workers.wait_for_one()) {
  }
}

}  // namespace clinst
