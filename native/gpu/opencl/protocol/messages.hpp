// SPDX-License-Identifier: Apache-2.0
// The messages of clinst_protocol.h as values. A value lists its fields once, in the order of its
// bytes; this list serves both directions, the layer, the instrumenter, and our own files.
#ifndef XPUPROF_CLINST_MESSAGES_HPP
#define XPUPROF_CLINST_MESSAGES_HPP

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "protocol/clinst_protocol.h"
#include "xpuprof/boundary.h"

namespace clinst {

// The program cannot be instrumented, or bytes are no message; what() says why in one sentence.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// How the names of the runtimes' own environment variables begin.
inline constexpr const char *runtime_variables[] = {"POCL_", "CL_CONFIG_"};
// A feature of this prefix is a variable of the application's environment.
inline constexpr char environment_prefix[] = "env:";

// A program as the application passed it to the driver.
struct Part {
  uint32_t input = CLINST_SOURCE;  // enum clinst_input
  std::string payload, options;
  std::vector<std::pair<std::string, std::string>> headers;      // name, text
  std::vector<std::pair<uint32_t, std::string>> spec_constants;  // id, value

  template <class Self, class Fields>
  static void each(Self &self, Fields &&fields) {
    fields(self.input, self.payload, self.options, self.headers, self.spec_constants);
  }
  // Whether it may depend on files.
  bool may_include() const {
    auto names_files = [](const std::string &text) { return text.find("include") != text.npos; };
    return names_files(options) || (input == CLINST_SOURCE && names_files(payload));
  }
};

struct Request {
  static constexpr uint32_t magic = CLINST_MAGIC;
  uint32_t flags = 0, output = CLINST_TO_BITCODE;  // enum clinst_flag, enum clinst_output
  std::map<std::string, std::string> device;       // its features
  std::vector<Part> parts;

  template <class Self, class Fields>
  static void each(Self &self, Fields &&fields) {
    fields(self.flags, self.output, self.device, self.parts);
  }
};

// count of a block = sum of factor x counter[probe]; probe -1: the work-items of the warp.
struct Term {
  int32_t probe, factor;
};

// An expression over a launch; enum clinst_op defines the fields.
struct Node {
  uint32_t op, bits, a, b, c;
  uint64_t value;

  template <class Self, class Fields>
  static void each(Self &self, Fields &&fields) {
    fields(self.op, self.bits, self.a, self.b, self.c, self.value);
  }
};

// A counter of a work-item: a bit field of a node's value.
struct Output {
  uint32_t node, shift, bits;
};

struct Kernel {
  std::string name;
  uint32_t n_args = 0;
  std::vector<xpu_block> blocks;
  uint32_t n_probes = 0, scratch_probes = 0;
  std::vector<std::vector<Term>> derivation;  // a list of terms per block
  std::vector<Node> nodes;                    // empty: the kernel has to count
  std::vector<Output> outputs;                // one a probe
  // With CLINST_MEMORY:
  std::vector<uint32_t> accesses;  // recorded ones, by block
  uint32_t unrecorded = 0;         // instructions with unrecorded accesses
  std::vector<uint32_t> pointers;  // arguments whose values the kernel stores in the area

  template <class Self, class Fields>
  static void each(Self &self, Fields &&fields) {
    fields(self.name, self.n_args, self.blocks, self.n_probes, self.scratch_probes, self.derivation,
           self.nodes, self.outputs, self.accesses, self.unrecorded, self.pointers);
  }
  // A kernel may access memory by asynchronous copies alone.
  bool has_accesses() const {
    return !pointers.empty() ||
           std::any_of(accesses.begin(), accesses.end(), [](uint32_t n) { return n != 0; });
  }
};

struct Response {
  static constexpr uint32_t magic = CLINST_MAGIC;
  std::string reason;  // why the program cannot be instrumented; empty: it is
  std::string module;
  std::vector<Kernel> kernels;
  std::vector<std::string> included;  // the user's files on which the result depends
  std::string log;                    // of a binary's build
  uint32_t computes_only = 0;         // a binary, that calls mathematical and memory functions only
  std::string sub_groups;             // of an unchanged program's binary: "kernel:size kernel:size"

  template <class Self, class Fields>
  static void each(Self &self, Fields &&fields) {
    fields(self.reason, self.module, self.kernels, self.included, self.log, self.computes_only,
           self.sub_groups);
  }
};

// Numbers, and structs of numbers without padding, are their own bytes.
template <class T>
constexpr bool is_plain = std::has_unique_object_representations_v<T>;

class Writer {
 public:
  template <class... T>
  void operator()(const T &...values) {
    (put(values), ...);
  }
  std::string bytes;

 private:
  template <class T>
  void put(const T &value) {
    if constexpr (is_plain<T>)
      bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
    else
      T::each(value, *this);
  }
  void put(const std::string &text) {
    put(uint64_t{text.size()});
    bytes += text;
  }
  template <class A, class B>
  void put(const std::pair<A, B> &both) {
    (*this)(both.first, both.second);
  }
  template <class List>
  void put_list(const List &list) {
    put(static_cast<uint32_t>(list.size()));
    for (const auto &value : list) put(value);
  }
  template <class T>
  void put(const std::vector<T> &list) {
    put_list(list);
  }
  void put(const std::map<std::string, std::string> &map) { put_list(map); }
};

// Allocates for bytes that are there, never for a claimed length.
class Reader {
 public:
  explicit Reader(const std::string &bytes) : bytes_(bytes) {}
  template <class... T>
  void operator()(T &...values) {
    (get(values), ...);
  }
  void end() const {
    if (at_ != bytes_.size()) throw Failure("the message goes on after its end");
  }

 private:
  template <class T>
  void get(T &value) {
    if constexpr (is_plain<T>)
      std::memcpy(&value, take(sizeof value), sizeof value);
    else
      T::each(value, *this);
  }
  void get(std::string &text) {
    uint64_t size = 0;
    get(size);
    text.assign(take(size), size);
  }
  template <class A, class B>
  void get(std::pair<A, B> &both) {
    (*this)(both.first, both.second);
  }
  template <class T, class Keep>
  void get_list(Keep &&keep) {
    uint32_t n = 0;
    for (get(n); n; n--) {
      T value{};
      get(value);
      keep(std::move(value));
    }
  }
  template <class T>
  void get(std::vector<T> &list) {
    get_list<T>([&](T &&value) { list.push_back(std::move(value)); });
  }
  void get(std::map<std::string, std::string> &map) {
    using Pair = std::pair<std::string, std::string>;
    get_list<Pair>([&](Pair &&pair) { map.insert(std::move(pair)); });
  }
  const char *take(uint64_t size) {
    if (size > bytes_.size() - at_) throw Failure("the message ends in the middle");
    at_ += size;
    return bytes_.data() + at_ - size;
  }
  const std::string &bytes_;
  size_t at_ = 0;
};

template <class Message>
std::string encode(const Message &message) {
  Writer writer;
  writer(Message::magic, message);
  return std::move(writer.bytes);
}

// Throws Failure when the bytes are not one such message.
template <class Message>
Message decode(const std::string &bytes) {
  Reader reader(bytes);
  uint32_t magic = 0;
  Message message;
  reader(magic);
  if (magic != Message::magic) throw Failure("the message has a foreign magic");
  reader(message);
  reader.end();
  return message;
}

}  // namespace clinst
#endif
