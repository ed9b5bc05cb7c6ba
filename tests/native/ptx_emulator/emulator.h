/* SPDX-License-Identifier: Apache-2.0 */
/* Executes PTX on the host, for tests: an oracle for the PTX engine that shares no code with it.
 *
 * Warps of 32 lanes; lanes that diverge at a branch go on one group after the other and join again
 * at the branch's immediate post-dominator. Global memory is the host's; shared and local addresses
 * are offsets. It knows the instructions that our tests need and throws for others. */
#ifndef XPUPROF_PTX_EMULATOR_H
#define XPUPROF_PTX_EMULATOR_H

#include <stdint.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace emulator {

/* How often each instruction of a function was reached: by lanes, and by groups of lanes. */
struct Reached {
  std::vector<uint64_t> lanes, groups;
};
using Warp = std::map<std::string, Reached>; /* by function */

struct Shape {
  uint32_t grid[3], block[3], shared_bytes;
};

struct Code; /* a parsed module */

class Module {
 public:
  explicit Module(const std::string &text);
  ~Module();
  /* The address of a module-scope variable, or NULL. */
  void *variable(const std::string &name, size_t *bytes = nullptr) const;
  bool has_kernel(const std::string &name) const;
  std::vector<std::string> kernels() const;
  /* `arguments`: one pointer for each of the kernel's parameters, as cuLaunchKernel takes them.
   * `warps` (may be NULL) becomes what each logical warp reached. */
  void launch(const std::string &kernel, const Shape &shape, void **arguments,
              std::vector<Warp> *warps) const;

 private:
  std::unique_ptr<Code> code_;
};

}  // namespace emulator

#endif
