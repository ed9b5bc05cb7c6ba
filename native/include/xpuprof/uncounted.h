/* SPDX-License-Identifier: Apache-2.0 */
/* Images whose code never counts as the program's own work, whatever the filters say: ours, the
 * OpenCL loader, PoCL and the kernels it compiled, Intel's CPU runtime and its compiler, NVIDIA's
 * driver, runtime and CUPTI, and what Valgrind preloads. A message-passing library waits by
 * spinning: the time depends on other processes and differs from run to run. Globs match the whole
 * path if they contain a `/`, else the file name. */
#ifndef XPUPROF_UNCOUNTED_H
#define XPUPROF_UNCOUNTED_H
#define XP_UNCOUNTED_IMAGES                                                                    \
  "libxpuprof_*", "libOpenCL.so*", "libpocl.so*", "libpocl-*", "*/pocl/kcache/*",              \
      "libintelocl.so*", "libcommon_clang.so*", "libocl_svml_*", "vgpreload_*", "libcuda.so*", \
      "libcudart.so*", "libcupti.so*", "libnvidia-*", "libmpi.so*", "libmpi_*", "libmpich*",   \
      "libopen-pal.so*", "libopen-rte.so*", "mca_*.so", "libpmix.so*", "libuc[mpst].so*",      \
      "libuct_*", "libfabric.so*"

#endif
