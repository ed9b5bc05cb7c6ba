/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks whose first instruction may leave flags or its result as they are. Prints how often each
 * did so. */
#include <stdio.h>

/* The second block tells whether it finds what the first one has set. */
#define FUNCTION(name, set, keep, tell)    \
  int name(void);                          \
  __asm__(                                 \
      ".text\n"                            \
      ".type " #name ", @function\n" #name \
      ":\n"                                \
      "  " set                             \
      "; jmp 1f\n"                         \
      "1: " keep "; " tell                 \
      "; ret\n"                            \
      ".size " #name ", .-" #name "\n");

/* Then all flags are free. */
#define IF(condition) "set" condition " %al; movzbl %al, %eax; test %eax, %eax"

FUNCTION(bit_test, "xor %ecx, %ecx", "bt $0, %ecx", IF("z"))
FUNCTION(shift_by_0, "xor %ecx, %ecx", "shl %cl, %edx", IF("z"))
FUNCTION(double_shift_by_0, "xor %ecx, %ecx", "shrd %cl, %esi, %edx", IF("z"))
FUNCTION(rotate_by_0, "stc; mov $0, %ecx", "rol %cl, %edx", IF("c"))
FUNCTION(complement, "stc", "cmc", IF("nc"))
FUNCTION(no_such_segment, "mov $1, %eax; mov $0xfff8, %ecx", "lsl %ecx, %eax", "xor %ecx, %ecx")

int main(void) {
  int kept[6] = {0};
  for (int i = 0; i < 500; i++) {
    kept[0] += bit_test();
    kept[1] += shift_by_0();
    kept[2] += double_shift_by_0();
    kept[3] += rotate_by_0();
    kept[4] += complement();
    kept[5] += no_such_segment();
  }
  for (int i = 0; i < 6; i++) printf("%d\n", kept[i]);
  return 0;
}
