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

static image *images; /* every image ever loaded */
static size_t n_images, images_room;
static mapping *mappings; /* currently */
static size_t n_mappings, mappings_room;

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

static bool is_main(const module_data_t *module) {
  module_data_t *main = dr_get_main_module();
  bool same = main && main->start == module->start;
  if (main) dr_free_module_data(main);
  return same;
}

/* The kernel's own page is in no file and depends on the machine. */
static bool is_kernels(const char *path) { return path[0] == '[' || !path[0]; }

static size_t image_of(const module_data_t *module) {
  const char *path = module->full_path ? module->full_path : "";
  images = grown(images, &images_room, n_images + 1, sizeof *images);
  image *im = &images[n_images];
  *im = (image){.path = path, .id = NO_IMAGE};
  im->counted = !is_kernels(path) && option_counts_image(path, is_main(module));
  if (im->counted) read_identity(im, module->start);
  for (size_t i = 0; i < n_images; i++) /* loaded before, possibly elsewhere */
    if (text_equal(images[i].path, im->path) && text_equal(images[i].build_id, im->build_id))
      return i;
  im->path = text_copy(path);
  if (im->counted && option_filters_routines()) im->routines = routines_read(path);
  return n_images++;
}

void image_loaded(const module_data_t *module) {
  size_t index = image_of(module);
  for (unsigned s = 0; s < module->num_segments; s++) {
    mappings = grown(mappings, &mappings_room, n_mappings + 1, sizeof *mappings);
    mappings[n_mappings++] =
        (mapping){module->segments[s].start, module->segments[s].end, module->start, index};
  }
}

void image_unloaded(const module_data_t *module) {
  size_t kept = 0;
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

static code_place anonymous(void) {
  return option_filters_routines() ? (code_place){NO_IMAGE, false, 0} : place_of_no_image();
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
