// SPDX-License-Identifier: Apache-2.0
#include "launches/compile_beforehand.hpp"

#include <unistd.h>

#include "device/runtimes.hpp"
#include "protocol/clinst_protocol.h"

namespace layer {

namespace {

// A kernel with more shapes than this gains little from having each compiled on its own.
constexpr size_t most_shapes = 16;

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

// Memory objects are values, too.
std::string arguments_of(Kernel *kernel, const InstrumentedKernel &info) {
  constexpr size_t any_local = 64;
  std::string words;
  std::lock_guard<std::mutex> guard(kernel->lock);
  for (const Argument &argument : kernel->arguments)
    words += argument.kind == Argument::local   ? "l" + std::to_string(argument.size) + " "
             : argument.kind == Argument::value ? "v" + std::to_string(argument.size) + " "
                                                : "v" + std::to_string(sizeof(void *)) + " ";
  words += "v" + std::to_string(sizeof(cl_mem)) + " v8 ";
  return words + (info.scratch_probes ? "l" + std::to_string(any_local) : "v8");
}

// What decides where the runtime keeps its cache, and how it compiles.
void add_environment(std::map<std::string, std::string> *to) {
  for (char **entry = environ; entry && *entry; entry++) {
    const std::string text = *entry;
    for (const char *start : {"POCL_", "HOME=", "XDG_CACHE_HOME=", "TMPDIR="})
      if (const size_t end = text.find('='); text.rfind(start, 0) == 0 && end != text.npos)
        (*to)["env:" + text.substr(0, end)] = text.substr(end + 1);
  }
}

}  // namespace

void compile_beforehand(Kernel *kernel, const Device &device, const Range &range,
                        uint32_t local_words) {
  // Runtimes that take SPIR-V keep no compiled kernels.
  if (!settings.translated || device.takes_spirv || !device.takes_bitcode || !kernel->build) return;
  const Shadow &shadow = kernel->build->shadow(kernel->handle, device, local_words);
  const auto info = shadow.kernels.find(kernel->name);
  if (!shadow.reason.empty() || info == shadow.kernels.end()) return;
  auto &compiled = shadow.compiled[kernel->name];
  if (compiled.size() >= most_shapes || !compiled.insert(shape_of(range)).second) return;
  clinst::Request request;
  request.flags = CLINST_BUILD;
  request.parts.emplace_back();
  request.parts[0].input = CLINST_BITCODE;
  request.parts[0].payload = shadow.module;
  request.parts[0].options = module_options(device, shadow.from_source, shadow.options);
  request.device = {{"kernel", kernel->name},
                    {"device", info_text(device.handle, CL_DEVICE_NAME)},
                    {"driver", info_text(device.handle, CL_DRIVER_VERSION)},
                    {"arguments", arguments_of(kernel, info->second)},
                    {"offset", words_of(range.offset, range.dimensions)},
                    {"global", words_of(range.global, range.dimensions)},
                    {"local", words_of(range.local, range.dimensions)}};
  add_environment(&request.device);
  build_natively(request);
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

}  // namespace layer
