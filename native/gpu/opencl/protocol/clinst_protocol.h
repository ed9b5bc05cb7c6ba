/* SPDX-License-Identifier: Apache-2.0 */
/* Layer <-> instrumenter (xpuprof-clinst), over a UNIX stream socket, one request per connection.
 * Little-endian. messages.hpp lists the fields of both messages in the order of their bytes; each
 * begins with CLINST_MAGIC. Numbers are as wide as declared, a text is a u64 length and its bytes,
 * a list or map a u32 count and its entries. The sender of a request shuts its side down after it.
 *
 * Features of the device, all optional: extensions, version (120, 200 or 300), c_features,
 * endian_little and image_support of clGetDeviceInfo; cwd, the application's working directory, for
 * relative -I; sub_group_sizes, "kernel:size kernel:size ...": the device's sub-groups are the
 * warps, of these sizes; local_words, how many words of local memory a work-item may have for its
 * counters; most_in_registers, for devices that run the work-items of a group one after the other
 * on one thread: a kernel with more probes may count in memory; contracts: the device takes
 * SPV_INTEL_fp_fast_math_mode. A request has one part for clBuildProgram, and one for each program
 * that clLinkProgram links.
 *
 * For a kernel with nodes (analytic counts) the counting kernel need not run: probe p of a
 * work-item is the field of outputs[p].
 *
 * Build options for the instrumented program: "-x spir -spir-std=1.2" plus those of the user's
 * options that act behind the front end (bitcode), the user's options (SPIR-V).
 *
 * An instrumented kernel has three arguments after its own, even when n_probes is 0 (then it only
 * writes the header):
 *   global ulong *counters   the launch's area: header, then n_probes u64 a warp
 *   ulong first              index (in u64) of the launch's area in the buffer
 *   local ulong *scratch     work-items x scratch_probes x 8 bytes; where scratch_probes is 0
 *                            a ulong instead, of any value
 * and writes, from the work-item with global linear id 0 (in group 0, local id 0), the header
 *   u64 local size x, y, z (as enqueued), u64 number of groups x, y, z, u64 warp size,
 *   u64 warps a group
 * then warp w (linear group id x warps a group + number of the warp in its group) owns the u64
 * n_probes x w .. behind the header. Warps a group is that of a full group; in the smaller groups
 * of a launch with a remainder, warps without a work-item are never read.
 *
 * With CLINST_BUILD the request is the program's, and has the features of a launch, too:
 * launch:device and launch:driver, by name and version; launch:kernel; launch:options, those of the
 * instrumented program's build; launch:offset, launch:global and launch:local, one number a
 * dimension, or none; and "env:NAME", variables of the application's environment. The response is
 * empty.
 *
 * With CLINST_BUILD and CLINST_UNCHANGED it is the application's own code that is compiled: a
 * kernel; without launch:kernel the program; with launch:binaries its binaries, too. launch:step is
 * "compile" for clCompileProgram, "link" for a program linked of the parts, with launch:options. A
 * native run leaves files that tell what it has compiled (compiled.hpp).
 *
 * With CLINST_BINARY the request is the program's, too, and has of a launch's features the device,
 * driver, options and variables. The response's module is the binary that the device's runtime
 * makes of the instrumented program, or with CLINST_UNCHANGED of the program itself, which includes
 * no files. Where the program's only part is such a binary, the response tells whether it only
 * computes, and has no module. With an unchanged program's binary it has the kernels' sub-groups.
 * Left by a native run (ahead.h), a request for a counted binary also has launch:kernel, which was
 * launched, launch:own, the file with the request for the unchanged binary, and, if sub-groups are
 * the warps, an empty sub_group_sizes: they are those of that binary.
 *
 * Warps are sub-groups, numbered by get_sub_group_id (runtimes cut them from the rows of a group
 * along x: each row has its own, the last one of a row may be partial), or else CLINST_WARP
 * work-items with consecutive linear local ids. The kernel is compiled for the size in the request;
 * one that itself uses sub-groups needs no local memory (scratch_probes is 0).
 */
#ifndef XPUPROF_CLINST_PROTOCOL_H
#define XPUPROF_CLINST_PROTOCOL_H

#define CLINST_MAGIC 0x31495058u /* "XPI1" */
#define CLINST_WARP 32           /* work-items per warp where the device has no sub-groups */
#define CLINST_MAX_SUB_GROUP 64
#define CLINST_HEADER_WORDS 8
#define CLINST_EXTRA_ARGS 3

enum clinst_flag {
  CLINST_NO_CACHE = 1,
  CLINST_MEMORY = 2,    /* accesses, too: access_area.h */
  CLINST_BUILD = 4,     /* compile an instrumented kernel natively */
  CLINST_BINARY = 8,    /* have the program built natively */
  CLINST_UNCHANGED = 16 /* with CLINST_BUILD or CLINST_BINARY: without counters */
};
enum clinst_input {
  CLINST_SOURCE = 0,
  CLINST_SPIRV = 1,
  CLINST_BITCODE = 2,
  CLINST_MACHINE_CODE = 3
};
enum clinst_output { CLINST_TO_BITCODE = 0, CLINST_TO_SPIRV = 1 };

/* What a node computes: an unsigned integer of `bits` bits, 1 to 64, wrapping; from nodes a, b and
 * c, which precede it and have its width unless noted otherwise. */
enum clinst_op {
  CLINST_CONSTANT, /* value */
  CLINST_ARGUMENT, /* kernel argument number `value` */
  CLINST_QUERY,    /* a: enum clinst_query, b: dimension */
  CLINST_ADD,
  CLINST_SUB,
  CLINST_MUL,
  CLINST_UDIV, /* by zero: 0, as in all divisions; the result is then not used */
  CLINST_SDIV,
  CLINST_UREM,
  CLINST_SREM,
  CLINST_AND,
  CLINST_OR,
  CLINST_XOR,
  CLINST_SHL, /* by `bits` and more: 0; the result is then not used */
  CLINST_LSHR,
  CLINST_ASHR,
  CLINST_EQUAL, /* of any width, 1 bit */
  CLINST_ULESS,
  CLINST_SLESS,
  CLINST_PROVIDED, /* a, where b, of 1 bit, is 1; else the launch has no analytic counts */
  CLINST_SELECT,   /* a, of 1 bit, ? b : c */
  CLINST_ZEXT,     /* of any width, also shorter */
  CLINST_SEXT,
  CLINST_OPS
};

enum clinst_query {
  CLINST_GLOBAL_ID,
  CLINST_LOCAL_ID,
  CLINST_GROUP_ID,
  CLINST_GLOBAL_SIZE,
  CLINST_LOCAL_SIZE,
  CLINST_ENQUEUED_LOCAL_SIZE,
  CLINST_NUM_GROUPS,
  CLINST_GLOBAL_OFFSET,
  CLINST_QUERIES
};

#endif
