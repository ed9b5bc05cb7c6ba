// SPDX-License-Identifier: Apache-2.0
// Messages packed as clinst_protocol.h defines: to the instrumenter, and into our own files.
#ifndef XPUPROF_OPENCL_WIRE_HPP
#define XPUPROF_OPENCL_WIRE_HPP

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "client/client.hpp"

namespace layer {

class Message {
 public:
  void u32(uint32_t value) { data_.append(reinterpret_cast<const char *>(&value), 4); }
  void bytes(const std::string &text) {
    uint64_t size = text.size();
    data_.append(reinterpret_cast<const char *>(&size), 8);
    data_ += text;
  }
  const std::string &data() const { return data_; }

 private:
  std::string data_;
};

// Reads a message; past its end every value is empty and `good` is false.
class Reader {
 public:
  explicit Reader(const std::string &data) : data_(data) {}
  template <class T>
  T number() {
    T value{};
    if (take(sizeof value)) std::memcpy(&value, data_.data() + at_ - sizeof value, sizeof value);
    return value;
  }
  std::string bytes() {
    uint64_t size = number<uint64_t>();
    return take(size) ? data_.substr(at_ - size, size) : "";
  }
  // A list's length, accepted only if that many entries of `least` bytes can follow.
  uint32_t count(size_t least) {
    uint32_t n = number<uint32_t>();
    if (n > (data_.size() - at_) / least) good = false;
    return good ? n : 0;
  }
  bool good = true;

 private:
  bool take(uint64_t size) {
    if (!good || size > data_.size() - at_) return good = false;
    at_ += size;
    return true;
  }
  const std::string &data_;
  size_t at_ = 0;
};

inline void add_parts(Message *message, const std::vector<Part> &parts) {
  message->u32(static_cast<uint32_t>(parts.size()));
  for (const Part &part : parts) {
    message->u32(part.input);
    message->bytes(part.payload);
    message->bytes(part.options);
    message->u32(static_cast<uint32_t>(part.headers.size()));
    for (const auto &header : part.headers) {
      message->bytes(header.first);
      message->bytes(header.second);
    }
    message->u32(static_cast<uint32_t>(part.spec_constants.size()));
    for (const auto &constant : part.spec_constants) {
      message->u32(constant.first);
      message->bytes(constant.second);
    }
  }
}

inline std::vector<Part> take_parts(Reader *reader) {
  std::vector<Part> parts(reader->count(4));
  for (Part &part : parts) {
    part.input = reader->number<uint32_t>();
    part.payload = reader->bytes();
    part.options = reader->bytes();
    part.headers.resize(reader->count(16));
    for (auto &header : part.headers) header = {reader->bytes(), reader->bytes()};
    part.spec_constants.resize(reader->count(12));
    for (auto &constant : part.spec_constants)
      constant = {reader->number<uint32_t>(), reader->bytes()};
  }
  return parts;
}

}  // namespace layer
#endif
