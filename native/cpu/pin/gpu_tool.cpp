/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu_tool.h"

RTN routine(IMG image, const char *name) { return RTN_FindByName(image, name); }

void ApplicationLoader::image_loaded(IMG image) {
  if (open_) return;
  RTN open = routine(image, "dlopen"), symbol = routine(image, "dlsym");
  if (!RTN_Valid(open) || !RTN_Valid(symbol)) return;
  open_ = RTN_Funptr(open);
  symbol_ = RTN_Funptr(symbol);
}
