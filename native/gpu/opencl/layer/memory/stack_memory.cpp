#include "memory/stack_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <deque>

#include "memory/access_order.hpp"
#include "protocol/clinst_protocol.h"
#include "stack_distance.h"

namespace layer {

namespace {

constexpr unsigned line_bits = 6;
// Lines that a stack remembers at least: 1 GiB of data, for which it takes up to 1 GiB itself.
constexpr uint32_t most_lines = 1u << 24;

// A line's number: of a buffer its identity and the line in it, elsewhere the address.
constexpr unsigned identity_shift = 37;
constexpr uint64_t elsewhere = uint64_t{1} << 63;

// ---- identities -------------------------------------------------------------------------------

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

// A sub-buffer, and a row of texels that was made of a buffer, is a part of that.
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

// ---- a launch's lines -------------------------------------------------------------------------

// From an address of the launch to a line that means the same in every run.
class Lines {
 public:
  explicit Lines(const Recording &recording, const uint64_t *area)
      : memory_(recording.memory), allocations_(*recording.allocations) {
    for (size_t i = 0; i < recording.memory.size(); i++) {
      const MemoryArgument &memory = recording.memory[i];
      uint64_t value = area[CLINST_ACCESS_BASES + i];
      if (memory.id && value) regions_.push_back({value - memory.offset, memory.size, memory.id});
    }
  }

  // Adds those of an access to `lines`, each once. A generic pointer that leads to no buffer leads
  // to local or private memory.
  void add(const AccessEntry &access, std::vector<uint64_t> *lines) {
    if (access.image) return add_texel(access.address, lines);
    uint64_t base = 0, id = 0;
    find(access.address, &base, &id);
    if (id || !access.generic) add_bytes(id, access.address - base, access.width, lines);
  }

 private:
  void add_bytes(uint64_t id, uint64_t offset, uint64_t bytes, std::vector<uint64_t> *lines) {
    uint64_t from = offset >> line_bits, to = (offset + bytes - 1) >> line_bits;
    for (uint64_t line = from; line <= to; line++) {
      uint64_t number = id ? id << identity_shift | line : elsewhere | line;
      if (std::find(lines->rbegin(), lines->rend(), number) == lines->rend())
        lines->push_back(number);
    }
  }

  // Row by row, without the gaps that a device may leave; beyond an edge: the texel at the edge.
  void add_texel(uint64_t address, std::vector<uint64_t> *lines) {
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

  struct Region {
    uint64_t base, size, id;
  };
  void find(uint64_t address, uint64_t *base, uint64_t *id) {
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
  std::vector<Region> regions_;
  const std::vector<MemoryArgument> &memory_;
  const Allocations &allocations_;
};

// ---- stacks -----------------------------------------------------------------------------------

const xp_heap heap = {[](size_t size) { return std::calloc(1, size); },
                      [](void *block) { std::free(block); }};

struct Waiting {
  uint64_t launch;
  bool finished = false;
  RecordedAccesses accesses;
};

struct DeviceStack {
  DeviceStack() { xp_stack_init(&stack, &heap, most_lines); }
  xp_stack stack;
  std::deque<Waiting> waiting;  // in the order of the launches
};

auto &stacks = *new std::map<const Device *, std::unique_ptr<DeviceStack>>;

DeviceStack &stack_of(const Device &device) {
  auto &stack = stacks[&device];
  if (!stack) stack = std::make_unique<DeviceStack>();
  return *stack;
}

// Elements that asynchronous copies moved.
uint64_t copied(const uint64_t *records) {
  return records[CLINST_ACCESS_COPIED_HIGH] << 32 |
         static_cast<uint32_t>(records[CLINST_ACCESS_COPIED]);
}

void take_in(xp_stack *stack, uint64_t launch, const RecordedAccesses &accesses) {
  const Recording *recording = accesses.recording.get();
  if (!recording) return;
  uint64_t count[XP_LDV_BUCKETS] = {};
  xpu_ldv ldv{};
  ldv.accesses = accesses.accesses;
  ldv.groups = accesses.geometry.n_groups();
  const uint64_t *records = recording->area->data() + recording->at;
  ldv.accesses += copied(records);
  AccessOrder order(records, recording->layout, accesses.geometry);
  Lines lines(*recording, records);
  std::vector<uint64_t> touched;
  order.each_step([&](const std::vector<AccessEntry> &step) {
    touched.clear();
    for (const AccessEntry &access : step) lines.add(access, &touched);
    for (uint64_t line : touched) count[xp_stack_touch(stack, line)]++;
  });
  ldv.recorded = order.recorded();
  ldv.recorded_groups = order.recorded_groups();
  if (stack->failed) return;  // memory ran out: better no vector than a wrong one
  ldv.flags = (accesses.beyond ? XP_LDV_BEYOND : 0) | (stack->forgot ? XP_LDV_FORGOT : 0);
  ldv.count = count;
  xpu_launch_ldv(launch, &ldv);
}

// ---- allocations by address -------------------------------------------------------------------

void *CL_API_CALL svm_alloc(cl_context context, cl_svm_mem_flags flags, size_t size,
                            cl_uint alignment) {
  Api api;
  void *memory = next.clSVMAlloc(context, flags, size, alignment);
  quietly([&] { allocated(memory, size); });
  return memory;
}

// Room for one launch, in words: as asked for, as far as the device allows it.
uint64_t room_on(const Device &device) {
  static const uint64_t asked = [] {
    const char *text = std::getenv(XPU_ENV_MEMORY);
    return text ? std::strtoull(text, nullptr, 10) : 0;
  }();
  cl_ulong largest = 0;
  next.clGetDeviceInfo(device.handle, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest,
                       nullptr);
  return std::min<uint64_t>(asked, largest) / sizeof(uint64_t);
}

}  // namespace

void allocated(const void *memory, size_t size) {
  if (!record_memory || !memory || !size) return;
  auto start = reinterpret_cast<uint64_t>(memory);
  std::lock_guard<std::mutex> guard(identity_lock);
  auto changed = std::make_shared<Allocations>(*known_allocations);
  auto at = changed->upper_bound(start);
  if (at != changed->begin() && start - std::prev(at)->first < std::prev(at)->second.size) --at;
  while (at != changed->end() && at->first < start + size) at = changed->erase(at);
  (*changed)[start] = {size, next_id++};
  known_allocations = changed;
}

std::shared_ptr<Recording> plan_recording(Kernel *kernel, const Variant &variant,
                                          const Geometry &geometry, bool local_known,
                                          const Device &device, uint64_t at, bool with_room) {
  auto recording = std::make_shared<Recording>();
  const std::vector<uint32_t> &pointers = variant.info->pointers;
  uint64_t most_items = variant.max_work_group ? variant.max_work_group : device.max_work_group;
  uint64_t room = with_room ? room_on(device) : 0;
  recording->at = at;
  recording->layout = AccessLayout::of(geometry, local_known, most_items, pointers.size(),
                                       room > at ? room - at : 0);
  // Always as much, so that launch after launch finds the same room again.
  recording->words = CLINST_PREFACE_WORDS + std::max(room, at + recording->layout.words);
  std::lock_guard<std::mutex> guard(kernel->lock);
  for (uint32_t index : pointers)
    recording->memory.push_back(
        index < kernel->arguments.size() ? memory_of(kernel->arguments[index]) : MemoryArgument{});
  std::lock_guard<std::mutex> identities(identity_lock);
  recording->allocations = known_allocations;
  return recording;
}

bool prepare_recording(Recording *recording, std::shared_ptr<CounterArea> area) {
  constexpr size_t words = CLINST_PREFACE_WORDS + CLINST_HEADER_WORDS;
  std::fill_n(area->data(), words, 0);
  *area->data() = recording->at;
  if (!area->send({0, words})) return false;
  area->skip(CLINST_PREFACE_WORDS);
  recording->area = std::move(area);
  recording->layout.prepare(recording->area->data() + recording->at);
  return recording->area->send({recording->at, recording->layout.chunks_at});
}

bool records_arrived(Recording *recording) {
  CounterArea &area = *recording->area;
  const AccessLayout &layout = recording->layout;
  if (!area.arrived(recording->at + layout.chunks_at)) return false;
  const uint64_t *records = area.data() + recording->at;
  std::vector<CounterArea::Part> parts;
  for (uint64_t level = layout.lowest_kept(records); level < layout.levels; level++)
    if (uint64_t taken = layout.taken(records, level))
      parts.push_back(
          {recording->at + layout.chunks_at + level * layout.level_chunks * CLINST_CHUNK_WORDS,
           taken * CLINST_CHUNK_WORDS});
  uint64_t most = 0;  // accesses of a work-item of the first group
  for (uint64_t item = 0; item < std::min(layout.items, layout.states); item++)
    most = std::max<uint64_t>(most, static_cast<uint32_t>(records[layout.states_at + item]));
  uint64_t own = std::min(layout.reserved, most / CLINST_CHUNK_ENTRIES + 1);
  if (most && own)
    parts.push_back({recording->at + layout.chunks_at + layout.reserved_at() * CLINST_CHUNK_WORDS,
                     own * layout.items * CLINST_CHUNK_WORDS});
  return area.arrived(parts);
}

uint64_t accesses_of(const InstrumentedKernel &kernel, const WarpClasses &classes) {
  size_t blocks = kernel.accesses.size();
  std::vector<uint64_t> of_vector(classes.n_vectors, 0);
  for (uint32_t v = 0; v < classes.n_vectors; v++)
    for (size_t b = 0; b < blocks; b++)
      of_vector[v] += classes.counts[v * blocks + b] * kernel.accesses[b];
  uint64_t sum = 0;
  for (size_t r = 0; r < classes.run_vector.size(); r++)
    sum += classes.run_length[r] * of_vector[classes.run_vector[r]];
  return sum;
}

void recording_launched(const Device &device, uint64_t launch) {
  Waiting waiting;
  waiting.launch = launch;
  stack_of(device).waiting.push_back(std::move(waiting));
}

void recording_finished(const Device &device, uint64_t launch, RecordedAccesses accesses) {
  DeviceStack &stack = stack_of(device);
  for (Waiting &waiting : stack.waiting) {
    if (waiting.launch != launch) continue;
    waiting.accesses = std::move(accesses);
    waiting.finished = true;
    break;
  }
  for (; !stack.waiting.empty() && stack.waiting.front().finished; stack.waiting.pop_front()) {
    const Waiting &first = stack.waiting.front();
    if (!quietly([&] { take_in(&stack.stack, first.launch, first.accesses); }))
      stack.stack.failed = 1;
  }
}

void forget_stacks() {
  // Leaked: they hold areas of a device runtime that does not survive a fork.
  (new std::map<const Device *, std::unique_ptr<DeviceStack>>)->swap(stacks);
}

void override_allocations(cl_icd_dispatch *table) {
  if (record_memory && next.clSVMAlloc) table->clSVMAlloc = svm_alloc;
}

}  // namespace layer
