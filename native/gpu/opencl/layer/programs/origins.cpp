// SPDX-License-Identifier: Apache-2.0
#include "programs/origins.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>

#include "client/wire.hpp"
#include "common/private_folder.hpp"
#include "programs/content_hash.hpp"
#include "protocol/clinst_protocol.h"

namespace layer {

namespace {

constexpr size_t max_in_memory = 1024;
constexpr uint32_t file_magic = 0x314f5058u;  // "XPO1"

std::mutex &lock = *new std::mutex;
auto &in_memory = *new std::map<std::string, std::shared_ptr<const Origin>>;

std::string hash_of(const std::string &bytes) {
  ContentHash hash;
  uint8_t key[16];
  hash.add(bytes);
  hash.get(key);
  return std::string(reinterpret_cast<char *>(key), sizeof key);
}

constexpr char folder[] = "origins";

std::string name_of(const std::string &key) {
  std::string name;
  char digits[3];
  for (char byte : key) {
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    name += digits;
  }
  return name;
}

using Headers = std::vector<std::pair<std::string, std::string>>;

// Whether the text includes a file outside the headers: that file may change.
bool includes_files(const std::string &text, const Headers &headers) {
  static const char word[] = "include", spaces[] = " \t";
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
    size_t before = at ? text.find_last_not_of(spaces, at - 1) : std::string::npos;
    at += sizeof word - 1;
    if (before == std::string::npos || text[before] != '#') continue;
    size_t quote = text.find_first_not_of(spaces, at);
    if (quote == std::string::npos || (text[quote] != '"' && text[quote] != '<')) return true;
    size_t end = text.find(text[quote] == '"' ? '"' : '>', quote + 1);
    if (end == std::string::npos) return true;
    const std::string name = text.substr(quote + 1, end - quote - 1);
    if (std::none_of(headers.begin(), headers.end(),
                     [&](const auto &header) { return header.first == name; }))
      return true;
  }
  return false;
}

bool is_whole(const Origin &origin) {
  for (const Part &part : origin.parts) {
    if (part.input != CLINST_SOURCE) continue;
    if (includes_files(part.payload, part.headers)) return false;
    for (const auto &header : part.headers)
      if (includes_files(header.second, part.headers)) return false;
  }
  return true;
}

void write(const std::string &key, const Origin &origin) {
  if (!is_whole(origin)) return;
  Message message;
  message.u32(file_magic);
  add_parts(&message, origin.parts);
  message.bytes(origin.options);
  message.bytes(origin.text);
  message.bytes(std::string(reinterpret_cast<const char *>(origin.hash), sizeof origin.hash));
  common::PrivateFolder(folder).write(name_of(key), hash_of(message.data()) + message.data());
}

std::shared_ptr<const Origin> read(const std::string &key) {
  common::PrivateFolder place(folder);
  const std::optional<std::string> bytes = place.read(name_of(key));
  if (!place.refusal().empty()) xpu_meta("origins_refused", place.refusal().c_str());
  if (!bytes || bytes->size() < key.size()) return nullptr;
  const std::string data = bytes->substr(key.size());
  if (hash_of(data) != bytes->substr(0, key.size())) return nullptr;
  Reader reader(data);
  auto origin = std::make_shared<Origin>();
  bool known = reader.number<uint32_t>() == file_magic;
  origin->parts = take_parts(&reader);
  origin->options = reader.bytes();
  origin->text = reader.bytes();
  std::string hash = reader.bytes();
  if (!known || !reader.good || hash.size() != sizeof origin->hash) return nullptr;
  std::copy_n(hash.begin(), sizeof origin->hash, origin->hash);
  return origin;
}

}  // namespace

void keep_origin(const std::string &binary, const Origin &origin) {
  const std::string key = hash_of(binary);
  {
    std::lock_guard<std::mutex> guard(lock);
    if (in_memory.count(key) || in_memory.size() >= max_in_memory) return;
    in_memory[key] = std::make_shared<const Origin>(origin);
  }
  write(key, origin);
}

std::shared_ptr<const Origin> origin_of(const std::string &binary) {
  const std::string key = hash_of(binary);
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
