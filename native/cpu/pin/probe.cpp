/* SPDX-License-Identifier: Apache-2.0 */
/* xpuprof_probe.so: Pin's probe mode. Nothing is translated: the program runs natively, with jumps
 * to us at a few places. It loads a GPU tool into the program (a third-party timer, for example)
 * with the program's own loader, when main begins. */
#include <string>

#include "gpu_tool.h"
#include "pin.H"

namespace {

KNOB<std::string> knob_gpu_tool(KNOB_MODE_WRITEONCE, "pintool", "gpu_tool", "",
                                "GPU tool to load into the application with its own loader");

typedef void *(*Open)(const char *, int);
typedef void *(*Symbol)(void *, const char *);
typedef void (*Entry)(int, const char **);
ApplicationLoader loader;
std::string path; /* a copy: knobs are Pin's, the program's thread reads this natively */
bool loaded;

void main_begins() {
  if (loaded || !loader.open()) return;
  loaded = true;
  void *tool = reinterpret_cast<Open>(loader.open())(path.c_str(), APPLICATION_RTLD);
  if (!tool) return;
  const char *arguments[] = {"xpuprof"};
  Symbol symbol = reinterpret_cast<Symbol>(loader.symbol());
  Entry entry = reinterpret_cast<Entry>(symbol(tool, GTPIN_ENTRY));
  if (entry) entry(1, arguments);
}

void image_loaded(IMG image, void *) {
  loader.image_loaded(image);
  if (!IMG_IsMainExecutable(image)) return;
  RTN found = routine(image, "main");
  if (!RTN_Valid(found) || !RTN_IsSafeForProbedInsertion(found)) {
    LOG("xpuprof: main cannot be probed; " + path + " is not loaded\n");
    return;
  }
  RTN_InsertCallProbed(found, IPOINT_BEFORE, AFUNPTR(main_begins), IARG_END);
}

}  // namespace

int main(int argc, char **argv) {
  PIN_InitSymbols();
  if (PIN_Init(argc, argv)) return 2;
  path = knob_gpu_tool.Value();
  IMG_AddInstrumentFunction(image_loaded, 0);
  PIN_StartProgramProbed();
  return 0;
}
