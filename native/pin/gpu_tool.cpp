#include "gpu_tool.h"

RTN routine(IMG image, const char *name) { return RTN_FindByName(image, name); }

void ApplicationLoader::image_loaded(IMG image) {
  if (open_) return;
  RTN found = routine(image, "dlopen");
  if (RTN_Valid(found)) open_ = RTN_Funptr(found);
}
