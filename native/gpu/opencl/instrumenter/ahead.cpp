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
#include "protocol/compiled.hpp"

namespace clinst {
namespace {

// The program, which starts meanwhile, has priority; while it waits for one of them, they have all
// processors. A compiler takes 200 MB.
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
std::optional<Request> request_of(const std::string &bytes) {
  try {
    return decode<Request>(bytes);
  } catch (const Failure &) {
    return std::nullopt;
  }
}

// A request as the profile will make it. For a binary's, `own` asks for the unchanged program's,
// which tells the sub-groups. It is needed if one of the kernels, which were launched, counts.
struct Work {
  Request request;
  std::string own;
  std::vector<std::string> kernels;
};

// The fact, which a request for a binary then lacks; empty: it has none.
std::string taken(const char *name, Request *request) {
  const auto fact = request->device.find(name);
  if (fact == request->device.end()) return "";
  const std::string value = fact->second;
  if (request->flags & CLINST_BINARY) request->device.erase(fact);
  return value;
}

Work work_of(Request request, const std::string &folder) {
  Work work;
  work.kernels.push_back(taken("launch:kernel", &request));
  const std::string own = taken("launch:own", &request);
  if (!own.empty()) work.own = content_of(folder + "/" + own);
  work.request = std::move(request);
  return work;
}

// In the order of the files, each once: ranks of a job, and the kernels of a program, ask for the
// same.
std::vector<Work> works_in(const std::string &folder) {
  std::vector<Work> works;
  std::map<std::string, size_t> known;
  for (const std::string &file : files_in(folder)) {
    std::optional<Request> request = request_of(content_of(file));
    if (!request) continue;
    Work work = work_of(std::move(*request), folder);
    const auto [at, is_new] = known.emplace(encode(work.request) + work.own, works.size());
    if (is_new)
      works.push_back(std::move(work));
    else
      works[at->second].kernels.push_back(work.kernels[0]);
  }
  return works;
}

enum : int { kAnswered, kProgramFails };

// Throws Failure when the program's own binary cannot be made.
void fill_in_sub_groups(Work *work, Cache &cache) {
  const auto sizes = work->request.device.find("sub_group_sizes");
  if (sizes == work->request.device.end()) return;
  const auto own = decode<Response>(answer(work->own, cache));
  if (!own.reason.empty()) throw Failure(own.reason);
  sizes->second = own.sub_groups;
}

int answer_one(Work work, Cache &cache) {
  if (work.request.flags & CLINST_UNCHANGED) {
    answer(encode(work.request), cache);
    return kAnswered;
  }
  if (work.request.flags & CLINST_BINARY) fill_in_sub_groups(&work, cache);
  const Response program = program_of(work.request, cache);
  if (!program.reason.empty()) return kProgramFails;
  auto counts = [&](const std::string &kernel) { return surely_counts(kernel, program); };
  if (std::any_of(work.kernels.begin(), work.kernels.end(), counts))
    answer(encode(work.request), cache);
  return kAnswered;
}

// Processes that each answer one request.
class Workers {
 public:
  explicit Workers(Cache *cache) : cache_(*cache) {}

  // False: the system refuses further processes.
  bool give(const Work &work) {
    const std::string program = encode(program_request(work.request));
    while (running_.size() >= most_ && wait_for_one()) {
    }
    if (failed_.count(program)) return true;
    const pid_t parent = getpid(), child = fork();
    if (child == 0) start(parent, work);
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
  [[noreturn]] void start(pid_t parent, const Work &work) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)!nice(kNicer);
    if (getppid() != parent) _exit(kAnswered);
    on_crash(open("/dev/null", O_WRONLY | O_CLOEXEC), "", kProgramFails);
    try {
      _exit(answer_one(work, cache_));
    } catch (const std::exception &) {
      _exit(kProgramFails);
    }
  }

  Cache &cache_;
  const unsigned most_ = most_at_once();
  std::map<pid_t, std::string> running_;  // the programs that they are at
  std::set<std::string> failed_;          // programs that cannot be instrumented
};

}  // namespace

bool is_compiled(const std::string &folder, const std::string &request) {
  return !folder.empty() && !access((folder + "/" + compiled_mark(request)).c_str(), F_OK);
}

void answer_ahead(const std::string &folder, Cache &cache) {
  if (!cache.usable()) return;
  Workers workers(&cache);
  for (const Work &work : works_in(folder)) {
    if (!workers.give(work)) break;
  }
  while (workers.wait_for_one()) {
  }
}

}  // namespace clinst
