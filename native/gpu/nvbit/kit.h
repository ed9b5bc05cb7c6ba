/* SPDX-License-Identifier: Apache-2.0 */
/* The kit's headers, in the one order that works: nvbit.h sets cuda.h up so that the names without
 * a suffix are the driver's oldest, 32-bit functions. Therefore everything here calls the driver by
 * full name (cuMemAlloc_v2), and no file includes cuda.h before this one. */
#ifndef XPUPROF_NVBIT_KIT_H
#define XPUPROF_NVBIT_KIT_H

#include "nvbit.h"

#endif
