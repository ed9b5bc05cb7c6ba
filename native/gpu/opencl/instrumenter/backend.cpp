// SPDX-License-Identifier: Apache-2.0
#include "backend.h"

#include <LLVMSPIRVLib/LLVMSPIRVLib.h>
#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <set>
#include <sstream>
#include <vector>

#include "protocol/messages.hpp"

namespace clinst {
namespace {

enum : uint32_t {
  kOpExtension = 10,
  kOpCapability = 17,
  kOpFunction = 54,
  kOpDecorate = 71,
  kLinkageAttributes = 41,
  kExport = 0
};
constexpr size_t kHeaderWords = 5;

std::vector<uint32_t> words_of(const std::string &spirv) {
  std::vector<uint32_t> words(spirv.size() / 4);
  std::memcpy(words.data(), spirv.data(), words.size() * 4);
  return words;
}

std::string bytes_of(const std::vector<uint32_t> &words) {
  return std::string(reinterpret_cast<const char *>(words.data()), words.size() * 4);
}

// The translator emits an entry point that calls an inner function, and exports that function under
// the kernel's name. Runtimes that pick the exported one run it outside a kernel, where every
// work-item looks like the first. The export of every function defined in the module is therefore
// dropped.
std::vector<uint32_t> without_exports(const std::vector<uint32_t> &words) {
  std::set<uint32_t> functions;
  auto each = [&](auto visit) {
    for (size_t at = kHeaderWords; at < words.size();) {
      uint32_t length = words[at] >> 16, op = words[at] & 0xffff;
      if (length == 0 || at + length > words.size()) throw Failure("the SPIR-V made is damaged");
      visit(op, at, length);
      at += length;
    }
  };
  each([&](uint32_t op, size_t at, uint32_t) {
    if (op == kOpFunction) functions.insert(words[at + 2]);
  });
  std::vector<uint32_t> kept(words.begin(), words.begin() + kHeaderWords);
  each([&](uint32_t op, size_t at, uint32_t length) {
    bool export_of_function = op == kOpDecorate && length > 4 && functions.count(words[at + 1]) &&
                              words[at + 2] == kLinkageAttributes &&
                              words[at + length - 1] == kExport;
    if (!export_of_function) {
      kept.insert(kept.end(), words.begin() + at, words.begin() + at + length);
    }
  });
  return kept;
}

// The translator uses the extension that permits contraction without naming it, and the runtime
// then ignores the permission.
void name_extension(std::vector<uint32_t> *words) {
  constexpr char name[] = "SPV_INTEL_fp_fast_math_mode";
  std::vector<uint32_t> op(2 + sizeof name / 4);
  op[0] = static_cast<uint32_t>(op.size() << 16 | kOpExtension);
  std::memcpy(&op[1], name, sizeof name);
  size_t at = kHeaderWords;
  while (at < words->size() && ((*words)[at] & 0xffff) == kOpCapability) at += (*words)[at] >> 16;
  words->insert(words->begin() + at, op.begin(), op.end());
}

// SPIR-V requires a block after the one that dominates it.
void order_blocks(llvm::Function &function) {
  llvm::ReversePostOrderTraversal<llvm::Function *> order(&function);
  llvm::BasicBlock *before = nullptr;
  for (llvm::BasicBlock *block : order) {
    if (before) block->moveAfter(before);
    before = block;
  }
}

// SPIR-V before 1.4 selects vectors only by a vector of conditions.
void splat_conditions(llvm::Function &function) {
  for (llvm::Instruction &instruction : llvm::instructions(function)) {
    auto *select = llvm::dyn_cast<llvm::SelectInst>(&instruction);
    if (!select || select->getCondition()->getType()->isVectorTy()) continue;
    auto *type = llvm::dyn_cast<llvm::FixedVectorType>(select->getType());
    if (!type) continue;
    llvm::IRBuilder<> builder(select);
    select->setCondition(builder.CreateVectorSplat(type->getNumElements(), select->getCondition()));
  }
}

// SPIR-V has neither poison nor its cure; only what is undefined has more than one value.
void drop_freezes(llvm::Function &function) {
  for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto *freeze = llvm::dyn_cast<llvm::FreezeInst>(&instruction);
    if (!freeze) continue;
    llvm::Value *value = freeze->getOperand(0);
    if (llvm::isa<llvm::UndefValue>(value)) value = llvm::Constant::getNullValue(value->getType());
    freeze->replaceAllUsesWith(value);
    freeze->eraseFromParent();
  }
}

llvm::Value *as_shifts(llvm::IntrinsicInst *call) {
  llvm::IRBuilder<> builder(call);
  llvm::Value *high = call->getArgOperand(0), *low = call->getArgOperand(1);
  llvm::Type *type = call->getType();
  auto *last = llvm::ConstantInt::get(type, type->getScalarSizeInBits() - 1);
  llvm::Value *by = builder.CreateAnd(call->getArgOperand(2), last);
  llvm::Value *rest = builder.CreateSub(last, by), *one = llvm::ConstantInt::get(type, 1);
  if (call->getIntrinsicID() == llvm::Intrinsic::fshl)
    return builder.CreateOr(builder.CreateShl(high, by),
                            builder.CreateLShr(builder.CreateLShr(low, one), rest));
  return builder.CreateOr(builder.CreateLShr(low, by),
                          builder.CreateShl(builder.CreateShl(high, one), rest));
}

std::string fma_name(llvm::Type *type) {
  llvm::Type *element = type->getScalarType();
  std::string letter = element->isFloatTy() ? "f" : element->isDoubleTy() ? "d" : "Dh";
  if (auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type)) {
    return "_Z3fmaDv" + std::to_string(vector->getNumElements()) + "_" + letter + "S_S_";
  }
  return "_Z3fma" + letter + letter + letter;
}

llvm::Value *as_fma(llvm::IntrinsicInst *call) {
  llvm::Type *type = call->getType();
  auto callee = call->getModule()->getOrInsertFunction(fma_name(type), type, type, type, type);
  auto *fma = llvm::cast<llvm::Function>(callee.getCallee());
  fma->setCallingConv(llvm::CallingConv::SPIR_FUNC);
  fma->setDoesNotThrow();
  fma->setDoesNotAccessMemory();
  llvm::IRBuilder<> builder(call);
  auto *fused = builder.CreateCall(
      callee, {call->getArgOperand(0), call->getArgOperand(1), call->getArgOperand(2)});
  fused->setCallingConv(llvm::CallingConv::SPIR_FUNC);
  fused->copyFastMathFlags(call);
  return fused;
}

llvm::Value *as_contraction(llvm::IntrinsicInst *call) {
  llvm::FastMathFlags flags = call->getFastMathFlags();
  flags.setAllowContract();
  llvm::IRBuilder<> builder(call);
  builder.setFastMathFlags(flags);
  llvm::Value *product = builder.CreateFMul(call->getArgOperand(0), call->getArgOperand(1));
  return builder.CreateFAdd(product, call->getArgOperand(2));
}

void replace_calls(llvm::Function &function, std::initializer_list<llvm::Intrinsic::ID> of,
                   llvm::Value *(*with)(llvm::IntrinsicInst *)) {
  for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    if (!call || std::find(of.begin(), of.end(), call->getIntrinsicID()) == of.end()) continue;
    call->replaceAllUsesWith(with(call));
    call->eraseFromParent();
  }
}

// The translator calls a function named after the intrinsic. Intel's runtime takes it for the
// intrinsic, which its own compiler then does not know.
void lower_funnel_shifts(llvm::Function &function) {
  replace_calls(function, {llvm::Intrinsic::fshl, llvm::Intrinsic::fshr}, as_shifts);
}

// A runtime that compiles the source itself fuses what the front end allows, on processors that
// can. SPIR-V itself cannot express permission: without this the program's results would differ in
// their last bits (and `mad` leaves a runtime free to choose at each place). Where an extension
// can, it is used, because compilers optimise loops around a call of `fma` less.
void fuse_multiply_add(llvm::Function &function, bool contracts) {
  replace_calls(function, {llvm::Intrinsic::fmuladd}, contracts ? as_contraction : as_fma);
}

}  // namespace

std::string to_bitcode(llvm::Module &module) {
  std::string bytes;
  llvm::raw_string_ostream stream(bytes);
  llvm::WriteBitcodeToFile(module, stream);
  return std::move(stream.str());
}

std::string to_spirv(llvm::Module &module, bool contracts) {
  SPIRV::TranslatorOpts options(SPIRV::VersionNumber::SPIRV_1_2,
                                {{SPIRV::ExtensionID::SPV_INTEL_fp_fast_math_mode, contracts}});
  for (llvm::Function &function : module) {
    if (function.isDeclaration()) continue;
    order_blocks(function);
    splat_conditions(function);
    drop_freezes(function);
    lower_funnel_shifts(function);
    fuse_multiply_add(function, contracts);
  }
  std::ostringstream stream;
  std::string error;
  if (!llvm::writeSpirv(&module, options, stream, error)) {
    throw Failure("the kernels cannot be written as SPIR-V: " + error);
  }
  std::vector<uint32_t> words = without_exports(words_of(stream.str()));
  if (contracts) name_extension(&words);
  return bytes_of(words);
}

}  // namespace clinst
