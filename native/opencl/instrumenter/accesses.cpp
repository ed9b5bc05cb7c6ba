#include "accesses.h"

#include <llvm/IR/DataLayout.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include "../access_area.h"
#include "mix.h"
#include "signature.h"

namespace clinst {
namespace {

using llvm::Value;

enum Space { kGlobal = 1, kConstant = 2, kGeneric = 4 };  // address spaces of SPIR

unsigned space_of(const Value *pointer) { return pointer->getType()->getPointerAddressSpace(); }

bool is_recorded(const Value *pointer) {
  unsigned space = space_of(pointer);
  return space == kGlobal || space == kConstant || space == kGeneric;
}

// What an image, a sampler or an event is pointed at by.
bool is_handle(const llvm::Type *type) {
  auto *structure = llvm::dyn_cast<llvm::StructType>(type);
  return structure && structure->isOpaque();
}

// ---- what an instruction accesses ---------------------------------------------------------------

class Finder {
 public:
  explicit Finder(llvm::Function &kernel) : layout_(kernel.getParent()->getDataLayout()) {
    for (llvm::BasicBlock &block : kernel) {
      size_t before = result.found.size();
      for (llvm::Instruction &instruction : block) visit(&instruction);
      result.of_block.push_back(result.found.size() - before);
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

  // A structure's assignment. The source is read first.
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
    } else if (name.startswith("async_work_group") || name.startswith("read_image") ||
               name.startswith("write_image") || name.contains("_pipe")) {
      result.beyond++;
    } else if (name != "prefetch" && name != "wait_group_events" && name != "printf" &&
               !name.startswith("__to_") && !name.startswith("to_") && name != "get_fence") {
      pointers(call);
    }
  }

  // `kind`: "4", "_half8_rte", "a_half3": elements that stand `stride` apart, where those of
  // vloada_half3 take the place of four. The pointer follows the index.
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

  // Atomic functions, and those that give a second result through a pointer (fract, sincos, ...).
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

// ---- recording ----------------------------------------------------------------------------------

class Recorder {
 public:
  Recorder(llvm::Function &function, bool non_uniform)
      : function_(function),
        module_(*function.getParent()),
        b_(first_place(function)),
        non_uniform_(non_uniform) {}

  // At the kernel's beginning: where this work-item's records go, and its pointer arguments.
  void open(const std::vector<uint32_t> &pointers) {
    Value *first = b_.CreateSub(first_argument(function_), number(CLINST_PREFACE_WORDS));
    Value *preface = b_.CreateGEP(word(), counters_argument(function_), first);
    Value *at = b_.CreateAdd(first_argument(function_), b_.CreateLoad(word(), preface));
    area_ = b_.CreateGEP(word(), counters_argument(function_), at);
    Value *group = linear("get_group_id", "get_num_groups");
    Value *item = linear("get_local_id", "get_local_size");
    Value *step = load(area_, number(CLINST_ACCESS_STEP));
    Value *slot = b_.CreateUDiv(group, step);
    Value *is_recorded = b_.CreateICmpEQ(b_.CreateMul(slot, step), group);
    index_ = b_.CreateAdd(b_.CreateMul(slot, full_group()), item);
    slot_ = b_.CreateSelect(is_recorded, slot, number(UINT64_MAX));
    // No branch at the beginning: PoCL's work-item loops stay as they are.
    Value *is_first = b_.CreateICmpEQ(b_.CreateOr(group, item), number(0));
    for (size_t i = 0; i < pointers.size(); i++) {
      llvm::Argument *argument = function_.getArg(pointers[i]);
      argument->removeAttr(llvm::Attribute::NoCapture);
      Value *place =
          b_.CreateSelect(is_first, number(CLINST_ACCESS_BASES + i), number(CLINST_ACCESS_NOWHERE));
      b_.CreateStore(b_.CreatePtrToInt(argument, word()), b_.CreateGEP(word(), area_, place));
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

 private:
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

  Value *query(const char *name, int dimension) {
    auto *size = module_.getDataLayout().getIntPtrType(module_.getContext());
    std::string mangled = "_Z" + std::to_string(strlen(name)) + name + "j";
    auto callee = module_.getOrInsertFunction(mangled, size, b_.getInt32Ty());
    return b_.CreateZExt(call(callee, {b_.getInt32(dimension)}), word());
  }
  Value *linear(const char *name, const char *size) {
    Value *yz = b_.CreateAdd(query(name, 1), b_.CreateMul(query(size, 1), query(name, 2)));
    return b_.CreateAdd(query(name, 0), b_.CreateMul(query(size, 0), yz));
  }
  Value *full_group() {
    const char *name = non_uniform_ ? "get_enqueued_local_size" : "get_local_size";
    return b_.CreateMul(b_.CreateMul(query(name, 0), query(name, 1)), query(name, 2));
  }

  // The function that appends one entry; made when first needed, one a module. A function of its
  // own, so that no control flow comes into the kernel.
  llvm::FunctionCallee recorder() {
    auto *pointer = word()->getPointerTo(kGlobal);
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
         *look = block("look"), *take = block("take"), *tag = block("tag"), *have = block("have"),
         *put = block("put"), *count = block("count"), *end = block("end");
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

    b_.SetInsertPoint(fresh);  // a work-item that found no room once asks no more
    b_.CreateCondBr(b_.CreateICmpEQ(chunk, none), have, look);

    b_.SetInsertPoint(look);
    Value *level = load(area, b_.CreateAdd(load(area, number(CLINST_ACCESS_LEVELS_AT)), slot));
    Value *counter = b_.CreateBitCast(
        b_.CreateGEP(word(), area, b_.CreateAdd(number(CLINST_ACCESS_TAKEN), level)),
        b_.getInt32Ty()->getPointerTo(kGlobal));
    Value *all = b_.CreateTrunc(load(area, number(CLINST_ACCESS_CHUNKS)), b_.getInt32Ty());
    Value *taken = b_.CreateLoad(b_.getInt32Ty(), counter, /*isVolatile=*/true);
    // Beyond the end it is raised no further, so that it never wraps.
    b_.CreateCondBr(b_.CreateICmpUGT(taken, all), have, take);

    b_.SetInsertPoint(take);
    auto callee = module_.getOrInsertFunction("_Z10atomic_addPU3AS1Vjj", b_.getInt32Ty(),
                                              counter->getType(), b_.getInt32Ty());
    Value *own = call(callee, {counter, b_.getInt32(1)});
    b_.CreateCondBr(b_.CreateICmpULT(own, all), tag, have);

    b_.SetInsertPoint(tag);
    Value *before = b_.CreateMul(b_.CreateTrunc(level, b_.getInt32Ty()), all);
    Value *taken_chunk = b_.CreateAdd(before, own);
    Value *chunks_at = load(area, number(CLINST_ACCESS_CHUNKS_AT));
    auto start_of = [&](Value *which) {
      Value *offset = b_.CreateMul(b_.CreateZExt(which, word()), number(CLINST_CHUNK_WORDS));
      return b_.CreateAdd(chunks_at, offset);
    };
    Value *ordinal = b_.CreateZExt(b_.CreateUDiv(n, room), word());
    b_.CreateStore(b_.CreateOr(b_.CreateShl(ordinal, number(32)), item),
                   b_.CreateGEP(word(), area, start_of(taken_chunk)));
    b_.CreateBr(have);

    b_.SetInsertPoint(have);
    llvm::PHINode *current = b_.CreatePHI(b_.getInt32Ty(), 5);
    current->addIncoming(chunk, state);
    current->addIncoming(none, fresh);
    current->addIncoming(none, look);
    current->addIncoming(none, take);
    current->addIncoming(taken_chunk, tag);
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

  llvm::Function &function_;
  llvm::Module &module_;
  llvm::IRBuilder<> b_;
  bool non_uniform_;
  Value *area_ = nullptr, *slot_ = nullptr, *index_ = nullptr;
};

// Arguments that lead to buffers.
std::vector<uint32_t> pointer_arguments(llvm::Function &function, uint32_t own) {
  std::vector<uint32_t> result;
  for (uint32_t i = 0; i < own; i++) {
    auto *type = llvm::dyn_cast<llvm::PointerType>(function.getArg(i)->getType());
    if (type && is_recorded(function.getArg(i)) &&
        !is_handle(type->getNonOpaquePointerElementType()))
      result.push_back(i);
  }
  return result;
}

}  // namespace

Accesses find_accesses(llvm::Function &kernel) { return Finder(kernel).result; }

void record_accesses(llvm::Function &function, const Accesses &accesses, bool non_uniform,
                     Kernel *result) {
  result->accesses = accesses.of_block;
  result->unrecorded = accesses.beyond;
  if (accesses.found.empty()) return;
  result->pointers = pointer_arguments(function, result->n_args);
  Recorder recorder(function, non_uniform);
  recorder.open(result->pointers);
  for (const Access &access : accesses.found) recorder.record(access);
}

}  // namespace clinst
