// SPDX-License-Identifier: Apache-2.0
/* rewrite_file FILE lane|warp: writes the PTX with counters to stdout; to stderr one line per
 * kernel: its name, blocks, counters, and why it is not instrumented. */
#include <stdio.h>
#include <string.h>

#include <exception>
#include <fstream>
#include <iterator>

#include "rewrite.h"

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  std::ifstream file(argv[1]);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  try {
    ptx::Program program =
        ptx::rewrite(text, strcmp(argv[2], "warp") == 0 ? ptx::Unit::WARP : ptx::Unit::LANE);
    fputs(program.text.c_str(), stdout);
    for (const ptx::CountedFunction &function : program.functions)
      if (function.entry)
        fprintf(stderr, "%s\t%zu\t%u\t%s\n", function.name.c_str(), function.blocks.size(),
                ptx::row_columns(function), function.reason.c_str());
  } catch (const std::exception &error) {
    fprintf(stderr, "%s: %s\n", argv[1], error.what());
    return 1;
  }
  return 0;
}
