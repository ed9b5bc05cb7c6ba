// SPDX-License-Identifier: Apache-2.0
#include "accesses.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include <map>

#include "built_ins.h"
#include "mix.h"
#include "pointees.h"
#include "protocol/access_area.h"
#include "signature.h"
#include "versions.h"

namespace clinst {
namespace {

using llvm::Value;

class Recorder {
 public:
  Recorder(llvm::Function &function, bool non_uniform)
      : function_(function),
        module_(*function.getParent()),
        b_(first_place(function)),
        non_uniform_(non_uniform) {}

  // At the kernel's entry: the place of this work-item's records, and its pointer arguments.
  void open(const std::vector<uint32_t> &pointers) {
    Value *first = b_.CreateSub(first_argument(function_), number(CLINST_PREFACE_WORDS));
    Value *preface = b_.CreateGEP(word(), counters_argument(function_), first);
    Value *at = b_.CreateAdd(first_argument(function_), b_.CreateLoad(word(), preface));
    area_ = b_.CreateGEP(word(), counters_argument(function_), at);
    Value *group = linear(b_, "get_group_id", "get_num_groups");
    Value *item = linear(b_, "get_local_id", "get_local_size");
    Value *step = load(area_, number(CLINST_ACCESS_STEP));
    Value *slot = b_.CreateUDiv(group, step);
    Value *is_recorded = b_.CreateICmpEQ(b_.CreateMul(slot, step), group);
    index_ = b_.CreateAdd(b_.CreateMul(slot, full_group()), item);
    slot_ = b_.CreateSelect(is_recorded, slot, number(UINT64_MAX));
    // No branch at the entry, so PoCL's work-item loops stay unchanged.
    Value *is_first = b_.CreateICmpEQ(b_.CreateOr(group, item), number(0));
    for (size_t i = 0; i < pointers.size(); i++) {
      llvm::Argument *argument = function_.getArg(pointers[i]);
      place_[argument] = i;
      Value *value = number(0);
      if (!is_image(*argument)) {
        remove_no_capture(*argument);
        value = b_.CreatePtrToInt(argument, word());
      }
      Value *place =
          b_.CreateSelect(is_first, number(CLINST_ACCESS_BASES + i), number(CLINST_ACCESS_NOWHERE));
      b_.CreateStore(value, b_.CreateGEP(word(), area_, place));
    }
  }

  void record(const Access &access) {
    b_.SetInsertPoint(access.at);
    Value *pointer = access.at->getOperand(access.pointer);
    Value *address = b_.CreatePtrToInt(pointer, word());
    if (access.stride) {
      Value *index = b_.CreateZExt(access.at->getOperand(access.index), word());
      address = b_.CreateAdd(address, b_.CreateMul(index, number(access.stride)));
    }
    uint64_t low = access.width;
    if (space_of(pointer) == kGeneric) low |= CLINST_ENTRY_GENERIC;
    Value *entry = b_.CreateOr(b_.CreateShl(address, number(CLINST_ENTRY_BITS)), number(low));
    call(recorder(), {area_, slot_, index_, entry});
  }

  void record(const ImageAccess &access) {
    b_.SetInsertPoint(access.at);
    Value *image = access.at->getArgOperand(0);
    Value *address =
        number(place_.at(llvm::cast<llvm::Argument>(image)) << uint64_t{CLINST_IMAGE_BITS});
    unsigned shift = 0;
    for (unsigned d = 0; d < access.dimensions; d++) {
      unsigned bits = clinst_coordinate_bits[access.dimensions - 1][d];
      Value *texel = coordinate(access, d, (uint64_t{1} << bits) - 1);
      address = b_.CreateOr(address, b_.CreateShl(texel, number(shift)));
      shift += bits;
    }
    Value *entry =
        b_.CreateOr(b_.CreateShl(address, number(CLINST_ENTRY_BITS)), number(CLINST_ENTRY_IMAGE));
    call(recorder(), {area_, slot_, index_, entry});
  }

  void record(const GroupCopy &copy) {
    b_.SetInsertPoint(copy.at);
    auto wide = [&](unsigned operand) {
      return b_.CreateZExtOrTrunc(copy.at->getArgOperand(operand), word());
    };
    Value *stride = number(copy.element);
    if (copy.strided) stride = b_.CreateMul(stride, wide(3));
    Value *items = product(b_, "get_local_size");
    Value *address = b_.CreatePtrToInt(copy.at->getArgOperand(copy.pointer), word());
    call(copy_recorder(), {area_, slot_, index_, address, number(copy.element), stride, wide(2),
                           linear(b_, "get_local_id", "get_local_size"), items});
  }

 private:
  // Coordinate `d` of a texel, from 0 to `most`. The sampler's addressing mode is ignored: outside
  // the image the host takes the texel at the edge.
  Value *coordinate(const ImageAccess &access, unsigned d, uint64_t most) {
    Value *given = access.at->getArgOperand(access.coordinates);
    if (given->getType()->isVectorTy()) given = b_.CreateExtractElement(given, b_.getInt32(d));
    if (given->getType()->isIntegerTy()) {
      given = b_.CreateSExt(given, word());
    } else {
      auto *type = given->getType();
      if (access.normalized) {
        static const char *const extents[] = {"get_image_width", "get_image_height",
                                              "get_image_depth"};
        given = b_.CreateFMul(given, b_.CreateSIToFP(extent(access, extents[d]), type));
      }
      // Not a number: zero.
      auto *zero = llvm::ConstantFP::get(type, 0), *last = llvm::ConstantFP::get(type, 1 << 30);
      given = b_.CreateSelect(b_.CreateFCmpOGT(given, zero), given, zero);
      given = b_.CreateSelect(b_.CreateFCmpOLT(given, last), given, last);
      given = b_.CreateFPToSI(given, word());
    }
    given = b_.CreateSelect(b_.CreateICmpSGT(given, number(0)), given, number(0));
    return b_.CreateSelect(b_.CreateICmpULT(given, number(most)), given, number(most));
  }

  // The image's type from the called function's name: "14ocl_image2d_ro".
  Value *extent(const ImageAccess &access, const char *query) {
    llvm::StringRef name = access.at->getCalledFunction()->getName();
    size_t begin = name.find("ocl_image");
    while (begin && llvm::isDigit(name[begin - 1])) begin--;
    size_t length = 0;
    llvm::StringRef rest = name.drop_front(begin);
    rest.consumeInteger(10, length);
    std::string mangled = "_Z" + std::to_string(strlen(query)) + query + std::to_string(length) +
                          rest.take_front(length).str();
    Value *image = access.at->getArgOperand(0);
    return call(module_.getOrInsertFunction(mangled, b_.getInt32Ty(), image->getType()), {image});
  }

  static llvm::Instruction *first_place(llvm::Function &function) {
    llvm::Instruction *at = &*function.getEntryBlock().getFirstInsertionPt();
    while (llvm::isa<llvm::AllocaInst>(at)) at = at->getNextNode();
    return at;
  }

  llvm::IntegerType *word() { return b_.getInt64Ty(); }
  Value *number(uint64_t n) { return b_.getInt64(n); }
  Value *load(Value *area, Value *index) {
    return b_.CreateLoad(word(), b_.CreateGEP(word(), area, index));
  }

  Value *call(llvm::FunctionCallee callee, llvm::ArrayRef<Value *> arguments) {
    llvm::cast<llvm::Function>(callee.getCallee())->setCallingConv(llvm::CallingConv::SPIR_FUNC);
    auto *made = b_.CreateCall(callee, arguments);
    made->setCallingConv(llvm::CallingConv::SPIR_FUNC);
    return made;
  }

  Value *full_group() {
    return product(b_, non_uniform_ ? "get_enqueued_local_size" : "get_local_size");
  }

  // The function that appends one entry, one per module, created on first use. A separate function
  // adds no control flow to the kernel.
  llvm::FunctionCallee recorder() {
    auto *pointer = pointer_to(word(), kGlobal);
    auto *type = llvm::FunctionType::get(b_.getVoidTy(), {pointer, word(), word(), word()}, false);
    const char *name = "xpuprof_record_access";
    if (llvm::Function *made = module_.getFunction(name)) return made;
    auto *made = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, name, module_);
    made->setCallingConv(llvm::CallingConv::SPIR_FUNC);
    made->setDoesNotThrow();
    llvm::IRBuilder<>::InsertPointGuard guard(b_);
    define(made);
    return made;
  }

  void define(llvm::Function *made) {
    auto block = [&](const char *name) {
      return llvm::BasicBlock::Create(module_.getContext(), name, made);
    };
    auto *entry = block("entry"), *state = block("state"), *fresh = block("fresh"),
         *own_one = block("own"), *shared = block("shared"), *look = block("look"),
         *take = block("take"), *tag = block("tag"), *have = block("have"), *put = block("put"),
         *count = block("count"), *end = block("end");
    Value *area = made->getArg(0), *slot = made->getArg(1), *item = made->getArg(2);
    auto *none = b_.getInt32(CLINST_NO_CHUNK);

    b_.SetInsertPoint(entry);
    b_.CreateCondBr(b_.CreateICmpEQ(slot, number(UINT64_MAX)), end, state);

    b_.SetInsertPoint(state);
    Value *state_at =
        b_.CreateGEP(word(), area, b_.CreateAdd(load(area, number(CLINST_ACCESS_STATES_AT)), item));
    Value *packed = b_.CreateLoad(word(), state_at);
    Value *n = b_.CreateTrunc(packed, b_.getInt32Ty());
    Value *chunk = b_.CreateTrunc(b_.CreateLShr(packed, number(32)), b_.getInt32Ty());
    auto *room = b_.getInt32(CLINST_CHUNK_ENTRIES);
    Value *place = b_.CreateURem(n, room);
    b_.CreateCondBr(b_.CreateICmpEQ(place, b_.getInt32(0)), fresh, have);

    b_.SetInsertPoint(fresh);
    Value *ordinal = b_.CreateZExt(b_.CreateUDiv(n, room), word());
    Value *is_own =
        b_.CreateAnd(b_.CreateICmpEQ(slot, number(0)),
                     b_.CreateICmpULT(ordinal, load(area, number(CLINST_ACCESS_RESERVED))));
    b_.CreateCondBr(is_own, own_one, shared);

    b_.SetInsertPoint(own_one);
    Value *before_it = b_.CreateMul(ordinal, load(area, number(CLINST_ACCESS_RESERVED_ITEMS)));
    Value *own_chunk = b_.CreateTrunc(
        b_.CreateAdd(b_.CreateAdd(load(area, number(CLINST_ACCESS_RESERVED_AT)), before_it), item),
        b_.getInt32Ty());
    b_.CreateBr(tag);

    b_.SetInsertPoint(shared);  // a work-item that found no room stops asking
    b_.CreateCondBr(b_.CreateICmpEQ(chunk, none), have, look);

    b_.SetInsertPoint(look);
    Value *level = load(area, b_.CreateAdd(load(area, number(CLINST_ACCESS_LEVELS_AT)), slot));
    Value *counter = b_.CreateBitCast(
        b_.CreateGEP(word(), area, b_.CreateAdd(number(CLINST_ACCESS_TAKEN), level)),
        pointer_to(b_.getInt32Ty(), kGlobal));
    Value *all = b_.CreateTrunc(load(area, number(CLINST_ACCESS_CHUNKS)), b_.getInt32Ty());
    Value *taken = b_.CreateLoad(b_.getInt32Ty(), counter, /*isVolatile=*/true);
    // At the end it stops increasing, so that it never wraps.
    b_.CreateCondBr(b_.CreateICmpUGT(taken, all), have, take);

    b_.SetInsertPoint(take);
    Value *own = call(atomic_add(), {counter, b_.getInt32(1)});
    Value *before = b_.CreateMul(b_.CreateTrunc(level, b_.getInt32Ty()), all);
    Value *taken_chunk = b_.CreateAdd(before, own);
    b_.CreateCondBr(b_.CreateICmpULT(own, all), tag, have);

    b_.SetInsertPoint(tag);
    llvm::PHINode *tagged = b_.CreatePHI(b_.getInt32Ty(), 2);
    tagged->addIncoming(own_chunk, own_one);
    tagged->addIncoming(taken_chunk, take);
    Value *chunks_at = load(area, number(CLINST_ACCESS_CHUNKS_AT));
    auto start_of = [&](Value *which) {
      Value *offset = b_.CreateMul(b_.CreateZExt(which, word()), number(CLINST_CHUNK_WORDS));
      return b_.CreateAdd(chunks_at, offset);
    };
    b_.CreateStore(b_.CreateOr(b_.CreateShl(ordinal, number(32)), item),
                   b_.CreateGEP(word(), area, start_of(tagged)));
    b_.CreateBr(have);

    b_.SetInsertPoint(have);
    llvm::PHINode *current = b_.CreatePHI(b_.getInt32Ty(), 5);
    current->addIncoming(chunk, state);
    current->addIncoming(none, shared);
    current->addIncoming(none, look);
    current->addIncoming(none, take);
    current->addIncoming(tagged, tag);
    b_.CreateCondBr(b_.CreateICmpEQ(current, none), count, put);

    b_.SetInsertPoint(put);
    chunks_at = load(area, number(CLINST_ACCESS_CHUNKS_AT));
    Value *at =
        b_.CreateAdd(b_.CreateAdd(start_of(current), number(1)), b_.CreateZExt(place, word()));
    b_.CreateStore(made->getArg(3), b_.CreateGEP(word(), area, at));
    b_.CreateBr(count);

    b_.SetInsertPoint(count);
    Value *more = b_.CreateZExt(b_.CreateAdd(n, b_.getInt32(1)), word());
    Value *high = b_.CreateShl(b_.CreateZExt(current, word()), number(32));
    b_.CreateStore(b_.CreateOr(high, more), state_at);
    b_.CreateBr(end);

    b_.SetInsertPoint(end);
    b_.CreateRetVoid();
  }

  // Each work-item copies every `items`-th element in turn.
  llvm::FunctionCallee copy_recorder() {
    auto *pointer = pointer_to(word(), kGlobal);
    std::vector<llvm::Type *> types(9, word());
    types[0] = pointer;
    auto *type = llvm::FunctionType::get(b_.getVoidTy(), types, false);
    const char *name = "xpuprof_record_copy";
    if (llvm::Function *made = module_.getFunction(name)) return made;
    llvm::FunctionCallee one = recorder();
    auto *made = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, name, module_);
    made->setCallingConv(llvm::CallingConv::SPIR_FUNC);
    made->setDoesNotThrow();
    llvm::IRBuilder<>::InsertPointGuard guard(b_);
    define_copy(made, one);
    return made;
  }

  void define_copy(llvm::Function *made, llvm::FunctionCallee one) {
    auto block = [&](const char *name) {
      return llvm::BasicBlock::Create(module_.getContext(), name, made);
    };
    auto *entry = block("entry"), *total = block("total"), *head = block("head"),
         *body = block("body"), *end = block("end");
    Value *area = made->getArg(0), *slot = made->getArg(1), *index = made->getArg(2);
    Value *address = made->getArg(3), *width = made->getArg(4), *stride = made->getArg(5);
    Value *n = made->getArg(6), *item = made->getArg(7), *items = made->getArg(8);

    b_.SetInsertPoint(entry);
    b_.CreateCondBr(b_.CreateICmpEQ(item, number(0)), total, head);

    b_.SetInsertPoint(total);  // 64-bit atomic operations are not available everywhere
    auto *half = b_.getInt32Ty();
    Value *low = b_.CreateTrunc(n, half),
          *high = b_.CreateTrunc(b_.CreateLShr(n, number(32)), half);
    Value *before = add(area, CLINST_ACCESS_COPIED, low);
    Value *carry = b_.CreateZExt(b_.CreateICmpULT(b_.CreateAdd(before, low), before), half);
    add(area, CLINST_ACCESS_COPIED_HIGH, b_.CreateAdd(high, carry));
    b_.CreateBr(head);

    b_.SetInsertPoint(head);
    llvm::PHINode *at = b_.CreatePHI(word(), 3);
    at->addIncoming(item, entry);
    at->addIncoming(item, total);
    b_.CreateCondBr(b_.CreateICmpULT(at, n), body, end);

    b_.SetInsertPoint(body);
    Value *from = b_.CreateAdd(address, b_.CreateMul(at, stride));
    call(one,
         {area, slot, index, b_.CreateOr(b_.CreateShl(from, number(CLINST_ENTRY_BITS)), width)});
    at->addIncoming(b_.CreateAdd(at, items), body);
    b_.CreateBr(head);

    b_.SetInsertPoint(end);
    b_.CreateRetVoid();
  }

  Value *add(Value *area, unsigned at, Value *value) {
    Value *counter = b_.CreateBitCast(b_.CreateGEP(word(), area, number(at)),
                                      pointer_to(b_.getInt32Ty(), kGlobal));
    return call(atomic_add(), {counter, value});
  }
  llvm::FunctionCallee atomic_add() {
    auto *type = b_.getInt32Ty();
    return module_.getOrInsertFunction("_Z10atomic_addPU3AS1Vjj", type, pointer_to(type, kGlobal),
                                       type);
  }

  llvm::Function &function_;
  llvm::Module &module_;
  llvm::IRBuilder<> b_;
  bool non_uniform_;
  std::map<const llvm::Argument *, uint64_t> place_;  // among the arguments that refer to memory
  Value *area_ = nullptr, *slot_ = nullptr, *index_ = nullptr;
};

// Arguments that refer to buffers and images.
std::vector<uint32_t> pointer_arguments(llvm::Function &function, uint32_t own) {
  std::vector<uint32_t> result;
  for (uint32_t i = 0; i < own; i++) {
    llvm::Argument *argument = function.getArg(i);
    if (is_image(*argument) || (is_buffer(*argument) && is_recorded(argument))) result.push_back(i);
  }
  return result;
}

}  // namespace

void record_accesses(llvm::Function &function, const Accesses &accesses, bool non_uniform,
                     Kernel *result) {
  result->accesses = accesses.of_block;
  result->unrecorded = accesses.beyond;
  if (accesses.found.empty() && accesses.images.empty() && accesses.copies.empty()) return;
  result->pointers = pointer_arguments(function, result->n_args);
  Recorder recorder(function, non_uniform);
  recorder.open(result->pointers);
  for (const Access &access : accesses.found) recorder.record(access);
  for (const ImageAccess &access : accesses.images) recorder.record(access);
  for (const GroupCopy &copy : accesses.copies) recorder.record(copy);
}

}  // namespace clinst
