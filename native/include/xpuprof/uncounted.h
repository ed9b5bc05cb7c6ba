/* SPDX-License-Identifier: Apache-2.0 */
/* Images whose code is no part of the program's own work, whatever the filters say: ours, the
 * OpenCL loader, PoCL and the kernels that it compiled, and what Valgrind preloads. A
 * message-passing library waits by spinning: how long is another process's doing, and differs from
 * run to run. Globs; of the whole path where they hold a `/`, else of the file's name. */
#ifndef XPUPROF_UNCOUNTED_H
#define XPUPROF_UNCOUNTED_H
#define XP_UNCOUNTED_IMAGES                                                                      \
  "libxpuprof_*", "libOpenCL.so*", "libpocl.so*", "libpocl-*", "*/pocl/kcache/*", "vgpreload_*", \
      "libmpi.so*", "libmpi_*", "libmpich*", "libopen-pal.so*", "libopen-rte.so*", "mca_*.so",   \
      "libpmix.so*", "libuc[mpst].so*", "libuct_*", "libfabric.so*"

#endif
