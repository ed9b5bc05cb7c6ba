/* SPDX-License-Identifier: Apache-2.0 */
/* Marks windows of a program for xpuprof: `xpuprof run --window @NAME -- ./app`.
 *
 *   #include <xpuprof/marker.h>          cc -I$(xpuprof doctor --include) app.c
 *
 *   xpuprof_window_begin("solve");
 *   ...
 *   xpuprof_window_end("solve");
 *
 * or in C++, for a scope:  xpuprof::window marked("solve");
 *
 * Header-only; nothing is linked (glibc before 2.34 wants -ldl). When the program does not run
 * under xpuprof, a call is a test of a variable. Pairs of one name may nest and may be called from
 * any thread; a pair counts as one opening from the first begin to the last end. */
#ifndef XPUPROF_MARKER_H
#define XPUPROF_MARKER_H
#include <dlfcn.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*xpuprof_marker_function)(const char *);

/* The result of dlsym; ISO C does not convert object pointers to function pointers. */
union xpuprof_marker_symbol {
  void *object;
  xpuprof_marker_function function;
};

struct xpuprof_marker_functions {
  int resolved;
  union xpuprof_marker_symbol begin, end;
};

/* The runtime is found by the path that xpuprof sets: it is not in the global scope and may not be
 * loaded yet. */
__attribute__((unused, cold, noinline)) static void xpuprof_marker_resolve(
    struct xpuprof_marker_functions *to) {
  const char *path = getenv("XPUPROF_RUNTIME");
  void *runtime = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : 0;
  if (runtime) {
    to->begin.object = dlsym(runtime, "xpu_window_begin");
    to->end.object = dlsym(runtime, "xpu_window_end");
  }
  __atomic_store_n(&to->resolved, 1, __ATOMIC_RELEASE);
}

__attribute__((unused)) static struct xpuprof_marker_functions *xpuprof_marker(void) {
  static struct xpuprof_marker_functions functions;
  if (!__atomic_load_n(&functions.resolved, __ATOMIC_ACQUIRE)) xpuprof_marker_resolve(&functions);
  return &functions;
}

/* The window `name` opens. */
__attribute__((unused)) static void xpuprof_window_begin(const char *name) {
  struct xpuprof_marker_functions *functions = xpuprof_marker();
  if (functions->begin.object) functions->begin.function(name);
}

/* The window `name` closes. */
__attribute__((unused)) static void xpuprof_window_end(const char *name) {
  struct xpuprof_marker_functions *functions = xpuprof_marker();
  if (functions->end.object) functions->end.function(name);
}

#ifdef __cplusplus
}

namespace xpuprof {

/* A window that lasts as long as the object. */
class window {
 public:
  explicit window(const char *name) : name_(name) { xpuprof_window_begin(name_); }
  ~window() { xpuprof_window_end(name_); }
  window(const window &) = delete;
  window &operator=(const window &) = delete;

 private:
  const char *name_;
};

}  // namespace xpuprof
#endif
#endif
