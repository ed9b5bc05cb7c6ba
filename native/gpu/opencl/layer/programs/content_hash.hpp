// SPDX-License-Identifier: Apache-2.0
// A 128-bit hash of contents: the identity of a device program across runs and machines.
#ifndef XPUPROF_OPENCL_CONTENT_HASH_HPP
#define XPUPROF_OPENCL_CONTENT_HASH_HPP

#include <cstdint>
#include <cstring>
#include <string>

namespace layer {

class ContentHash {
 public:
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
  void get(uint8_t out[16]) const {
    std::memcpy(out, &a_, 8);
    std::memcpy(out + 8, &b_, 8);
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

}  // namespace layer
#endif
