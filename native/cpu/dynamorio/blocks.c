/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

uint32_t block_id(app_pc start, size_t bytes, uint32_t instructions) {
  return block_of(image_place(start), start, bytes, instructions);
}
