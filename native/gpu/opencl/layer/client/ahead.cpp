// SPDX-License-Identifier: Apache-2.0
#include "client/ahead.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>

#include "api/settings.hpp"
#include "common/new_file.hpp"
#include "protocol/compiled.hpp"

namespace layer {

// What a process leaves, at most: more than could be compiled in time.
static constexpr unsigned most_files = 256;
static constexpr size_t most_bytes = size_t{64} << 20;
static constexpr unsigned most_told = 4096;

static std::mutex &lock = *new std::mutex;

std::string leave_for_profile(const clinst::Request &request) {
  // By the request's hash: a program may build the same again and again.
  static auto &left = *new std::map<size_t, std::string>;
  static size_t room = most_bytes;
  const std::string bytes = clinst::encode(request);
  std::lock_guard<std::mutex> guard(lock);
  const size_t hash = std::hash<std::string>()(bytes);
  if (const auto known = left.find(hash); known != left.end()) return known->second;
  if (left.size() >= most_files || bytes.size() > room) return "";
  room -= bytes.size();
  // The names sort in the order of the requests.
  char name[32];
  std::snprintf(name, sizeof name, "%04zu-%d", left.size(), getpid());
  const bool there = common::write_new_file(AT_FDCWD, settings.ahead + "/" + name, bytes);
  return left[hash] = there ? name : "";
}

void tell_compiled(const clinst::Request &request) {
  static std::atomic<unsigned> told;
  if (told++ < most_told)
    common::write_new_file(
        AT_FDCWD, settings.ahead + "/" + clinst::compiled_mark(clinst::encode(request)), "");
}

void hold_left() { lock.lock(); }
void release_left() { lock.unlock(); }

}  // namespace layer
