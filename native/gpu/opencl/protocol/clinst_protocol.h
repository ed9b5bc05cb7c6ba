/* SPDX-License-Identifier: Apache-2.0 */
/* Layer <-> instrumenter (xpuprof-clinst), over a UNIX stream socket, one request per connection.
 * Little-endian, packed by hand: integers as written, `bytes` is u64 length + data.
 *
 * Request:  u32 magic 'XPI1', u32 flags (clinst_flag), u32 output (clinst_output),
 *           bytes device features: lines "key=value" (extensions=, version=120|200|300,
 *             c_version=, c_features=, address_bits=, endian_little=, image_support=,
 *             single_fp_config= of clGetDeviceInfo as a decimal number, cwd= the application's
 *             working directory, for relative -I; sub_group_sizes="kernel:size kernel:size ...":
 *             the device's sub-groups are the warps, of these sizes; local_words= how many words of
 *             local memory a work-item may have for its counters; all optional),
 *           u32 number of parts, then per part (one for clBuildProgram; clLinkProgram sends
 *           every program it links, a library included):
 *             u32 input (clinst_input), bytes payload, bytes build options of the part,
 *             u32 number of headers, per header bytes name, bytes text (of clCompileProgram),
 *             u32 number of specialisation constants, per constant u32 id, bytes value.
 * Response: u32 magic 'XPI1', u32 status (0 good), bytes message (why not, or empty),
 *           bytes module (bitcode or SPIR-V of the instrumented program), u32 number of kernels,
 *           then per kernel:
 *             bytes name
 *             u32 n_args of the original (ours follow behind these)
 *             u32 n_blocks, n_blocks x (u32 instructions, u16 mix[XP_MIX_COUNT])
 *             u32 n_probes: counters kept at run time; 0: all blocks follow from the launch
 *             u32 scratch_probes: words of local memory a work-item that the kernel wants
 *             n_blocks x (u32 terms, terms x (i32 probe, i32 factor)): count of the block = sum
 *               of factor x probe, where probe -1 is the number of work-items in the warp
 *             u32 nodes, nodes x (u32 op (clinst_op), u32 bits, u32 a, b, c, u64 value)
 *             u32 outputs, outputs x (u32 node, u32 shift, u32 bits): when there are any, the
 *               kernel need not run: for a work-item, probe p is the `bits` bits from `shift` on
 *               of the node's value
 *             u32 n, n x u32: with CLINST_MEMORY, how many accesses of each block are recorded, but
 *               for asynchronous copies, which the kernel counts
 *             u32 instructions with unrecorded accesses (pipes, some accesses to images)
 *             u32 n, n x u32: arguments whose values are left in the area of access_area.h
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

enum clinst_flag { CLINST_NO_CACHE = 1, CLINST_MEMORY = 2 /* accesses, too: access_area.h */ };
enum clinst_input { CLINST_SOURCE = 0, CLINST_SPIRV = 1, CLINST_BITCODE = 2 };
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
  CLINST_SELECT, /* a, of 1 bit, ? b : c */
  CLINST_ZEXT,   /* of any width, also shorter */
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
