/* access_replays SOURCE [held]: two kernels of the file SOURCE, `stencil` and `diverge`, as a
 * command buffer that is replayed three times, then one launch; with `held`, two replays more while
 * a user event is not fired, and one when it is. */
#include "opencl_set_up.h"

#define FUNCTION(name) \
  name##_fn name = (name##_fn)clGetExtensionFunctionAddressForPlatform(platform, #name)

enum { MANY = 40 };

int main(int argc, char **argv) {
  static char text[1 << 16];
  set_up();
  FUNCTION(clCreateCommandBufferKHR);
  FUNCTION(clCommandNDRangeKernelKHR);
  FUNCTION(clFinalizeCommandBufferKHR);
  FUNCTION(clEnqueueCommandBufferKHR);
  FUNCTION(clReleaseCommandBufferKHR);
  if (!clCreateCommandBufferKHR) {
    printf("no command buffers\n");
    return 0;
  }
  FILE *file = fopen(argv[1], "rb");
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  cl_program own = build(text, "");
  cl_kernel stencil = kernel_of(own, "stencil"), diverge = kernel_of(own, "diverge");
  cl_int error, n = 2048;
  size_t stencil_size = 2048, stencil_local = 64, diverge_size = 640, diverge_local = 80;
  int many = argc > 2 && !strcmp(argv[2], "many"), held = argc > 2 && !many;
  cl_mem buffers[2];
  for (int i = 0; i < 2; i++) {
    buffers[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, 2048 * sizeof(float), NULL, &error);
    must(error, "buffer");
    must(clSetKernelArg(stencil, (cl_uint)i, sizeof(cl_mem), &buffers[i]), "argument");
    must(clSetKernelArg(diverge, (cl_uint)i, sizeof(cl_mem), &buffers[i]), "argument");
  }
  must(clSetKernelArg(stencil, 2, sizeof n, &n), "argument 2");
  cl_device_command_buffer_capabilities_khr able = 0;
  clGetDeviceInfo(device, CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR, sizeof able, &able, NULL);
  int at_once = (able & CL_COMMAND_BUFFER_CAPABILITY_SIMULTANEOUS_USE_KHR) != 0;
  cl_command_buffer_properties_khr flags[] = {CL_COMMAND_BUFFER_FLAGS_KHR,
                                              CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR, 0};
  cl_command_buffer_khr buffer =
      clCreateCommandBufferKHR(1, &queue, at_once ? flags : NULL, &error);
  must(error, "command buffer");
  must(clCommandNDRangeKernelKHR(buffer, NULL, NULL, stencil, 1, NULL, &stencil_size,
                                 &stencil_local, 0, NULL, NULL, NULL),
       "record");
  must(clCommandNDRangeKernelKHR(buffer, NULL, NULL, diverge, 1, NULL, &diverge_size,
                                 &diverge_local, 0, NULL, NULL, NULL),
       "record");
  for (int i = 2; many && i < MANY; i++)
    must(clCommandNDRangeKernelKHR(buffer, NULL, NULL, stencil, 1, NULL, &stencil_size,
                                   &stencil_local, 0, NULL, NULL, NULL),
         "record");
  must(clFinalizeCommandBufferKHR(buffer), "finalize");
  for (int i = 0; i < (many ? 1 : 3); i++) {
    must(clEnqueueCommandBufferKHR(0, NULL, buffer, 0, NULL, NULL), "enqueue");
    must(clFinish(queue), "finish");
  }
  must(run_1d(queue, stencil, stencil_size, stencil_local), "launch");
  must(clFinish(queue), "finish");
  if (held) {
    cl_event gate = clCreateUserEvent(context, &error);
    for (int i = 0; i < 2; i++) {
      must(clEnqueueCommandBufferKHR(0, NULL, buffer, 0, NULL, NULL), "enqueue");
      if (!at_once) must(clFinish(queue), "finish");
    }
    must(clSetUserEventStatus(gate, CL_COMPLETE), "fire");
    must(clFinish(queue), "finish");
    must(clEnqueueCommandBufferKHR(0, NULL, buffer, 0, NULL, NULL), "enqueue");
    must(clFinish(queue), "finish");
  }
  clReleaseCommandBufferKHR(buffer);
  printf("%s\n", at_once ? "at once" : "one by one");
  return 0;
}
