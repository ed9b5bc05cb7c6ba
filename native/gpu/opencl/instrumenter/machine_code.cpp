// SPDX-License-Identifier: Apache-2.0
#include "machine_code.h"

#include <llvm/Object/ELFObjectFile.h>

#include "versions.h"

namespace clinst {
namespace {

using namespace llvm::object;

// The contents of the section, or nothing.
llvm::StringRef section_of(const ObjectFile &file, llvm::StringRef name) {
  for (const SectionRef &section : file.sections()) {
    auto its = section.getName();
    if (!its) {
      llvm::consumeError(its.takeError());
      continue;
    }
    if (*its != name) continue;
    auto contents = section.getContents();
    if (contents) return *contents;
    llvm::consumeError(contents.takeError());
  }
  return "";
}

bool is_known(llvm::StringRef function) {
  return function.empty() || starts_with(function, "__ocl_svml_") || function == "memcpy" ||
         function == "memmove" || function == "memset";
}

bool calls_known_only(const ObjectFile &code) {
  for (const SymbolRef &symbol : code.symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    const bool known = flags && name && (!(*flags & SymbolRef::SF_Undefined) || is_known(*name));
    if (!flags) llvm::consumeError(flags.takeError());
    if (!name) llvm::consumeError(name.takeError());
    if (!known) return false;
  }
  return true;
}

using Object = OwningBinary<ObjectFile>;

// With bytes of its own: where a section holds them, they are not aligned. Empty: no object.
Object object_in(llvm::StringRef bytes) {
  auto copy = llvm::MemoryBuffer::getMemBufferCopy(bytes);
  auto file = ObjectFile::createELFObjectFile(copy->getMemBufferRef());
  if (file) return Object(std::move(*file), std::move(copy));
  llvm::consumeError(file.takeError());
  return Object();
}

}  // namespace

bool computes_only(const std::string &binary) {
  const Object whole = object_in(binary);
  if (!whole.getBinary()) return false;
  const Object code = object_in(section_of(*whole.getBinary(), ".ocl.obj"));
  return code.getBinary() && calls_known_only(*code.getBinary());
}

}  // namespace clinst
