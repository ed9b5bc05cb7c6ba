// SPDX-License-Identifier: Apache-2.0
/* sass_blocks [CUBIN FUNCTION]: reads `<hex offset> <instruction>` lines and prints one line per
 * block: index of its first instruction, number of instructions, and the static mix. The targets of
 * indirect branches come from the cubin. Prints the fault, exit code 1, when there is one. */
#include <stdio.h>

#include <fstream>
#include <iostream>
#include <iterator>

#include "cubin.h"
#include "sass.h"
#include "xpuprof/trace_format.h"

int main(int argc, char **argv) {
  SassTargets targets;
  if (argc > 2) {
    std::ifstream file(argv[1], std::ios::binary);
    std::string content(std::istreambuf_iterator<char>(file), {});
    targets = Cubin(content.data(), content.size()).indirect_branches(argv[2]);
  }
  std::vector<SassInstruction> code;
  for (std::string line; std::getline(std::cin, line);) {
    size_t space = line.find(' ');
    code.push_back({static_cast<uint32_t>(std::stoul(line.substr(0, space), nullptr, 16)),
                    line.substr(space + 1)});
  }
  std::string fault = sass_fault(code, targets);
  if (!fault.empty()) return puts(fault.c_str()), 1;
  for (const SassBlock &block : sass_blocks(code, targets)) {
    printf("%u %u", block.first, block.block.instructions);
    for (int m = 0; m < XP_MIX_COUNT; m++) printf(" %u", block.block.mix[m]);
    printf("\n");
  }
}
