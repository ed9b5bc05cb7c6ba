/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a basic block in every run: the build-id of its image and its offset there. */
#ifndef XPUPROF_PIN_IDENTITY_H
#define XPUPROF_PIN_IDENTITY_H

#include <string>

#include "build_id.h"

/* Lower-case hex; for a file without one, "h" and 16 hex digits of a hash of its bytes (FNV-1a, as
 * in the valgrind engine); empty when the file cannot be read. */
std::string build_id_of(const std::string &path);

#endif
