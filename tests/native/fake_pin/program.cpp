/* SPDX-License-Identifier: Apache-2.0 */
/* The Pin tool around a program that says what it did: a line for each count to find in the trace,
 * "count SLICE THREAD OFFSET TIMES" (SLICE "all": in the whole run). */
#define main tool_main
#include "profiler.cpp"
#undef main
/* the tool comes first */
#include <stdio.h>

#include <atomic>

#include "fake_pin.h"

int main(int argc, char **argv) { return tool_main(argc, argv); }

namespace {

enum : ADDRINT { WORK = 0x400000, DRIVER = 0x700000, RUNTIME = 0x800000 };
Loaded *xpuprof_rt;

Block block(ADDRINT offset) { return {WORK + offset, 3, 12}; }

/* As libxpuprof_rt: numbers and cuts under one lock. */
void launch() {
  static std::mutex bus;
  static ADDRINT launches;
  std::lock_guard<std::mutex> hold(bus);
  call(xpuprof_rt, "xpu_cut", launches++);
}

/* A device runtime: its code does not count, the program's that it calls does. */
template <typename Body>
void in_runtime(Body body) {
  call(xpuprof_rt, "xpu_api_enter");
  body();
  call(xpuprof_rt, "xpu_api_leave");
}

std::mutex said;
void say(const char *slice, ADDRINT offset, uint64_t times) {
  std::lock_guard<std::mutex> hold(said);
  printf("count %s %u %lu %lu\n", slice, this_thread(), static_cast<unsigned long>(offset),
         static_cast<unsigned long>(times));
}

void work(ADDRINT offset, unsigned times) {
  std::vector<Block> loop = {block(offset), block(offset + 64)};
  for (unsigned i = 0; i < times; i++) execute(loop);
  say("all", offset, times);
  say("all", offset + 64, times);
}

/* Workers that launch, too, a runtime's threads, and generations of short threads. */
void threads_at_once() {
  std::vector<std::thread> all;
  std::atomic<bool> over{false};
  for (ADDRINT worker = 0; worker < 4; worker++)
    all.push_back(create(
        [worker] {
          for (unsigned round = 0; round < 5; round++) {
            std::vector<Block> own = {block(0x100 + 128 * worker), block(0)};
            for (unsigned i = 0; i < 200 + worker; i++) execute(own);
            launch();
          }
          say("all", 0x100 + 128 * worker, 5 * (200 + worker));
          say("all", 0, 5 * (200 + worker));
        },
        worker % 2 ? BEFORE_THE_CALL_RETURNS : AS_IT_COMES));
  in_runtime([&] {
    all.push_back(create([&over] {
      do execute({block(0x1000), block(0)});
      while (!over);
    }));
  });
  all.push_back(create([&over] {
    uint64_t times = 0;
    do execute({block(0x1100)});
    while (++times, !over);
    say("all", 0x1100, times);
  }));
  for (ADDRINT parent = 0; parent < 2; parent++)
    all.push_back(create([parent] {
      for (ADDRINT child = 0; child < 60; child++) {
        create([=] { work(0x2000 + 128 * (2 * child + parent), 3 + child % 5); }).join();
        if (child % 8 == 0) launch();
      }
    }));
  for (int i = 0; i < 40; i++) {
    launch();
    std::this_thread::yield();
  }
  for (size_t i = 0; i < all.size(); i++)
    if (i != 4 && i != 5) all[i].join();
  over = true;
  all[4].join();
  all[5].join();
}

/* Nested calls into the runtime and back; a barrier at every launch, so slices are known. */
void exact_slices() {
  std::atomic<unsigned> arrived{0}, slice{0};
  enum { SLICES = 6, THREADS = 3 };
  auto body = [&](ADDRINT number) {
    for (unsigned s = 0; s < SLICES; s++) {
      std::string name = std::to_string(s);
      unsigned times = 10 * static_cast<unsigned>(number + 1) + s;
      for (unsigned i = 0; i < times; i++) execute({block(128 * number)});
      say(name.c_str(), 128 * number, times);
      in_runtime([&] {
        execute({block(0x1000)});
        in_runtime([&] { execute({block(0x1000)}); });
        call(xpuprof_rt, "xpu_callback_enter");
        execute({block(0x800)});
        call(xpuprof_rt, "xpu_callback_leave");
        execute({block(0x1000)});
      });
      say(name.c_str(), 0x800, 1);
      if (++arrived == THREADS) {
        arrived = 0;
        launch();
        slice++;
      }
      while (slice == s) std::this_thread::yield();
    }
  };
  std::thread first = create([&] { body(0); }), second = create([&] { body(1); });
  body(2);
  first.join();
  second.join();
}

/* The runtime's thread starts after its creator has left the runtime and created another. */
void late_starts() {
  std::thread theirs, ours;
  in_runtime([&] { theirs = create([] { execute({block(0x1000)}); }, LATE); });
  if (!creation_fails()) printf("not told\n");
  ours = create([] { work(0x40, 7); }, LATE);
  std::thread last = create([] { work(0x140, 5); }, BEFORE_THE_CALL_RETURNS);
  last.join();
  let_go();
  theirs.join();
  ours.join();
}

/* A cut reads the groups of blocks that ran, and no others. */
void marks() {
  std::vector<Block> many;
  for (ADDRINT i = 0; i < 4 * GROUP; i++) many.push_back(block(16 * i));
  execute(many);
  launch();
  uint64_t *unmarked = &threads[0]->counters->count[2 * GROUP + 1];
  ++*unmarked;
  launch();
  execute({block(16 * (2 * GROUP + 2))});
  launch();
  say("2", 16 * (2 * GROUP + 1), 1);
  say("2", 16 * (2 * GROUP + 2), 1);
  printf("empty 1\n");
}

/* Another library at the same addresses has blocks of its own; code in no file has, too. */
void other_code() {
  static const uint8_t generated[16] = {1, 2, 3};
  Loaded *first = load("/nowhere/libfirst.so", 0x500000);
  execute({{0x500040, 2, 8}});
  unload(first);
  load("/nowhere/libsecond.so", 0x500000);
  execute({{0x500040, 2, 8}});
  execute({{DRIVER, 2, 8}});
  execute({{reinterpret_cast<ADDRINT>(generated), 4, 16}});
  execute({{reinterpret_cast<ADDRINT>(generated), 4, 16}});
}

/* A fork while another thread holds the tool's lock. */
void forked_child() {
  std::atomic<int> step{0};
  work(0, 4);
  std::thread holder([&] {
    PIN_GetLock(&lock, 1);
    step = 1;
    while (step != 2) std::this_thread::yield();
    PIN_ReleaseLock(&lock);
  });
  while (step != 1) std::this_thread::yield();
  int status = fork_program([] {
    execute({block(0x3000)});
    launch();
  });
  printf("child %d\n", status);
  step = 2;
  holder.join();
  work(0x200, 2);
}

void stamps() {
  for (int i = 0; i < 3; i++) {
    uint64_t ticks = xp_clock(0), raw = xp_clock(1);
    launch();
    printf("stamp %lu %lu %lu %lu\n", static_cast<unsigned long>(ticks),
           static_cast<unsigned long>(xp_clock(0)), static_cast<unsigned long>(raw),
           static_cast<unsigned long>(xp_clock(1)));
  }
}

}  // namespace

void program(const std::vector<std::string> &words) {
  load("/nowhere/program", WORK, {"main"}, true);
  load("/nowhere/libcuda.so.1", DRIVER);
  xpuprof_rt = load(
      "/nowhere/libxpuprof_rt.so", RUNTIME,
      {"xpu_cut", "xpu_api_enter", "xpu_api_leave", "xpu_callback_enter", "xpu_callback_leave"});
  const std::map<std::string, void (*)()> scenarios = {{"threads", threads_at_once},
                                                       {"slices", exact_slices},
                                                       {"late", late_starts},
                                                       {"marks", marks},
                                                       {"code", other_code},
                                                       {"fork", forked_child},
                                                       {"stamps", stamps}};
  scenarios.at(words.at(0))();
}
