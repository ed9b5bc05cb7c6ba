/* SPDX-License-Identifier: Apache-2.0 */
#ifndef XPUPROF_CUDA_NODE_PARAMS_H
#define XPUPROF_CUDA_NODE_PARAMS_H

#include <cuda.h>
#include <string.h>

#include <algorithm>

/* A kernel node's parameters of any version, as version 2: each adds fields at the end. */
template <typename Params>
CUDA_KERNEL_NODE_PARAMS_v2 kernel_node_params(const Params &params) {
  CUDA_KERNEL_NODE_PARAMS_v2 same = {};
  memcpy(&same, &params, std::min(sizeof same, sizeof params));
  return same;
}

#endif
