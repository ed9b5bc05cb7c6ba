// SPDX-License-Identifier: Apache-2.0
// cl_khr_command_buffer: each launch of a replay is a boundary, without vectors. The first argument
// of each function is the driver's own.
#ifndef XPUPROF_OPENCL_COMMAND_BUFFERS_HPP
#define XPUPROF_OPENCL_COMMAND_BUFFERS_HPP

#include "api/layer.hpp"

namespace layer {

cl_command_buffer_khr create_command_buffer(clCreateCommandBufferKHR_fn native, cl_uint n,
                                            const cl_command_queue *queues,
                                            const cl_command_buffer_properties_khr *properties,
                                            cl_int *error);
cl_int retain_command_buffer(clRetainCommandBufferKHR_fn native, cl_command_buffer_khr buffer);
cl_int release_command_buffer(clReleaseCommandBufferKHR_fn native, cl_command_buffer_khr buffer);
cl_int command_kernel(clCommandNDRangeKernelKHR_fn native, cl_command_buffer_khr buffer,
                      cl_command_queue queue, const cl_properties *properties, cl_kernel handle,
                      cl_uint dimensions, const size_t *offset, const size_t *global,
                      const size_t *local, cl_uint n, const cl_sync_point_khr *wait,
                      cl_sync_point_khr *point, cl_mutable_command_khr *changeable);
cl_int enqueue_command_buffer(clEnqueueCommandBufferKHR_fn native, cl_uint n,
                              cl_command_queue *queues, cl_command_buffer_khr buffer,
                              cl_uint n_wait, const cl_event *wait, cl_event *event);

}  // namespace layer
#endif
