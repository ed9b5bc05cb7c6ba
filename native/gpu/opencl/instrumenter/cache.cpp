// SPDX-License-Identifier: Apache-2.0
#include "cache.h"

#include <fcntl.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SHA256.h>
#include <llvm/Support/raw_ostream.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace clinst {
namespace {

std::string hash(llvm::StringRef text) {
  llvm::SHA256 sha;
  sha.update(text);
  return llvm::toHex(sha.final(), true);
}

std::string hash_of_file(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? hash((*buffer)->getBuffer()) : "absent";
}

}  // namespace

// The program's own bytes are its version: a rebuilt instrumenter never uses its predecessor's
// results.
Cache::Cache() : folder_("clinst"), claims_(memfd_create("claims", MFD_CLOEXEC)) {
  version_ = hash_of_file("/proc/self/exe") + " LLVM " LLVM_VERSION_STRING;
  note_refusal();
}

Cache::~Cache() {
  if (claims_ >= 0) close(claims_);
}

void Cache::note_refusal() const {
  if (folder_.refusal().empty()) return;
  llvm::errs() << "xpuprof-clinst: the kernel cache is not used: " << folder_.refusal() << "\n";
}

std::string Cache::name_of(const std::string &request) const {
  return hash(version_ + "\n" + request);
}

// An entry: hash of the rest, lines "hash path" of the included files, an empty line, response.
std::optional<std::string> Cache::find(const std::string &request) {
  const std::optional<std::string> entry = folder_.read(name_of(request));
  if (!entry) {
    note_refusal();
    return std::nullopt;
  }
  auto [sum, rest] = llvm::StringRef(*entry).split('\n');
  if (sum != hash(rest)) return std::nullopt;
  for (;;) {
    auto [line, behind] = rest.split('\n');
    rest = behind;
    if (line.empty()) return rest.str();
    auto [expected, path] = line.split(' ');
    if (expected != hash_of_file(path.str())) return std::nullopt;
  }
}

void Cache::keep(const std::string &request, const std::string &response,
                 const std::vector<std::string> &included) const {
  std::string rest;
  for (const std::string &path : included) rest += hash_of_file(path) + " " + path + "\n";
  rest += "\n" + response;
  folder_.write(name_of(request), hash(rest) + "\n" + rest);
}

Claim::Claim(const Cache &cache, const std::string &request) : file_(cache.claims_), at_(0) {
  constexpr size_t digits = 15;  // as many as an offset holds
  llvm::StringRef(cache.name_of(request)).take_front(digits).getAsInteger(16, at_);
  waited_ = !lock(F_SETLK, F_WRLCK) && lock(F_SETLKW, F_WRLCK);
}

Claim::~Claim() { lock(F_SETLK, F_UNLCK); }

// These locks belong to the process, also where the file is shared by fork, and end with it.
bool Claim::lock(int command, short type) const {
  struct flock bytes {};
  bytes.l_type = type;
  bytes.l_whence = SEEK_SET;
  bytes.l_start = at_;
  bytes.l_len = 1;
  int error;
  while ((error = fcntl(file_, command, &bytes)) < 0 && errno == EINTR) {
  }
  return error == 0;
}

}  // namespace clinst
