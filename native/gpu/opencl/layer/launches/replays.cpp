#include "launches/replays.hpp"

#include <algorithm>
#include <utility>

#include "launches/launches.hpp"

namespace layer {

// What a launch of a command buffer needs at each replay.
struct RecordedLaunch {
  std::shared_ptr<Kernel> kernel;
  cl_command_queue queue = nullptr;
  cl_uint dimensions = 1;
  bool has_offset = false, has_local = false;
  size_t offset[3] = {}, global[3] = {1, 1, 1}, local[3] = {1, 1, 1};
  Plan plan;
  Room room;
  // The last replay's counters, on their way out of the area; and the queue it ran in.
  cl_event copied = nullptr;
  std::shared_ptr<Queue> ran_in;
  bool mixed = false;  // two replays write to the area at once
  // With room for accesses: the last replay, and what it recorded, until that was taken in; and
  // what the next one records with.
  cl_event ran = nullptr;
  std::weak_ptr<Recording> last;
  std::shared_ptr<Recording> coming;

  RecordedLaunch(std::shared_ptr<Kernel> of, cl_command_queue in, const Range &range);
  ~RecordedLaunch();
  Range range() const {
    return {dimensions, has_offset ? offset : nullptr, global, has_local ? local : nullptr};
  }
};

RecordedLaunch::RecordedLaunch(std::shared_ptr<Kernel> of, cl_command_queue in, const Range &range)
    : kernel(std::move(of)), queue(in), dimensions(range.dimensions) {
  std::copy_n(range.global, dimensions, global);
  if ((has_offset = range.offset)) std::copy_n(range.offset, dimensions, offset);
  if ((has_local = range.local)) std::copy_n(range.local, dimensions, local);
}

RecordedLaunch::~RecordedLaunch() {
  if (copied) next.clReleaseEvent(copied);
  if (ran) next.clReleaseEvent(ran);
}

namespace {

// Still running, as far as is known: its counters must not be overwritten by the next replay.
bool under_way(RecordedLaunch *recorded) {
  if (!recorded->copied || status_of(recorded->copied) > CL_COMPLETE) return recorded->copied;
  next.clReleaseEvent(std::exchange(recorded->copied, nullptr));
  return false;
}

// An earlier replay is under way and the next one is not made to wait: neither has counts.
void give_up_counts(const std::shared_ptr<RecordedLaunch> &recorded) {
  for (Pending &launch : pending[recorded->ran_in->index])
    if (launch.recorded == recorded) launch.room.area.reset();
  recorded->mixed = true;
}

// The replays share one area, so each has to wait until the last one's counters are out of it. In
// an in-order queue it does. Elsewhere it is made to, unless something may wait for the
// application.
void keep_replays_apart(const RecordedLaunches &launches, const Queue *queue, WaitList *wait) {
  bool may_wait = !user_events_unfired();
  for (const auto &recorded : launches) {
    if (!under_way(recorded.get())) continue;
    const Queue &before = *recorded->ran_in;
    if (queue && queue->in_order && before.handle == queue->handle) continue;
    if (may_wait)
      wait->push_back(recorded->copied);
    else
      give_up_counts(recorded);
  }
  if (!wait->empty()) flush_all();
}

// Brings the replay's counters out of the area that the next replay writes to.
std::string copy_counters(RecordedLaunch *recorded, Pending *record, Progress *progress) {
  const CounterArea &from = *recorded->room.area;
  const size_t words = recorded->plan.words;
  if (recorded->mixed) return "replayed while an earlier replay was under way";
  auto to = find_room(*record->queue, words, PoolUse::launches);
  if (!to) return "the counters need too much memory";
  cl_event copied = nullptr;
  cl_int error = next.clEnqueueCopyBuffer(
      record->queue->handle, from.buffer(), to->buffer(), from.first() * sizeof(uint64_t),
      to->first() * sizeof(uint64_t), words * sizeof(uint64_t), 1, &progress->event, &copied);
  if (error != CL_SUCCESS)
    return "the counters cannot be copied (error " + std::to_string(error) + ")";
  if (recorded->copied) next.clReleaseEvent(recorded->copied);
  recorded->copied = copied;
  recorded->ran_in = record->queue;
  next.clRetainEvent(copied);
  next.clReleaseEvent(std::exchange(progress->event, copied));
  record->room.area = std::move(to);
  return "";
}

// The replays share one room for accesses. The host makes it ready and reads it, so a replay
// records when the last one was read. Where it was not, since the host could not wait for it,
// neither has distances.
void make_ready_to_record(RecordedLaunch *recorded) {
  if (!recorded->room.recording) return;
  auto last = recorded->last.lock();
  bool free = !last && (!recorded->ran || status_of(recorded->ran) <= CL_COMPLETE);
  if (last) last->spoiled = true;
  recorded->coming = record_again(*recorded->room.recording, free);
}

void keep_records(RecordedLaunch *recorded, Pending *record, cl_event event) {
  if (recorded->ran) next.clReleaseEvent(recorded->ran);
  recorded->ran = event;
  recorded->last.reset();
  auto coming = std::move(recorded->coming);
  if (record->room.area) recorded->last = record->room.recording = coming;
}

// Of a command that the application may change: it is recorded as it is.
Plan changeable_plan(const Queue &queue, Kernel *kernel, const Range &range) {
  Plan plan = plain_plan(queue, kernel, range, PoolUse::launches);
  if (plan.reason.empty()) plan.leave_out("a command that can be changed in its command buffer");
  return plan;
}

// Launches whose accesses are recorded, each with its queue.
using Awaited = std::vector<std::pair<uint32_t, uint64_t>>;

// Counts a replay of the launch. It ran as it was recorded: with a reason it just has no counts.
void record_replayed(const std::shared_ptr<RecordedLaunch> &recorded, cl_command_queue instead,
                     const char *reason, uint64_t tsc, Progress *progress, Awaited *awaited) {
  Pending record;
  record.queue = queue_of(instead ? instead : recorded->queue);
  if (!record.queue) return;
  record.plan = recorded->plan;
  record.recorded = recorded;
  cl_event replayed = progress->event;
  if (recorded->room.recording) next.clRetainEvent(replayed);
  if (reason)
    record.plan.leave_out(reason);
  else if (recorded->room.area)
    record.plan.reason = copy_counters(recorded.get(), &record, progress);
  if (recorded->room.recording) keep_records(recorded.get(), &record, replayed);
  uint32_t queue = record.queue->index;
  bool recording = record.room.recording != nullptr;
  uint64_t number = follow(std::move(record), *recorded->kernel, recorded->range(), tsc, progress);
  if (recording) awaited->emplace_back(queue, number);
}

// With `reason`: the driver took the command buffer, but our part failed before.
void count_replayed(const RecordedLaunches &launches, cl_command_queue instead, cl_event event,
                    const char *reason, uint64_t tsc, Awaited *awaited) {
  for (const auto &recorded : launches) {
    auto count = [&](const char *why, Progress *progress) {
      record_replayed(recorded, instead, why, tsc, progress, awaited);
    };
    in_any_case(
        [&](Progress *progress) {
          next.clRetainEvent(event);
          *progress = {true, event, false};
          count(reason ? reason : left_out(*recorded->kernel), progress);
          return CL_SUCCESS;
        },
        [](cl_event *) { return CL_SUCCESS; },
        [&](Progress *progress) { count(own_failure, progress); });
  }
}

}  // namespace

cl_int record(cl_command_queue queue_handle, cl_kernel handle, const Range &range, bool changeable,
              RecordedLaunches *launches, const Put &native) {
  std::lock_guard<OrderLock> guard(order);
  return in_any_case(
      [&](Progress *progress) {
        auto queue = queue_of(queue_handle);
        auto kernel = kernel_of(handle);
        if (!queue || !kernel || is_empty(range)) return native(handle, range.local);
        auto recorded = std::make_shared<RecordedLaunch>(kernel, queue_handle, range);
        launches->reserve(launches->size() + 1);
        Plan &plan = recorded->plan;
        if (changeable)
          plan = changeable_plan(*queue, kernel.get(), range);
        else
          plan = make_plan(*queue, kernel.get(), range, PoolUse::recorded, &recorded->room);
        bool shadow = plan.kernel != handle;
        cl_int error = native(plan.kernel, shadow && plan.local_known ? plan.local : range.local);
        if (error != CL_SUCCESS && shadow) {
          plan.refused(error);
          recorded->room = Room();
          error = native(handle, range.local);
        }
        if (error != CL_SUCCESS) return error;
        *progress = {true, nullptr, true};
        launches->push_back(std::move(recorded));
        return error;
      },
      [&](cl_event *) { return native(handle, range.local); },
      [&](Progress *) {
        auto kernel = kernel_of(handle);
        if (!kernel || is_empty(range)) return;
        auto recorded = std::make_shared<RecordedLaunch>(kernel, queue_handle, range);
        recorded->plan = bare_plan(kernel.get(), own_failure);
        launches->push_back(std::move(recorded));
      });
}

cl_int replay(const RecordedLaunches &launches, cl_command_queue instead, cl_event *event,
              const Enqueue &native) {
  uint64_t tsc = xpu_tsc();
  Awaited awaited;
  auto give = [&](cl_event own) {
    if (event) next.clRetainEvent(*event = own);
  };
  cl_int error = in_any_case(
      [&](Progress *progress) {
        std::lock_guard<OrderLock> guard(order);
        register_exit();
        poll_locked();
        WaitList behind;
        for (const auto &recorded : launches) recorded->mixed = false;
        auto queue = launches.empty() ? nullptr : queue_of(instead ? instead : launches[0]->queue);
        keep_replays_apart(launches, queue.get(), &behind);
        for (const auto &recorded : launches) make_ready_to_record(recorded.get());
        tsc = xpu_tsc();
        cl_int error = native(behind, &progress->event);
        if (error != CL_SUCCESS) return error;
        *progress = {true, progress->event, true};
        give(progress->event);
        count_replayed(launches, instead, progress->event, nullptr, tsc, &awaited);
        next.clReleaseEvent(std::exchange(progress->event, nullptr));
        return error;
      },
      [&](cl_event *own) {
        cl_int error = native({}, own);
        if (error == CL_SUCCESS) give(*own);
        return error;
      },
      [&](Progress *progress) {
        std::lock_guard<OrderLock> guard(order);
        for (const auto &recorded : launches)
          if (under_way(recorded.get())) give_up_counts(recorded);
        count_replayed(launches, instead, progress->event, own_failure, tsc, &awaited);
      });
  for (const auto &[index, launch] : awaited) wait_while_recording(index, launch);
  return error;
}

void forget_recorded(RecordedLaunches launches) {
  std::lock_guard<OrderLock> guard(order);
  launches.clear();
}

}  // namespace layer
