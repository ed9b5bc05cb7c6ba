// SPDX-License-Identifier: Apache-2.0
// A 128-bit hash of contents: the identity of a device program across runs and machines.
#ifndef XPUPROF_OPENCL_CONTENT_HASH_HPP
#define XPUPROF_OPENCL_CONTENT_HASH_HPP

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace common {

using Hash = std::array<uint8_t, 16>;

class ContentHash {
 public:
  void add(const Hash &hash) {
    for (uint8_t byte : hash) word(byte);
  }
  // Length first, so that boundaries between texts matter.
  void add(const std::string &text) {
    word(text.size());
    size_t i = 0;
    for (; i + 8 <= text.size(); i += 8) {
      uint64_t value;
      std::memcpy(&value, text.data() + i, 8);
      word(value);
    }
    uint64_t tail = 0;
    if (i < text.size()) std::memcpy(&tail, text.data() + i, text.size() - i);
    word(tail);
  }
  Hash get() const {
    Hash hash;
    std::memcpy(hash.data(), &a_, 8);
    std::memcpy(hash.data() + 8, &b_, 8);
    return hash;
  }

 private:
  static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  }
  void word(uint64_t value) {
    a_ = mix(a_ ^ value) + 0x9e3779b97f4a7c15u;
    b_ = mix(b_ + value * 0xd6e8feb86659fd93u) ^ 0xa0761d6478bd642fu;
  }
  uint64_t a_ = 0x243f6a8885a308d3u, b_ = 0x13198a2e03707344u;
};

inline std::string hex_of(const Hash &hash) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : hash) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

}  // namespace common
#endif
