// SPDX-License-Identifier: Apache-2.0
/* check FILE KERNEL UNIT GX,GY,GZ BX,BY,BZ SHARED ARGUMENT...
 *
 * Executes a kernel as it is and as the rewriter made it, and compares: what both leave in memory,
 * and for every warp and block the counters with what the emulator saw each of the block's
 * instructions do; then once more with large counters. Arguments: u32:N, u64:N, f32:X, f64:X,
 * buffer:BYTES:SEED (32-bit words below 1000), counts:LIST (32-bit words), and bytes:N (a structure
 * of such words). Prints one line of
 * totals, then the counts of each warp; fails with the first difference. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <stdexcept>

#include "emulator.h"
#include "rewrite.h"

using Bytes = std::vector<uint8_t>;

struct Arguments {
  std::vector<Bytes> buffers;
  std::vector<uint64_t> values; /* of scalars; of buffers once placed */
  std::vector<int> buffer_of;   /* per argument; -1: a scalar */
  std::vector<bool> is_buffer;  /* per buffer; otherwise it is the argument itself */
};

static Bytes random_words(size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  Bytes made(bytes);
  for (size_t at = 0; at + 4 <= bytes; at += 4) {
    uint32_t word = random() % 1000;
    memcpy(&made[at], &word, 4);
  }
  return made;
}

static Bytes listed_words(const std::string &text) {
  Bytes made;
  std::stringstream list(text);
  for (std::string item; std::getline(list, item, ',');) {
    uint32_t word = static_cast<uint32_t>(strtoul(item.c_str(), nullptr, 0));
    made.insert(made.end(), reinterpret_cast<uint8_t *>(&word),
                reinterpret_cast<uint8_t *>(&word) + 4);
  }
  return made;
}

static Arguments arguments_of(char **words, int n) {
  Arguments made;
  for (int i = 0; i < n; i++) {
    std::string word = words[i], kind = word.substr(0, word.find(':')),
                rest = word.substr(word.find(':') + 1);
    uint64_t bits = strtoull(rest.c_str(), nullptr, 0);
    int buffer = -1;
    if (kind == "f32") {
      float number = strtof(rest.c_str(), nullptr);
      bits = 0;
      memcpy(&bits, &number, sizeof number);
    } else if (kind == "f64") {
      double number = strtod(rest.c_str(), nullptr);
      memcpy(&bits, &number, sizeof number);
    } else if (kind == "buffer" || kind == "counts" || kind == "bytes") {
      buffer = static_cast<int>(made.buffers.size());
      unsigned seed = static_cast<unsigned>(strtoul(rest.c_str() + rest.find(':') + 1, nullptr, 0));
      made.buffers.push_back(kind == "counts" ? listed_words(rest) : random_words(bits, seed));
      made.is_buffer.push_back(kind != "bytes");
    }
    made.values.push_back(bits);
    made.buffer_of.push_back(buffer);
  }
  return made;
}

/* The buffers and the module's variables after the launch. */
static std::vector<Bytes> run(const emulator::Module &module, const std::string &kernel,
                              const emulator::Shape &shape, Arguments arguments,
                              std::vector<emulator::Warp> *warps) {
  std::vector<void *> pointers;
  for (size_t i = 0; i < arguments.values.size(); i++) {
    int buffer = arguments.buffer_of[i];
    void *at = &arguments.values[i];
    if (buffer >= 0) {
      void *bytes = arguments.buffers[static_cast<size_t>(buffer)].data();
      if (arguments.is_buffer[static_cast<size_t>(buffer)])
        arguments.values[i] = reinterpret_cast<uint64_t>(bytes);
      else
        at = bytes;
    }
    pointers.push_back(at);
  }
  module.launch(kernel, shape, pointers.data(), warps);
  return arguments.buffers;
}

static void fail(const std::string &what) { throw std::runtime_error(what); }

/* Instruction `i` of `function` as warp `w` reached it. */
static uint64_t seen(const emulator::Warp &warp, const ptx::CountedFunction &function, uint32_t i,
                     ptx::Unit unit) {
  auto found = warp.find(function.name);
  if (found == warp.end()) return 0;
  return (unit == ptx::Unit::LANE ? found->second.lanes : found->second.groups).at(i);
}

/* The lanes of a warp reach every instruction of a block as often as its first; groups, too, unless
 * a called function does not bring them together again. */
static void compare(const emulator::Warp &warp, const ptx::CountedFunction &function,
                    const uint64_t *counts, ptx::Unit unit, size_t w) {
  for (const ptx::Block &block : function.blocks) {
    for (uint32_t i = block.first; i < block.end; i++) {
      uint64_t expected = seen(warp, function, i, unit);
      if (*counts != expected)
        fail("warp " + std::to_string(w) + ", " + function.name + ", instruction " +
             std::to_string(i) + ": counted " + std::to_string(*counts) + ", executed " +
             std::to_string(expected));
    }
    counts++;
  }
}

static uint32_t threads_of(const emulator::Shape &shape, size_t warp) {
  uint32_t threads = shape.block[0] * shape.block[1] * shape.block[2],
           a_block = (threads + 31) / 32;
  uint32_t first = static_cast<uint32_t>(warp % a_block) * 32;
  return std::min(32u, threads - first);
}

/* Rows of counters of a run of the rewritten text. */
static std::vector<uint64_t> counters_of(const std::string &text, const std::string &variable,
                                         const std::string &kernel, const emulator::Shape &shape,
                                         const Arguments &arguments, size_t warps, size_t columns,
                                         std::vector<Bytes> *results) {
  emulator::Module module(text);
  std::vector<uint64_t> counters(warps * columns);
  ptx::CounterHead head = {
      reinterpret_cast<uint64_t>(counters.data()), warps, 8 * columns, 0, 0, 0};
  size_t bytes;
  auto slots = static_cast<ptx::CounterHead **>(module.variable(variable, &bytes));
  std::fill_n(slots, bytes / sizeof *slots, &head);
  *results = run(module, kernel, shape, arguments, nullptr);
  return counters;
}

/* Counters of loops that start at a large number: their sums over lanes are exact in all 64 bits.
 */
static const uint64_t START = 0xfedcba9876543210u;

static std::string started_high(std::string text) {
  const std::string from = "mov.u64 %xpuprof_c", zero = ", 0;";
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1))
    text.replace(text.find(zero, at), zero.size(), ", " + std::to_string(START) + ";");
  return text;
}

static void compare_sums(const ptx::CountedFunction &function, const uint64_t *row,
                         const uint64_t *high) {
  row += function.first_column;
  high += function.first_column;
  for (size_t p = 0; p < function.probes.size(); p++) {
    uint64_t start = function.blocks[function.probes[p]].depth ? START : 0;
    if (high[1 + p] != row[1 + p] + start * row[0])
      fail("a large counter of " + function.name + " is not summed exactly");
  }
}

static int check(int argc, char **argv) {
  if (argc < 7) fail("usage: check FILE KERNEL lane|warp GX,GY,GZ BX,BY,BZ SHARED ARGUMENT...");
  std::ifstream file(argv[1]);
  const std::string text(std::istreambuf_iterator<char>(file), {}), kernel = argv[2];
  ptx::Unit unit = strcmp(argv[3], "warp") == 0 ? ptx::Unit::WARP : ptx::Unit::LANE;
  emulator::Shape shape = {};
  sscanf(argv[4], "%u,%u,%u", &shape.grid[0], &shape.grid[1], &shape.grid[2]);
  sscanf(argv[5], "%u,%u,%u", &shape.block[0], &shape.block[1], &shape.block[2]);
  shape.shared_bytes = static_cast<uint32_t>(atoi(argv[6]));
  const Arguments arguments = arguments_of(argv + 7, argc - 7);

  std::vector<emulator::Warp> warps;
  emulator::Module original(text);
  const std::vector<Bytes> expected = run(original, kernel, shape, arguments, &warps);

  ptx::Program program = ptx::rewrite(text, unit);
  const ptx::CountedFunction *counted = nullptr;
  for (const ptx::CountedFunction &function : program.functions)
    if (function.entry && function.name == kernel) counted = &function;
  if (!counted) fail("the rewriter did not find the kernel");
  if (!counted->reason.empty()) fail("not instrumented: " + counted->reason);
  const size_t columns = ptx::row_columns(*counted);
  std::vector<Bytes> results;
  auto rows = [&](const std::string &code) {
    return counters_of(code, program.variable, kernel, shape, arguments, warps.size(), columns,
                       &results);
  };
  const std::vector<uint64_t> counters = rows(program.text);
  if (results != expected) fail("the rewritten kernel leaves other results");
  const std::vector<uint64_t> high = rows(started_high(program.text));

  uint64_t total = 0;
  std::string lines;
  std::vector<uint64_t> counts;
  for (size_t w = 0; w < warps.size(); w++) {
    if (!ptx::counts_of(program, *counted, &counters[w * columns], threads_of(shape, w), &counts))
      fail("warp " + std::to_string(w) + ": a thread left unseen");
    const uint64_t *at = counts.data();
    const uint64_t *row = &counters[w * columns], *high_row = &high[w * columns];
    compare(warps[w], *counted, at, unit, w);
    compare_sums(*counted, row, high_row);
    at += counted->blocks.size();
    for (uint32_t f : counted->called) {
      compare(warps[w], program.functions[f], at, unit, w);
      compare_sums(program.functions[f], row, high_row);
      at += program.functions[f].blocks.size();
    }
    for (uint64_t count : counts) {
      total += count;
      lines += std::to_string(count) + ' ';
    }
    lines.back() = '\n';
  }
  printf("warps %zu blocks %zu columns %zu executed %llu\n", warps.size(), counts.size(), columns,
         static_cast<unsigned long long>(total));
  fputs(lines.c_str(), stdout);
  return 0;
}

int main(int argc, char **argv) {
  try {
    return check(argc, argv);
  } catch (const std::exception &error) {
    fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
