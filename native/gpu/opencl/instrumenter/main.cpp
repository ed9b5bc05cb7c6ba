// SPDX-License-Identifier: Apache-2.0
// xpuprof-clinst: OpenCL programs in, programs with block counters out.
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>
#include <unistd.h>

#include <fstream>

#include "answer.h"
#include "crash.h"
#include "protocol/messages.hpp"
#include "server.h"
#include "versions.h"

namespace cl = llvm::cl;

namespace {

cl::OptionCategory category("xpuprof-clinst");
cl::opt<std::string> serve("serve", cl::desc("answer requests on a UNIX socket"),
                           cl::value_desc("socket"), cl::cat(category));
cl::opt<std::string> ahead("ahead", cl::desc("with --serve: requests to answer before they come"),
                           cl::value_desc("folder"), cl::cat(category));
cl::list<std::string> inputs("compile",
                             cl::desc("instrument a program: OpenCL C, SPIR-V or "
                                      "bitcode; given again: linked"),
                             cl::value_desc("file"), cl::cat(category));
cl::opt<std::string> options("options", cl::desc("OpenCL build options"), cl::cat(category));
cl::list<std::string> device("device", cl::desc("a feature of the device (clinst_protocol.h)"),
                             cl::value_desc("key=value"), cl::cat(category));
cl::opt<std::string> to("to", cl::desc("bitcode (default) or spirv"), cl::init("bitcode"),
                        cl::cat(category));
cl::opt<std::string> output("o", cl::desc("where the instrumented program goes"),
                            cl::value_desc("file"), cl::cat(category));
cl::opt<bool> describe("describe", cl::desc("print blocks, probes and derivation as JSON"),
                       cl::cat(category));
cl::opt<bool> no_cache("no-cache", cl::desc("compile even if the result is known"),
                       cl::cat(category));

cl::opt<bool> memory("memory", cl::desc("record accesses to global memory, too"),
                     cl::cat(category));

int fail(const std::string &message) {
  llvm::errs() << "xpuprof-clinst: " << message << "\n";
  return 2;
}

uint32_t form_of(llvm::StringRef bytes) {
  if (clinst::starts_with(bytes, "\x03\x02\x23\x07")) return CLINST_SPIRV;
  return clinst::starts_with(bytes, "BC\xC0\xDE") ? CLINST_BITCODE : CLINST_SOURCE;
}

llvm::json::Value as_json(const clinst::Kernel &kernel) {
  llvm::json::Array blocks;
  for (size_t b = 0; b < kernel.blocks.size(); b++) {
    llvm::json::Array terms;
    for (const clinst::Term &term : kernel.derivation[b]) {
      terms.push_back(llvm::json::Array{term.probe, term.factor});
    }
    blocks.push_back(llvm::json::Object{{"instructions", kernel.blocks[b].instructions},
                                        {"mix", llvm::json::Array(kernel.blocks[b].mix)},
                                        {"terms", std::move(terms)}});
  }
  return llvm::json::Object{{"name", kernel.name},
                            {"n_args", kernel.n_args},
                            {"n_probes", kernel.n_probes},
                            {"scratch_probes", kernel.scratch_probes},
                            {"analytic", !kernel.nodes.empty()},
                            {"blocks", std::move(blocks)}};
}

int compile_files() {
  clinst::Request request;
  if (to != "bitcode" && to != "spirv") return fail("--to is bitcode or spirv, not '" + to + "'");
  request.output = to == "spirv" ? CLINST_TO_SPIRV : CLINST_TO_BITCODE;
  request.flags = (no_cache ? CLINST_NO_CACHE : 0) | (memory ? CLINST_MEMORY : 0);
  for (llvm::StringRef feature : device) {
    auto [key, value] = feature.split('=');
    request.device[key.str()] = value.str();
  }
  for (const std::string &path : inputs) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer) return fail("cannot read " + path + ": " + buffer.getError().message());
    clinst::Part part;
    part.payload = (*buffer)->getBuffer().str();
    part.input = form_of(part.payload);
    part.options = options;
    request.parts.push_back(std::move(part));
  }
  clinst::Cache cache;
  clinst::Response response =
      clinst::decode<clinst::Response>(clinst::answer(clinst::encode(request), cache));
  if (!response.reason.empty()) return fail(response.reason);
  if (!output.empty()) {
    std::ofstream file(output, std::ios::binary);
    file << response.module;
    file.close();
    if (!file) return fail("cannot write " + output);
  }
  if (describe) {
    llvm::json::Array kernels;
    for (const clinst::Kernel &kernel : response.kernels) kernels.push_back(as_json(kernel));
    llvm::outs() << llvm::formatv("{0:2}", llvm::json::Value(std::move(kernels))) << "\n";
  }
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv, "Puts exact block counters into OpenCL programs.\n");
  try {
    if (!serve.empty()) return clinst::serve(serve, ahead);
    if (!inputs.empty()) {
      clinst::on_crash(STDERR_FILENO, std::string("xpuprof-clinst: ") + clinst::kCrashed + "\n", 2);
      int code = compile_files();
      clinst::no_crash();
      return code;
    }
  } catch (const clinst::Failure &failure) {
    clinst::no_crash();
    return fail(failure.what());
  }
  return fail("say --serve SOCKET or --compile FILE (see --help)");
}
