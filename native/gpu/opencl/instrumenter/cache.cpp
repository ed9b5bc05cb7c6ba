// SPDX-License-Identifier: Apache-2.0
#include "cache.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SHA256.h>
#include <llvm/Support/raw_ostream.h>

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
Cache::Cache() : folder_("clinst") {
  version_ = hash_of_file("/proc/self/exe") + " LLVM " LLVM_VERSION_STRING;
  note_refusal();
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

}  // namespace clinst
