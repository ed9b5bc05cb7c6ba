# SPDX-License-Identifier: Apache-2.0
# Shared by the CPU engines in C; each compiles it with its own flags.
file(GLOB XPUPROF_CPU_COMMON ${CMAKE_CURRENT_LIST_DIR}/*.c)
list(APPEND XPUPROF_CPU_COMMON ../../runtime/writer.c ../../runtime/stream_file.c
  ../../runtime/place.c)
