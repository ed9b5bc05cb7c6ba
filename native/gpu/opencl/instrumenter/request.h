// SPDX-License-Identifier: Apache-2.0
// Requests and responses: the messages of clinst_protocol.h as values.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "protocol/clinst_protocol.h"
#include "xpuprof/trace_format.h"

namespace clinst {

// The program cannot be instrumented; what() gives the reason in one sentence.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Header {
  std::string name, text;
};

struct Part {
  uint32_t input = CLINST_SOURCE;
  std::string payload, options;
  std::vector<Header> headers;
  std::vector<std::pair<uint32_t, std::string>> specialisations;
};

struct Request {
  uint32_t flags = 0, output = CLINST_TO_BITCODE;
  std::map<std::string, std::string> device;
  std::vector<Part> parts;
};

struct Block {
  uint32_t instructions = 0;
  std::array<uint16_t, XP_MIX_COUNT> mix{};
};

// count of a block = sum of factor x counter[probe]; probe -1: the work-items of the warp.
struct Term {
  int32_t probe, factor;
};

// An expression over a launch; enum clinst_op defines the fields.
struct Node {
  uint32_t op, bits, a, b, c;
  uint64_t value;
};

// A counter of a work-item: a bit field of a node's value.
struct Output {
  uint32_t node, shift, bits;
};

struct Kernel {
  std::string name;
  uint32_t n_args = 0;
  std::vector<Block> blocks;
  uint32_t n_probes = 0, scratch_probes = 0;
  std::vector<std::vector<Term>> derivation;  // a list of terms per block
  std::vector<Node> nodes;                    // empty: the kernel has to count
  std::vector<Output> outputs;                // one a probe
  // With CLINST_MEMORY:
  std::vector<uint32_t> accesses;  // recorded ones, by block
  uint32_t unrecorded = 0;         // instructions with unrecorded accesses
  std::vector<uint32_t> pointers;  // arguments whose values the kernel stores in the area
};

struct Response {
  uint32_t status = 0;
  std::string message, module;
  std::vector<Kernel> kernels;
};

// Both throw Failure when the bytes are not a complete message.
Request decode_request(const std::string &bytes);
Response decode_response(const std::string &bytes);
std::string encode(const Request &request);
std::string encode(const Response &response);

// Number of bytes missing from a complete request, 0 if none, as far as `bytes` shows: the stream
// has no total length.
uint64_t missing_of_request(const std::string &bytes);

}  // namespace clinst
