/* SPDX-License-Identifier: Apache-2.0 */
/* What instructions compute from their operands, for one lane. Operands are extended to 64 bits by
 * their type. */
#ifndef XPUPROF_PTX_EMULATOR_EVALUATE_H
#define XPUPROF_PTX_EMULATOR_EVALUATE_H

#include "code.h"

namespace emulator {

uint64_t extended(const Type &type, uint64_t bits);
uint64_t evaluate(const Instruction &at, const Type &type, uint64_t a, uint64_t b, uint64_t c);
uint64_t convert(const Instruction &at, uint64_t value);
bool compare(const std::string &how, const Type &type, uint64_t a, uint64_t b);
/* The new value of memory after an atomic operation. */
uint64_t updated(const Instruction &at, const Type &type, uint64_t old, uint64_t b, uint64_t c);

}  // namespace emulator

#endif
