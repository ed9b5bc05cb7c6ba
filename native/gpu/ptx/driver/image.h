/* SPDX-License-Identifier: Apache-2.0 */
/* The PTX in what a program hands to the driver: PTX text, a fat binary (nvcc compresses its
 * entries), or the runtime's wrapper around one. */
#ifndef XPUPROF_PTX_IMAGE_H
#define XPUPROF_PTX_IMAGE_H

#include <string>

namespace ptx {

/* The text for a device of compute capability `capability` (9.0 is 90). Empty, with the reason,
 * when there is none. */
std::string text_in(const void *image, unsigned capability, std::string *why);

}  // namespace ptx

#endif
