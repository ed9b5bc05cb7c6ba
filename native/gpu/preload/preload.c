/* SPDX-License-Identifier: Apache-2.0 */
/* libxpuprof_gputool.so: loads a third-party GPU tool (`--gpu-tool LIB`) into the program, with the
 * program's own loader, before main begins.
 *
 * Preloading the tool itself would suffice for most; but GTPin tools are started by a call, and a
 * tool that cannot be loaded must neither write to the program's stderr nor go unnoticed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "xpuprof/boundary.h"

#define XPU_ENV_GPU_TOOL "XPUPROF_GPU_TOOL"      /* path of the tool */
#define XPU_ENV_NOT_IN "XPUPROF_GPU_TOOL_NOT_IN" /* a CPU engine's launcher */

typedef void (*gtpin_entry)(int argc, const char **argv);

static int is_launcher(void) {
  const char *launcher = getenv(XPU_ENV_NOT_IN);
  char own[4096];
  ssize_t size = readlink("/proc/self/exe", own, sizeof own - 1);
  if (!launcher || size < 0) return 0;
  own[size] = 0;
  return strcmp(own, launcher) == 0;
}

__attribute__((constructor)) static void load(void) {
  const char *path = getenv(XPU_ENV_GPU_TOOL), *arguments[] = {"xpuprof"};
  if (!path || !*path || is_launcher()) return;
  xpu_api_enter(); /* the tool's threads are not the program's */
  void *tool = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (!tool) {
    xpu_meta("gpu_tool_failed", dlerror());
  } else {
    gtpin_entry entry;
    *(void **)&entry = dlsym(tool, "GTPin_Entry");
    if (entry) entry(1, arguments);
  }
  xpu_api_leave();
}
