// SPDX-License-Identifier: Apache-2.0
/* Launches by OpenCL (linked), by Level Zero through a library that is loaded (argument 1), and by
 * a call of OpenCL's that the tool does not see. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#include <thread>
extern "C" int32_t clEnqueueNDRangeKernel(void *, void *, uint32_t, const size_t *, const size_t *,
                                          const size_t *, uint32_t, void *const *, void **);
int main(int, char **argv) {
  const size_t offset[] = {16, 0}, global[] = {640, 6}, local[] = {64, 2};
  char *kernel = nullptr;
  clEnqueueNDRangeKernel(nullptr, kernel, 2, offset, global, local, 0, nullptr, nullptr);
  std::thread([&] {
    clEnqueueNDRangeKernel(nullptr, kernel + 1, 1, nullptr, global, nullptr, 0, nullptr, nullptr);
  }).join();
  void *adapter = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  void (*launch_all)();
  *reinterpret_cast<void **>(&launch_all) = dlsym(adapter, "launch_all");
  launch_all();
  decltype(&clEnqueueNDRangeKernel) unseen;
  void *runtime = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_NOLOAD);
  *reinterpret_cast<void **>(&unseen) = dlsym(runtime, "clEnqueueNDRangeKernel");
  return unseen(nullptr, kernel, 1, nullptr, global, local, 0, nullptr, nullptr);
}
