// SPDX-License-Identifier: Apache-2.0
#include "memory/lines.hpp"

#include <algorithm>

#include "protocol/access_area.h"

namespace layer {

namespace {

constexpr unsigned line_bits = 6;

// A line's number: in a buffer its identity and the line in it, elsewhere the address.
constexpr unsigned identity_shift = 37;
constexpr uint64_t elsewhere = uint64_t{1} << 63;

std::mutex &identity_lock = *new std::mutex;
auto &buffer_ids = *new std::map<cl_mem, uint64_t>;
auto &known_allocations = *new std::shared_ptr<const Allocations>(new Allocations);
uint64_t next_id = 1;  // in the order in which launches first use buffers, and of allocations

void CL_CALLBACK buffer_gone(cl_mem buffer, void *) {
  std::lock_guard<std::mutex> guard(identity_lock);
  buffer_ids.erase(buffer);
}

uint64_t id_of(cl_mem buffer) {
  std::lock_guard<std::mutex> guard(identity_lock);
  auto found = buffer_ids.find(buffer);
  if (found != buffer_ids.end()) return found->second;
  if (next.clSetMemObjectDestructorCallback(buffer, buffer_gone, nullptr) != CL_SUCCESS) return 0;
  return buffer_ids[buffer] = next_id++;
}

template <class T>
T info_of(cl_mem buffer, cl_mem_info which) {
  T value{};
  next.clGetMemObjectInfo(buffer, which, sizeof value, &value, nullptr);
  return value;
}

template <class T>
T image_info(cl_mem image, cl_image_info which) {
  T value{};
  next.clGetImageInfo(image, which, sizeof value, &value, nullptr);
  return value;
}

void describe_image(cl_mem image, cl_mem_object_type type, MemoryArgument *argument) {
  bool array = type == CL_MEM_OBJECT_IMAGE1D_ARRAY || type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
  bool plane = type == CL_MEM_OBJECT_IMAGE2D || type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
  bool body = type == CL_MEM_OBJECT_IMAGE3D;
  uint64_t *last = argument->extent;
  *last++ = image_info<size_t>(image, CL_IMAGE_WIDTH);
  if (plane || body) *last++ = image_info<size_t>(image, CL_IMAGE_HEIGHT);
  if (body) *last++ = image_info<size_t>(image, CL_IMAGE_DEPTH);
  if (array) *last++ = image_info<size_t>(image, CL_IMAGE_ARRAY_SIZE);
  argument->dimensions = static_cast<unsigned>(last - argument->extent);
  argument->element = image_info<size_t>(image, CL_IMAGE_ELEMENT_SIZE);
}

void *CL_API_CALL svm_alloc(cl_context context, cl_svm_mem_flags flags, size_t size,
                            cl_uint alignment) {
  Api api;
  void *memory = next.clSVMAlloc(context, flags, size, alignment);
  quietly([&] { allocated(memory, size); });
  return memory;
}

}  // namespace

// A sub-buffer, and a row of texels made from a buffer, is part of that buffer.
MemoryArgument memory_of(const Argument &argument) {
  cl_mem memory = nullptr;
  if (argument.kind != Argument::value || argument.bytes.size() != sizeof memory) return {};
  std::copy_n(argument.bytes.data(), sizeof memory, reinterpret_cast<char *>(&memory));
  if (!memory) return {};
  MemoryArgument result;
  auto type = info_of<cl_mem_object_type>(memory, CL_MEM_TYPE);
  bool image = type != CL_MEM_OBJECT_BUFFER;
  if (image) describe_image(memory, type, &result);
  while (!image || type == CL_MEM_OBJECT_IMAGE1D_BUFFER) {
    auto *parent = info_of<cl_mem>(memory, CL_MEM_ASSOCIATED_MEMOBJECT);
    if (!parent) break;
    if (!image) result.offset += info_of<size_t>(memory, CL_MEM_OFFSET);
    image = false;
    memory = parent;
  }
  result.size = info_of<size_t>(memory, CL_MEM_SIZE);
  result.id = id_of(memory);
  return result;
}

void allocated(const void *memory, size_t size) {
  if (!settings.record_memory || !memory || !size) return;
  auto start = reinterpret_cast<uint64_t>(memory);
  std::lock_guard<std::mutex> guard(identity_lock);
  auto changed = std::make_shared<Allocations>(*known_allocations);
  auto at = changed->upper_bound(start);
  if (at != changed->begin() && start - std::prev(at)->first < std::prev(at)->second.size) --at;
  while (at != changed->end() && at->first < start + size) at = changed->erase(at);
  (*changed)[start] = {size, next_id++};
  known_allocations = changed;
}

std::shared_ptr<const Allocations> allocations_now() {
  std::lock_guard<std::mutex> guard(identity_lock);
  return known_allocations;
}

void override_allocations(cl_icd_dispatch *table) {
  if (settings.record_memory) put<&Table::clSVMAlloc>(table, svm_alloc);
}

Lines::Lines(const std::vector<MemoryArgument> &memory, const Allocations &allocations,
             const uint64_t *area)
    : memory_(memory), allocations_(allocations) {
  for (size_t i = 0; i < memory.size(); i++) {
    const MemoryArgument &argument = memory[i];
    uint64_t value = area[CLINST_ACCESS_BASES + i];
    if (argument.id && value)
      regions_.push_back({value - argument.offset, argument.size, argument.id});
  }
}

void Lines::add(const AccessEntry &access, std::vector<uint64_t> *lines) {
  if (access.image) return add_texel(access.address, lines);
  uint64_t base = 0, id = 0;
  find(access.address, &base, &id);
  if (id || !access.generic) add_bytes(id, access.address - base, access.width, lines);
}

void Lines::add_bytes(uint64_t id, uint64_t offset, uint64_t bytes, std::vector<uint64_t> *lines) {
  uint64_t from = offset >> line_bits, to = (offset + bytes - 1) >> line_bits;
  for (uint64_t line = from; line <= to; line++) {
    uint64_t number = id ? id << identity_shift | line : elsewhere | line;
    if (std::find(lines->rbegin(), lines->rend(), number) == lines->rend())
      lines->push_back(number);
  }
}

// Row by row, without a device's padding; beyond an edge: the texel at the edge.
void Lines::add_texel(uint64_t address, std::vector<uint64_t> *lines) {
  uint64_t place = address >> CLINST_IMAGE_BITS, offset = 0, row = 1;
  if (place >= memory_.size()) return;
  const MemoryArgument &image = memory_[place];
  if (!image.dimensions || !image.element) return;
  for (unsigned d = 0; d < image.dimensions; d++) {
    unsigned bits = clinst_coordinate_bits[image.dimensions - 1][d];
    uint64_t at = address & ((uint64_t{1} << bits) - 1);
    offset += std::min(at, image.extent[d] - 1) * row;
    row *= image.extent[d];
    address >>= bits;
  }
  add_bytes(image.id, image.offset + offset * image.element, image.element, lines);
}

void Lines::find(uint64_t address, uint64_t *base, uint64_t *id) {
  for (size_t i = 0; i < regions_.size(); i++) {
    if (address - regions_[i].base >= regions_[i].size) continue;
    std::swap(regions_[0], regions_[i]);
    *base = regions_[0].base;
    *id = regions_[0].id;
    return;
  }
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return;
  const auto &[start, allocation] = *std::prev(after);
  if (address - start >= allocation.size) return;
  *base = start;
  *id = allocation.id;
}

}  // namespace layer
