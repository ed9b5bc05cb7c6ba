/* SPDX-License-Identifier: Apache-2.0 */
/* C side of the bridge: the declarations that Python sees, and what the sources share. */
#ifndef XPUPROF_BRIDGE_H
#define XPUPROF_BRIDGE_H

#include <stddef.h>
#include <stdint.h>

#include "bridge_api.h"
#include "xpuprof/trace_format.h"

/* A running identity hash; see trace_format.h. */
uint64_t xp_identity_bytes(uint64_t hash, const uint8_t *data, size_t size);
uint64_t xp_identity_word(uint64_t hash, uint64_t word);
#define XP_IDENTITY_CPU 0x5850435055424c4bu /* "XPCPUBLK" */
#define XP_IDENTITY_GPU 0x5850475055424c4bu /* "XPGPUBLK" */

#endif
