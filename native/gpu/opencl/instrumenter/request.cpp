// SPDX-License-Identifier: Apache-2.0
#include "request.h"

#include <cstring>

namespace clinst {
namespace {

// More than any program needs; a larger length means a foreign or damaged message.
constexpr uint64_t kLongest = 1ull << 30;

struct Truncated {
  uint64_t missing;
};

class Reader {
 public:
  explicit Reader(const std::string &bytes) : bytes_(bytes) {}

  template <class T>
  T number() {
    need(sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  std::string bytes() {
    auto length = number<uint64_t>();
    if (length > kLongest) throw Failure("a message of the OpenCL layer is longer than 1 GiB");
    need(length);
    at_ += length;
    return bytes_.substr(at_ - length, length);
  }
  // A count of items of at least `smallest` bytes each: nothing is allocated before their bytes
  // have arrived.
  uint32_t count(uint64_t smallest) {
    auto n = number<uint32_t>();
    if (n * smallest > kLongest) throw Failure("a count in a message is implausibly large");
    need(n * smallest);
    return n;
  }

 private:
  void need(uint64_t n) {
    if (bytes_.size() - at_ < n) throw Truncated{n - (bytes_.size() - at_)};
  }
  const std::string &bytes_;
  size_t at_ = 0;
};

class Writer {
 public:
  template <class T>
  void number(T value) {
    out.append(reinterpret_cast<const char *>(&value), sizeof(T));
  }
  void bytes(const std::string &text) {
    number<uint64_t>(text.size());
    out += text;
  }
  std::string out;
};

std::map<std::string, std::string> key_values(const std::string &lines) {
  std::map<std::string, std::string> result;
  for (size_t at = 0; at < lines.size();) {
    size_t end = lines.find('\n', at);
    if (end == std::string::npos) end = lines.size();
    size_t equals = lines.find('=', at);
    if (equals < end) {
      result[lines.substr(at, equals - at)] = lines.substr(equals + 1, end - equals - 1);
    }
    at = end + 1;
  }
  return result;
}

Request read_request(const std::string &bytes) {
  Reader in(bytes);
  if (in.number<uint32_t>() != CLINST_MAGIC) throw Failure("the request has a foreign magic");
  Request request;
  request.flags = in.number<uint32_t>();
  request.output = in.number<uint32_t>();
  request.device = key_values(in.bytes());
  request.parts.resize(in.count(28));
  for (Part &part : request.parts) {
    part.input = in.number<uint32_t>();
    part.payload = in.bytes();
    part.options = in.bytes();
    part.headers.resize(in.count(16));
    for (Header &header : part.headers) {
      header.name = in.bytes();
      header.text = in.bytes();
    }
    part.specialisations.resize(in.count(12));
    for (auto &[id, value] : part.specialisations) {
      id = in.number<uint32_t>();
      value = in.bytes();
    }
  }
  return request;
}

Response read_response(const std::string &bytes) {
  Reader in(bytes);
  if (in.number<uint32_t>() != CLINST_MAGIC) throw Failure("the response has a foreign magic");
  Response response;
  response.status = in.number<uint32_t>();
  response.message = in.bytes();
  response.module = in.bytes();
  response.kernels.resize(in.count(24));
  for (Kernel &kernel : response.kernels) {
    kernel.name = in.bytes();
    kernel.n_args = in.number<uint32_t>();
    kernel.blocks.resize(in.count(4 + 2 * XP_MIX_COUNT));
    for (Block &block : kernel.blocks) {
      block.instructions = in.number<uint32_t>();
      for (uint16_t &n : block.mix) n = in.number<uint16_t>();
    }
    kernel.n_probes = in.number<uint32_t>();
    kernel.scratch_probes = in.number<uint32_t>();
    kernel.derivation.resize(kernel.blocks.size());
    for (auto &terms : kernel.derivation) {
      terms.resize(in.count(8));
      for (Term &term : terms) {
        term.probe = in.number<int32_t>();
        term.factor = in.number<int32_t>();
      }
    }
    kernel.nodes.resize(in.count(28));
    for (Node &node : kernel.nodes) {
      for (uint32_t *field : {&node.op, &node.bits, &node.a, &node.b, &node.c}) {
        *field = in.number<uint32_t>();
      }
      node.value = in.number<uint64_t>();
    }
    kernel.outputs.resize(in.count(12));
    for (Output &output : kernel.outputs) {
      for (uint32_t *field : {&output.node, &output.shift, &output.bits}) {
        *field = in.number<uint32_t>();
      }
    }
    kernel.accesses.resize(in.count(4));
    for (uint32_t &n : kernel.accesses) n = in.number<uint32_t>();
    kernel.unrecorded = in.number<uint32_t>();
    kernel.pointers.resize(in.count(4));
    for (uint32_t &argument : kernel.pointers) argument = in.number<uint32_t>();
  }
  return response;
}

}  // namespace

Request decode_request(const std::string &bytes) {
  try {
    return read_request(bytes);
  } catch (const Truncated &) {
    throw Failure("the request ends in the middle");
  }
}

Response decode_response(const std::string &bytes) {
  try {
    return read_response(bytes);
  } catch (const Truncated &) {
    throw Failure("the response ends in the middle");
  }
}

uint64_t missing_of_request(const std::string &bytes) {
  try {
    read_request(bytes);
    return 0;
  } catch (const Truncated &truncated) {
    return truncated.missing;
  }
}

std::string encode(const Request &request) {
  Writer to;
  to.number<uint32_t>(CLINST_MAGIC);
  to.number(request.flags);
  to.number(request.output);
  std::string device;
  for (const auto &[key, value] : request.device) device += key + "=" + value + "\n";
  to.bytes(device);
  to.number<uint32_t>(request.parts.size());
  for (const Part &part : request.parts) {
    to.number(part.input);
    to.bytes(part.payload);
    to.bytes(part.options);
    to.number<uint32_t>(part.headers.size());
    for (const Header &header : part.headers) {
      to.bytes(header.name);
      to.bytes(header.text);
    }
    to.number<uint32_t>(part.specialisations.size());
    for (const auto &[id, value] : part.specialisations) {
      to.number(id);
      to.bytes(value);
    }
  }
  return std::move(to.out);
}

std::string encode(const Response &response) {
  Writer to;
  to.number<uint32_t>(CLINST_MAGIC);
  to.number(response.status);
  to.bytes(response.message);
  to.bytes(response.module);
  to.number<uint32_t>(response.kernels.size());
  for (const Kernel &kernel : response.kernels) {
    to.bytes(kernel.name);
    to.number(kernel.n_args);
    to.number<uint32_t>(kernel.blocks.size());
    for (const Block &block : kernel.blocks) {
      to.number(block.instructions);
      for (uint16_t n : block.mix) to.number(n);
    }
    to.number(kernel.n_probes);
    to.number(kernel.scratch_probes);
    for (const auto &terms : kernel.derivation) {
      to.number<uint32_t>(terms.size());
      for (const Term &term : terms) {
        to.number(term.probe);
        to.number(term.factor);
      }
    }
    to.number<uint32_t>(kernel.nodes.size());
    for (const Node &node : kernel.nodes) {
      for (uint32_t field : {node.op, node.bits, node.a, node.b, node.c}) to.number(field);
      to.number(node.value);
    }
    to.number<uint32_t>(kernel.outputs.size());
    for (const Output &output : kernel.outputs) {
      for (uint32_t field : {output.node, output.shift, output.bits}) to.number(field);
    }
    to.number<uint32_t>(kernel.accesses.size());
    for (uint32_t n : kernel.accesses) to.number(n);
    to.number(kernel.unrecorded);
    to.number<uint32_t>(kernel.pointers.size());
    for (uint32_t argument : kernel.pointers) to.number(argument);
  }
  return std::move(to.out);
}

}  // namespace clinst
