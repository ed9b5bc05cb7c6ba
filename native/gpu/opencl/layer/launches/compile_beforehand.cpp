// SPDX-License-Identifier: Apache-2.0
#include "launches/compile_beforehand.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <optional>
#include <set>

#include "common/new_file.hpp"
#include "programs/binaries.hpp"
#include "protocol/clinst_protocol.h"

namespace layer {

namespace {

// A kernel with more shapes than this gains little from having each compiled on its own.
constexpr size_t most_shapes = 16;

// What a process of a native run keeps, at most: more than could be compiled in time.
constexpr unsigned most_kept = 256;
constexpr size_t most_kept_bytes = size_t{64} << 20;

// PoCL compiles for the local size, which it may choose itself by the global one; for no offset;
// and for grids of fewer groups than this.
constexpr size_t small_grid = 0xffff;

std::vector<size_t> shape_of(const Range &range) {
  std::vector<size_t> shape{range.dimensions, range.local != nullptr};
  bool moved = false;
  for (cl_uint d = 0; d < range.dimensions; d++) {
    moved |= range.offset && range.offset[d];
    if (range.local && range.local[d]) {
      shape.push_back(range.local[d]);
      shape.push_back(range.global[d] / range.local[d] >= small_grid);
    } else {
      shape.push_back(range.global[d]);
    }
  }
  shape.push_back(moved);
  return shape;
}

std::string words_of(const size_t *sizes, cl_uint dimensions) {
  std::string words;
  for (cl_uint d = 0; sizes && d < dimensions; d++) words += std::to_string(sizes[d]) + " ";
  return words;
}

// What has the kernel compiled for a launch, once for each shape of launches.
std::optional<clinst::Request> new_request(const Kernel &kernel, const Device &device,
                                           const Range &range, uint32_t local_words) {
  // Runtimes that take SPIR-V keep no compiled kernels.
  if (device.takes_spirv || !device.takes_bitcode || !kernel.build) return std::nullopt;
  auto &known = kernel.build->shapes[{device.handle, local_words, kernel.name}];
  if (known.size() >= most_shapes || !known.insert(shape_of(range)).second) return std::nullopt;
  clinst::Request request;
  std::string options;
  if (!kernel.build->ask_for(device, local_words, &request, &options).empty()) return std::nullopt;
  request.flags |= CLINST_BUILD;
  const std::map<std::string, std::string> launch = {
      {"launch:kernel", kernel.name},
      {"launch:offset", words_of(range.offset, range.dimensions)},
      {"launch:global", words_of(range.global, range.dimensions)},
      {"launch:local", words_of(range.local, range.dimensions)}};
  request.device.insert(launch.begin(), launch.end());
  add_facts(device, options, &request);
  return request;
}

}  // namespace

void compile_beforehand(Kernel *kernel, const Device &device, const Range &range,
                        uint32_t local_words) {
  if (!settings.translated || !kernel->build) return;
  const Shadow &shadow = kernel->build->shadow(kernel->handle, device, local_words);
  if (!shadow.reason.empty() || !shadow.kernels.count(kernel->name)) return;
  if (auto request = new_request(*kernel, device, range, local_words)) build_natively(*request);
}

void compile_before_first(Kernel *kernel, const Device &device, const Range &range) {
  if (!settings.translated || !kernel->build) return;
  {
    std::lock_guard<std::mutex> guard(kernel->lock);
    if (kernel->variants.count(device.handle)) return;
  }
  const Shadow &shadow = kernel->build->shadow(kernel->handle, device, most_local_words);
  const auto info = shadow.kernels.find(kernel->name);
  if (info == shadow.kernels.end() || shadow.analytic_counts.count(kernel->name)) return;
  if (info->second.n_probes || info->second.has_accesses())
    compile_beforehand(kernel, device, range, most_local_words);
}

void keep_for_profile(const Kernel &kernel, const Device &device, const Range &range) {
  static auto &kept = *new std::set<size_t>;  // a program may build the same again and again
  static size_t room = most_kept_bytes;
  if (settings.ahead.empty() || kept.size() >= most_kept) return;
  const auto request = new_request(kernel, device, range, most_local_words);
  if (!request) return;
  const std::string bytes = clinst::encode(*request);
  if (bytes.size() > room || !kept.insert(std::hash<std::string>()(bytes)).second) return;
  room -= bytes.size();
  // The names sort in the order of the launches.
  char name[32];
  std::snprintf(name, sizeof name, "/%04zu-%d", kept.size(), getpid());
  common::write_new_file(AT_FDCWD, settings.ahead + name, bytes);
}

}  // namespace layer
