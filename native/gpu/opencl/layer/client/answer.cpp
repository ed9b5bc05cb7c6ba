// SPDX-License-Identifier: Apache-2.0
#include "client/answer.hpp"

#include <algorithm>

#include "client/wire.hpp"
#include "protocol/clinst_protocol.h"
#include "xpuprof/trace_format.h"

namespace layer {
namespace {

bool sound(const InstrumentedKernel::Node &node, uint32_t at, uint32_t n_args) {
  if (node.bits < 1 || node.bits > 64 || node.op >= CLINST_OPS) return false;
  if (node.op == CLINST_ARGUMENT) return node.value < n_args;
  if (node.op == CLINST_QUERY) return node.a < CLINST_QUERIES && node.b < 3;
  if (node.op == CLINST_CONSTANT) return true;
  return node.a < at && (node.op >= CLINST_ZEXT || node.b < at) &&
         (node.op != CLINST_SELECT || node.c < at);
}

void decode_nodes(Reader *answer, InstrumentedKernel *kernel) {
  kernel->nodes.resize(answer->count(28));
  for (uint32_t n = 0; n < kernel->nodes.size(); n++) {
    auto &node = kernel->nodes[n];
    for (uint32_t *field : {&node.op, &node.bits, &node.a, &node.b, &node.c})
      *field = answer->number<uint32_t>();
    node.value = answer->number<uint64_t>();
    if (!sound(node, n, kernel->n_args)) answer->good = false;
    if (node.op == CLINST_ARGUMENT) {
      node.a = static_cast<uint32_t>(kernel->integers.size());
      kernel->integers.push_back(static_cast<uint32_t>(node.value));
    }
  }
  kernel->outputs.resize(answer->count(12));
  for (auto &output : kernel->outputs) {
    for (uint32_t *field : {&output.node, &output.shift, &output.bits})
      *field = answer->number<uint32_t>();
    if (output.node >= kernel->nodes.size() || output.shift > 63 || output.bits > 64)
      answer->good = false;
  }
  if (!kernel->nodes.empty() && kernel->outputs.size() != kernel->n_probes) answer->good = false;
}

InstrumentedKernel decode_kernel(Reader *answer) {
  InstrumentedKernel kernel;
  kernel.n_args = answer->number<uint32_t>();
  kernel.blocks.resize(answer->count(4 + 2 * XP_MIX_COUNT));
  for (xpu_block &block : kernel.blocks) {
    block.instructions = answer->number<uint32_t>();
    for (uint16_t &mix : block.mix) mix = answer->number<uint16_t>();
  }
  kernel.n_probes = answer->number<uint32_t>();
  kernel.scratch_probes = answer->number<uint32_t>();
  kernel.formulas.resize(kernel.blocks.size());
  for (auto &formula : kernel.formulas) {
    formula.resize(answer->count(8));
    for (auto &term : formula) {
      term.probe = answer->number<int32_t>();
      term.factor = answer->number<int32_t>();
      if (term.probe < -1 || term.probe >= static_cast<int64_t>(kernel.n_probes))
        answer->good = false;
    }
  }
  decode_nodes(answer, &kernel);
  kernel.accesses.resize(answer->count(4));
  for (uint32_t &n : kernel.accesses) n = answer->number<uint32_t>();
  kernel.unrecorded = answer->number<uint32_t>();
  kernel.pointers.resize(answer->count(4));
  for (uint32_t &argument : kernel.pointers) {
    argument = answer->number<uint32_t>();
    if (argument >= kernel.n_args) answer->good = false;
  }
  if (!kernel.accesses.empty() && kernel.accesses.size() != kernel.blocks.size())
    answer->good = false;
  return kernel;
}

}  // namespace

Instrumented decode_answer(const std::string &data) {
  Instrumented result;
  Reader answer(data);
  uint32_t magic = answer.number<uint32_t>(), status = answer.number<uint32_t>();
  std::string message = answer.bytes();
  if (magic != CLINST_MAGIC || !answer.good) {
    result.reason = "the instrumenter's answer cannot be read";
    return result;
  }
  if (status) {
    result.reason = message.empty() ? "the instrumenter refused the program" : message;
    return result;
  }
  result.module = answer.bytes();
  uint32_t kernels = answer.count(8);
  for (uint32_t k = 0; k < kernels && answer.good; k++) {
    std::string name = answer.bytes();
    result.kernels.emplace_back(name, decode_kernel(&answer));
  }
  if (!answer.good) result.reason = "the instrumenter's answer is cut short";
  return result;
}

bool InstrumentedKernel::has_accesses() const {
  // A kernel may access memory by asynchronous copies alone.
  return !pointers.empty() ||
         std::any_of(accesses.begin(), accesses.end(), [](uint32_t n) { return n != 0; });
}

}  // namespace layer
