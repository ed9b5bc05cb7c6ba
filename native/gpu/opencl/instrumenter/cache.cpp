#include "cache.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SHA256.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

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

std::string default_folder() {
  if (const char *cache = std::getenv("XDG_CACHE_HOME"); cache && *cache == '/') {
    return std::string(cache) + "/xpuprof/clinst";
  }
  const char *home = std::getenv("HOME");
  return home && *home == '/' ? std::string(home) + "/.cache/xpuprof/clinst" : "";
}

}  // namespace

// The program's own bytes stand for its version: a rebuilt instrumenter never believes its
// predecessor's results.
Cache::Cache() : folder_(default_folder()) {
  version_ = hash_of_file("/proc/self/exe") + " LLVM " LLVM_VERSION_STRING;
}

std::string Cache::path_of(const std::string &request) const {
  return folder_ + "/" + hash(version_ + "\n" + request);
}

// An entry: hash of the rest, lines "hash path" of the included files, an empty line, response.
std::optional<std::string> Cache::find(const std::string &request) const {
  if (folder_.empty()) return std::nullopt;
  auto buffer = llvm::MemoryBuffer::getFile(path_of(request), /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer) return std::nullopt;
  auto [sum, rest] = (*buffer)->getBuffer().split('\n');
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
  if (folder_.empty() || llvm::sys::fs::create_directories(folder_)) return;
  std::string rest;
  for (const std::string &path : included) rest += hash_of_file(path) + " " + path + "\n";
  rest += "\n" + response;
  const std::string path = path_of(request), draft = path + "." + std::to_string(getpid());
  std::ofstream file(draft, std::ios::binary);
  file << hash(rest) << "\n" << rest;
  file.close();
  // By rename, so that a reader sees a whole entry or none.
  if (!file || llvm::sys::fs::rename(draft, path)) llvm::sys::fs::remove(draft);
}

}  // namespace clinst
