/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that no CPU engine of ours can follow into: they run natively. */
#ifndef XPUPROF_IMAGES_LEFT_ALONE_H
#define XPUPROF_IMAGES_LEFT_ALONE_H

/* Why the program at `path` has to run natively, as in "it is ..."; NULL: it has not. */
const char *image_left_alone(const char *path);

#endif
