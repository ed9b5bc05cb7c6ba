// SPDX-License-Identifier: Apache-2.0
/* The warp classes against a plain model: random rows, hashed as the device hashes them. */
#include "classes.h"

#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <map>
#include <random>

static int fail(const char *what) {
  printf("%s\n", what);
  return 1;
}

static int check(unsigned seed, uint32_t columns, size_t rows, int kinds) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<uint64_t>> kind(static_cast<size_t>(kinds),
                                          std::vector<uint64_t>(columns));
  for (auto &one : kind)
    for (uint64_t &count : one) count = random() % 3 ? random() % 5 : random();
  std::vector<std::vector<uint64_t>> table;
  for (size_t row = 0; row < rows;)
    for (size_t n = random() % 7, k = random() % kind.size(); n > 0 && row < rows; n--, row++)
      table.push_back(kind[k]);
  std::vector<RowHash> hashes;
  for (const auto &row : table) { /* lanes take columns in their own order */
    RowHash sum = {0, 0};
    for (uint32_t lane = 32; lane-- > 0;) {
      RowHash mine = {0, 0};
      for (uint32_t column = lane; column < columns; column += 32)
        row_hash_add(&mine, column, row[column]);
      sum.a += mine.a;
      sum.b += mine.b;
    }
    hashes.push_back(sum);
  }
  ClassBuilder builder;
  for (size_t at = 0; at < rows;) { /* several passes of odd sizes */
    size_t n = std::min<size_t>(1 + random() % 100, rows - at);
    builder.add(&hashes[at], n);
    at += n;
  }
  const WarpClasses &found = builder.classes();
  std::map<std::vector<uint64_t>, uint32_t> ids;
  std::vector<uint64_t> vectors;
  for (uint64_t row : found.first_row) {
    if (!ids.emplace(table[row], static_cast<uint32_t>(ids.size())).second)
      return fail("one vector has two classes");
    vectors.insert(vectors.end(), table[row].begin(), table[row].end());
  }
  size_t row = 0;
  for (size_t run = 0; run < found.run_class.size(); run++) {
    if (run && found.run_class[run] == found.run_class[run - 1]) return fail("a run is cut in two");
    for (uint64_t i = 0; i < found.run_length[run]; i++, row++)
      if (row >= rows || ids.at(table[row]) != found.run_class[run])
        return fail("a row's class is wrong");
  }
  if (row != rows) return fail("run lengths do not add up");
  if (!vectors_match(found, vectors, columns)) return fail("right vectors do not match");
  for (size_t i = 0; i < vectors.size(); i += 7) { /* one counter off */
    vectors[i]++;
    if (vectors_match(found, vectors, columns)) return fail("a wrong vector matches");
    vectors[i]--;
  }
  return 0;
}

int main() {
  for (unsigned seed = 0; seed < 40; seed++)
    if (check(seed, 1 + seed * 7 % 90, 1 + seed * 137, 1 + static_cast<int>(seed) * 5 % 60))
      return 1;
  return 0;
}
