// SPDX-License-Identifier: Apache-2.0
#include "reader.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>

void *Reader::work(void *self) {
  static_cast<Reader *>(self)->run();
  return nullptr;
}

void Reader::add(const Flight &flight) {
  {
    std::lock_guard<std::mutex> hold(lock_);
    in_flight_.push_back(flight);
    if (owner_ == 0) {
      /* The program's signals are not for this thread. */
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
  }
  added_.notify_one();
}

void Reader::wait() {
  std::unique_lock<std::mutex> hold(lock_);
  if (owner_ != getpid()) return; /* no thread: it could not be made, or this process is a fork */
  while (!in_flight_.empty()) {
    uint64_t before = reads_;
    if (!read_.wait_for(hold, std::chrono::minutes(1), [&] { return reads_ != before; })) break;
  }
}

void Reader::run() {
  xpu_api_enter(); /* this thread is not the program's */
  std::unique_lock<std::mutex> hold(lock_);
  for (;;) {
    added_.wait(hold, [this] { return !in_flight_.empty(); });
    Flight flight = in_flight_.front();
    hold.unlock();
    read(flight);
    hold.lock();
    in_flight_.pop_front();
    reads_++;
    read_.notify_all();
  }
}

void Reader::read(const Flight &flight) {
  Reading reading = {};
  cuCtxPushCurrent_v2(flight.context);
  bool whole = memory_->read(flight.context, flight.kernel, flight.buffer, flight.warps,
                             flight.done, &reading);
  cuEventDestroy_v2(flight.done);
  CUcontext popped;
  cuCtxPopCurrent_v2(&popped);
  strays_ += reading.strays;
  if (!whole || reading.strays) { /* no vectors rather than wrong ones */
    lost_++;
    return;
  }
  const WarpClasses &classes = reading.classes;
  xpu_grid grid = {};
  grid.kernel = flight.kernel.id;
  grid.n_vectors = static_cast<uint32_t>(classes.first_row.size());
  grid.counts = reading.vectors.data();
  grid.n_runs = classes.run_class.size();
  grid.run_vector = classes.run_class.data();
  grid.run_length = classes.run_length.data();
  xpu_kernel_counts(flight.launch, &grid);
  if (!lanes_) xpu_launch_lanes(flight.launch, reading.lane_instructions);
}
