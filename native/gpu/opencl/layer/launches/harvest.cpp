// SPDX-License-Identifier: Apache-2.0
#include "launches/harvest.hpp"

#include <time.h>

#include <algorithm>

#include "device/clock.hpp"
#include "protocol/clinst_protocol.h"

namespace layer {

OrderLock &order = *new OrderLock;
std::map<uint32_t, std::deque<Pending>> &pending = *new std::map<uint32_t, std::deque<Pending>>;

namespace {

constexpr size_t out_of_order_scan = 32;

auto &clocks = *new std::map<const Device *, DeviceClock>;
WarpClassifier &classifier = *new WarpClassifier;

void trace_grid(uint64_t launch, const Variant &variant, const WarpClasses &classes) {
  xpu_grid grid{};
  grid.kernel = variant.id;
  grid.n_vectors = classes.n_vectors;
  grid.counts = classes.counts.data();
  grid.n_runs = classes.run_vector.size();
  grid.run_vector = classes.run_vector.data();
  grid.run_length = classes.run_length.data();
  xpu_kernel_counts(launch, &grid);
}

// Reads the geometry from the kernel's header; no counts where it is impossible. For counters on
// the device, the header is copied first and the rest once the number of warps is known.
bool geometry_from_header(Planned *launch) {
  Plan *plan = &launch->plan;
  const uint64_t *header = launch->room.area->data();
  for (int d = 0; d < 3; d++)
    if (!header[d]) return false;
  Geometry seen = Geometry::of(plan->geometry.global, header, plan->variant->sub_group);
  if (!std::equal(seen.groups, seen.groups + 3, header + 3)) return false;
  if (header[6] != seen.warp_size() || header[7] != seen.warps_a_group()) return false;
  if (plan->local_known && !(seen == plan->geometry)) return false;
  plan->geometry = seen;
  return true;
}

// Also moves the launch's recorded accesses to `accesses`. False: the counters do not fit the
// launch.
bool harvest_counts(uint64_t number, Planned *launch, RecordedAccesses *accesses) {
  Plan &plan = launch->plan;
  Room &room = launch->room;
  if (plan.counts) {
    trace_grid(number, *plan.variant, *plan.counts);
    return true;
  }
  const uint64_t *probes = nullptr;
  if (!plan.derived) {
    if (!room.area || !geometry_from_header(launch)) return false;
    const uint64_t *local = plan.geometry.local;
    if (!plan.local_known)
      plan.variant->local_sizes->remember(plan.shape, {local[0], local[1], local[2]});
    probes = room.area->data() + CLINST_HEADER_WORDS;
  }
  const InstrumentedKernel &info = *plan.info;
  const WarpClasses &classes = classifier.classify(info, plan.geometry, probes);
  trace_grid(number, *plan.variant, classes);
  if (!room.recording) return true;
  accesses->accesses = accesses_of(info, classes);
  accesses->beyond = info.unrecorded != 0;
  accesses->geometry = plan.geometry;
  accesses->recording = std::move(room.recording);
  return true;
}

cl_ulong device_stamp(cl_event event, cl_profiling_info which) {
  cl_ulong stamp = 0;
  next.clGetEventProfilingInfo(event, which, sizeof stamp, &stamp, nullptr);
  return stamp;
}

void take_stamps(const Pending &launch, xpu_completion *completion) {
  cl_ulong start = device_stamp(launch.event, CL_PROFILING_COMMAND_START);
  if (!start) return;  // it waited for an event that failed; Intel's runtime calls it complete
  DeviceClock &clock = clocks[launch.queue->device];
  clock.refresh(*launch.queue);
  completion->tsc_start = clock.ticks(start);
  completion->tsc_end = clock.ticks(launch.device_end);
  if (completion->tsc_end) completion->tsc_host = 0;
}

bool takes_stamps(const Pending &launch) {
  return settings.device_stamps && launch.queue->profiling;
}

// A launch with an end is complete; without one, it may have failed, or end while we ask.
cl_int ask_status(Pending *launch) {
  if (!takes_stamps(*launch)) return status_of(launch->event);
  launch->device_end = device_stamp(launch->event, CL_PROFILING_COMMAND_END);
  if (launch->device_end) return CL_COMPLETE;
  cl_int status = status_of(launch->event);
  if (status == CL_COMPLETE)
    launch->device_end = device_stamp(launch->event, CL_PROFILING_COMMAND_END);
  return status;
}

bool finished(Pending *launch) {
  if (launch->status > CL_COMPLETE) launch->status = ask_status(launch);
  if (launch->status > CL_COMPLETE) return false;
  if (!launch->seen) launch->seen = xpu_tsc();
  return true;
}

size_t counter_words(const Plan &plan, const Geometry &geometry) {
  return CLINST_HEADER_WORDS + geometry.n_groups() * geometry.warps_a_group() * plan.info->n_probes;
}

// Whether a finished launch's counters are on the host.
bool counters_arrived(Planned *launch) {
  const Plan &plan = launch->plan;
  if (!launch->room.area) return true;
  CounterArea &area = *launch->room.area;
  if (plan.local_known) return area.arrived(counter_words(plan, plan.geometry));
  return area.arrived(CLINST_HEADER_WORDS) &&
         (!geometry_from_header(launch) || area.arrived(counter_words(plan, plan.geometry)));
}

bool all_arrived(Pending *launch) {
  if (!launch->instrumented || launch->status != CL_COMPLETE) return true;
  const Room &room = launch->instrumented->room;
  return counters_arrived(launch->instrumented.get()) &&
         (!room.recording || records_arrived(room.recording.get()));
}

}  // namespace

cl_int status_of(cl_event event) {
  cl_int status = CL_QUEUED;
  if (next.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                          nullptr) != CL_SUCCESS)
    return -1;
  return status;
}

// If our part fails (out of memory), its data is missing; the launch still completes, exactly once.
void harvest(Pending *launch) {
  xpu_completion completion{};
  completion.launch = launch->launch;
  completion.tsc_host = launch->seen;
  Planned *instrumented = launch->instrumented.get();
  bool complete = launch->status == CL_COMPLETE;
  bool recorded = instrumented && instrumented->room.recording;
  if (takes_stamps(*launch) && complete) quietly([&] { take_stamps(*launch, &completion); });
  RecordedAccesses accesses;
  bool counted = false;
  if (complete && instrumented)
    quietly([&] { counted = harvest_counts(launch->launch, instrumented, &accesses); });
  if (instrumented && !counted)
    xpu_launch_uncounted(launch->launch, complete ? XPU_REASON_NOT_READ : "it ended with an error");
  xpu_kernel_complete(&completion);
  if (recorded) recording_finished(*launch->queue->device, launch->launch, std::move(accesses));
  next.clReleaseEvent(launch->event);
}

namespace {

// An in-order queue finishes from the front and is harvested in its order; elsewhere a few more
// launches are checked.
void poll_launches(std::deque<Pending> *launches, size_t scan) {
  size_t missed = 0;
  bool waiting = false;
  for (auto at = launches->begin(); at != launches->end();) {
    bool in_order = at->queue->in_order;
    if (!finished(&*at)) {
      if (in_order || ++missed > scan) return;
      ++at;
    } else if (!all_arrived(&*at) || (in_order && waiting)) {
      waiting = true;
      ++at;
    } else {
      harvest(&*at);
      at = launches->erase(at);
    }
  }
}

}  // namespace

void poll_queue(const Queue &queue) { poll_launches(&pending[queue.index], out_of_order_scan); }

void poll_locked() {
  for (auto at = pending.begin(); at != pending.end();) {
    poll_launches(&at->second, SIZE_MAX);
    at = at->second.empty() ? pending.erase(at) : std::next(at);
  }
}

void nap() {
  timespec short_while{0, 200000};
  nanosleep(&short_while, nullptr);
}

double seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void flush_all() {
  std::vector<cl_command_queue> alive;
  queues.each([&](const Queue &queue) {
    if (next.clRetainCommandQueue(queue.handle) == CL_SUCCESS) alive.push_back(queue.handle);
  });
  for (cl_command_queue queue : alive) {
    next.clFlush(queue);
    next.clReleaseCommandQueue(queue);
  }
}

static bool is_pending(uint32_t queue, uint64_t launch) {
  auto &launches = pending[queue];
  return std::any_of(launches.begin(), launches.end(),
                     [&](const Pending &one) { return one.launch == launch; });
}

// Hardly any wait after a launch that waited for the application.
void wait_while_recording(uint32_t queue, uint64_t launch) {
  static double patience_s = first_patience_s;
  if (user_events_unfired()) return;
  flush_all();
  for (double end = seconds() + patience_s;;) {
    {
      std::lock_guard<OrderLock> guard(order);
      poll_locked();
      if (!is_pending(queue, launch)) return;
      if (seconds() > end) {
        patience_s = later_patience_s;
        return;
      }
    }
    nap();
  }
}

void poll_all() {
  std::lock_guard<OrderLock> guard(order);
  poll_locked();
}

static cl_event copy_under_way(const Pending &launch) {
  if (!launch.instrumented) return nullptr;
  const Room &room = launch.instrumented->room;
  cl_event event = room.area ? room.area->under_way() : nullptr;
  return event || !room.recording ? event : room.recording->area->under_way();
}

void settle() {
  // Copies in this order: the header where the number of warps is unknown, the rest of the
  // counters, the directory of the accesses, the accesses.
  for (int copies = 0; copies < 5; copies++) {
    std::vector<cl_event> under_way;
    {
      std::lock_guard<OrderLock> guard(order);
      poll_locked();
      for (const auto &queue : pending)
        for (const Pending &launch : queue.second)
          if (cl_event event = copy_under_way(launch))
            if (next.clRetainEvent(event) == CL_SUCCESS) under_way.push_back(event);
    }
    if (under_way.empty()) return;
    next.clWaitForEvents(static_cast<cl_uint>(under_way.size()), under_way.data());
    for (cl_event event : under_way) next.clReleaseEvent(event);
  }
}

void close_context(Context &context) {
  poll_all();
  decltype(context.pools) pools;
  std::lock_guard<OrderLock> guard(order);
  std::lock_guard<std::mutex> own(context.lock);
  pools.swap(context.pools);
}

void report_clocks() {
  uint64_t error = 0;
  for (const auto &clock : clocks) error = std::max(error, clock.second.error_ticks());
  if (!clocks.empty()) xpu_meta("clock_error_ticks", std::to_string(error).c_str());
}

}  // namespace layer
