// SPDX-License-Identifier: Apache-2.0
/* The grid of a launch. GTPin's dispatch has none (its interface was read for kit 4.7.1), but its
 * OnKernelRun is called inside the runtime's call that enqueues or appends the kernel, on the
 * program's thread. The tool is preloaded, so it stands in front of those calls and keeps their
 * sizes until they return. */
#ifndef XPUPROF_GTPIN_GEOMETRY_H
#define XPUPROF_GTPIN_GEOMETRY_H

#include "xpuprof/boundary.h"

/* Fills in dimensions and sizes from the call under way on this thread; without one, nothing. */
void geometry_of_call(xpu_launch *launch);

#endif
