// SPDX-License-Identifier: Apache-2.0
#include "memory/stack_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <deque>

#include "protocol/clinst_protocol.h"
#include "stack_distance.h"

namespace layer {

namespace {

// Minimum number of lines in a stack: 1 GiB of data, for which the stack takes up to 1 GiB.
constexpr uint32_t most_lines = 1u << 24;

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
  Lines lines(recording->memory, *recording->allocations, records);
  std::vector<uint64_t> touched;
  order.each_step([&](const std::vector<AccessEntry> &step) {
    touched.clear();
    for (const AccessEntry &access : step) lines.add(access, &touched);
    for (uint64_t line : touched) count[xp_stack_touch(stack, line)]++;
  });
  ldv.recorded = order.recorded();
  ldv.recorded_groups = order.recorded_groups();
  if (stack->failed) return;  // out of memory: no vector rather than a wrong one
  ldv.flags = (accesses.beyond ? XP_LDV_BEYOND : 0) | (stack->forgot ? XP_LDV_FORGOT : 0);
  ldv.count = count;
  xpu_launch_ldv(launch, &ldv);
}

// Room for one launch, in words: as requested, within the device's limits.
uint64_t room_on(const Device &device) {
  cl_ulong largest = 0;
  next.clGetDeviceInfo(device.handle, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest,
                       nullptr);
  return std::min<uint64_t>(settings.access_room, largest) / sizeof(uint64_t);
}

}  // namespace

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
  // Constant, so that successive launches reuse the same room.
  recording->words = CLINST_PREFACE_WORDS + std::max(room, at + recording->layout.words);
  std::lock_guard<std::mutex> guard(kernel->lock);
  for (uint32_t index : pointers)
    recording->memory.push_back(
        index < kernel->arguments.size() ? memory_of(kernel->arguments[index]) : MemoryArgument{});
  recording->allocations = allocations_now();
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
  // Leaked: they hold areas of a device runtime, which does not survive a fork.
  (new std::map<const Device *, std::unique_ptr<DeviceStack>>)->swap(stacks);
}

}  // namespace layer
