#include "launches.hpp"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <utility>

#include "../clinst_protocol.h"
#include "clock.hpp"
#include "counters.hpp"
#include "kernels.hpp"
#include "runtimes.hpp"
#include "stack_memory.hpp"
#include "warps.hpp"
#include "xpuprof/kernel_spec.hpp"

namespace layer {

static void harvest_all();

namespace {

// Counter memory a context and device may hold before we wait for launches to finish, and beyond
// which a launch is rather left uninstrumented.
constexpr size_t soft_limit = size_t{256} << 20, hard_limit = size_t{4} << 30;
constexpr double room_patience_s = 0.05, exit_patience_s = 10, recording_patience_s = 20;
constexpr size_t out_of_order_scan = 32;

// How one launch is to run.
struct Plan {
  std::shared_ptr<Variant> variant;
  cl_kernel kernel = nullptr;
  std::string reason;  // why uninstrumented; empty: instrumented
  Geometry geometry{};
  bool local_known = false;
  size_t local[3] = {1, 1, 1};                // where known
  bool derived = false;                       // counts follow from the geometry alone, or are known
  std::shared_ptr<const WarpClasses> counts;  // where known before the launch
  size_t words = 0;                           // of the area
  CounterArea area;
  std::shared_ptr<Recording> recording;  // of its accesses
};

}  // namespace

// What a launch of a command buffer needs at each replay.
struct RecordedLaunch {
  std::shared_ptr<Kernel> kernel;
  cl_command_queue queue = nullptr;
  cl_uint dimensions = 1;
  bool has_offset = false, has_local = false;
  size_t offset[3] = {}, global[3] = {1, 1, 1}, local[3] = {1, 1, 1};
  Plan plan;
  // The last replay's counters, on their way out of the plan's area; and the queue it ran in.
  cl_event copied = nullptr;
  std::shared_ptr<Queue> ran_in;
  bool mixed = false;  // two replays write to the area at once
  ~RecordedLaunch();
};

namespace {

// A launch whose end we have not seen yet.
struct Pending {
  uint64_t launch = 0;
  cl_event event = nullptr;
  cl_int status = CL_QUEUED;  // as last seen
  uint64_t seen = 0;          // when it was first seen finished
  std::shared_ptr<Queue> queue;
  Plan plan;
  std::shared_ptr<RecordedLaunch> recorded;  // of a command buffer: its area is in use until then
};

// One lock over enqueueing and recording: the order of slices is the order of enqueueing.
// Recursive, because a driver may call user code from within an enqueue.
using OrderLock = std::recursive_mutex;
OrderLock &order = *new OrderLock;
auto &pending = *new std::map<uint32_t, std::deque<Pending>>;  // by queue
auto &clocks = *new std::map<const Device *, DeviceClock>;
WarpClassifier &classifier = *new WarpClassifier;
KernelFilter &filter = *new KernelFilter;

// ---- harvesting -------------------------------------------------------------------------------

cl_int status_of(cl_event event) {
  cl_int status = CL_QUEUED;
  if (next.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                          nullptr) != CL_SUCCESS)
    return -1;
  return status;
}

void record_grid(uint64_t launch, const Variant &variant, const WarpClasses &classes) {
  xpu_grid grid{};
  grid.kernel = variant.id;
  grid.n_vectors = classes.n_vectors;
  grid.counts = classes.counts.data();
  grid.n_runs = classes.run_vector.size();
  grid.run_vector = classes.run_vector.data();
  grid.run_length = classes.run_length.data();
  xpu_kernel_counts(launch, &grid);
}

// What the kernel's header says it ran with; no counts where that cannot be. Of counters that are
// kept on the device, these are copied first and the rest once the number of warps is known.
bool geometry_from_header(Plan *plan) {
  const uint64_t *header = plan->area.data();
  for (int d = 0; d < 3; d++)
    if (!header[d]) return false;
  Geometry seen = Geometry::of(plan->geometry.global, header, plan->variant->sub_group);
  if (!std::equal(seen.groups, seen.groups + 3, header + 3)) return false;
  if (header[6] != seen.warp_size() || header[7] != seen.warps_a_group()) return false;
  if (plan->local_known && !(seen == plan->geometry)) return false;
  plan->geometry = seen;
  return true;
}

// Also takes the launch's accesses, where they were recorded, to `accesses`.
void harvest_counts(Pending *launch, RecordedAccesses *accesses) {
  Plan &plan = launch->plan;
  if (plan.counts) return record_grid(launch->launch, *plan.variant, *plan.counts);
  const uint64_t *probes = nullptr;
  if (!plan.derived) {
    if (!plan.area || !geometry_from_header(&plan)) return;
    probes = plan.area.data() + CLINST_HEADER_WORDS;
  }
  const InstrumentedKernel &info = *plan.variant->info;
  const WarpClasses &classes = classifier.classify(info, plan.geometry, probes);
  record_grid(launch->launch, *plan.variant, classes);
  if (!plan.recording) return;
  accesses->accesses = accesses_of(info, classes);
  accesses->beyond = info.unrecorded != 0;
  accesses->geometry = plan.geometry;
  accesses->recording = std::move(plan.recording);
  accesses->area = std::move(plan.area);
}

cl_ulong device_stamp(cl_event event, cl_profiling_info which) {
  cl_ulong stamp = 0;
  next.clGetEventProfilingInfo(event, which, sizeof stamp, &stamp, nullptr);
  return stamp;
}

void harvest(Pending *launch) {
  xpu_completion completion{};
  completion.launch = launch->launch;
  completion.tsc_host = launch->seen;
  if (device_stamps && launch->queue->profiling && launch->status == CL_COMPLETE) {
    DeviceClock &clock = clocks[launch->queue->device];
    clock.refresh(*launch->queue);
    completion.tsc_start = clock.ticks(device_stamp(launch->event, CL_PROFILING_COMMAND_START));
    completion.tsc_end = clock.ticks(device_stamp(launch->event, CL_PROFILING_COMMAND_END));
    if (completion.tsc_end) completion.tsc_host = 0;
  }
  RecordedAccesses accesses;
  bool recorded = launch->plan.recording != nullptr;
  if (launch->status == CL_COMPLETE) harvest_counts(launch, &accesses);
  xpu_kernel_complete(&completion);
  if (recorded) recording_finished(*launch->queue->device, launch->launch, std::move(accesses));
  next.clReleaseEvent(launch->event);
}

bool finished(Pending *launch) {
  if (launch->status > CL_COMPLETE) launch->status = status_of(launch->event);
  if (launch->status > CL_COMPLETE) return false;
  if (!launch->seen) launch->seen = xpu_tsc();
  return true;
}

size_t counter_words(const Plan &plan, const Geometry &geometry) {
  return CLINST_HEADER_WORDS +
         geometry.n_groups() * geometry.warps_a_group() * plan.variant->info->n_probes;
}

// Of a finished launch: whether all that the harvest needs is on the host.
bool counters_arrived(Pending *launch) {
  Plan &plan = launch->plan;
  if (!plan.area || launch->status != CL_COMPLETE) return true;
  if (plan.local_known) return plan.area.arrived(counter_words(plan, plan.geometry));
  return plan.area.arrived(CLINST_HEADER_WORDS) &&
         (!geometry_from_header(&plan) || plan.area.arrived(counter_words(plan, plan.geometry)));
}

// An in-order queue finishes from the front, and is harvested in its order; elsewhere a few more
// are looked at.
void poll_queue(std::deque<Pending> *launches, size_t scan) {
  size_t missed = 0;
  bool waiting = false;
  for (auto at = launches->begin(); at != launches->end();) {
    bool in_order = at->queue->in_order;
    if (!finished(&*at)) {
      if (in_order || ++missed > scan) return;
      ++at;
    } else if (!counters_arrived(&*at) || (in_order && waiting)) {
      waiting = true;
      ++at;
    } else {
      harvest(&*at);
      at = launches->erase(at);
    }
  }
}

void poll_locked() {
  for (auto at = pending.begin(); at != pending.end();) {
    poll_queue(&at->second, SIZE_MAX);
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

// What we wait for may wait for a command that stands unflushed in another queue.
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

// ---- planning ---------------------------------------------------------------------------------

std::shared_ptr<CounterPool> pool_of(const Queue &queue, PoolUse use) {
  std::lock_guard<std::mutex> guard(queue.context->lock);
  auto &slot = queue.context->pools[{queue.device->handle, use}];
  if (!slot) slot = std::make_shared<CounterPool>(queue.context->handle, *queue.device);
  return slot;
}

// Waits a little for room; never for ever, since what we wait for may wait for the application.
CounterArea find_room(const Queue &queue, size_t words, PoolUse use) {
  std::shared_ptr<CounterPool> pool = pool_of(queue, use);
  CounterArea area = pool->allocate(words, soft_limit);
  if (area) return area;
  poll_locked();
  area = pool->allocate(words, soft_limit);
  if (!area && !user_events_unfired() && !pending.empty()) {
    flush_all();
    for (double end = seconds() + room_patience_s; !area && seconds() < end && !pending.empty();) {
      nap();
      poll_locked();
      area = pool->allocate(words, soft_limit);
    }
  }
  return area ? std::move(area) : pool->allocate(words, hard_limit);
}

// Room for the reduction over a warp, in local memory. 0: there is not enough.
size_t scratch_bytes(const Plan &plan, const Kernel &kernel, const Device &device) {
  const Variant &variant = *plan.variant;
  const uint64_t *global = plan.geometry.global;
  uint64_t items = plan.local_known
                       ? plan.geometry.items_a_group()
                       : std::min<uint64_t>(global[0] * global[1] * global[2],
                                            variant.max_work_group ? variant.max_work_group
                                                                   : device.max_work_group);
  cl_ulong used = 0;
  next.clGetKernelWorkGroupInfo(kernel.handle, device.handle, CL_KERNEL_LOCAL_MEM_SIZE, sizeof used,
                                &used, nullptr);
  uint64_t bytes = std::max<uint64_t>(8, items * variant.info->scratch_probes * 8);
  return used + bytes <= device.local_memory ? bytes : 0;
}

cl_int set_our_arguments(Variant *variant, const CounterArea &area, size_t scratch) {
  cl_uint n = variant->info->n_args;
  cl_mem buffer = area.buffer();
  cl_ulong first = area.first();
  cl_int error = next.clSetKernelArg(variant->shadow, n, sizeof buffer, &buffer);
  if (error == CL_SUCCESS)
    error = next.clSetKernelArg(variant->shadow, n + 1, sizeof first, &first);
  if (error == CL_SUCCESS && variant->scratch != scratch) {
    error = next.clSetKernelArg(variant->shadow, n + 2, scratch, nullptr);
    variant->scratch = scratch;
  }
  return error;
}

// Room for the launch's counters and its accesses; where there is none for these, the launch is
// counted all the same and its vector says that nothing was recorded. Nothing ever is of a launch
// of a command buffer, which has one area for all its replays.
CounterArea find_room_to_record(Plan *plan, const Queue &queue, Kernel *kernel, PoolUse use) {
  CounterArea area;
  for (bool has_room : {use == PoolUse::launches, false}) {
    plan->recording = plan_recording(kernel, *plan->variant, plan->geometry, plan->local_known,
                                     *queue.device, plan->words, has_room);
    area = find_room(queue, plan->recording->words, use);
    if (area) break;
  }
  if (area) prepare_recording(*plan->recording, &area);
  if (!area || use == PoolUse::recorded) plan->recording.reset();
  return area;
}

// Decides whether the shadow runs, and prepares it. A reason means that it does not.
std::string prepare_shadow(Plan *plan, const Queue &queue, Kernel *kernel, PoolUse use) {
  Variant &variant = *plan->variant;
  std::string missing = ensure_shadow(kernel, *queue.device, &variant);
  if (!missing.empty()) return missing;
  const InstrumentedKernel &info = *variant.info;
  if (info.n_args != kernel->arguments.size())
    return "the instrumented kernel has other arguments than the application's";
  const uint64_t *global = plan->geometry.global;
  uint64_t warps = plan->local_known ? plan->geometry.n_groups() * plan->geometry.warps_a_group()
                                     : global[0] * global[1] * global[2];
  size_t scratch = scratch_bytes(*plan, *kernel, *queue.device);
  if (!scratch) return "the counters do not fit into local memory";
  if (warps > hard_limit / 8 / (info.n_probes + 1)) return "the counters need too much memory";
  plan->words = CLINST_HEADER_WORDS + warps * info.n_probes;
  plan->area = info.has_accesses() ? find_room_to_record(plan, queue, kernel, use)
                                   : find_room(queue, plan->words, use);
  if (!plan->area) return "the counters need too much memory";
  cl_int error = set_our_arguments(&variant, plan->area, scratch);
  if (error != CL_SUCCESS)
    return "the instrumented kernel does not take our arguments (error " + std::to_string(error) +
           ")";
  plan->kernel = variant.shadow;
  return "";
}

// A local size left to the runtime stays its choice. Where it tells what it would choose for the
// application's kernel, the shadow gets that size, so that nothing has to be bounded from above.
bool find_local(const Queue &queue, const Kernel &kernel, const Range &range, size_t local[3]) {
  if (range.local) {
    std::copy_n(range.local, range.dimensions, local);
    return true;
  }
  SuggestLocal suggest = queue.device->suggest_local;
  return suggest &&
         suggest(queue.handle, kernel.handle, range.dimensions, range.offset, range.global,
                 local) == CL_SUCCESS &&
         local[0] && local[1] && local[2];
}

// The launch's counts where its sizes and arguments tell them, or NULL.
std::shared_ptr<const WarpClasses> counts_told(Kernel *kernel, const Range &range,
                                               const Plan &plan) {
  LaunchFacts facts;
  facts.geometry = plan.geometry;
  for (cl_uint d = 0; d < range.dimensions; d++)
    facts.offset[d] = range.offset ? range.offset[d] : 0;
  std::lock_guard<std::mutex> guard(kernel->lock);
  for (uint32_t index : plan.variant->info->integers) {
    uint64_t value = 0;
    if (index >= kernel->arguments.size()) return nullptr;
    const Argument &argument = kernel->arguments[index];
    if (argument.kind != Argument::value || argument.size > sizeof value) return nullptr;
    std::memcpy(&value, argument.bytes.data(), argument.size);
    facts.arguments.push_back(value);
  }
  return plan.variant->host->find(facts);
}

// Which kernel the launch is of and how its work-items fall into groups; runs nothing of ours.
Plan plain_plan(const Queue &queue, Kernel *kernel, const Range &range, PoolUse use) {
  Plan plan;
  plan.kernel = kernel->handle;
  plan.variant = use == PoolUse::recorded ? own_variant_of(kernel, *queue.device)
                                          : variant_of(kernel, *queue.device);
  plan.reason = plan.variant->reason;
  if (!plan.variant->info) return plan;
  plan.local_known = find_local(queue, *kernel, range, plan.local);
  uint64_t global[3] = {1, 1, 1}, local[3] = {1, 1, 1};
  for (cl_uint d = 0; d < range.dimensions; d++) {
    global[d] = range.global[d];
    if (plan.local_known && plan.local[d]) local[d] = plan.local[d];
  }
  plan.geometry = Geometry::of(global, local, plan.variant->sub_group);
  const InstrumentedKernel &info = *plan.variant->info;
  plan.derived = plan.local_known && info.n_probes == 0 && !info.has_accesses();
  if (plan.local_known && plan.variant->host) {
    plan.counts = counts_told(kernel, range, plan);
    plan.derived |= plan.counts != nullptr;
  }
  return plan;
}

// Why the next launch, one of this kernel, has no vectors by choice; NULL: it is to have them.
const char *left_out(const Kernel &kernel) {
  if (mode != Mode::profile) return nullptr;
  if (!xpu_window_is_open()) return XPU_REASON_OUTSIDE;
  return filter.chooses_next(kernel.name) ? nullptr : XPU_REASON_LEFT_OUT;
}

Plan bare_plan(Kernel *kernel, const char *reason) {
  Plan plan;
  plan.kernel = kernel->handle;
  plan.variant = bare_variant_of(kernel, reason);
  plan.reason = reason;
  return plan;
}

Plan make_plan(const Queue &queue, Kernel *kernel, const Range &range,
               PoolUse use = PoolUse::launches) {
  Plan plan = plain_plan(queue, kernel, range, use);
  if (plan.variant->info && !plan.derived) plan.reason = prepare_shadow(&plan, queue, kernel, use);
  return plan;
}

// ---- launching --------------------------------------------------------------------------------

uint64_t record_launch(const Queue &queue, const Kernel &kernel, const Plan &plan,
                       const Range &range, uint64_t tsc) {
  filter.launched(kernel.name);
  xpu_launch launch{};
  launch.kernel = plan.variant->id;
  launch.dimensions = range.dimensions;
  for (cl_uint d = 0; d < 3; d++) {
    bool used = d < range.dimensions;
    launch.global[d] = used ? range.global[d] : 1;
    launch.local[d] = !range.local ? 0 : used ? range.local[d] : 1;
    launch.offset[d] = used && range.offset ? range.offset[d] : 0;
  }
  launch.queue = queue.index;
  launch.device = queue.device->index;
  launch.tsc_run = tsc;
  launch.reason = plan.reason.empty() ? nullptr : plan.reason.c_str();
  return xpu_kernel_run(&launch);
}

void register_exit() {
  static bool done;
  if (done) return;
  done = true;
  if (const char *spec = std::getenv(XPU_ENV_KERNELS)) {
    std::string why;  // the launcher checked it before: with a wrong one nothing is left out
    if (!filter.parse(spec, &why)) xpu_meta("gpu_engine_failed", why.c_str());
  }
  std::atexit(finish);
  xpu_register_harvest(harvest_all);
  pthread_atfork([] { order.lock(); }, [] { order.unlock(); },
                 [] {
                   // Its parent's launches are not the child's own, and neither are the events.
                   (new std::map<uint32_t, std::deque<Pending>>)->swap(pending);
                   filter.forget();
                   forget_registrations();
                   forget_announcement();
                   forget_stacks();
                   order.unlock();
                 });
}

// The paper's timer: the host waits for each kernel. Not for one that may wait for the host.
void wait_in_sync(Pending *launch) {
  if (user_events_unfired()) {
    std::lock_guard<OrderLock> guard(order);
    pending[launch->queue->index].push_back(std::move(*launch));
    return;
  }
  flush_all();
  next.clWaitForEvents(1, &launch->event);
  launch->seen = xpu_tsc();
  std::lock_guard<OrderLock> guard(order);
  launch->status = CL_COMPLETE;
  harvest(launch);
  poll_locked();
}

// A launch of nothing: the driver's answer is the application's.
bool is_empty(const Range &range) {
  if (range.dimensions < 1 || range.dimensions > 3 || !range.global) return true;
  return std::find(range.global, range.global + range.dimensions, 0) !=
         range.global + range.dimensions;
}

bool is_pending(uint32_t queue, uint64_t launch) {
  auto &launches = pending[queue];
  return std::any_of(launches.begin(), launches.end(),
                     [&](const Pending &one) { return one.launch == launch; });
}

// A recorded launch holds much memory: its end is awaited, so that the next one finds the room
// free. Not for ever, since it may wait for the application (which shares memory with it); after
// such a one hardly any more.
void wait_while_recording(uint32_t queue, uint64_t launch) {
  static double patience_s = recording_patience_s;
  if (user_events_unfired()) return;
  flush_all();
  for (double end = seconds() + patience_s;;) {
    {
      std::lock_guard<OrderLock> guard(order);
      poll_locked();
      if (!is_pending(queue, launch)) return;
      if (seconds() > end) {
        patience_s = room_patience_s;
        return;
      }
    }
    nap();
  }
}

template <class Native>
cl_int launch(cl_command_queue queue_handle, cl_kernel kernel_handle, const Range &range,
              cl_event *event, Native &&native) {
  auto queue = queue_of(queue_handle);
  auto kernel = kernel_of(kernel_handle);
  if (!queue || !kernel || is_empty(range)) return native(kernel_handle, range.local, event);

  std::unique_lock<OrderLock> guard(order);
  register_exit();
  poll_queue(&pending[queue->index], out_of_order_scan);
  const char *reason = left_out(*kernel);
  Plan plan = reason ? bare_plan(kernel.get(), reason) : make_plan(*queue, kernel.get(), range);
  Pending record;
  uint64_t tsc = xpu_tsc();
  bool shadow = plan.kernel != kernel_handle;
  cl_int error =
      native(plan.kernel, shadow && plan.local_known ? plan.local : range.local, &record.event);
  if (error != CL_SUCCESS && shadow) {
    // The application's own kernel decides whether the launch was wrong.
    plan.reason =
        "the device refused the instrumented kernel (error " + std::to_string(error) + ")";
    plan.area = CounterArea();
    plan.recording.reset();
    tsc = xpu_tsc();
    error = native(kernel_handle, range.local, &record.event);
  }
  if (error != CL_SUCCESS) return error;
  if (event) {
    next.clRetainEvent(record.event);
    *event = record.event;
  }
  record.launch = record_launch(*queue, *kernel, plan, range, tsc);
  record.queue = queue;
  record.plan = std::move(plan);
  bool recording = record.plan.recording != nullptr;
  if (recording) recording_launched(*queue->device, record.launch);
  if (mode != Mode::time_sync) {
    uint64_t number = record.launch;
    pending[queue->index].push_back(std::move(record));
    guard.unlock();
    if (recording) wait_while_recording(queue->index, number);
    return CL_SUCCESS;
  }
  guard.unlock();
  wait_in_sync(&record);
  return CL_SUCCESS;
}

// Where our own work fails (out of memory) the application's launch is made all the same; where it
// fails behind the launch, the driver's answer stands.
template <class Native>
cl_int launch_in_any_case(cl_command_queue queue, cl_kernel kernel, const Range &range,
                          cl_event *event, Native &&native) {
  Api api;
  cl_int error = CL_SUCCESS;
  bool made = false;
  auto call = [&](cl_kernel which, const size_t *local, cl_event *to) {
    made = true;
    return error = native(which, local, to);
  };
  bool done = quietly([&] { error = launch(queue, kernel, range, event, call); });
  if (!done && !made) error = native(kernel, range.local, event);
  xpu_window_settle();
  return error;
}

cl_int CL_API_CALL enqueue_kernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                  const size_t *offset, const size_t *global, const size_t *local,
                                  cl_uint n_wait, const cl_event *wait, cl_event *event) {
  auto native = [&](cl_kernel which, const size_t *chosen, cl_event *to) {
    return next.clEnqueueNDRangeKernel(queue, which, dimensions, offset, global, chosen, n_wait,
                                       wait, to);
  };
  return launch_in_any_case(queue, kernel, {dimensions, offset, global, local}, event, native);
}

cl_int CL_API_CALL enqueue_task(cl_command_queue queue, cl_kernel kernel, cl_uint n_wait,
                                const cl_event *wait, cl_event *event) {
  static const size_t one[1] = {1};
  auto native = [&](cl_kernel which, const size_t *, cl_event *to) {
    return next.clEnqueueTask(queue, which, n_wait, wait, to);
  };
  return launch_in_any_case(queue, kernel, {1, nullptr, one, one}, event, native);
}

cl_int CL_API_CALL finish_queue(cl_command_queue queue) {
  Api api;
  cl_int error = next.clFinish(queue);
  quietly(settle);
  return error;
}

cl_int CL_API_CALL wait_for_events(cl_uint n, const cl_event *events) {
  Api api;
  cl_int error = next.clWaitForEvents(n, events);
  quietly(settle);
  return error;
}

// ---- command buffers --------------------------------------------------------------------------

Range range_of(const RecordedLaunch &recorded) {
  return {recorded.dimensions, recorded.has_offset ? recorded.offset : nullptr, recorded.global,
          recorded.has_local ? recorded.local : nullptr};
}

// Still running, as far as is known: its counters must not be overwritten by the next replay.
bool under_way(RecordedLaunch *recorded) {
  if (!recorded->copied || status_of(recorded->copied) > CL_COMPLETE) return recorded->copied;
  next.clReleaseEvent(std::exchange(recorded->copied, nullptr));
  return false;
}

// The replays share one area, so each has to wait until the last one's counters are out of it. In
// an in-order queue it does. Elsewhere it is made to, unless something may wait for the
// application: then neither replay has counts.
void keep_replays_apart(const RecordedLaunches &launches, const Queue *queue, WaitList *wait) {
  bool may_wait = !user_events_unfired();
  for (const auto &recorded : launches) {
    if (!under_way(recorded.get())) continue;
    Queue &before = *recorded->ran_in;
    if (queue && queue->in_order && before.handle == queue->handle) continue;
    if (may_wait) {
      wait->push_back(recorded->copied);
      continue;
    }
    for (Pending &launch : pending[before.index])
      if (launch.recorded == recorded) launch.plan.area = CounterArea();
    recorded->mixed = true;
  }
  if (!wait->empty()) flush_all();
}

// Brings the replay's counters out of the area that the next replay writes to.
std::string copy_counters(RecordedLaunch *recorded, const std::shared_ptr<Queue> &queue,
                          cl_event done, Pending *record) {
  const Plan &from = recorded->plan;
  if (recorded->mixed) return "replayed while an earlier replay was under way";
  CounterArea to = find_room(*queue, from.words, PoolUse::launches);
  if (!to) return "the counters need too much memory";
  cl_event copied = nullptr;
  cl_int error = next.clEnqueueCopyBuffer(
      queue->handle, from.area.buffer(), to.buffer(), from.area.first() * sizeof(uint64_t),
      to.first() * sizeof(uint64_t), from.words * sizeof(uint64_t), 1, &done, &copied);
  if (error != CL_SUCCESS)
    return "the counters cannot be copied (error " + std::to_string(error) + ")";
  if (recorded->copied) next.clReleaseEvent(recorded->copied);
  recorded->copied = copied;
  recorded->ran_in = queue;
  next.clRetainEvent(copied);
  record->event = copied;
  record->plan.area = std::move(to);
  return "";
}

void record_replayed(const std::shared_ptr<RecordedLaunch> &recorded, cl_command_queue instead,
                     cl_event event, uint64_t tsc) {
  auto queue = queue_of(instead ? instead : recorded->queue);
  if (!queue) return;
  const Plan &plan = recorded->plan;
  Pending record;
  const char *reason = left_out(*recorded->kernel);
  record.plan.variant = plan.variant;
  record.plan.reason = reason ? reason : plan.reason;
  record.plan.geometry = plan.geometry;
  record.plan.local_known = plan.local_known;
  record.plan.derived = plan.derived && !reason;
  if (record.plan.derived) record.plan.counts = plan.counts;
  record.recorded = recorded;
  record.queue = queue;
  // What was recorded runs as it is; what is left out just has no counts.
  if (plan.area && !reason)
    record.plan.reason = copy_counters(recorded.get(), queue, event, &record);
  if (!record.event) {
    record.event = event;
    next.clRetainEvent(event);
  }
  record.launch = record_launch(*queue, *recorded->kernel, record.plan, range_of(*recorded), tsc);
  pending[queue->index].push_back(std::move(record));
}

}  // namespace

RecordedLaunch::~RecordedLaunch() {
  if (copied) next.clReleaseEvent(copied);
}

cl_int record(cl_command_queue queue_handle, cl_kernel kernel, const Range &range, bool changeable,
              RecordedLaunches *launches,
              const std::function<cl_int(cl_kernel, const size_t *local)> &native) {
  auto recorded = std::make_shared<RecordedLaunch>();
  auto queue = queue_of(queue_handle);
  recorded->kernel = kernel_of(kernel);
  if (!queue || !recorded->kernel || is_empty(range)) return native(kernel, range.local);
  std::lock_guard<OrderLock> guard(order);
  Plan &plan = recorded->plan;
  plan = changeable ? plain_plan(*queue, recorded->kernel.get(), range, PoolUse::launches)
                    : make_plan(*queue, recorded->kernel.get(), range, PoolUse::recorded);
  if (changeable && plan.reason.empty())
    plan.reason = "a command that can be changed in its command buffer";
  plan.derived = plan.derived && !changeable;
  bool shadow = plan.kernel != kernel;
  cl_int error = native(plan.kernel, shadow && plan.local_known ? plan.local : range.local);
  if (error != CL_SUCCESS && shadow) {
    plan.reason =
        "the device refused the instrumented kernel (error " + std::to_string(error) + ")";
    plan.area = CounterArea();
    error = native(kernel, range.local);
  }
  if (error != CL_SUCCESS) return error;
  recorded->queue = queue_handle;
  recorded->dimensions = range.dimensions;
  std::copy_n(range.global, range.dimensions, recorded->global);
  if ((recorded->has_offset = range.offset))
    std::copy_n(range.offset, range.dimensions, recorded->offset);
  if ((recorded->has_local = range.local))
    std::copy_n(range.local, range.dimensions, recorded->local);
  launches->push_back(std::move(recorded));
  return CL_SUCCESS;
}

cl_int replay(const RecordedLaunches &launches, cl_command_queue instead, cl_event *event,
              const std::function<cl_int(const WaitList &, cl_event *)> &native) {
  std::lock_guard<OrderLock> guard(order);
  register_exit();
  poll_locked();
  cl_event own = nullptr;
  WaitList behind;
  for (const auto &recorded : launches) recorded->mixed = false;
  auto queue = launches.empty() ? nullptr : queue_of(instead ? instead : launches[0]->queue);
  keep_replays_apart(launches, queue.get(), &behind);
  uint64_t tsc = xpu_tsc();
  cl_int error = native(behind, &own);
  if (error != CL_SUCCESS) return error;
  for (const auto &recorded : launches)
    quietly([&] { record_replayed(recorded, instead, own, tsc); });
  if (event)
    *event = own;
  else
    next.clReleaseEvent(own);
  return CL_SUCCESS;
}

void forget_recorded(RecordedLaunches launches) {
  std::lock_guard<OrderLock> guard(order);
  launches.clear();
}

void poll_all() {
  std::lock_guard<OrderLock> guard(order);
  poll_locked();
}

void settle() {
  // Of a launch the header comes first where the number of its warps is not known, then the rest.
  for (int copies = 0; copies < 3; copies++) {
    std::vector<cl_event> under_way;
    {
      std::lock_guard<OrderLock> guard(order);
      poll_locked();
      for (const auto &queue : pending)
        for (const Pending &launch : queue.second)
          if (cl_event event = launch.plan.area ? launch.plan.area.under_way() : nullptr)
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

static void finish_within(double patience_s) {
  static bool done;
  Api api;
  quietly([patience_s] {
    std::unique_lock<OrderLock> guard(order);
    if (done) return;
    done = true;
    poll_locked();
    for (double end = seconds() + patience_s;
         !pending.empty() && !user_events_unfired() && seconds() < end;) {
      nap();
      poll_locked();
    }
    uint64_t error = 0;
    for (const auto &clock : clocks) error = std::max(error, clock.second.error_ticks());
    if (!clocks.empty()) xpu_meta("clock_error_ticks", std::to_string(error).c_str());
    xpu_gpu_fini();
  });
}

void finish() { finish_within(exit_patience_s); }

// The program ends behind its window: whatever it launched belongs to the profile.
static void harvest_all() {
  Api api;
  quietly(flush_all);
  finish_within(std::numeric_limits<double>::infinity());
}

void override_launches(cl_icd_dispatch *table) {
  table->clEnqueueNDRangeKernel = enqueue_kernel;
  table->clEnqueueTask = enqueue_task;
  table->clFinish = finish_queue;
  table->clWaitForEvents = wait_for_events;
}

}  // namespace layer
