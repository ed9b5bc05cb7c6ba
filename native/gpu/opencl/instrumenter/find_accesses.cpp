// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include "accesses.h"
#include "mix.h"
#include "protocol/access_area.h"

namespace clinst {
namespace {

using llvm::Value;

class Finder {
 public:
  explicit Finder(llvm::Function &kernel) : layout_(kernel.getParent()->getDataLayout()) {
    for (llvm::BasicBlock &block : kernel) {
      size_t before = result.found.size() + result.images.size();
      for (llvm::Instruction &instruction : block) visit(&instruction);
      result.of_block.push_back(result.found.size() + result.images.size() - before);
    }
  }
  Accesses result;

 private:
  uint64_t bytes(llvm::Type *type) { return layout_.getTypeStoreSize(type).getFixedSize(); }

  void add(llvm::Instruction *at, unsigned pointer, uint64_t width) {
    if (!is_recorded(at->getOperand(pointer))) return;
    if (width > CLINST_ENTRY_WIDEST)
      result.beyond++;
    else if (width)
      result.found.push_back({at, pointer, static_cast<unsigned>(width)});
  }

  void visit(llvm::Instruction *instruction) {
    using llvm::dyn_cast;
    if (auto *load = dyn_cast<llvm::LoadInst>(instruction)) {
      add(load, llvm::LoadInst::getPointerOperandIndex(), bytes(load->getType()));
    } else if (auto *store = dyn_cast<llvm::StoreInst>(instruction)) {
      add(store, llvm::StoreInst::getPointerOperandIndex(),
          bytes(store->getValueOperand()->getType()));
    } else if (auto *change = dyn_cast<llvm::AtomicRMWInst>(instruction)) {
      add(change, llvm::AtomicRMWInst::getPointerOperandIndex(), bytes(change->getType()));
    } else if (auto *swap = dyn_cast<llvm::AtomicCmpXchgInst>(instruction)) {
      add(swap, llvm::AtomicCmpXchgInst::getPointerOperandIndex(),
          bytes(swap->getNewValOperand()->getType()));
    } else if (auto *memory = dyn_cast<llvm::MemIntrinsic>(instruction)) {
      copy(memory);
    } else if (auto *call = dyn_cast<llvm::CallInst>(instruction)) {
      built_in(call);
    }
  }

  // A structure assignment: the source is read first.
  void copy(llvm::MemIntrinsic *memory) {
    auto *length = llvm::dyn_cast<llvm::ConstantInt>(memory->getLength());
    uint64_t width = length ? length->getZExtValue() : uint64_t{CLINST_ENTRY_WIDEST} + 1;
    if (llvm::isa<llvm::MemTransferInst>(memory)) add(memory, 1, width);
    add(memory, 0, width);
  }

  void built_in(llvm::CallInst *call) {
    llvm::Function *callee = call->getCalledFunction();
    if (!callee || callee->isIntrinsic()) return;
    llvm::StringRef name = builtin_name(callee->getName());
    if (name.startswith("vload")) {
      vector(call, name.drop_front(5), 0);
    } else if (name.startswith("vstore")) {
      vector(call, name.drop_front(6), 1);
    } else if (name == "async_work_group_copy" || name == "async_work_group_strided_copy") {
      group_copy(call, name.contains("strided"));
    } else if (name.startswith("read_image") || name.startswith("write_image")) {
      image(call, name.startswith("read"));
    } else if (name.startswith("async_work_group") || name.contains("_pipe")) {
      result.beyond++;
    } else if (name != "prefetch" && name != "wait_group_events" && name != "printf" &&
               !name.startswith("__to_") && !name.startswith("to_") && name != "get_fence") {
      pointers(call);
    }
  }

  // `kind`: "4", "_half8_rte", "a_half3": elements `stride` apart; those of vloada_half3 occupy
  // four. The pointer follows the index.
  void vector(llvm::CallInst *call, llvm::StringRef kind, unsigned index) {
    Value *pointer = call->getArgOperand(index + 1);
    if (!is_recorded(pointer)) return;
    bool aligned = kind.consume_front("a");
    kind.consume_front("_half");
    unsigned n = 1;
    if (!kind.consumeInteger(10, n) && n == 0) n = 1;
    unsigned element = bytes(pointer->getType()->getNonOpaquePointerElementType());
    unsigned places = aligned && n == 3 ? 4 : n;
    result.found.push_back({call, index + 1, n * element, places * element, index});
  }

  void group_copy(llvm::CallInst *call, bool strided) {
    unsigned pointer = is_recorded(call->getArgOperand(0)) ? 0 : 1;
    auto *type = call->getArgOperand(pointer)->getType()->getNonOpaquePointerElementType();
    unsigned element =
        layout_.getTypeAllocSize(type).getFixedSize();  // three take the room of four
    result.copies.push_back({call, pointer, element, strided});
  }

  // Unsupported: levels of detail, samples, and floating-point coordinates with a sampler argument,
  // which may or may not be normalised.
  void image(llvm::CallInst *call, bool reads) {
    bool sampler = reads && call->arg_size() > 2;
    unsigned coordinates = sampler ? 2 : 1;
    ImageAccess access{call, coordinates, 0, false};
    if (call->arg_size() == (reads ? coordinates + 1 : 3) && explain(call, sampler, &access))
      result.images.push_back(access);
    else
      result.beyond++;
  }

  static bool explain(llvm::CallInst *call, bool sampler, ImageAccess *access) {
    llvm::StringRef name = call->getCalledFunction()->getName();
    auto *argument = llvm::dyn_cast<llvm::Argument>(call->getArgOperand(0));
    if (!argument || argument->getArgNo() >= CLINST_MOST_IMAGES || name.contains("msaa"))
      return false;
    access->dimensions = name.contains("image3d") || name.contains("image2d_array")   ? 3
                         : name.contains("image2d") || name.contains("image1d_array") ? 2
                                                                                      : 1;
    if (!call->getArgOperand(access->coordinates)->getType()->isFPOrFPVectorTy()) return true;
    if (!sampler) return false;
    auto *made = llvm::dyn_cast<llvm::CallInst>(call->getArgOperand(1));
    if (!made || name.contains("array") || !made->getCalledFunction() ||
        !made->getCalledFunction()->getName().startswith("__translate_sampler"))
      return false;
    auto *kind = llvm::dyn_cast<llvm::ConstantInt>(made->getArgOperand(0));
    access->normalized = kind && kind->getZExtValue() & 1;
    return kind != nullptr;
  }

  // Atomic functions, and those that return a second result through a pointer (fract, sincos, ...).
  void pointers(llvm::CallInst *call) {
    for (unsigned i = 0; i < call->arg_size(); i++) {
      auto *type = llvm::dyn_cast<llvm::PointerType>(call->getArgOperand(i)->getType());
      if (!type) continue;
      llvm::Type *element = type->getNonOpaquePointerElementType();
      if (element->isSized() && !is_handle(element)) add(call, i, bytes(element));
    }
  }

  const llvm::DataLayout &layout_;
};

}  // namespace

unsigned space_of(const llvm::Value *pointer) {
  return pointer->getType()->getPointerAddressSpace();
}

bool is_recorded(const llvm::Value *pointer) {
  unsigned space = space_of(pointer);
  return space == kGlobal || space == kConstant || space == kGeneric;
}

bool is_handle(const llvm::Type *type) {
  auto *structure = llvm::dyn_cast<llvm::StructType>(type);
  return structure && structure->isOpaque();
}

Accesses find_accesses(llvm::Function &kernel) { return Finder(kernel).result; }

}  // namespace clinst
