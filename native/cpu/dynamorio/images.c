/* SPDX-License-Identifier: Apache-2.0 */
/* Images: the files that code comes from, named by build-id. */
#include <elf.h>

#include "client.h"

enum { MAX_NOTES = 8192, MAX_BUILD_ID = 64 };

typedef struct image {
  const char *path;
  char build_id[2 * MAX_BUILD_ID + 2];
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
static size_t *in_stream; /* by stream id: index of the image, or ANONYMOUS */
static size_t n_in_stream, in_stream_room;
static uint32_t anonymous_id = NO_IMAGE;

static const size_t ANONYMOUS = ~(size_t)0;

static uint32_t new_stream_id(size_t index) {
  in_stream = grown(in_stream, &in_stream_room, n_in_stream + 1, sizeof *in_stream);
  in_stream[n_in_stream] = index;
  return (uint32_t)n_in_stream++;
}

/* ---- build-ids ------------------------------------------------------------------------------- */

static void in_notes(char *id, const uint8_t *notes, size_t size) {
  for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= size;) {
    const Elf64_Nhdr *note = (const Elf64_Nhdr *)(notes + at);
    size_t name = at + sizeof *note, data = name + (((size_t)note->n_namesz + 3) & ~(size_t)3);
    if (data > size || note->n_descsz > size - data) return;
    if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && note->n_descsz &&
        note->n_descsz <= MAX_BUILD_ID && text_equal((const char *)notes + name, "GNU")) {
      static const char hex[] = "0123456789abcdef";
      for (size_t i = 0; i < note->n_descsz; i++) {
        id[2 * i] = hex[notes[data + i] >> 4];
        id[2 * i + 1] = hex[notes[data + i] & 15];
      }
      id[2 * note->n_descsz] = 0;
      return;
    }
    at = data + (((size_t)note->n_descsz + 3) & ~(size_t)3);
  }
}

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
        in_notes(id, (const uint8_t *)notes, p.p_memsz);
    }
}

static void read_identity(image *im, app_pc start) {
  size_t size;
  read_build_id(im->build_id, start);
  if (im->build_id[0]) return;
  const void *file = file_map(im->path, &size);
  if (!file) return;
  dr_snprintf(im->build_id, sizeof im->build_id, "h%016llx",
              (unsigned long long)hash_bytes(file, size, HASH_SEED));
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
  code_place place = {NO_IMAGE, false, 0};
  if (option_filters_routines() || !option_counts_image("", false)) return place;
  if (anonymous_id == NO_IMAGE) anonymous_id = new_stream_id(ANONYMOUS);
  place.image = anonymous_id;
  return place;
}

code_place image_place(app_pc code) {
  const mapping *m = find(code);
  if (!m) return anonymous();
  image *im = &images[m->image];
  uint64_t offset = (uint64_t)(code - m->base);
  if (!im->counted || (option_filters_routines() && !routines_chosen(im->routines, offset)))
    return (code_place){NO_IMAGE, false, 0};
  if (!im->build_id[0]) return anonymous();
  if (im->id == NO_IMAGE) im->id = new_stream_id(m->image);
  return (code_place){im->id, true, offset};
}

size_t images_known(void) { return n_in_stream; }

void images_emit(size_t first) {
  for (size_t id = first; id < n_in_stream; id++) {
    const image *im = in_stream[id] == ANONYMOUS ? NULL : &images[in_stream[id]];
    image_emit(id, im ? im->build_id : "", im ? im->path : "");
  }
}
