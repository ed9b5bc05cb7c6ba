// SPDX-License-Identifier: Apache-2.0
#include "calls.h"

uint64_t warps_of(const Shape &shape) {
  uint64_t blocks = static_cast<uint64_t>(shape.grid[0]) * shape.grid[1] * shape.grid[2];
  uint64_t threads = static_cast<uint64_t>(shape.block[0]) * shape.block[1] * shape.block[2];
  return blocks * ((threads + 31) / 32);
}

CUfunction resolved(CUfunction handle) {
  int registers;
  CUfunction function;
  if (cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, handle) == CUDA_SUCCESS)
    return handle;
  if (cuKernelGetFunction(&function, reinterpret_cast<CUkernel>(handle)) == CUDA_SUCCESS)
    return function;
  return handle;
}

template <typename Params>
static Shape shape_of(const Params &p) {
  return {{p.gridDimX, p.gridDimY, p.gridDimZ}, {p.blockDimX, p.blockDimY, p.blockDimZ}};
}

template <typename Params>
static Call call_of(const void *params) {
  auto p = static_cast<const Params *>(params);
  return {p->f, p->hStream, shape_of(*p)};
}

static Call old_call(CUfunction function, int width, int height, CUstream stream) {
  uint32_t grid[] = {static_cast<uint32_t>(width), static_cast<uint32_t>(height)};
  return {function, stream, {{grid[0], grid[1], 1}, {0, 0, 0}}};
}

static bool decoded(nvbit_api_cuda_t cbid, const void *params, Call *call) {
  switch (cbid) {
    case API_CUDA_cuLaunchKernel:
    case API_CUDA_cuLaunchKernel_ptsz:
      *call = call_of<cuLaunchKernel_params>(params);
      return true;
    case API_CUDA_cuLaunchCooperativeKernel:
    case API_CUDA_cuLaunchCooperativeKernel_ptsz:
      *call = call_of<cuLaunchCooperativeKernel_params>(params);
      return true;
    case API_CUDA_cuLaunchKernelEx:
    case API_CUDA_cuLaunchKernelEx_ptsz: {
      auto p = static_cast<const cuLaunchKernelEx_params *>(params);
      *call = {p->f, p->config->hStream, shape_of(*p->config)};
      return true;
    }
    case API_CUDA_cuLaunch:
      *call = old_call(static_cast<const cuLaunch_params *>(params)->f, 1, 1, nullptr);
      return true;
    case API_CUDA_cuLaunchGrid: {
      auto p = static_cast<const cuLaunchGrid_params *>(params);
      *call = old_call(p->f, p->grid_width, p->grid_height, nullptr);
      return true;
    }
    case API_CUDA_cuLaunchGridAsync: {
      auto p = static_cast<const cuLaunchGridAsync_params *>(params);
      *call = old_call(p->f, p->grid_width, p->grid_height, p->hStream);
      return true;
    }
    default:
      return false;
  }
}

bool is_launch(nvbit_api_cuda_t cbid, const void *params, Call *call) {
  if (!decoded(cbid, params, call)) return false;
  bool per_thread = cbid == API_CUDA_cuLaunchKernel_ptsz ||
                    cbid == API_CUDA_cuLaunchCooperativeKernel_ptsz ||
                    cbid == API_CUDA_cuLaunchKernelEx_ptsz;
  if (!call->stream && per_thread) call->stream = CU_STREAM_PER_THREAD;
  return true;
}

bool is_graph_launch(nvbit_api_cuda_t cbid) {
  return cbid == API_CUDA_cuGraphLaunch || cbid == API_CUDA_cuGraphLaunch_ptsz;
}

CUstream graph_stream(nvbit_api_cuda_t cbid, const void *params) {
  CUstream stream = static_cast<const cuGraphLaunch_params *>(params)->hStream;
  return !stream && cbid == API_CUDA_cuGraphLaunch_ptsz ? CU_STREAM_PER_THREAD : stream;
}

/* Version 2 of the parameters, which version 3 begins with, may name a CUkernel; version 1 has no
 * field for it. */
template <typename Node>
static Call node_of(const Node *node, CUfunction function) {
  return {function, nullptr, shape_of(*node)};
}

static bool take(const CUDA_KERNEL_NODE_PARAMS_v1 *node, Call *call) {
  if (!node) return false;
  *call = node_of(node, node->func);
  return node->func != nullptr;
}

static bool take(const CUDA_KERNEL_NODE_PARAMS_v2 *node, Call *call) {
  if (!node) return false;
  CUfunction function = node->func ? node->func : reinterpret_cast<CUfunction>(node->kern);
  *call = node_of(node, function);
  return function != nullptr;
}

static bool take(const CUgraphNodeParams *node, Call *call) {
  return node && node->type == CU_GRAPH_NODE_TYPE_KERNEL &&
         take(reinterpret_cast<const CUDA_KERNEL_NODE_PARAMS_v2 *>(&node->kernel), call);
}

bool sets_node(nvbit_api_cuda_t cbid, const void *params, Call *node) {
  switch (cbid) {
#define NODE_CALL(name) \
  case API_CUDA_##name: \
    return take(static_cast<const name##_params *>(params)->nodeParams, node)
    NODE_CALL(cuGraphAddKernelNode);
    NODE_CALL(cuGraphAddKernelNode_v2);
    NODE_CALL(cuGraphKernelNodeSetParams);
    NODE_CALL(cuGraphKernelNodeSetParams_v2);
    NODE_CALL(cuGraphExecKernelNodeSetParams);
    NODE_CALL(cuGraphExecKernelNodeSetParams_v2);
    NODE_CALL(cuGraphAddNode);
    NODE_CALL(cuGraphAddNode_v2);
    NODE_CALL(cuGraphNodeSetParams);
    NODE_CALL(cuGraphExecNodeSetParams);
#undef NODE_CALL
    default:
      return false;
  }
}
