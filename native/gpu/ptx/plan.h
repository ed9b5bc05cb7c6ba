/* SPDX-License-Identifier: Apache-2.0 */
/* Which blocks of a program get a counter, and in which column of the rows it is. */
#ifndef XPUPROF_PTX_PLAN_H
#define XPUPROF_PTX_PLAN_H

#include "module.h"
#include "rewrite.h"

namespace ptx {

/* In the order of the module's functions. */
std::vector<CountedFunction> plan(const Module &module, Unit unit);

}  // namespace ptx

#endif
