// SPDX-License-Identifier: Apache-2.0
#include "launches/launches.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "client/ahead.hpp"
#include "device/runtimes.hpp"
#include "launches/compile_beforehand.hpp"
#include "programs/origins.hpp"
#include "xpuprof/kernel_spec.hpp"

namespace layer {

static void harvest_all();

namespace {

constexpr double exit_patience_s = 10;  // for counts; a program that is timed ends as it does alone

KernelFilter &filter = *new KernelFilter;

void CL_CALLBACK tell_end(cl_event, cl_int, void *ended) {
  std::unique_ptr<std::promise<void>> promise(static_cast<std::promise<void> *>(ended));
  promise->set_value();
}

std::atomic<double> patience_s{first_patience_s};

// For a command that may wait for what the host does next. Later waits are then short. False: it
// has not ended.
bool wait_briefly(cl_event event) {
  auto promise = std::make_unique<std::promise<void>>();
  std::future<void> end = promise->get_future();
  if (next.clSetEventCallback(event, CL_COMPLETE, tell_end, promise.get()) != CL_SUCCESS)
    return false;
  promise.release();
  const std::chrono::duration<double> most{patience_s.load()};
  if (end.wait_for(most) == std::future_status::ready) return true;
  patience_s = later_patience_s;
  xpu_meta("not_in_sync", "1");
  return false;
}

// Whether the kernel, or a command before it, may wait for the host: in memory that both access
// meanwhile, or as a native kernel.
bool may_wait_for_host(Kernel *kernel) {
  if (native_kernels_enqueued || patience_s < first_patience_s) return true;
  std::lock_guard<std::mutex> guard(kernel->lock);
  return !kernel->exec_info.empty() ||
         std::any_of(kernel->arguments.begin(), kernel->arguments.end(), [](const Argument &one) {
           return one.kind == Argument::svm || one.kind == Argument::usm;
         });
}

// The paper's timer: the host waits for each kernel, except one that waits for the host. A callback
// takes longer to tell than a wait, 10 us on PoCL.
void wait_in_sync(uint32_t queue, uint64_t launch, Kernel *kernel, cl_event event) {
  if (user_events_unfired()) return;
  flush_all();
  if (!may_wait_for_host(kernel))
    next.clWaitForEvents(1, &event);
  else if (!wait_briefly(event))
    return;
  uint64_t seen = xpu_tsc();
  std::lock_guard<OrderLock> guard(order);
  for (Pending &one : pending[queue])
    if (one.launch == launch && !one.seen) one.seen = seen;
  poll_locked();
}

template <class Native>
cl_int launch(cl_command_queue queue_handle, cl_kernel kernel_handle, const Range &range,
              cl_event *event, Progress *progress, Native &&native) {
  auto queue = queue_of(queue_handle);
  auto kernel = kernel_of(kernel_handle);
  if (!queue || !kernel || is_empty(range)) return native(kernel_handle, range.local, event);

  std::unique_lock<OrderLock> guard(order);
  register_exit();
  poll_queue(*queue);
  const char *reason = left_out(*kernel);
  Planned made;
  Plan &plan = made.plan;
  plan =
      reason ? bare_plan(kernel.get(), reason) : make_plan(*queue, kernel.get(), range, &made.room);
  if (plan.kernel == kernel_handle) compile_own_beforehand(*kernel, *queue->device, range);
  uint64_t tsc = xpu_tsc();
  cl_event own = nullptr;
  cl_int error = native(plan.kernel, plan.local_known ? plan.local.data() : range.local, &own);
  const bool sized = plan.local_known && !range.local;
  if (error != CL_SUCCESS && (sized || plan.kernel != kernel_handle)) {
    // The application's own launch decides whether it was invalid.
    const cl_int refusal = error;
    tsc = xpu_tsc();
    error = native(kernel_handle, range.local, &own);
    if (error == CL_SUCCESS) plan.refused(refusal);
    made.room = Room();
  }
  if (error != CL_SUCCESS) return error;
  progress->taken = true;
  progress->event = own;
  if (event) next.clRetainEvent(*event = own);
  bool recording = made.room.recording != nullptr, sync = settings.mode == Mode::time_sync;
  if (sync) next.clRetainEvent(own);
  uint64_t number = follow(queue, *kernel, std::move(made), range, tsc, progress);
  guard.unlock();
  if (recording) wait_while_recording(queue->index, number);
  if (!sync) return CL_SUCCESS;
  wait_in_sync(queue->index, number, kernel.get(), own);
  next.clReleaseEvent(own);
  return CL_SUCCESS;
}

// The reason of a launch for which our part failed.
void count_bare(cl_command_queue queue, cl_kernel handle, const Range &range, uint64_t tsc,
                Progress *progress) {
  auto in = queue_of(queue);
  auto kernel = kernel_of(handle);
  if (!in || !kernel || is_empty(range)) return;
  std::lock_guard<OrderLock> guard(order);
  register_exit();
  follow(in, *kernel, {bare_plan(kernel.get(), own_failure), {}}, range, tsc, progress);
}

template <class Native>
cl_int launch_in_any_case(cl_command_queue queue, cl_kernel kernel, const Range &range,
                          cl_event *event, Native &&native) {
  Api api;
  uint64_t tsc = xpu_tsc();
  cl_int error = in_any_case(
      [&](Progress *progress) { return launch(queue, kernel, range, event, progress, native); },
      [&](cl_event *own) {
        cl_int error = native(kernel, range.local, own);
        if (error == CL_SUCCESS && event) next.clRetainEvent(*event = *own);
        return error;
      },
      [&](Progress *progress) { count_bare(queue, kernel, range, tsc, progress); });
  xpu_window_settle();
  // Our wait takes the place of the program's, in which its thread might be cancelled.
  if (settings.mode == Mode::time_sync) pthread_testcancel();
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
  HostEvent wait(XP_HOST_WAIT);
  cl_int error = next.clFinish(queue);
  quietly(settle);
  return error;
}

cl_int CL_API_CALL wait_for_events(cl_uint n, const cl_event *events) {
  Api api;
  HostEvent wait(XP_HOST_WAIT);
  cl_int error = next.clWaitForEvents(n, events);
  quietly(settle);
  return error;
}

}  // namespace

void register_exit() {
  static bool done;
  if (done) return;
  done = true;
  std::string why;  // already checked by the launcher; an invalid one leaves nothing out
  if (!filter.parse(settings.kernels, &why)) xpu_meta("gpu_engine_failed", why.c_str());
  std::atexit(finish);
  xpu_register_harvest(harvest_all);
}

const char *left_out(const Kernel &kernel) {
  if (settings.mode != Mode::profile) return nullptr;
  if (!xpu_window_is_open()) return XPU_REASON_OUTSIDE;
  return filter.chooses_next(kernel.name) ? nullptr : XPU_REASON_LEFT_OUT;
}

static uint64_t trace_launch(const Queue &queue, const Kernel &kernel, const Plan &plan,
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
  launch.reason = plan.reason().empty() ? nullptr : plan.reason().c_str();
  return xpu_kernel_run(&launch);
}

uint64_t follow(const std::shared_ptr<Queue> &queue, const Kernel &kernel, Planned made,
                const Range &range, uint64_t tsc, Progress *progress) {
  auto &launches = pending[queue->index];
  Pending launch;
  if (made.plan.reason().empty()) launch.instrumented = std::make_unique<Planned>();
  uint64_t number = launch.launch = trace_launch(*queue, kernel, made.plan, range, tsc);
  progress->counted = true;
  launch.event = progress->event;
  launch.queue = queue;
  bool recording = made.room.recording != nullptr;
  if (launch.instrumented) *launch.instrumented = std::move(made);
  launches.push_back(std::move(launch));
  progress->event = nullptr;
  if (recording) recording_launched(*queue->device, number);
  return number;
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
    for (const auto &[queue, launches] : pending) {
      for (const Pending &one : launches)
        if (one.instrumented) xpu_launch_uncounted(one.launch, XPU_REASON_ENDED);
    }
    report_clocks();
    xpu_gpu_fini();
  });
}

void finish() { finish_within(settings.mode == Mode::profile ? exit_patience_s : 0); }

// The program ends after its window: whatever it launched belongs to the profile.
static void harvest_all() {
  Api api;
  quietly(flush_all);
  finish_within(std::numeric_limits<double>::infinity());
}

static void after_fork_in_child() {
  release_leaf_locks();  // what follows may take them
  // The parent's launches and events do not belong to the child.
  (new std::map<uint32_t, std::deque<Pending>>)->swap(pending);
  filter.forget();
  forget_registrations();
  forget_announcement();
  forget_stacks();
  release_left();
  release_origins();
  new (&order) OrderLock;  // the child is another thread and cannot unlock a recursive lock
}

void register_forks() {
  static std::once_flag once;  // a loader may have us as a driver and then as a layer
  std::call_once(once, [] {
    pthread_atfork(
        [] {
          order.lock();
          hold_origins();
          hold_left();
          hold_leaf_locks();
        },
        [] {
          release_leaf_locks();
          release_left();
          release_origins();
          order.unlock();
        },
        after_fork_in_child);
  });
}

void override_launches(cl_icd_dispatch *table) {
  put<&Table::clEnqueueNDRangeKernel>(table, enqueue_kernel);
  put<&Table::clEnqueueTask>(table, enqueue_task);
  put<&Table::clFinish>(table, finish_queue);
  put<&Table::clWaitForEvents>(table, wait_for_events);
}

}  // namespace layer
