/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a third-party GPU tool (`--gpu-tool LIB`) into the application, with the application's own
 * dlopen: Pin's C runtime and the application's must not mix, and the tool must find the
 * application's libraries. */
#ifndef XPUPROF_PIN_GPU_TOOL_H
#define XPUPROF_PIN_GPU_TOOL_H

#include "pin.H"

/* The routine of that name in an image; invalid if absent. */
RTN routine(IMG image, const char *name);

/* The application's dlopen and dlsym, once an image with them is loaded: libc from 2.34 on, libdl
 * before. */
class ApplicationLoader {
 public:
  void image_loaded(IMG image);
  AFUNPTR open() const { return open_; }
  AFUNPTR symbol() const { return symbol_; }

 private:
  AFUNPTR open_ = 0, symbol_ = 0;
};

/* NVBit tools start when loaded; GTPin tools are started by this call. */
#define GTPIN_ENTRY "GTPin_Entry"

enum { APPLICATION_RTLD = 0x102 }; /* RTLD_NOW | RTLD_GLOBAL of the application's libc */

#endif
