// SPDX-License-Identifier: Apache-2.0
#include "programs/builds.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "programs/origins.hpp"
#include "protocol/clinst_protocol.h"

namespace layer {

namespace {

std::string working_directory() {
  char here[4096];
  return getcwd(here, sizeof here) ? here : "";
}

// Search folders differ from machine to machine and say nothing about the program.
std::string without_includes(const std::string &options) {
  std::string result;
  for (size_t at = 0; at < options.size();) {
    bool start = at == 0 || options[at - 1] == ' ';
    if (!start || options.compare(at, 2, "-I") != 0) {
      result += options[at++];
      continue;
    }
    at = options.find_first_not_of(' ', at + 2);
    if (at == std::string::npos) break;
    char quote = options[at] == '"' ? '"' : ' ';
    at = options.find(quote, at + 1);
    if (at == std::string::npos) break;
    at++;
  }
  return result;
}

void hash_part(common::ContentHash *hash, const Part &part) {
  hash->add(part.payload);
  hash->add(without_includes(part.options));
  for (const auto &header : part.headers) {
    hash->add(header.first);
    hash->add(header.second);
  }
  for (const auto &constant : part.spec_constants) {
    hash->add(std::to_string(constant.first));
    hash->add(constant.second);
  }
}

const char *kind_name(uint32_t kind) {
  static const char *const names[] = {"source", "IL", "binary", "built-in"};
  return names[kind < 4 ? kind : 0];
}

// The common origin of all binaries of the program.
std::shared_ptr<const Origin> known_origin(const std::map<cl_device_id, Part> &device_parts) {
  std::shared_ptr<const Origin> origin;
  for (const auto &part : device_parts) {
    auto found = origin_of(part.second.payload);
    if (!found || (origin && origin->hash != found->hash)) return nullptr;
    origin = found;
  }
  return origin;
}

}  // namespace

Module module_of(const std::string &bytes) {
  if (bytes.size() < 4) return Module::other;
  uint32_t magic;
  std::memcpy(&magic, bytes.data(), 4);
  if (magic == 0x07230203u) return Module::spirv;
  // Raw bitcode, and bitcode in its wrapper.
  return magic == 0xdec04342u || magic == 0x0b17c0deu ? Module::bitcode : Module::other;
}

std::shared_ptr<Build> new_build(const Program &program, const char *options) {
  auto build = std::make_shared<Build>();
  build->options = text_of(options);
  build->folder = working_directory();
  build->kind = program.kind;
  build->reason = program.reason;
  build->device_parts = program.device_parts;
  common::ContentHash hash;
  if (program.kind == XP_PROGRAM_SOURCE || program.kind == XP_PROGRAM_IL) {
    Part part = program.source;
    part.options = build->options;
    hash_part(&hash, part);
    build->parts.push_back(std::move(part));
  } else if (auto origin = known_origin(program.device_parts)) {
    build->parts = origin->parts;
    build->device_parts.clear();
    build->options = origin->options;
    build->hash = origin->hash;
    build->origin = "binary of " + origin->text;
    return build;
  } else if (!program.device_parts.empty()) {
    hash_part(&hash, program.device_parts.begin()->second);
    hash.add(without_includes(build->options));
  } else {
    hash_part(&hash, program.source);
  }
  build->hash = hash.get();
  build->origin = kind_name(program.kind);
  if (!build->options.empty()) build->origin += ": " + build->options;
  return build;
}

std::string Build::left() const {
  std::lock_guard<std::mutex> guard(lock_);
  return left_;
}

void Build::set_left(std::string file) {
  std::lock_guard<std::mutex> guard(lock_);
  left_ = std::move(file);
}

std::shared_ptr<Build> link_builds(const char *options,
                                   const std::vector<std::shared_ptr<Build>> &inputs) {
  auto build = std::make_shared<Build>();
  common::ContentHash hash;
  build->options = text_of(options);
  build->folder = working_directory();
  build->origin = "linked of " + std::to_string(inputs.size());
  for (const auto &input : inputs) {
    if (!input || (input->parts.empty() && input->device_parts.empty())) {
      build->reason = "linked with a program of unknown origin";
      continue;
    }
    if (&input == &inputs.front()) build->kind = input->kind;
    if (!input->reason.empty()) build->reason = input->reason;
    build->links = std::max(build->links, input->links + 1);
    build->parts.insert(build->parts.end(), input->parts.begin(), input->parts.end());
    if (input->parts.empty()) build->reason = "linked with a program made from a binary";
    hash.add(input->hash);
  }
  hash.add(build->options);
  build->hash = hash.get();
  return build;
}

}  // namespace layer
