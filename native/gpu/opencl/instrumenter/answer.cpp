// SPDX-License-Identifier: Apache-2.0
#include "answer.h"

#include <sstream>

#include "build_natively.h"
#include "compile.h"
#include "frontend.h"
#include "pointees.h"
#include "versions.h"

namespace clinst {
namespace {

// The request with its image and sampler arguments named: a runtime looks into them before it
// compiles, and the application's kernel tells their types only if built to tell.
Request with_images(Request request) {
  llvm::LLVMContext context;
  const Program program = load_program(context, request);
  const llvm::Function *kernel = program.module->getFunction(request.device["kernel"]);
  if (!kernel) return request;
  std::istringstream words(request.device["arguments"]);
  std::string named, word;
  for (unsigned i = 0; words >> word; i++) {
    const llvm::StringRef type = i < kernel->arg_size() ? declared_type(*kernel->getArg(i)) : "";
    const bool opaque = starts_with(type, "image") || type == "sampler_t";
    named += (opaque ? type.str() : word) + " ";
  }
  request.device["arguments"] = named;
  return request;
}

std::vector<std::string> build(const Request &request) {
  try {
    return build_natively(encode(with_images(request)));
  } catch (const Failure &) {
    return {};
  }
}

}  // namespace

std::string answer(const std::string &bytes, Cache &cache) {
  Request request = decode<Request>(bytes);
  bool cached = !(request.flags & CLINST_NO_CACHE);
  if (cached) {
    if (auto found = cache.find(bytes)) return *found;
  }
  if (request.flags & CLINST_BUILD) {
    // Tried once, and again if the runtime's cache has lost the file.
    std::string response = encode(Response());
    cache.keep(bytes, response, build(request));
    return response;
  }
  try {
    const Response compiled = compile(request);
    std::string response = encode(compiled);
    if (cached) cache.keep(bytes, response, compiled.included);
    return response;
  } catch (const Failure &failure) {
    // Not kept: the missing file or tool may exist next time.
    Response response;
    response.reason = failure.what();
    return encode(response);
  }
}

}  // namespace clinst
