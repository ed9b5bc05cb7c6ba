/* SPDX-License-Identifier: Apache-2.0 */
/* A program without a C library, with every instruction known: 3 instructions of start-up, N
 * iterations of a loop with a two-condition test (the shape of `if (a && b)`), 3 to exit. */
__asm__(
    ".text\n.globl _start, round, second, taken, next, over\n"
    "_start:\n"
    "  mov $1000, %rcx\n"
    "  xor %eax, %eax\n"
    "  xor %edx, %edx\n"
    "round:\n" /* N times */
    "  test $1, %cl\n"
    "  jz next\n"
    "second:\n" /* N / 2 times: odd */
    "  test $2, %cl\n"
    "  jz next\n"
    "taken:\n" /* N / 4 times: 3 modulo 4 */
    "  inc %rax\n"
    "next:\n" /* N times */
    "  dec %rcx\n"
    "  jnz round\n"
    "over:\n"
    "  mov $60, %eax\n"
    "  xor %edi, %edi\n"
    "  syscall\n");
