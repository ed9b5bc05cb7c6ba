// cl_khr_command_buffer: launches that are recorded once and run many times.
#include "command_buffers.hpp"

#include <algorithm>

#include "launches.hpp"

namespace layer {

namespace {

struct CommandBuffer {
  cl_command_queue queue = nullptr;  // of commands that name none
  std::mutex lock;
  std::vector<RecordedLaunch> launches;
};

Registry<cl_command_buffer_khr, CommandBuffer> &buffers =
    *new Registry<cl_command_buffer_khr, CommandBuffer>;

}  // namespace

cl_command_buffer_khr create_command_buffer(clCreateCommandBufferKHR_fn native, cl_uint n,
                                            const cl_command_queue *queues,
                                            const cl_command_buffer_properties_khr *properties,
                                            cl_int *error) {
  Api api;
  cl_command_buffer_khr buffer = native(n, queues, properties, error);
  if (buffer)
    quietly([&] {
      auto record = std::make_shared<CommandBuffer>();
      if (n && queues) record->queue = queues[0];
      buffers.add(buffer, record);
    });
  return buffer;
}

cl_int retain_command_buffer(clRetainCommandBufferKHR_fn native, cl_command_buffer_khr buffer) {
  Api api;
  cl_int error = native(buffer);
  if (error == CL_SUCCESS) buffers.retain(buffer);
  return error;
}

cl_int release_command_buffer(clReleaseCommandBufferKHR_fn native, cl_command_buffer_khr buffer) {
  Api api;
  quietly([&] { buffers.release(buffer); });
  return native(buffer);
}

cl_int record_kernel(clCommandNDRangeKernelKHR_fn native, cl_command_buffer_khr buffer,
                     cl_command_queue queue,
                     const cl_ndrange_kernel_command_properties_khr *properties, cl_kernel kernel,
                     cl_uint dimensions, const size_t *offset, const size_t *global,
                     const size_t *local, cl_uint n, const cl_sync_point_khr *wait,
                     cl_sync_point_khr *point, cl_mutable_command_khr *handle) {
  Api api;
  cl_int error = native(buffer, queue, properties, kernel, dimensions, offset, global, local, n,
                        wait, point, handle);
  if (error == CL_SUCCESS)
    quietly([&] {
      auto record = buffers.find(buffer);
      RecordedLaunch launch;
      launch.kernel = kernel_of(kernel);
      if (!record || !launch.kernel) return;
      launch.queue = queue ? queue : record->queue;
      launch.dimensions = dimensions;
      std::copy_n(global, dimensions, launch.global);
      if ((launch.has_offset = offset)) std::copy_n(offset, dimensions, launch.offset);
      if ((launch.has_local = local)) std::copy_n(local, dimensions, launch.local);
      std::lock_guard<std::mutex> guard(record->lock);
      record->launches.push_back(std::move(launch));
    });
  return error;
}

cl_int enqueue_command_buffer(clEnqueueCommandBufferKHR_fn native, cl_uint n,
                              cl_command_queue *queues, cl_command_buffer_khr buffer,
                              cl_uint n_wait, const cl_event *wait, cl_event *event) {
  Api api;
  std::vector<RecordedLaunch> launches;
  cl_command_queue instead = n && queues ? queues[0] : nullptr;
  quietly([&] {
    auto record = buffers.find(buffer);
    if (!record) return;
    std::lock_guard<std::mutex> guard(record->lock);
    launches = record->launches;
  });
  cl_int error = CL_OUT_OF_HOST_MEMORY;
  quietly([&] {
    error = replay(launches, instead, event,
                   [&](cl_event *to) { return native(n, queues, buffer, n_wait, wait, to); });
  });
  return error;
}

}  // namespace layer
