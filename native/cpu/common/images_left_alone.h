/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that our CPU engines cannot follow: they run natively. */
#ifndef XPUPROF_IMAGES_LEFT_ALONE_H
#define XPUPROF_IMAGES_LEFT_ALONE_H

/* Why the program at `path` has to run natively, as in "it is ..."; NULL if it need not. */
const char *image_left_alone(const char *path);

#endif
