// SPDX-License-Identifier: Apache-2.0
// An NVBit tool that does nothing: whether the kit works on a driver, whatever our tool does.
#include "nvbit_tool.h"
// nvbit_tool.h comes first: it contains the tool's hooks
#include "nvbit.h"

void nvbit_at_init() {}
void nvbit_at_cuda_event(CUcontext, int, nvbit_api_cuda_t, const char *, void *, CUresult *) {}
