/* SPDX-License-Identifier: Apache-2.0 */
/* A cubin: an ELF64 file with one `.text.<name>` section a kernel or device function, and its
 * attributes in `.nv.info.<name>`. The file is not trusted. */
#ifndef XPUPROF_CUDA_CUBIN_H
#define XPUPROF_CUDA_CUBIN_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include <map>
#include <string>
#include <vector>

class Cubin {
 public:
  /* The file is not copied. */
  Cubin(const void *file, size_t size);
  std::vector<std::string> functions() const;
  /* The function's machine code before relocation; empty when it is not here. The identity of a
   * kernel follows from it: the same in every tool, whatever else the cubin holds. */
  std::string code(const std::string &function) const;
  /* Offset of each indirect branch (BRX) of the function, and the offsets of its targets. */
  std::map<uint32_t, std::vector<uint32_t>> indirect_branches(const std::string &function) const;
  /* Whether its kernels can launch kernels (dynamic parallelism): it contains the name of the
   * device runtime's launch function. */
  bool launches() const;

 private:
  const char *part(uint64_t offset, uint64_t count) const;
  const char *name_of(const Elf64_Shdr &section) const;
  std::string section(const std::string &name) const;

  const char *const file_;
  const size_t size_;
  std::vector<Elf64_Shdr> sections_;
  const char *strings_ = nullptr;
  uint64_t strings_size_ = 0;
};

#endif
