/* SPDX-License-Identifier: Apache-2.0 */
/* GPGPU-Sim simulates the launches in launches.h in detail and executes the others.
 *
 * The simulator asks for PTX_SIM_MODE_FUNC once at its start and again at every launch, so the
 * answer sets the mode launch by launch. Preloaded; the simulator stays as it is. */
#include <stddef.h>
#include <string.h>

extern char **environ;

static const unsigned long chosen[][2] = {
#include "launches.h"
}; /* first and last launch of each range, ascending, from 1 */

static char detailed[] = "0", functional[] = "1";

static char *mode(void) {
  static unsigned long asked; /* 0 at the simulator's start, then the launch */
  unsigned long launch = __atomic_fetch_add(&asked, 1, __ATOMIC_RELAXED);
  for (size_t i = 0; i < sizeof chosen / sizeof *chosen && chosen[i][0] <= launch; i++)
    if (launch <= chosen[i][1]) return detailed;
  return functional;
}

char *getenv(const char *name) {
  size_t length = strlen(name);
  if (strcmp(name, "PTX_SIM_MODE_FUNC") == 0) return mode();
  for (char **entry = environ; entry && *entry; entry++)
    if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return *entry + length + 1;
  return NULL;
}
