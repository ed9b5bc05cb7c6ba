/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the records of trace_format.h. Every field is checked against the rest of the record
 * before use, and no row is written beyond its array. */
#include "decode.h"

#include <string.h>

_Static_assert(sizeof((xp_gpu_block_row){0}.mix) == XP_MIX_COUNT * sizeof(uint16_t),
               "cffi needs the number of classes as a literal");

/* A record's body while it is read. The first failure sticks; later reads return 0. */
typedef struct record {
  const uint8_t *p, *end;
  uint64_t offset;
  uint8_t tag;
  int32_t fault;
  uint64_t detail;
} record;

/* Reads a record of one kind; tables of them are indexed by tag. */
typedef void (*reader)(xp_decoder *d, record *r);
#define LENGTH(array) (sizeof(array) / sizeof *(array))

int xp_fail(xp_error *error, int32_t code, uint64_t offset, uint64_t a, uint64_t b) {
  *error = (xp_error){.code = code, .offset = offset, .a = a, .b = b};
  return -1;
}

/* Fields are read in a copy of the record that no other function sees, so that its place stays in a
 * processor register: a stream has millions of launches, with 17 numbers each. */
#define FIELD static inline __attribute__((always_inline))

FIELD void fault(record *r, int32_t code, uint64_t detail) {
  if (r->fault) return;
  r->fault = code;
  r->detail = detail;
  r->p = r->end;
}

/* ---- fields --------------------------------------------------------------------------------- */

/* Behind the number; NULL: there is none. */
static const uint8_t *long_varint(const uint8_t *p, const uint8_t *end, uint64_t *value) {
  for (unsigned shift = 0; shift < 64 && p != end; shift += 7) {
    uint8_t byte = *p++;
    if (shift == 63 && byte > 1) break;
    *value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return p;
  }
  return 0;
}

FIELD uint64_t varint(record *r) {
  if (r->p < r->end && *r->p < 0x80) return *r->p++; /* most are one byte long */
  uint64_t value = 0;
  const uint8_t *behind = long_varint(r->p, r->end, &value);
  if (!behind) {
    fault(r, XP_E_VARINT, 0);
    return 0;
  }
  r->p = behind;
  return value;
}

FIELD const uint8_t *bytes(record *r, uint64_t size) {
  const uint8_t *start = r->p;
  if (size > (uint64_t)(r->end - r->p)) {
    fault(r, XP_E_SHORT, size);
    return 0;
  }
  r->p += size;
  return start;
}

FIELD uint8_t u8(record *r) {
  const uint8_t *p = bytes(r, 1);
  return p ? *p : 0;
}

FIELD uint64_t u64(record *r) {
  uint64_t value = 0;
  const uint8_t *p = bytes(r, 8);
  if (p) memcpy(&value, p, 8);
  return value;
}

FIELD uint64_t limited(record *r, uint64_t largest) {
  uint64_t value = varint(r);
  if (value > largest) fault(r, XP_E_RANGE, value);
  return value;
}

FIELD uint32_t u32(record *r) { return (uint32_t)limited(r, UINT32_MAX); }

/* A number of entries that take at least `least` bytes each. */
FIELD uint64_t list_length(record *r, uint64_t least) {
  uint64_t n = varint(r);
  if (n > (uint64_t)(r->end - r->p) / least) {
    fault(r, XP_E_LENGTH, n);
    return 0;
  }
  return n;
}

static xp_text text(record *r, xp_decoder *d) {
  uint64_t size = list_length(r, 1);
  const uint8_t *from = bytes(r, size);
  xp_text result = {d->rows.texts, from ? size : 0};
  if (d->out && result.size > d->room.texts - d->rows.texts) {
    fault(r, XP_E_CHANGED, 0);
    return result;
  }
  if (d->out && result.size) memcpy(d->out->texts + result.at, from, result.size);
  d->rows.texts += result.size;
  return result;
}

/* Why a launch ran uninstrumented. Millions share a reason: it is stored once per chunk. */
static xp_text reason(record *r, xp_decoder *d) {
  record ahead = *r;
  uint64_t size = list_length(&ahead, 1);
  const uint8_t *from = bytes(&ahead, size);
  if (!from || !size) return text(r, d);
  for (uint32_t i = 0; i < d->n_reasons; i++) {
    const struct reason *known = &d->reasons[i];
    if (known->text.size != size || memcmp(known->bytes, from, size) != 0) continue;
    *r = ahead;
    return known->text;
  }
  xp_text found = text(r, d);
  if (!r->fault && d->n_reasons < LENGTH(d->reasons))
    d->reasons[d->n_reasons++] = (struct reason){from, found};
  return found;
}

/* A table's ids count up from 0, so an id is a row number. */
FIELD void dense_id(record *r, uint64_t rows) {
  uint64_t id = varint(r);
  if (!r->fault && id != rows) fault(r, XP_E_DENSE, id);
}

/* The id of an existing row. */
FIELD uint64_t known_id(record *r, uint64_t rows) {
  uint64_t id = varint(r);
  if (!r->fault && id >= rows) fault(r, XP_E_UNKNOWN, id);
  return id;
}

/* Whether a table has an array, with room for another row or not. */
#define ROW_IS_WANTED(d, table) ((d)->out && (d)->out->table)
#define ROW_FITS(d, table) ((d)->rows.table - (d)->first.table < (d)->room.table)

/* Where the next row of a table is made, or `row` if it is only counted or does not fit. A row that
 * was made elsewhere and is copied costs a third of the time of a walk. */
#define NEXT_ROW(d, table, row)                               \
  (ROW_IS_WANTED(d, table) && ROW_FITS(d, table)              \
       ? &(d)->out->table[(d)->rows.table - (d)->first.table] \
       : (row))

/* Counts the row that was made there. */
#define COUNT_ROW(d, r, table)                            \
  do {                                                    \
    if ((r)->fault) break;                                \
    if (ROW_IS_WANTED(d, table) && !ROW_FITS(d, table)) { \
      fault((r), XP_E_CHANGED, 0);                        \
      break;                                              \
    }                                                     \
    (d)->rows.table++;                                    \
  } while (0)

/* Adds a row to a table; without an array it is only counted. */
#define ADD_ROW(d, r, table, row)                                     \
  do {                                                                \
    if (!(r)->fault && ROW_IS_WANTED(d, table) && ROW_FITS(d, table)) \
      (d)->out->table[(d)->rows.table - (d)->first.table] = (row);    \
    COUNT_ROW(d, r, table);                                           \
  } while (0)

/* Room for `n` entries of a list: the index of the first, or -1 when the list is skipped unread (it
 * is only counted, or not requested) or does not fit. */
#define LIST_PLACE(d, r, list, column, n)                                                         \
  list_place((r), (d)->out && (d)->out->column, &(d)->rows.list, (d)->first.list, (d)->room.list, \
             (n))

static int64_t list_place(record *r, int wanted, uint64_t *rows, uint64_t first, uint64_t room,
                          uint64_t n) {
  uint64_t place = *rows - first;
  if (wanted && n > room - place) fault(r, XP_E_CHANGED, 0);
  *rows += n;
  return r->fault || !wanted ? -1 : (int64_t)place;
}

/* ---- records of both streams ---------------------------------------------------------------- */

static void meta(xp_decoder *d, record *r) {
  xp_meta_row row;
  row.key = text(r, d);
  row.value = text(r, d);
  ADD_ROW(d, r, metas, row);
}

static void end_record(xp_decoder *d, record *r) {
  uint64_t a = varint(r), b = varint(r);
  if (r->fault) return;
  d->rows.ended = 1;
  d->rows.end_a = a;
  d->rows.end_b = b;
}

/* `n` pairs (delta, count) of a vector over `n_blocks` blocks, the first of which is row `base`. */
static void pairs(record *r, uint64_t n, uint64_t base, uint64_t n_blocks, uint32_t *block,
                  uint64_t *count) {
  uint64_t at = 0;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t delta = varint(r);
    if (delta >= n_blocks - at || (i && !delta)) {
      fault(r, i && !delta ? XP_E_DENSE : XP_E_UNKNOWN, at + delta);
      return;
    }
    at += delta;
    block[i] = (uint32_t)(base + at);
    count[i] = varint(r);
  }
}

/* ---- events.xpt ----------------------------------------------------------------------------- */

static void program(xp_decoder *d, record *r) {
  xp_program_row row = {.kind = 0};
  dense_id(r, d->rows.programs);
  const uint8_t *hash = bytes(r, sizeof row.hash);
  if (hash) memcpy(row.hash, hash, sizeof row.hash);
  row.kind = u8(r);
  row.origin = text(r, d);
  ADD_ROW(d, r, programs, row);
}

static void kernel_blocks(xp_decoder *d, record *r, const xp_kernel_row *kernel, uint64_t name_hash,
                          uint64_t number) {
  for (uint32_t b = 0; b < kernel->n_blocks && !r->fault; b++) {
    xp_gpu_block_row row = {.kernel = (uint32_t)number};
    row.identity = xp_identity_word(name_hash, b);
    row.instructions = u32(r);
    for (int m = 0; m < XP_MIX_COUNT; m++) row.mix[m] = (uint16_t)limited(r, UINT16_MAX);
    ADD_ROW(d, r, gpu_blocks, row);
  }
}

static void kernel(xp_decoder *d, record *r) {
  xp_kernel_row row = {.first_block = d->rows.gpu_blocks};
  uint64_t number = d->rows.kernels, hash = 0;
  dense_id(r, number);
  row.program = (uint32_t)known_id(r, d->rows.programs);
  row.name = text(r, d);
  uint64_t n = list_length(r, 1 + XP_MIX_COUNT);
  if (d->rows.gpu_blocks + n > UINT32_MAX) fault(r, XP_E_RANGE, n);
  row.n_blocks = (uint32_t)n;
  if (d->out && !r->fault) {
    hash = xp_identity_bytes(XP_IDENTITY_GPU, d->out->programs[row.program].hash, 16);
    hash = xp_identity_bytes(hash, d->out->texts + row.name.at, row.name.size);
  }
  kernel_blocks(d, r, &row, hash, number);
  row.reason = text(r, d);
  ADD_ROW(d, r, kernels, row);
}

static void launch(xp_decoder *d, record *r) {
  xp_launch_row unused, *row = NEXT_ROW(d, launches, &unused);
  record own = *r;
  row->launch = limited(&own, UINT32_MAX - 1);
  row->kernel = (uint32_t)known_id(&own, d->rows.kernels);
  row->dimensions = u8(&own);
  for (int i = 0; i < 3; i++) row->global[i] = varint(&own);
  for (int i = 0; i < 3; i++) row->local[i] = varint(&own);
  for (int i = 0; i < 3; i++) row->offset[i] = varint(&own);
  row->queue = u32(&own);
  row->device = u32(&own);
  row->thread = u32(&own);
  row->tsc_run = u64(&own);
  row->flags = u8(&own);
  *r = own;
  row->reason = reason(r, d);
  COUNT_ROW(d, r, launches);
}

static void complete(xp_decoder *d, record *r) {
  xp_complete_row unused, *row = NEXT_ROW(d, completes, &unused);
  record own = *r;
  row->launch = limited(&own, UINT32_MAX - 1);
  row->tsc_host = u64(&own);
  row->dev_start = u64(&own);
  row->dev_end = u64(&own);
  *r = own;
  COUNT_ROW(d, r, completes);
}

static void stamp(xp_decoder *d, record *r) {
  xp_stamp_row row;
  row.which = u8(r);
  row.tsc = u64(r);
  ADD_ROW(d, r, stamps, row);
}

static void warp_vector(xp_decoder *d, record *r) {
  xp_vector_row row = {.first_pair = d->rows.vector_pairs};
  dense_id(r, d->rows.vectors);
  row.kernel = (uint32_t)known_id(r, d->rows.kernels);
  uint64_t n = list_length(r, 2);
  row.n_pairs = (uint32_t)n;
  if (n > UINT32_MAX || d->rows.vectors >= UINT32_MAX) fault(r, XP_E_RANGE, n);
  int64_t place = LIST_PLACE(d, r, vector_pairs, vector_block, n);
  if (place < 0) {
    r->p = r->end;
  } else {
    const xp_kernel_row *k = &d->out->kernels[row.kernel];
    pairs(r, n, k->first_block, k->n_blocks, d->out->vector_block + place,
          d->out->vector_count + place);
  }
  ADD_ROW(d, r, vectors, row);
}

static void grid_runs(xp_decoder *d, record *r, const xp_grid_row *grid, uint64_t place) {
  for (uint64_t i = 0; i < grid->n_runs && !r->fault; i++) {
    uint64_t vector = known_id(r, d->rows.vectors);
    if (!r->fault && d->out->vectors[vector].kernel != grid->kernel)
      fault(r, XP_E_UNKNOWN, vector); /* a vector of another kernel */
    d->out->run_vector[place + i] = (uint32_t)vector;
    d->out->run_length[place + i] = varint(r);
  }
}

static void grid_vector(xp_decoder *d, record *r) {
  xp_grid_row row = {.first_run = d->rows.run_pairs};
  dense_id(r, d->rows.grids);
  row.kernel = known_id(r, d->rows.kernels);
  row.warps = varint(r);
  row.n_runs = list_length(r, 2);
  int64_t place = LIST_PLACE(d, r, run_pairs, run_vector, row.n_runs);
  if (place >= 0)
    grid_runs(d, r, &row, (uint64_t)place);
  else if (r->end - r->p >= (ptrdiff_t)sizeof row.instructions)
    r->p = r->end - sizeof row.instructions; /* which follow the runs */
  row.instructions = u64(r);
  ADD_ROW(d, r, grids, row);
}

static void launch_grid(xp_decoder *d, record *r) {
  xp_launch_grid_row row;
  row.launch = known_id(r, d->rows.launches);
  row.grid = known_id(r, d->rows.grids);
  ADD_ROW(d, r, launch_grids, row);
}

static void copy(xp_decoder *d, record *r) {
  xp_copy_row row;
  row.direction = u8(r);
  row.bytes = varint(r);
  row.tsc_start = u64(r);
  row.tsc_end = u64(r);
  row.queue = u32(r);
  ADD_ROW(d, r, copies, row);
}

static void host(xp_decoder *d, record *r) {
  xp_host_row row;
  row.kind = u8(r);
  row.bytes = varint(r);
  row.tsc_start = u64(r);
  row.tsc_end = u64(r);
  ADD_ROW(d, r, hosts, row);
}

static void resources(xp_decoder *d, record *r) {
  xp_resource_row row;
  row.launch = known_id(r, d->rows.launches);
  row.registers = u32(r);
  row.local_static = u32(r);
  row.local_dynamic = u32(r);
  row.private_bytes = u32(r);
  ADD_ROW(d, r, resources, row);
}

/* The pairs (bucket delta, count) of a stack-distance vector, in either stream. */
static void ldv_pairs(xp_decoder *d, record *r, uint64_t n) {
  int64_t place = LIST_PLACE(d, r, ldv_pairs, ldv_bucket, n);
  if (place < 0)
    r->p = r->end;
  else
    pairs(r, n, 0, XP_LDV_BUCKETS, d->out->ldv_bucket + place, d->out->ldv_count + place);
}

static void device_ldv(xp_decoder *d, record *r) {
  xp_device_ldv_row row = {.first_pair = d->rows.ldv_pairs};
  row.launch = known_id(r, d->rows.launches);
  row.flags = varint(r);
  row.accesses = varint(r);
  row.recorded = varint(r);
  row.groups = varint(r);
  row.recorded_groups = varint(r);
  row.n_pairs = list_length(r, 2);
  ldv_pairs(d, r, row.n_pairs);
  ADD_ROW(d, r, device_ldvs, row);
}

static void lanes(xp_decoder *d, record *r) {
  xp_lanes_row row;
  row.launch = known_id(r, d->rows.launches);
  row.instructions = varint(r);
  ADD_ROW(d, r, lanes, row);
}

static void uncounted(xp_decoder *d, record *r) {
  xp_uncounted_row row;
  row.launch = known_id(r, d->rows.launches);
  row.reason = reason(r, d);
  ADD_ROW(d, r, uncounted, row);
}

static void window(xp_decoder *d, record *r) {
  xp_window_row row;
  row.launch = varint(r);
  row.open = u8(r);
  row.tsc = u64(r);
  row.marker = text(r, d);
  if (!r->fault && row.launch != d->rows.launches) fault(r, XP_E_DENSE, row.launch);
  ADD_ROW(d, r, windows, row);
}

static const reader EVENT_READERS[] = {
    [XP_EV_META] = meta,
    [XP_EV_PROGRAM] = program,
    [XP_EV_KERNEL] = kernel,
    [XP_EV_LAUNCH] = launch,
    [XP_EV_COMPLETE] = complete,
    [XP_EV_STAMP] = stamp,
    [XP_EV_WARP_VECTOR] = warp_vector,
    [XP_EV_GRID_VECTOR] = grid_vector,
    [XP_EV_LAUNCH_GRID] = launch_grid,
    [XP_EV_COPY] = copy,
    [XP_EV_HOST] = host,
    [XP_EV_RESOURCES] = resources,
    [XP_EV_LANES] = lanes,
    [XP_EV_UNCOUNTED] = uncounted,
    [XP_EV_LDV] = device_ldv,
    [XP_EV_WINDOW] = window,
    [XP_EV_END] = end_record,
};

/* ---- cpu.xpt -------------------------------------------------------------------------------- */

static void image(xp_decoder *d, record *r) {
  xp_image_row row;
  dense_id(r, d->rows.images);
  row.build_id = text(r, d);
  row.path = text(r, d);
  ADD_ROW(d, r, images, row);
}

static void cpu_block(xp_decoder *d, record *r) {
  xp_cpu_block_row row = {.identity = 0};
  if (d->rows.cpu_blocks >= UINT32_MAX) fault(r, XP_E_RANGE, d->rows.cpu_blocks);
  dense_id(r, d->rows.cpu_blocks);
  row.image = (uint32_t)known_id(r, d->rows.images);
  row.offset = varint(r);
  row.instructions = u32(r);
  if (d->out && !r->fault) {
    xp_text build_id = d->out->images[row.image].build_id;
    row.identity =
        xp_identity_cpu(d->out->texts + build_id.at, build_id.size, row.offset, row.instructions);
  }
  ADD_ROW(d, r, cpu_blocks, row);
}

static void thread(xp_decoder *d, record *r) {
  xp_thread_row row;
  if (d->rows.threads >= UINT32_MAX) fault(r, XP_E_RANGE, d->rows.threads);
  dense_id(r, d->rows.threads);
  row.system_id = varint(r);
  ADD_ROW(d, r, threads, row);
}

static void bbv(xp_decoder *d, record *r) {
  xp_bbv_row row = {.first_pair = d->rows.bbv_pairs};
  row.slice = limited(r, UINT32_MAX - 1);
  row.thread = known_id(r, d->rows.threads);
  row.n_pairs = list_length(r, 2);
  row.instructions = varint(r);
  if (row.n_pairs > (uint64_t)(r->end - r->p) / 2) fault(r, XP_E_LENGTH, row.n_pairs);
  int64_t place = LIST_PLACE(d, r, bbv_pairs, bbv_block, row.n_pairs);
  if (place < 0)
    r->p = r->end;
  else
    pairs(r, row.n_pairs, 0, d->rows.cpu_blocks, d->out->bbv_block + place,
          d->out->bbv_count + place);
  ADD_ROW(d, r, bbvs, row);
}

static void cut(xp_decoder *d, record *r) {
  xp_cut_row row;
  row.slice = limited(r, UINT32_MAX - 1);
  row.tsc = u64(r);
  row.instructions = varint(r);
  ADD_ROW(d, r, cuts, row);
}

static void ldv(xp_decoder *d, record *r) {
  xp_ldv_row row = {.first_pair = d->rows.ldv_pairs};
  row.slice = limited(r, UINT32_MAX - 1);
  row.thread = known_id(r, d->rows.threads);
  row.n_pairs = list_length(r, 2);
  ldv_pairs(d, r, row.n_pairs);
  ADD_ROW(d, r, ldvs, row);
}

static const reader CPU_READERS[] = {
    [XP_CPU_META] = meta,     [XP_CPU_IMAGE] = image,    [XP_CPU_BLOCK] = cpu_block,
    [XP_CPU_THREAD] = thread, [XP_CPU_BBV] = bbv,        [XP_CPU_CUT] = cut,
    [XP_CPU_LDV] = ldv,       [XP_CPU_END] = end_record,
};

/* ---- chunks --------------------------------------------------------------------------------- */

int xp_decode_chunk(xp_decoder *d, const uint8_t *data, uint64_t size, uint64_t file_offset) {
  d->n_reasons = 0;    /* they point into the chunk */
  if (!size) return 0; /* `data` may be NULL */
  const reader *readers = d->stream == XP_STREAM_EVENTS ? EVENT_READERS : CPU_READERS;
  size_t known = d->stream == XP_STREAM_EVENTS ? LENGTH(EVENT_READERS) : LENGTH(CPU_READERS);
  record chunk = {.p = data, .end = data + size};
  while (chunk.p < chunk.end) {
    uint64_t offset = file_offset + (uint64_t)(chunk.p - data);
    uint8_t tag = *chunk.p++;
    uint64_t length = varint(&chunk);
    if (chunk.fault || length > (uint64_t)(chunk.end - chunk.p))
      return xp_fail(d->error, XP_E_RECORD, offset, tag, length);
    record r = {.p = chunk.p, .end = chunk.p + length, .offset = offset, .tag = tag};
    chunk.p += length;
    d->rows.ended = 0; /* END counts only as the last record */
    if (tag >= known || !readers[tag]) {
      d->rows.unknown_records++;
      continue;
    }
    readers[tag](d, &r);
    if (!r.fault && r.p != r.end) fault(&r, XP_E_EXCESS, 0);
    if (r.fault) return xp_fail(d->error, r.fault, offset, tag, r.detail);
  }
  return 0;
}
