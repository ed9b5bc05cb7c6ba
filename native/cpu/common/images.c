/* SPDX-License-Identifier: Apache-2.0 */
/* Images in the stream, numbered from the first block that counts on. */
#include "engine.h"

typedef struct image {
  const char *build_id, *path;
} image;

static image *images;
static size_t n_images, room;

uint32_t image_new(const char *build_id, const char *path) {
  images = grown(images, &room, n_images + 1, sizeof *images);
  images[n_images] = (image){text_copy(build_id), text_copy(path)};
  return (uint32_t)n_images++;
}

code_place place_of_no_image(void) {
  static uint32_t id = NO_IMAGE;
  bool counts = option_counts_image("", false);
  if (counts && id == NO_IMAGE) id = image_new("", "");
  return (code_place){counts ? id : NO_IMAGE, false, 0};
}

size_t images_known(void) { return n_images; }

void images_emit(size_t first) {
  for (size_t id = first; id < n_images; id++) {
    const image *im = &images[id];
    xp_body record =
        stream_body(text_length(im->path) + text_length(im->build_id) + 3 * XP_VARINT_MAX);
    xp_put_varint(&record, id);
    xp_put_str(&record, im->build_id);
    xp_put_str(&record, im->path);
    stream_put(XP_CPU_IMAGE, &record, XP_NO_SLICE);
  }
}
