// cl_khr_command_buffer: launches that are recorded once and run many times.
#include "launches/command_buffers.hpp"

#include <functional>
#include <utility>

#include "launches/replays.hpp"

namespace layer {

namespace {

struct CommandBuffer {
  cl_command_queue queue = nullptr;  // of commands that name none
  std::mutex lock;
  RecordedLaunches launches;
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
  return retain(&buffers, native, buffer);
}

cl_int release_command_buffer(clReleaseCommandBufferKHR_fn native, cl_command_buffer_khr buffer) {
  Api api;
  quietly([&] {
    if (auto last = buffers.release(buffer)) forget_recorded(std::move(last->launches));
  });
  return native(buffer);
}

cl_int record_kernel(clCommandNDRangeKernelKHR_fn native, cl_command_buffer_khr buffer,
                     cl_command_queue queue,
                     const cl_ndrange_kernel_command_properties_khr *properties, cl_kernel kernel,
                     cl_uint dimensions, const size_t *offset, const size_t *global,
                     const size_t *local, cl_uint n, const cl_sync_point_khr *wait,
                     cl_sync_point_khr *point, cl_mutable_command_khr *handle) {
  Api api;
  auto put = [&](cl_kernel which, const size_t *chosen) {
    return native(buffer, queue, properties, which, dimensions, offset, global, chosen, n, wait,
                  point, handle);
  };
  auto record_of = buffers.find(buffer);
  if (!record_of) return put(kernel, local);
  std::lock_guard<std::mutex> guard(record_of->lock);
  // By reference: to hold the function itself would take memory.
  return record(queue ? queue : record_of->queue, kernel, {dimensions, offset, global, local},
                handle != nullptr, &record_of->launches, std::ref(put));
}

cl_int enqueue_command_buffer(clEnqueueCommandBufferKHR_fn native, cl_uint n,
                              cl_command_queue *queues, cl_command_buffer_khr buffer,
                              cl_uint n_wait, const cl_event *wait, cl_event *event) {
  Api api;
  auto enqueue = [&](const WaitList &behind, cl_event *to) {
    if (behind.empty() || (n_wait && !wait)) return native(n, queues, buffer, n_wait, wait, to);
    WaitList all(wait, wait + n_wait);
    all.insert(all.end(), behind.begin(), behind.end());
    return native(n, queues, buffer, static_cast<cl_uint>(all.size()), all.data(), to);
  };
  auto record = buffers.find(buffer);
  if (!record) return enqueue({}, event);
  // What is recorded stays as it is once the driver takes the buffer.
  cl_int error =
      replay(record->launches, n && queues ? queues[0] : nullptr, event, std::ref(enqueue));
  xpu_window_settle();
  return error;
}

}  // namespace layer
