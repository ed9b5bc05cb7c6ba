#include "transfers.hpp"

namespace layer {

namespace {

uint64_t volume(const size_t *region) { return region ? region[0] * region[1] * region[2] : 0; }

uint64_t image_bytes(cl_mem image, const size_t *region) {
  size_t element = 0;
  next.clGetImageInfo(image, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, nullptr);
  return volume(region) * element;
}

// Mapping for writing only brings nothing to the host.
Direction map_direction(cl_map_flags flags) { return flags & CL_MAP_READ ? to_host : to_device; }

cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                               size_t offset, size_t size, void *to, cl_uint n,
                               const cl_event *wait, cl_event *event) {
  return transfer(queue, to_host, size, blocking, [&] {
    return next.clEnqueueReadBuffer(queue, buffer, blocking, offset, size, to, n, wait, event);
  });
}

cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                size_t offset, size_t size, const void *from, cl_uint n,
                                const cl_event *wait, cl_event *event) {
  return transfer(queue, to_device, size, blocking, [&] {
    return next.clEnqueueWriteBuffer(queue, buffer, blocking, offset, size, from, n, wait, event);
  });
}

cl_int CL_API_CALL read_rect(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                             const size_t *origin, const size_t *host_origin, const size_t *region,
                             size_t row, size_t slice, size_t host_row, size_t host_slice, void *to,
                             cl_uint n, const cl_event *wait, cl_event *event) {
  return transfer(queue, to_host, volume(region), blocking, [&] {
    return next.clEnqueueReadBufferRect(queue, buffer, blocking, origin, host_origin, region, row,
                                        slice, host_row, host_slice, to, n, wait, event);
  });
}

cl_int CL_API_CALL write_rect(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                              const size_t *origin, const size_t *host_origin, const size_t *region,
                              size_t row, size_t slice, size_t host_row, size_t host_slice,
                              const void *from, cl_uint n, const cl_event *wait, cl_event *event) {
  return transfer(queue, to_device, volume(region), blocking, [&] {
    return next.clEnqueueWriteBufferRect(queue, buffer, blocking, origin, host_origin, region, row,
                                         slice, host_row, host_slice, from, n, wait, event);
  });
}

cl_int CL_API_CALL copy_buffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset,
                               size_t to_offset, size_t size, cl_uint n, const cl_event *wait,
                               cl_event *event) {
  return transfer(queue, within, size, false, [&] {
    return next.clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset, size, n, wait, event);
  });
}

cl_int CL_API_CALL copy_rect(cl_command_queue queue, cl_mem from, cl_mem to,
                             const size_t *from_origin, const size_t *to_origin,
                             const size_t *region, size_t from_row, size_t from_slice,
                             size_t to_row, size_t to_slice, cl_uint n, const cl_event *wait,
                             cl_event *event) {
  return transfer(queue, within, volume(region), false, [&] {
    return next.clEnqueueCopyBufferRect(queue, from, to, from_origin, to_origin, region, from_row,
                                        from_slice, to_row, to_slice, n, wait, event);
  });
}

cl_int CL_API_CALL read_image(cl_command_queue queue, cl_mem image, cl_bool blocking,
                              const size_t *origin, const size_t *region, size_t row, size_t slice,
                              void *to, cl_uint n, const cl_event *wait, cl_event *event) {
  return transfer(queue, to_host, image_bytes(image, region), blocking, [&] {
    return next.clEnqueueReadImage(queue, image, blocking, origin, region, row, slice, to, n, wait,
                                   event);
  });
}

cl_int CL_API_CALL write_image(cl_command_queue queue, cl_mem image, cl_bool blocking,
                               const size_t *origin, const size_t *region, size_t row, size_t slice,
                               const void *from, cl_uint n, const cl_event *wait, cl_event *event) {
  return transfer(queue, to_device, image_bytes(image, region), blocking, [&] {
    return next.clEnqueueWriteImage(queue, image, blocking, origin, region, row, slice, from, n,
                                    wait, event);
  });
}

cl_int CL_API_CALL copy_image(cl_command_queue queue, cl_mem from, cl_mem to,
                              const size_t *from_origin, const size_t *to_origin,
                              const size_t *region, cl_uint n, const cl_event *wait,
                              cl_event *event) {
  return transfer(queue, within, image_bytes(from, region), false, [&] {
    return next.clEnqueueCopyImage(queue, from, to, from_origin, to_origin, region, n, wait, event);
  });
}

cl_int CL_API_CALL copy_image_to_buffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                        const size_t *origin, const size_t *region, size_t offset,
                                        cl_uint n, const cl_event *wait, cl_event *event) {
  return transfer(queue, within, image_bytes(from, region), false, [&] {
    return next.clEnqueueCopyImageToBuffer(queue, from, to, origin, region, offset, n, wait, event);
  });
}

cl_int CL_API_CALL copy_buffer_to_image(cl_command_queue queue, cl_mem from, cl_mem to,
                                        size_t offset, const size_t *origin, const size_t *region,
                                        cl_uint n, const cl_event *wait, cl_event *event) {
  return transfer(queue, within, image_bytes(to, region), false, [&] {
    return next.clEnqueueCopyBufferToImage(queue, from, to, offset, origin, region, n, wait, event);
  });
}

void *CL_API_CALL map_buffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                             cl_map_flags flags, size_t offset, size_t size, cl_uint n,
                             const cl_event *wait, cl_event *event, cl_int *error) {
  return transfer(queue, map_direction(flags), size, blocking, [&] {
    return next.clEnqueueMapBuffer(queue, buffer, blocking, flags, offset, size, n, wait, event,
                                   error);
  });
}

void *CL_API_CALL map_image(cl_command_queue queue, cl_mem image, cl_bool blocking,
                            cl_map_flags flags, const size_t *origin, const size_t *region,
                            size_t *row, size_t *slice, cl_uint n, const cl_event *wait,
                            cl_event *event, cl_int *error) {
  return transfer(queue, map_direction(flags), image_bytes(image, region), blocking, [&] {
    return next.clEnqueueMapImage(queue, image, blocking, flags, origin, region, row, slice, n,
                                  wait, event, error);
  });
}

cl_int CL_API_CALL svm_copy(cl_command_queue queue, cl_bool blocking, void *to, const void *from,
                            size_t size, cl_uint n, const cl_event *wait, cl_event *event) {
  return transfer(queue, within, size, blocking, [&] {
    return next.clEnqueueSVMMemcpy(queue, blocking, to, from, size, n, wait, event);
  });
}

cl_int CL_API_CALL svm_map(cl_command_queue queue, cl_bool blocking, cl_map_flags flags,
                           void *pointer, size_t size, cl_uint n, const cl_event *wait,
                           cl_event *event) {
  return transfer(queue, map_direction(flags), size, blocking, [&] {
    return next.clEnqueueSVMMap(queue, blocking, flags, pointer, size, n, wait, event);
  });
}

}  // namespace

void override_transfers(cl_icd_dispatch *table) {
  table->clEnqueueReadBuffer = read_buffer;
  table->clEnqueueWriteBuffer = write_buffer;
  if (next.clEnqueueReadBufferRect) table->clEnqueueReadBufferRect = read_rect;
  if (next.clEnqueueWriteBufferRect) table->clEnqueueWriteBufferRect = write_rect;
  table->clEnqueueCopyBuffer = copy_buffer;
  if (next.clEnqueueCopyBufferRect) table->clEnqueueCopyBufferRect = copy_rect;
  table->clEnqueueReadImage = read_image;
  table->clEnqueueWriteImage = write_image;
  table->clEnqueueCopyImage = copy_image;
  table->clEnqueueCopyImageToBuffer = copy_image_to_buffer;
  table->clEnqueueCopyBufferToImage = copy_buffer_to_image;
  table->clEnqueueMapBuffer = map_buffer;
  table->clEnqueueMapImage = map_image;
  if (next.clEnqueueSVMMemcpy) table->clEnqueueSVMMemcpy = svm_copy;
  if (next.clEnqueueSVMMap) table->clEnqueueSVMMap = svm_map;
}

}  // namespace layer
