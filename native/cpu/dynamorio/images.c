/* SPDX-License-Identifier: Apache-2.0 */
/* Images: the files that code comes from, named by build-id. */
#include <elf.h>

#include "client.h"

enum { MAX_NOTES = 8192 };

typedef struct image {
  const char *path;
  char build_id[BUILD_ID_ROOM];
  bool counted;
  uint32_t id; /* in the stream; NO_IMAGE until one of its blocks is seen */
  routines *routines;
} image;

typedef struct mapping { /* a segment */
  app_pc start, end, base;
  size_t image;
} mapping;

typedef struct entry { /* of a kernel */
  app_pc at;
  enum { UNDECIDED, TRANSLATED, NATIVE } runs;
} entry;

static image *images; /* every image ever loaded */
static size_t n_images, images_room;
static mapping *mappings; /* currently */
static size_t n_mappings, mappings_room;
static entry *entries; /* currently */
static size_t n_entries, entries_room;

/* ---- build-ids ------------------------------------------------------------------------------- */

/* The program headers of the mapped image: they describe the running code, whatever happened to the
 * file since. */
static void read_build_id(char *id, app_pc start) {
  static uint64_t notes[MAX_NOTES / 8];
  Elf64_Ehdr head;
  uint64_t lowest = ~0ull;
  if (!dr_safe_read(start, sizeof head, &head, NULL)) return;
  for (int pass = 0; pass < 2; pass++)
    for (unsigned i = 0; i < head.e_phnum && !*id; i++) {
      Elf64_Phdr p;
      if (!dr_safe_read(start + head.e_phoff + i * sizeof p, sizeof p, &p, NULL)) return;
      if (pass == 0 && p.p_type == PT_LOAD && p.p_vaddr < lowest)
        lowest = p.p_vaddr & ~(uint64_t)4095;
      if (pass == 1 && p.p_type == PT_NOTE && p.p_memsz <= MAX_NOTES &&
          dr_safe_read(start + (p.p_vaddr - lowest), p.p_memsz, notes, NULL))
        build_id_in_notes(id, (const uint8_t *)notes, p.p_memsz);
    }
}

static void read_identity(image *im, app_pc start) {
  size_t size;
  read_build_id(im->build_id, start);
  if (im->build_id[0]) return;
  const void *file = file_map(im->path, &size);
  if (!file) return;
  build_id_of_hash(im->build_id, hash_bytes(file, size, HASH_SEED));
  file_unmap(file, size);
}

/* ---- the tables ------------------------------------------------------------------------------ */

static bool is_main(app_pc start) {
  module_data_t *main = dr_get_main_module();
  bool same = main && main->start == start;
  if (main) dr_free_module_data(main);
  return same;
}

/* The kernel's own page is in no file and depends on the machine. */
static bool is_kernels(const char *path) { return path[0] == '[' || !path[0]; }

static bool is_entry(const char *symbol) {
  static const char WORKGROUP[] = "_workgroup";
  while (*symbol && !text_starts(symbol, WORKGROUP)) symbol++;
  return *symbol;
}

static void add_entry(app_pc at) {
  entries = grown(entries, &entries_room, n_entries + 1, sizeof *entries);
  entries[n_entries++] = (entry){at, UNDECIDED};
}

/* Kernels that PoCL has compiled: a library that the device runtime loads, and only it runs. */
static bool holds_kernels(const module_data_t *module) {
  static const char KERNEL[] = "_pocl_kernel_";
  bool found = false;
  dr_symbol_export_iterator_t *all = dr_symbol_export_iterator_start(module->handle);
  while (dr_symbol_export_iterator_hasnext(all)) {
    const dr_symbol_export_t *symbol = dr_symbol_export_iterator_next(all);
    if (!text_starts(symbol->name, KERNEL)) continue;
    found = true;
    if (is_entry(symbol->name)) add_entry(symbol->addr);
  }
  dr_symbol_export_iterator_stop(all);
  return found;
}

static void forget_entries(app_pc start, app_pc end) {
  size_t kept = 0;
  for (size_t i = 0; i < n_entries; i++)
    if (entries[i].at < start || entries[i].at >= end) entries[kept++] = entries[i];
  n_entries = kept;
}

/* Intel's runtime generates its kernels in memory. */
static bool generates_kernels;

static size_t image_of(const char *path, app_pc start, bool may_count) {
  generates_kernels |= text_starts(file_name(path), "libintelocl.so");
  images = grown(images, &images_room, n_images + 1, sizeof *images);
  image *im = &images[n_images];
  *im = (image){.path = path, .id = NO_IMAGE};
  im->counted = may_count && !is_kernels(path) && option_counts_image(path, is_main(start));
  if (im->counted) read_identity(im, start);
  for (size_t i = 0; i < n_images; i++) /* loaded before, possibly elsewhere */
    if (text_equal(images[i].path, im->path) && text_equal(images[i].build_id, im->build_id))
      return i;
  im->path = text_copy(path);
  if (im->counted && option_filters_routines()) im->routines = routines_read(path);
  return n_images++;
}

/* What was there is gone, even if nobody has said so: native code had loaded it. */
static void map_segment(mapping m) {
  size_t kept = 0;
  for (size_t i = 0; i < n_mappings; i++)
    if (mappings[i].end <= m.start || mappings[i].start >= m.end) mappings[kept++] = mappings[i];
  mappings = grown(mappings, &mappings_room, kept + 1, sizeof *mappings);
  mappings[kept] = m;
  n_mappings = kept + 1;
}

void image_loaded(const module_data_t *module, bool by_runtime) {
  const char *path = module->full_path ? module->full_path : "";
  forget_entries(module->start, module->end);
  const bool kernels = by_runtime && holds_kernels(module);
  size_t index = image_of(path, module->start, !kernels);
  for (unsigned s = 0; s < module->num_segments; s++)
    map_segment(
        (mapping){module->segments[s].start, module->segments[s].end, module->start, index});
}

void image_unloaded(const module_data_t *module) {
  size_t kept = 0;
  forget_entries(module->start, module->end);
  for (size_t i = 0; i < n_mappings; i++)
    if (mappings[i].base != module->start) mappings[kept++] = mappings[i];
  n_mappings = kept;
}

static const mapping *find(app_pc code) {
  static size_t last; /* code comes from few files at a time */
  if (last < n_mappings && code >= mappings[last].start && code < mappings[last].end)
    return &mappings[last];
  for (last = 0; last < n_mappings; last++)
    if (code >= mappings[last].start && code < mappings[last].end) return &mappings[last];
  return NULL;
}

bool image_holds(app_pc code) { return find(code); }

bool image_never_counts(app_pc code) {
  const mapping *m = find(code);
  return m && !images[m->image].counted;
}

/* The answer stays: DynamoRIO builds a block again to translate a thread's state. */
static bool runs_natively(entry *e) {
  if (e->runs == UNDECIDED) e->runs = kernels_run_natively() ? NATIVE : TRANSLATED;
  return e->runs == NATIVE;
}

bool image_is_native_kernel(app_pc code) {
  for (size_t i = 0; i < n_entries; i++)
    if (entries[i].at == code) return runs_natively(&entries[i]);
  return false;
}

/* ---- images that native code has loaded: DynamoRIO does not report them -----------------------
 */

/* A line of /proc/self/maps. */
typedef struct region {
  app_pc start, end;
  char rights[8];
  uint64_t offset;
  const char *path; /* NULL: not of a file */
} region;

static bool read_region(char *line, region *r) {
  *r = (region){0};
  for (char *c = line; *c && !r->path; c++)
    if (*c == '/') r->path = c;
  return r->path && dr_sscanf(line, "%p-%p %7s %lx", (void **)&r->start, (void **)&r->end,
                              r->rights, &r->offset) == 4;
}

/* Ends the line at `text`, and returns the next. */
static char *end_line(char *text) {
  while (*text && *text != '\n') text++;
  if (!*text) return text;
  *text = 0;
  return text + 1;
}

void images_search(void) {
  static char *text;
  static size_t room;
  region r, first = {.path = ""};
  char *line = file_text("/proc/self/maps", &text, &room);
  for (char *next; *line; line = next) {
    next = end_line(line);
    if (!read_region(line, &r)) continue;
    if (!r.offset) first = r;
    bool runs = r.rights[2] == 'x' && text_equal(r.path, first.path);
    if (!runs || find(r.start)) continue;
    forget_entries(r.start, r.end);
    map_segment((mapping){r.start, r.end, first.start, image_of(r.path, first.start, true)});
  }
}

/* Code that no file holds. What a thread inside a runtime that generates kernels is the first to
 * execute is one of them. */
static code_place anonymous(void) {
  bool is_kernel = generates_kernels && thread_is_off(dr_get_current_drcontext());
  return is_kernel || option_filters_routines() ? (code_place){NO_IMAGE, false, 0}
                                                : place_of_no_image();
}

code_place image_place(app_pc code) {
  const mapping *m = find(code);
  if (!m) return anonymous();
  image *im = &images[m->image];
  uint64_t offset = (uint64_t)(code - m->base);
  if (!im->counted || (option_filters_routines() && !routines_chosen(im->routines, offset)))
    return (code_place){NO_IMAGE, false, 0};
  if (!im->build_id[0]) return anonymous();
  if (im->id == NO_IMAGE) im->id = image_new(im->build_id, im->path);
  return (code_place){im->id, true, offset};
}
