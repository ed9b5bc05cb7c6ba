// SPDX-License-Identifier: Apache-2.0
#include "programs/origins.hpp"

#include <sys/random.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>

#include "common/private_folder.hpp"

namespace layer {

namespace {

constexpr size_t max_in_memory = 1024;

std::mutex &lock = *new std::mutex;
auto &in_memory = *new std::map<Hash, std::shared_ptr<const Origin>>;

constexpr char folder[] = "origins";

Hash hash_of(const std::string &bytes) {
  common::ContentHash hash;
  hash.add(bytes);
  return hash.get();
}

std::string as_bytes(const Hash &hash) { return {hash.begin(), hash.end()}; }

// A file: the hash of the rest, then the origin.
void write(const Hash &key, const Origin &origin) {
  const std::string data = clinst::encode(origin);
  common::PrivateFolder(folder).write(common::hex_of(key), as_bytes(hash_of(data)) + data);
}

std::shared_ptr<const Origin> read(const Hash &key) {
  common::PrivateFolder place(folder);
  const std::optional<std::string> bytes = place.read(common::hex_of(key));
  if (!place.refusal().empty()) xpu_meta("origins_refused", place.refusal().c_str());
  if (!bytes || bytes->size() < key.size()) return nullptr;
  const std::string data = bytes->substr(key.size());
  if (as_bytes(hash_of(data)) != bytes->substr(0, key.size())) return nullptr;
  try {
    auto origin = std::make_shared<const Origin>(clinst::decode<Origin>(data));
    for (const auto &[path, hash] : origin->files)
      if (hash_of_file(path) != hash) return nullptr;
    return origin;
  } catch (const clinst::Failure &) {  // of an earlier version
    return nullptr;
  }
}

}  // namespace

static bool is_new(const Hash &key, const Origin &origin) {
  std::lock_guard<std::mutex> guard(lock);
  if (in_memory.count(key) || in_memory.size() >= max_in_memory) return false;
  in_memory[key] = std::make_shared<const Origin>(origin);
  return true;
}

void keep_origin(const std::string &binary, const Origin &origin) {
  const Hash key = hash_of(binary);
  if (is_new(key, origin)) write(key, origin);
}

void keep_origin_for_now(const std::string &binary, const Origin &origin) {
  is_new(hash_of(binary), origin);
}

Hash hash_of_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return hash_of(content.str());
}

static std::string found_store() {
  static const char file[] = "store";
  common::PrivateFolder place(folder);
  if (auto name = place.read(file)) return *name;
  uint64_t number = xpu_tsc();
  getrandom(&number, sizeof number, 0);
  char digits[32];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  place.write(file, digits);
  return place.read(file).value_or(digits);  // another process may have been first
}

std::string store_name() {
  static const std::string name = found_store();
  return name;
}

std::shared_ptr<const Origin> origin_of(const std::string &binary) {
  const Hash key = hash_of(binary);
  std::lock_guard<std::mutex> guard(lock);
  auto at = in_memory.find(key);
  if (at != in_memory.end()) return at->second;
  auto origin = read(key);
  if (origin && in_memory.size() < max_in_memory) in_memory[key] = origin;
  return origin;
}

void hold_origins() { lock.lock(); }
void release_origins() { lock.unlock(); }

}  // namespace layer
