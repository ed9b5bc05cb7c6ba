// SPDX-License-Identifier: Apache-2.0
#include "launches/compile_beforehand.hpp"

#include <optional>

#include "client/ahead.hpp"
#include "programs/binaries.hpp"
#include "programs/own_builds.hpp"
#include "protocol/clinst_protocol.h"

namespace layer {

namespace {

// Where PoCL chooses the local size by the global one, each global size is a shape here, though
// several may be one for PoCL: a request that compiles nothing takes 0.4 ms, and a kernel compiled
// under a CPU engine half a second.
constexpr size_t most_shapes = 1024;

// PoCL compiles for the local size, which it may choose itself by the global one; for no offset;
// and for grids that have fewer work-items than this along x and y.
constexpr size_t small_grid = 0xffff;

std::vector<size_t> shape_of(const Range &range) {
  std::vector<size_t> shape{range.dimensions, range.local != nullptr};
  bool moved = false;
  for (cl_uint d = 0; d < range.dimensions; d++) {
    moved |= range.offset && range.offset[d];
    if (range.local && range.local[d]) {
      shape.push_back(range.local[d]);
      shape.push_back(d < 2 && range.global[d] >= small_grid);
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

void add_launch(const Kernel &kernel, const Range &range, clinst::Request *request) {
  request->device["launch:kernel"] = kernel.name;
  request->device["launch:offset"] = words_of(range.offset, range.dimensions);
  request->device["launch:global"] = words_of(range.global, range.dimensions);
  request->device["launch:local"] = words_of(range.local, range.dimensions);
}

// Once for each, and not for all of too many.
bool is_new_shape(const Kernel &kernel, const Device &device, const Range &range,
                  uint32_t local_words) {
  auto &known = kernel.build->shapes[{device.handle, local_words, kernel.name}];
  return known.size() < most_shapes && known.insert(shape_of(range)).second;
}

// What has the kernel compiled for a launch, once for each shape of launches.
std::optional<clinst::Request> new_request(const Kernel &kernel, const Device &device,
                                           const Range &range, uint32_t local_words) {
  if (!device.keeps_kernels || device.takes_spirv || !device.takes_bitcode || !kernel.build)
    return std::nullopt;
  if (!is_new_shape(kernel, device, range, local_words)) return std::nullopt;
  clinst::Request request;
  std::string options;
  if (!kernel.build->ask_for(device, local_words, &request, &options).empty()) return std::nullopt;
  request.flags |= CLINST_BUILD;
  add_launch(kernel, range, &request);
  add_facts(device, options, &request);
  return request;
}

// The same for the application's own kernel.
std::optional<clinst::Request> new_own_request(const Kernel &kernel, const Device &device,
                                               const Range &range) {
  if (!device.keeps_kernels || !kernel.build ||
      !is_new_shape(kernel, device, range, without_counters))
    return std::nullopt;
  auto request = own_request(*kernel.build, device);
  if (request) add_launch(kernel, range, &*request);
  return request;
}

// What has the counted program built for a kernel of it, once a kernel. Its sub-groups, as the
// profile will see them, follow from the program's own binary.
std::optional<clinst::Request> new_binary_request(const Kernel &kernel, const Device &device) {
  if (!kernel.build) return std::nullopt;
  const std::string own = kernel.build->left();
  if (own.empty()) return std::nullopt;
  auto &known = kernel.build->shapes[{device.handle, most_local_words, kernel.name}];
  if (!known.insert(std::vector<size_t>()).second) return std::nullopt;
  clinst::Request request;
  std::string options;
  if (!kernel.build->ask_for(device, most_local_words, &request, &options).empty())
    return std::nullopt;
  if (device.sub_groups) request.device["sub_group_sizes"];
  request = binary_request(device, std::move(request), options);
  request.device["launch:kernel"] = kernel.name;
  request.device["launch:own"] = own;
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

void compile_own_beforehand(const Kernel &kernel, const Device &device, const Range &range) {
  if (!settings.translated) return;
  if (const auto own = new_own_request(kernel, device, range)) build_natively(*own);
}

void leave_launch(const Kernel &kernel, const Device &device, const Range &range) {
  if (settings.ahead.empty()) return;
  const auto request = device.loads_code ? new_binary_request(kernel, device)
                                         : new_request(kernel, device, range, most_local_words);
  if (request) leave_for_profile(*request);
  if (const auto own = new_own_request(kernel, device, range)) tell_compiled(*own);
}

}  // namespace layer
