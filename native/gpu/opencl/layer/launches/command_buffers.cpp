// SPDX-License-Identifier: Apache-2.0
#include "launches/command_buffers.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "launches/launches.hpp"

namespace layer {

namespace {

constexpr const char *not_counted = "a kernel of a command buffer is not counted";

// A launch in a command buffer, as recorded by the program.
struct Command {
  std::shared_ptr<Kernel> kernel;
  cl_command_queue queue;
  cl_uint dimensions;
  bool has_offset, has_local;
  size_t offset[3] = {}, global[3] = {1, 1, 1}, local[3] = {1, 1, 1};

  Command(std::shared_ptr<Kernel> of, cl_command_queue in, const Range &range)
      : kernel(std::move(of)),
        queue(in),
        dimensions(range.dimensions),
        has_offset(range.offset),
        has_local(range.local) {
    std::copy_n(range.global, dimensions, global);
    if (has_offset) std::copy_n(range.offset, dimensions, offset);
    if (has_local) std::copy_n(range.local, dimensions, local);
  }
  Range range() const {
    return {dimensions, has_offset ? offset : nullptr, global, has_local ? local : nullptr};
  }
};

struct CommandBuffer {
  cl_command_queue queue = nullptr;  // for commands without one
  std::mutex lock;
  std::vector<Command> commands;
};

Registry<cl_command_buffer_khr, CommandBuffer> &buffers =
    *new Registry<cl_command_buffer_khr, CommandBuffer>;

const char *reason_of(const Kernel &kernel) {
  if (settings.mode != Mode::profile) return timed_only;
  const char *chosen = left_out(kernel);
  return chosen ? chosen : not_counted;
}

// Each launch of a replay completes when the whole command buffer does.
void count_replayed(const std::vector<Command> &commands, cl_command_queue instead, cl_event event,
                    uint64_t tsc) {
  for (const Command &command : commands) {
    auto count = [&](Progress *progress) {
      auto queue = queue_of(instead ? instead : command.queue);
      if (!queue) return;
      const Kernel &kernel = *command.kernel;
      follow(queue, kernel, {bare_plan(command.kernel.get(), reason_of(kernel)), {}},
             command.range(), tsc, progress);
    };
    in_any_case(
        [&](Progress *progress) {
          next.clRetainEvent(event);
          *progress = {true, event, false};
          count(progress);
          return CL_SUCCESS;
        },
        [](cl_event *) { return CL_SUCCESS; }, count);
  }
}

}  // namespace

cl_command_buffer_khr create_command_buffer(clCreateCommandBufferKHR_fn native, cl_uint n,
                                            const cl_command_queue *queues,
                                            const cl_command_buffer_properties_khr *properties,
                                            cl_int *error) {
  Api api;
  cl_command_buffer_khr buffer = native(n, queues, properties, error);
  if (buffer)
    quietly([&] {
      auto entry = std::make_shared<CommandBuffer>();
      if (n && queues) entry->queue = queues[0];
      buffers.add(buffer, entry);
    });
  return buffer;
}

cl_int retain_command_buffer(clRetainCommandBufferKHR_fn native, cl_command_buffer_khr buffer) {
  return retain(&buffers, native, buffer);
}

cl_int release_command_buffer(clReleaseCommandBufferKHR_fn native, cl_command_buffer_khr buffer) {
  return release(&buffers, native, buffer);
}

cl_int command_kernel(clCommandNDRangeKernelKHR_fn native, cl_command_buffer_khr buffer,
                      cl_command_queue queue, const cl_properties *properties, cl_kernel handle,
                      cl_uint dimensions, const size_t *offset, const size_t *global,
                      const size_t *local, cl_uint n, const cl_sync_point_khr *wait,
                      cl_sync_point_khr *point, cl_mutable_command_khr *changeable) {
  Api api;
  cl_int error = native(buffer, queue, properties, handle, dimensions, offset, global, local, n,
                        wait, point, changeable);
  const Range range{dimensions, offset, global, local};
  if (error != CL_SUCCESS || is_empty(range)) return error;
  auto keep = [&] {
    auto entry = buffers.find(buffer);
    auto kernel = kernel_of(handle);
    if (!entry || !kernel) return;
    std::lock_guard<std::mutex> guard(entry->lock);
    entry->commands.emplace_back(kernel, queue ? queue : entry->queue, range);
  };
  if (!quietly(keep) && !quietly(keep))
    xpu_meta("gpu_engine_failed", "out of memory: a command could not be counted");
  return error;
}

cl_int enqueue_command_buffer(clEnqueueCommandBufferKHR_fn native, cl_uint n,
                              cl_command_queue *queues, cl_command_buffer_khr buffer,
                              cl_uint n_wait, const cl_event *wait, cl_event *event) {
  Api api;
  auto entry = buffers.find(buffer);
  if (!entry) return native(n, queues, buffer, n_wait, wait, event);
  uint64_t tsc = 0;
  cl_event own = nullptr;
  cl_int error;
  {
    std::lock_guard<OrderLock> guard(order);
    quietly([] {
      register_exit();
      poll_locked();
    });
    tsc = xpu_tsc();
    error = native(n, queues, buffer, n_wait, wait, &own);
    if (error == CL_SUCCESS) {
      // The commands are fixed once the driver finalizes the buffer.
      count_replayed(entry->commands, n && queues ? queues[0] : nullptr, own, tsc);
      if (event)
        *event = own;
      else
        next.clReleaseEvent(own);
    }
  }
  xpu_window_settle();
  return error;
}

}  // namespace layer
