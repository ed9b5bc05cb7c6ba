// SPDX-License-Identifier: Apache-2.0
#include "launches/plan.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "launches/compile_beforehand.hpp"
#include "launches/harvest.hpp"
#include "protocol/clinst_protocol.h"

namespace layer {

bool is_empty(const Range &range) {
  if (range.dimensions < 1 || range.dimensions > 3 || !range.global) return true;
  return std::find(range.global, range.global + range.dimensions, 0) !=
         range.global + range.dimensions;
}

void Plan::leave_out(const std::string &why) {
  refusal = why;
  derived = false;
  counts.reset();
}

void Plan::refused(cl_int error) {
  variant->local_sizes->forget(shape);
  leave_out("the device refused the instrumented launch (error " + std::to_string(error) + ")");
}

static std::shared_ptr<CounterPool> pool_of(const Queue &queue, PoolUse use) {
  std::lock_guard<std::mutex> guard(queue.context->lock);
  auto &slot = queue.context->pools[{queue.device->handle, use}];
  if (!slot)
    slot = std::make_shared<CounterPool>(queue.context->handle, *queue.device,
                                         use == PoolUse::launches);
  return slot;
}

// Above this we wait for launches to finish: new memory costs a page fault a page, and much of it
// drives the program's data out of the caches.
static size_t soft_limit(size_t words) {
  constexpr size_t in_flight = 4, least = size_t{8} << 20, most = size_t{256} << 20;
  return std::clamp(in_flight * words * sizeof(uint64_t), least, most);
}

static CounterArea find_area(const Queue &queue, size_t words, PoolUse use) {
  std::shared_ptr<CounterPool> pool = pool_of(queue, use);
  const size_t limit = soft_limit(words);
  CounterArea area = pool->allocate(words, limit);
  if (area) return area;
  poll_locked();
  area = pool->allocate(words, limit);
  if (!area && !user_events_unfired() && !pending.empty()) {
    flush_all();
    for (double end = seconds() + later_patience_s; !area && seconds() < end && !pending.empty();) {
      nap();
      poll_locked();
      area = pool->allocate(words, limit);
    }
  }
  return area ? std::move(area) : pool->allocate(words, hard_limit);
}

// Waits briefly for room; the wait is bounded, since its launches may wait for the application.
// NULL if there is none.
static std::shared_ptr<CounterArea> find_room(const Queue &queue, size_t words, PoolUse use) {
  CounterArea area = find_area(queue, words, use);
  return area ? std::make_shared<CounterArea>(std::move(area)) : nullptr;
}

namespace {

// Work-items of a group; an upper bound where the runtime chooses its size.
uint64_t items_a_group(const Plan &plan, const Device &device) {
  if (plan.local_known) return plan.geometry.items_a_group();
  const uint64_t *global = plan.geometry.global;
  size_t most = plan.variant->max_work_group;
  return std::min<uint64_t>(global[0] * global[1] * global[2], most ? most : device.max_work_group);
}

// Words of local memory left by the application's kernel to each work-item of a group.
uint64_t words_left(const Plan &plan, const Kernel &kernel, const Device &device) {
  cl_ulong used = 0;
  next.clGetKernelWorkGroupInfo(kernel.handle, device.handle, CL_KERNEL_LOCAL_MEM_SIZE, sizeof used,
                                &used, nullptr);
  return used < device.local_memory ? (device.local_memory - used) / 8 / items_a_group(plan, device)
                                    : 0;
}

// Where the counters of all work-items do not fit into local memory, the kernel is recompiled with
// fewer at a time, down to none, by powers of two, so at most a few times.
void fit_local_memory(Plan *plan, const Queue &queue, Kernel *kernel) {
  uint64_t left = words_left(*plan, *kernel, *queue.device);
  if (plan->info->scratch_probes <= left) return;
  uint32_t words = most_local_words;
  while (words > left) words /= 2;
  plan->variant = thrifty_variant_of(kernel, *queue.device, words);
}

cl_int set_our_arguments(Variant *variant, const CounterArea &area, uint64_t items) {
  cl_uint n = variant->info->n_args;
  cl_mem buffer = area.buffer();
  cl_ulong first = area.first();
  cl_int error = next.clSetKernelArg(variant->shadow, n, sizeof buffer, &buffer);
  if (error == CL_SUCCESS)
    error = next.clSetKernelArg(variant->shadow, n + 1, sizeof first, &first);
  uint32_t words = variant->info->scratch_probes;
  size_t scratch = 8 * (words ? words * items : 1);
  if (error == CL_SUCCESS && variant->scratch != scratch) {
    cl_ulong unused = 0;
    error = next.clSetKernelArg(variant->shadow, n + 2, scratch, words ? nullptr : &unused);
    variant->scratch = scratch;
  }
  return error;
}

// Room for the launch's counters and accesses. Without room for the accesses the launch is still
// counted, and its vector states that nothing was recorded.
Room find_room_to_record(const Plan &plan, const Queue &queue, Kernel *kernel) {
  for (PoolUse pool : {PoolUse::accesses, PoolUse::launches}) {
    Room room;
    room.recording = plan_recording(kernel, *plan.variant, plan.geometry, plan.local_known,
                                    *queue.device, plan.words, pool == PoolUse::accesses);
    room.area = find_room(queue, room.recording->words, pool);
    if (room.area && prepare_recording(room.recording.get(), room.area)) return room;
  }
  return {};
}

// Decides whether the shadow runs, and prepares it. A non-empty reason means that it does not run.
std::string prepare_shadow(Plan *plan, Room *room, const Queue &queue, Kernel *kernel,
                           const Range &range) {
  compile_beforehand(kernel, *queue.device, range, plan->variant->local_words);
  std::string missing = ensure_shadow(kernel, *queue.device, plan->variant.get());
  if (missing.empty()) {
    fit_local_memory(plan, queue, kernel);
    compile_beforehand(kernel, *queue.device, range, plan->variant->local_words);
    missing = ensure_shadow(kernel, *queue.device, plan->variant.get());
  }
  if (!missing.empty()) return missing;
  Variant &variant = *plan->variant;
  const InstrumentedKernel &info = *(plan->info = variant.info);
  if (info.n_args != kernel->arguments.size())
    return "the instrumented kernel has other arguments than the application's";
  const uint64_t *global = plan->geometry.global;
  uint64_t warps = plan->local_known ? plan->geometry.n_groups() * plan->geometry.warps_a_group()
                                     : global[0] * global[1] * global[2];
  if (warps > hard_limit / 8 / (info.n_probes + 1)) return "the counters need too much memory";
  plan->words = CLINST_HEADER_WORDS + warps * info.n_probes;
  if (info.has_accesses())
    *room = find_room_to_record(*plan, queue, kernel);
  else
    room->area = find_room(queue, plan->words, PoolUse::launches);
  if (!room->area) return "the counters need too much memory";
  cl_int error = set_our_arguments(&variant, *room->area, items_a_group(*plan, *queue.device));
  if (error != CL_SUCCESS)
    return "the instrumented kernel does not take our arguments (error " + std::to_string(error) +
           ")";
  plan->kernel = variant.shadow;
  return "";
}

LaunchShape shape_of(Kernel *kernel, const Range &range) {
  LaunchShape shape(range.global, range.global + range.dimensions);
  for (cl_uint d = 0; d < range.dimensions; d++)
    shape.push_back(range.offset ? range.offset[d] : 0);
  std::lock_guard<std::mutex> guard(kernel->lock);
  for (const Argument &argument : kernel->arguments)
    if (argument.kind == Argument::local) shape.push_back(argument.size);
  return shape;
}

// A local size left to the runtime stays its choice: what it suggests for the application's kernel,
// or chose for an earlier launch. So no upper bound is needed, and the counts can be analytic.
bool find_local(const Queue &queue, Kernel *kernel, const Range &range, Plan *plan) {
  Sizes &local = plan->local;
  if (range.local) {
    std::copy_n(range.local, range.dimensions, local.begin());
    return true;
  }
  SuggestLocal suggest = queue.device->suggest_local;
  if (suggest &&
      suggest(queue.handle, kernel->handle, range.dimensions, range.offset, range.global,
              local.data()) == CL_SUCCESS &&
      local[0] && local[1] && local[2])
    return true;
  plan->shape = shape_of(kernel, range);
  const Sizes *chosen = plan->variant->local_sizes->find(plan->shape);
  if (chosen) local = *chosen;
  return chosen != nullptr;
}

// The launch's analytic counts, or NULL.
std::shared_ptr<const WarpClasses> counts_told(Kernel *kernel, const Range &range,
                                               const Plan &plan) {
  LaunchFacts facts;
  facts.geometry = plan.geometry;
  for (cl_uint d = 0; d < range.dimensions; d++)
    facts.offset[d] = range.offset ? range.offset[d] : 0;
  std::lock_guard<std::mutex> guard(kernel->lock);
  facts.arguments.resize(plan.info->n_args);
  for (const clinst::Node &node : plan.info->nodes) {
    if (node.op != CLINST_ARGUMENT) continue;
    if (node.value >= kernel->arguments.size()) return nullptr;
    const Argument &argument = kernel->arguments[node.value];
    uint64_t &value = facts.arguments[node.value];
    if (argument.kind != Argument::value || argument.size > sizeof value) return nullptr;
    std::memcpy(&value, argument.bytes.data(), argument.size);
  }
  return plan.variant->analytic->find(facts);
}

// The launch's kernel and its partition into groups; runs none of our code.
Plan plain_plan(const Queue &queue, Kernel *kernel, const Range &range) {
  Plan plan;
  plan.kernel = kernel->handle;
  leave_launch(*kernel, *queue.device, range);
  compile_before_first(kernel, *queue.device, range);
  plan.variant = variant_of(kernel, *queue.device);
  plan.info = plan.variant->info;
  if (!plan.info) return plan;
  plan.local_known = find_local(queue, kernel, range, &plan);
  uint64_t global[3] = {1, 1, 1}, local[3] = {1, 1, 1};
  for (cl_uint d = 0; d < range.dimensions; d++) {
    global[d] = range.global[d];
    if (plan.local_known && plan.local[d]) local[d] = plan.local[d];
  }
  plan.geometry = Geometry::of(global, local, plan.variant->sub_group);
  const InstrumentedKernel &info = *plan.info;
  plan.derived = plan.local_known && info.n_probes == 0 && !info.has_accesses();
  if (plan.local_known && plan.variant->analytic) {
    plan.counts = counts_told(kernel, range, plan);
    plan.derived |= plan.counts != nullptr;
  }
  return plan;
}

}  // namespace

Plan bare_plan(Kernel *kernel, const char *reason) {
  Plan plan;
  plan.kernel = kernel->handle;
  plan.variant = bare_variant_of(kernel, reason);
  return plan;
}

Plan make_plan(const Queue &queue, Kernel *kernel, const Range &range, Room *room) {
  Plan plan = plain_plan(queue, kernel, range);
  if (!plan.info || plan.derived) return plan;
  plan.refusal = prepare_shadow(&plan, room, queue, kernel, range);
  if (plan.refusal.empty()) return plan;
  *room = Room();
  plan.local_known = false;  // the application's own launch
  return plan;
}

}  // namespace layer
