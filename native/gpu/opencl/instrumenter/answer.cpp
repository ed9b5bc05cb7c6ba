// SPDX-License-Identifier: Apache-2.0
#include "answer.h"

#include <algorithm>
#include <fstream>
#include <optional>

#include "build_natively.h"
#include "compile.h"
#include "machine_code.h"

namespace clinst {
namespace {

struct Answer {
  std::string bytes;
  std::vector<std::string> files;  // on which it depends
  bool lasting = true;
};

// A home may be shared by machines with other instructions. Empty: unknown.
std::string processor() {
  std::ifstream from("/proc/cpuinfo");
  for (std::string line; std::getline(from, line);)
    if (line.rfind("flags", 0) == 0) return line;
  return "";
}

// Tried once, and again if the runtime's cache has lost the file.
Answer build(const Request &launch, Cache &cache) {
  const Response program = program_of(launch, cache);
  Built built = build_natively(launch, program);
  built.files.insert(built.files.end(), program.included.begin(), program.included.end());
  return {encode(Response()), std::move(built.files), built.lasting};
}

bool may_include(const Request &request) {
  return std::any_of(request.parts.begin(), request.parts.end(),
                     [](const Part &part) { return part.may_include(); });
}

// The same for the application's own code. Clang tells which files it includes.
Answer build_own(const Request &request, Cache &cache) {
  const bool includes = may_include(request), launch = request.device.count("launch:kernel") != 0;
  const Response program = includes || launch ? program_of(request, cache) : Response();
  Built built = build_own_natively(request, program);
  built.lasting &= !includes || program.reason.empty();
  built.files.insert(built.files.end(), program.included.begin(), program.included.end());
  return {encode(Response()), std::move(built.files), built.lasting};
}

Answer binary(const Request &request, Cache &cache) {
  const bool unchanged = request.flags & CLINST_UNCHANGED;
  if (unchanged && !request.parts.empty() && request.parts[0].input == CLINST_MACHINE_CODE) {
    Response judged;
    judged.computes_only = computes_only(request.parts[0].payload);
    return {encode(judged), {}, false};
  }
  const Response program = unchanged ? Response() : program_of(request, cache);
  const Response built = unchanged ? build_binary(request) : build_binary(request, program);
  return {encode(built), program.included, built.reason.empty()};
}

Answer instrument(const Request &request) {
  try {
    Response made = compile(request);
    return {encode(made), std::move(made.included)};
  } catch (const Failure &failure) {
    Response response;
    response.reason = failure.what();
    constexpr bool lasting = false;  // the missing file or tool may exist next time
    return {encode(response), {}, lasting};
  }
}

}  // namespace

std::string answer(const std::string &bytes, Cache &cache) {
  const Request request = decode<Request>(bytes);
  auto make = [&] {
    if (request.flags & CLINST_BUILD)
      return request.flags & CLINST_UNCHANGED ? build_own(request, cache) : build(request, cache);
    return request.flags & CLINST_BINARY ? binary(request, cache) : instrument(request);
  };
  if (request.flags & CLINST_NO_CACHE) return make().bytes;
  const std::string key = request.flags & CLINST_BINARY ? bytes + processor() : bytes;
  if (auto found = cache.find(key)) return *found;
  std::optional<Claim> claim;
  if (cache.usable() && claim.emplace(cache, key).waited()) {
    if (auto found = cache.find(key)) return *found;
    claim.reset();  // it was not kept, so nobody gains from waiting longer
  }
  const Answer made = make();
  if (made.lasting) cache.keep(key, made.bytes, made.files);
  return made.bytes;
}

Response program_of(const Request &launch, Cache &cache) {
  return decode<Response>(answer(encode(program_request(launch)), cache));
}

}  // namespace clinst
