// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include "accesses.h"
#include "mix.h"
#include "pointees.h"
#include "protocol/access_area.h"
#include "versions.h"

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
  uint64_t bytes(llvm::Type *type) { return layout_.getTypeStoreSize(type).getFixedValue(); }

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
    if (starts_with(name, "vload")) {
      vector(call, name.drop_front(5), 0);
    } else if (starts_with(name, "vstore")) {
      vector(call, name.drop_front(6), 1);
    } else if (name == "async_work_group_copy" || name == "async_work_group_strided_copy") {
      group_copy(call, name.contains("strided"));
    } else if (starts_with(name, "read_image") || starts_with(name, "write_image")) {
      image(call, starts_with(name, "read"));
    } else if (starts_with(name, "async_work_group") || name.contains("_pipe")) {
      result.beyond++;
    } else if (name != "prefetch" && name != "wait_group_events" && name != "printf" &&
               !starts_with(name, "__to_") && !starts_with(name, "to_") && name != "get_fence") {
      pointers(call);
    }
  }

  // `kind`: "4", "_half8_rte", "a_half3": elements `stride` apart; those of vloada_half3 occupy
  // four. The pointer follows the index.
  void vector(llvm::CallInst *call, llvm::StringRef kind, unsigned index) {
    Value *pointer = call->getArgOperand(index + 1);
    if (!is_recorded(pointer)) return;
    bool aligned = kind.consume_front("a");
    bool half = kind.consume_front("_half");
    unsigned n = 1;
    if (!kind.consumeInteger(10, n) && n == 0) n = 1;
    llvm::Type *number = index ? call->getArgOperand(0)->getType() : call->getType();
    unsigned element = half ? 2 : bytes(number->getScalarType());
    unsigned places = aligned && n == 3 ? 4 : n;
    result.found.push_back({call, index + 1, n * element, places * element, index});
  }

  void group_copy(llvm::CallInst *call, bool strided) {
    unsigned pointer = is_recorded(call->getArgOperand(0)) ? 0 : 1;
    Pointee from = pointee_of(call->getCalledFunction()->getName(), pointer);
    unsigned places = from.elements == 3 ? 4 : from.elements;
    result.copies.push_back({call, pointer, from.bytes * places, strided});
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
        !starts_with(made->getCalledFunction()->getName(), "__translate_sampler"))
      return false;
    auto *kind = llvm::dyn_cast<llvm::ConstantInt>(made->getArgOperand(0));
    access->normalized = kind && kind->getZExtValue() & 1;
    return kind != nullptr;
  }

  // Atomic functions, and those that return a second result through a pointer (fract, sincos, ...).
  void pointers(llvm::CallInst *call) {
    for (unsigned i = 0; i < call->arg_size(); i++) {
      if (!call->getArgOperand(i)->getType()->isPointerTy()) continue;
      Pointee to = pointee_of(call->getCalledFunction()->getName(), i);
      add(call, i, to.bytes * to.elements);
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

Accesses find_accesses(llvm::Function &kernel) { return Finder(kernel).result; }

}  // namespace clinst
