/* SPDX-License-Identifier: Apache-2.0 */
/* xpuprof-cuda-probe: the smallest program that uses the CUDA driver, run under each engine to see
 * whether the engine supports the driver.
 *
 *   xpuprof-cuda-probe devices   prints: number of devices, driver version, path of the driver
 *   xpuprof-cuda-probe run       prints `step NAME` before each step, `done` after the last
 *
 * The driver is dlopen'd and its few functions are declared here, so this builds on every machine.
 * Exits with 0, or 1 when the driver refused a step; the caller observes the effects of an engine
 * (a signal, silence). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

typedef int result;
typedef void *handle;

/* The oldest target first: drivers run old PTX on new devices, but later ones drop old targets. */
static const char *const KERNELS[] = {
    ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry xpuprof_probe() { ret; }\n",
    ".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry xpuprof_probe() { ret; }\n",
};

static handle library;

static int step(const char *name) {
  printf("step %s\n", name);
  return fflush(stdout); /* it may not return */
}

static void *function(const char *name) {
  void *found = dlsym(library, name);
  if (!found) printf("missing %s\n", name);
  return found;
}

/* Declares `name` with these arguments, or exits. */
#define DRIVER(name, ...)            \
  result (*name)(__VA_ARGS__);       \
  *(void **)&name = function(#name); \
  if (!name) return 1

static int refused(result code) {
  if (code) printf("refused %d\n", code);
  return code != 0;
}

static int load(void) {
  step("load");
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) printf("missing %s\n", dlerror());
  return library != 0;
}

static int devices(void) {
  int count = 0, version = 0;
  struct link_map *map = 0;
  DRIVER(cuInit, unsigned);
  DRIVER(cuDeviceGetCount, int *);
  DRIVER(cuDriverGetVersion, int *);
  if (cuDriverGetVersion(&version) || dlinfo(library, RTLD_DI_LINKMAP, &map)) return 1;
  if (cuInit(0) || cuDeviceGetCount(&count)) count = 0;
  printf("devices %d %d %s\n", count, version, map->l_name);
  return 0;
}

static result load_kernel(result (*cuModuleLoadData)(handle *, const void *), handle *module) {
  result code = 1;
  for (size_t i = 0; i < sizeof KERNELS / sizeof *KERNELS && code; i++)
    code = cuModuleLoadData(module, KERNELS[i]);
  return code;
}

static int run(void) {
  handle context = 0, module = 0, kernel = 0, stream = 0;
  unsigned long long memory = 0;
  int device = 0, sent = 20, got = 0;
  DRIVER(cuInit, unsigned);
  DRIVER(cuDeviceGet, int *, int);
  DRIVER(cuDevicePrimaryCtxRetain, handle *, int);
  DRIVER(cuCtxSetCurrent, handle);
  DRIVER(cuModuleLoadData, handle *, const void *);
  DRIVER(cuModuleGetFunction, handle *, handle, const char *);
  DRIVER(cuStreamCreate, handle *, unsigned);
  DRIVER(cuLaunchKernel, handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
         unsigned, handle, void **, void **);
  DRIVER(cuStreamSynchronize, handle);
  DRIVER(cuMemAlloc_v2, unsigned long long *, size_t);
  DRIVER(cuMemcpyHtoD_v2, unsigned long long, const void *, size_t);
  DRIVER(cuMemcpyDtoH_v2, void *, unsigned long long, size_t);
  step("cuInit");
  if (refused(cuInit(0)) || refused(cuDeviceGet(&device, 0))) return 1;
  step("context");
  if (refused(cuDevicePrimaryCtxRetain(&context, device)) || refused(cuCtxSetCurrent(context)))
    return 1;
  step("memory");
  if (refused(cuMemAlloc_v2(&memory, sizeof sent)) ||
      refused(cuMemcpyHtoD_v2(memory, &sent, sizeof sent)) ||
      refused(cuMemcpyDtoH_v2(&got, memory, sizeof got)))
    return 1;
  if (got != sent) return printf("refused: read %d where %d was written\n", got, sent), 1;
  step("module");
  if (refused(load_kernel(cuModuleLoadData, &module)) ||
      refused(cuModuleGetFunction(&kernel, module, "xpuprof_probe")))
    return 1;
  step("launch");
  if (refused(cuStreamCreate(&stream, 0)) ||
      refused(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, 0, 0)))
    return 1;
  step("wait");
  if (refused(cuStreamSynchronize(stream))) return 1;
  step("exit"); /* drivers and tools do much of their work there */
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  if (!load()) return 1;
  return strcmp(argv[1], "devices") == 0 ? devices() : run();
}
