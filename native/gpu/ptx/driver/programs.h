/* SPDX-License-Identifier: Apache-2.0 */
/* The PTX that was rewritten, and which kernel of it a launch runs. */
#ifndef XPUPROF_PTX_PROGRAMS_H
#define XPUPROF_PTX_PROGRAMS_H

#include <stdint.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver.h"
#include "rewrite.h"

namespace ptx {

struct Kernel {
  uint32_t id; /* from xpu_kernel_built */
  std::string name;
  std::string reason; /* why it is not counted; empty: it is */
  std::shared_ptr<const Program> program;
  const CountedFunction *function; /* NULL: its PTX was not rewritten */
  CUdevice device;                 /* on which its module is, if it is rewritten */
  CUdeviceptr slot;                /* points to the head of its rows; 0: it reads none */
  /* Of other texts that were linked to its own, whose functions it may call. */
  std::vector<CUdeviceptr> other_slots;
};

class Programs {
 public:
  explicit Programs(Unit unit) : unit_(unit) {}
  /* The text that the driver is to compile instead of the image; it stays, because the driver may
   * read it later (CU_LIBRARY_BINARY_IS_PRESERVED). NULL, with the reason, when the image cannot be
   * rewritten. */
  const char *rewritten(const void *image, std::string *why);
  /* The same for a text that may be linked to others. */
  const char *rewritten_part(const void *image);
  void loaded_as_it_is(CUmodule module, const std::string &why) { modules_[module] = why; }
  void loaded_as_it_is(CUlibrary library, const std::string &why) { libraries_[library] = why; }
  /* `handle` may be a CUkernel, which launches take in place of a function. */
  const Kernel &kernel(CUcontext context, CUfunction handle);
  /* Handles may name other kernels from here on. */
  void unloaded(CUmodule module);
  void unloaded(CUlibrary library);
  void forget_handles() { kernels_.clear(); }
  /* Of our texts in the module. */
  std::vector<CUdeviceptr> slots_in(CUmodule module) const;

 private:
  struct Source {
    std::shared_ptr<const Program> program;
    const CountedFunction *function;
  };
  Kernel find(CUfunction function);
  std::string why_not(CUmodule module);
  uint32_t built(const Kernel &kernel, const std::string &mangled);

  const Unit unit_;
  std::map<std::string, std::shared_ptr<const Program>> programs_; /* by original text */
  std::set<std::string> linked_;                                   /* variables of such texts */
  std::multimap<std::string, Source> sources_;                     /* by kernel name */
  std::map<std::string, uint32_t> ids_;                            /* hash and name -> kernel */
  std::map<std::pair<CUcontext, CUfunction>, Kernel> kernels_;
  std::unordered_map<CUmodule, std::string> modules_;
  std::unordered_map<CUlibrary, std::string> libraries_;
};

}  // namespace ptx

#endif
