// SPDX-License-Identifier: Apache-2.0
/* Reads `<hex offset> <instruction>` lines and prints one line per block: index of its first
 * instruction, number of instructions, and the static mix. */
#include <stdio.h>

#include <iostream>

#include "sass.h"
#include "xpuprof/trace_format.h"

int main() {
  std::vector<SassInstruction> code;
  for (std::string line; std::getline(std::cin, line);) {
    size_t space = line.find(' ');
    code.push_back({static_cast<uint32_t>(std::stoul(line.substr(0, space), nullptr, 16)),
                    line.substr(space + 1)});
  }
  for (const SassBlock &block : sass_blocks(code)) {
    printf("%u %u", block.first, block.block.instructions);
    for (int m = 0; m < XP_MIX_COUNT; m++) printf(" %u", block.block.mix[m]);
    printf("\n");
  }
}
