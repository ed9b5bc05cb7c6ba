/* SPDX-License-Identifier: Apache-2.0 */
/* `spin(n)` executes n times the block `spin_loop` of 2 instructions, then one return. */
#ifndef CPU_SPIN_H
#define CPU_SPIN_H

void spin(long rounds);
__asm__(
    ".text\n.globl spin, spin_loop\n.type spin, @function\n"
    "spin:\nspin_loop:\n  dec %rdi\n  jnz spin_loop\n  ret\n.size spin, .-spin\n");

#endif
