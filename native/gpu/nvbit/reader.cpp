// SPDX-License-Identifier: Apache-2.0
#include "reader.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>

void *Reader::work(void *self) {
  static_cast<Reader *>(self)->run();
  return nullptr;
}

/* The program's signals are not for this thread. */
void Reader::start() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, work, this) == 0) {
    pthread_detach(thread);
    nvbit_set_tool_pthread(thread);
    owner_ = getpid();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Reader::add(Flight flight, CUstream stream) {
  flight.streams = flight.context;
  cuStreamGetCtx(stream, &flight.streams);
  {
    std::lock_guard<std::mutex> hold(lock_);
    std::vector<CUevent> &events = events_[flight.streams];
    if (!events.empty()) {
      flight.done = events.back();
      events.pop_back();
    }
  }
  CUcontext popped;
  cuCtxPushCurrent_v2(flight.streams);
  const bool recorded =
      (flight.done || cuEventCreate(&flight.done, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) &&
      cuEventRecord(flight.done, stream) == CUDA_SUCCESS;
  cuCtxPopCurrent_v2(&popped);
  std::unique_lock<std::mutex> hold(lock_);
  if (!recorded) return lose(flight); /* nobody will know when it is over; its buffer is in use */
  const bool idle = in_flight_.empty();
  in_flight_.push_back(std::move(flight));
  unread_++;
  if (owner_ == 0) start();
  hold.unlock();
  if (idle) added_.notify_one();
}

void Reader::wait() {
  std::unique_lock<std::mutex> hold(lock_);
  if (owner_ != getpid()) return; /* no thread: it could not be made, or this process is a fork */
  while (unread_) {
    uint64_t before = reads_;
    if (!read_.wait_for(hold, std::chrono::minutes(1), [&] { return reads_ != before; })) break;
  }
}

void Reader::forget(CUcontext context) {
  std::lock_guard<std::mutex> hold(lock_);
  events_.erase(context);
}

enum : size_t { MOST_AT_A_TIME = 1024 };

/* Adds to the thread's own flights. */
void Reader::take(std::deque<Flight> *flights) {
  std::unique_lock<std::mutex> hold(lock_);
  added_.wait(hold, [&] { return !flights->empty() || !in_flight_.empty(); });
  while (flights->size() < MOST_AT_A_TIME && !in_flight_.empty()) {
    flights->push_back(std::move(in_flight_.front()));
    in_flight_.pop_front();
  }
}

void Reader::run() {
  xpu_api_enter(); /* this thread is not the program's */
  std::deque<Flight> flights;
  for (;;) {
    take(&flights);
    read(&flights);
  }
}

/* Waits for the first flight, and reads those of its context that are over with it. */
void Reader::read(std::deque<Flight> *flights) {
  const CUcontext context = flights->front().context;
  CUcontext popped;
  cuCtxPushCurrent_v2(context);
  const bool over = cuEventSynchronize(flights->front().done) == CUDA_SUCCESS;
  std::vector<Reading> readings;
  for (const Flight &flight : *flights) {
    if (flight.context != context) break;
    if (!readings.empty() && cuEventQuery(flight.done) != CUDA_SUCCESS) break;
    readings.push_back({flight.kernel.get(), flight.buffer, flight.warps, false, {}, {}, 0, 0});
    if (!over) break;
  }
  if (over) memory_->read(context, &readings);
  cuCtxPopCurrent_v2(&popped);
  for (size_t i = 0; i < readings.size(); i++) publish((*flights)[i], readings[i]);
  std::lock_guard<std::mutex> hold(lock_);
  for (size_t i = 0; i < readings.size(); i++) {
    events_[flights->front().streams].push_back(flights->front().done);
    flights->pop_front();
  }
  unread_ -= readings.size();
  reads_++;
  read_.notify_all();
}

void Reader::lose(const Flight &flight) {
  lost_++;
  xpu_launch_uncounted(flight.launch, XPU_REASON_NOT_READ);
}

void Reader::publish(const Flight &flight, const Reading &reading) {
  strays_ += reading.strays;
  if (!reading.whole || reading.strays) { /* no vectors rather than wrong ones */
    std::lock_guard<std::mutex> hold(lock_);
    return lose(flight);
  }
  const WarpClasses &classes = reading.classes;
  xpu_grid grid = {};
  grid.kernel = flight.kernel->id;
  grid.n_vectors = static_cast<uint32_t>(classes.first_row.size());
  grid.counts = reading.vectors.data();
  grid.n_runs = classes.run_class.size();
  grid.run_vector = classes.run_class.data();
  grid.run_length = classes.run_length.data();
  xpu_kernel_counts(flight.launch, &grid);
  if (!lanes_) xpu_launch_lanes(flight.launch, reading.lane_instructions);
}
