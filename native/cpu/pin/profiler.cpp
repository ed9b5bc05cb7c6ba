/* SPDX-License-Identifier: Apache-2.0 */
/* xpuprof_pin.so: the CPU engine `pin`, JIT mode. Counts every basic block of every thread, exactly
 * and in 64 bits, and cuts all vectors when the device side reports a launch.
 *
 * The device side is libxpuprof_rt in the application. Its functions are stable symbols: we hook
 * xpu_cut and the brackets around calls into the device runtime. Threads created inside such a call
 * belong to the device runtime. Our libraries and the GPU tool's are excluded by image.
 *
 * Pin serialises its callbacks; analysis functions run in parallel. `lock` protects what both use.
 * It comes after the application's and Pin's locks: never call Pin while holding it. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "clock.h"
#include "gpu_tool.h"
#include "identity.h"
#include "pin.H"
#include "stream.h"
#include "threads.h"
#include "xpuprof/boundary.h"
#include "xpuprof/uncounted.h"

namespace {

KNOB<std::string> knob_gpu_tool(KNOB_MODE_WRITEONCE, "pintool", "gpu_tool", "",
                                "GPU tool to load into the application with its own loader");
KNOB<std::string> knob_include(KNOB_MODE_APPEND, "pintool", "include_image", "",
                               "count only images that match (glob)");
KNOB<std::string> knob_exclude(KNOB_MODE_APPEND, "pintool", "exclude_image", "",
                               "never count images that match (glob)");
KNOB<BOOL> knob_main_only(KNOB_MODE_WRITEONCE, "pintool", "main_image_only", "0",
                          "count the program's own executable only");

struct Image {
  ADDRINT low;
  std::string path;
  bool counted;
  int32_t id; /* in the stream; -1: none of its blocks was seen */
};

/* What its creator decides for a thread. */
struct Birth {
  bool counted;
  uint32_t number;
};

PIN_LOCK lock;
CpuStream stream;
REG counters_register;
Counters *nobody;
Thread *threads[PIN_MAX_THREADS]; /* by Pin's thread id; NULL: gone. Each reads its own unlocked. */
std::vector<Thread *> counted;    /* those that run, and those that ended since the last cut */
std::map<OS_THREAD_ID, Birth> births; /* of threads that have not started yet */
uint32_t numbers;                     /* of counting threads */
uint64_t retired;                     /* instructions of threads that are no longer in `counted` */
std::map<UINT32, Image> images;       /* by Pin's image id */
int32_t image_ids, anonymous_image = -1;
std::map<std::pair<ADDRINT, uint32_t>, uint32_t> block_ids;
std::vector<uint32_t> blocks; /* their instructions */
ApplicationLoader loader;
uint64_t slices;
bool gpu_tool_loaded, raw_clock;

/* ---- blocks --------------------------------------------------------------------------------- */

bool matches(const char *pattern, const std::string &path) {
  size_t slash = path.rfind('/');
  std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  return fnmatch(pattern, path.c_str(), 0) == 0 || fnmatch(pattern, file.c_str(), 0) == 0;
}

bool matches(KNOB<std::string> &patterns, const std::string &path) {
  for (UINT32 i = 0; i < patterns.NumberOfValues(); i++)
    if (!patterns.Value(i).empty() && matches(patterns.Value(i).c_str(), path)) return true;
  return false;
}

bool has_pattern(KNOB<std::string> &patterns) {
  return patterns.NumberOfValues() > 0 && !patterns.Value(0).empty();
}

bool is_counted(IMG image) {
  std::string path = IMG_Name(image);
  for (const char *uncounted : {XP_UNCOUNTED_IMAGES})
    if (matches(uncounted, path)) return false;
  if (!knob_gpu_tool.Value().empty() && path == knob_gpu_tool.Value()) return false;
  if (knob_main_only.Value() && !IMG_IsMainExecutable(image)) return false;
  if (matches(knob_exclude, path)) return false;
  return !has_pattern(knob_include) || matches(knob_include, path);
}

int32_t stream_image(Image *image) {
  if (image->id < 0) {
    image->id = image_ids++;
    stream.put(XP_CPU_IMAGE, Record()
                                 .varint(static_cast<uint64_t>(image->id))
                                 .str(build_id_of(image->path))
                                 .str(image->path));
  }
  return image->id;
}

int32_t stream_no_image() {
  if (anonymous_image < 0) {
    anonymous_image = image_ids++;
    stream.put(XP_CPU_IMAGE,
               Record().varint(static_cast<uint64_t>(anonymous_image)).str("").str(""));
  }
  return anonymous_image;
}

/* What Pin knows of a block. */
struct Found {
  ADDRINT address;
  uint32_t instructions;
  bool in_image;
  UINT32 image;
  std::vector<uint8_t> code; /* outside of images */
};

Found found(BBL bbl) {
  Found block = {BBL_Address(bbl), BBL_NumIns(bbl), false, 0, {}};
  IMG image = IMG_FindByAddress(block.address);
  block.in_image = IMG_Valid(image);
  if (block.in_image) {
    block.image = IMG_Id(image);
  } else {
    block.code.resize(BBL_Size(bbl));
    PIN_SafeCopy(block.code.data(), reinterpret_cast<void *>(block.address), block.code.size());
  }
  return block;
}

/* The block's dense id; a block keeps it when its code is retranslated. */
bool block_id(const Found &block, uint32_t *id) {
  auto image = images.find(block.image);
  if (block.in_image && (image == images.end() || !image->second.counted)) return false;
  auto key = std::make_pair(block.address, block.instructions);
  auto known = block_ids.find(key);
  if (known != block_ids.end()) {
    *id = known->second;
    return true;
  }
  if (blocks.size() == MOST_BLOCKS) {
    stream.fail("it has too many basic blocks"); /* no vectors rather than wrong ones */
    return false;
  }
  *id = static_cast<uint32_t>(blocks.size());
  Record record;
  record.varint(*id);
  if (block.in_image)
    record.varint(static_cast<uint64_t>(stream_image(&image->second)))
        .varint(block.address - image->second.low);
  else
    record.varint(static_cast<uint64_t>(stream_no_image()))
        .varint(hash_bytes(block.code.data(), block.code.size(), HASH_SEED));
  stream.put(XP_CPU_BLOCK, record.varint(block.instructions));
  blocks.push_back(block.instructions);
  block_ids[key] = *id;
  return true;
}

/* A cut by another thread that sees the mark sees the count. */
void PIN_FAST_ANALYSIS_CALL count(Counters *counters, UINT32 id) {
  uint64_t *at = &counters->count[id];
  __atomic_store_n(at, __atomic_load_n(at, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
  __atomic_store_n(&counters->marks[id / GROUP], 1, __ATOMIC_RELEASE);
}

void trace(TRACE trace, void *) {
  for (BBL bbl = TRACE_BblHead(trace); BBL_Valid(bbl); bbl = BBL_Next(bbl)) {
    Found block = found(bbl);
    uint32_t id;
    PIN_GetLock(&lock, 1);
    bool counts = block_id(block, &id);
    PIN_ReleaseLock(&lock);
    if (counts)
      BBL_InsertCall(bbl, IPOINT_ANYWHERE, AFUNPTR(count), IARG_FAST_ANALYSIS_CALL, IARG_REG_VALUE,
                     counters_register, IARG_UINT32, id, IARG_END);
  }
}

/* ---- cuts ----------------------------------------------------------------------------------- */

/* The work of one thread since the last cut. */
struct Vector {
  Record pairs;
  uint64_t n = 0, instructions = 0, last = 0;

  void add(uint32_t block, uint64_t times) {
    if (!times) return;
    pairs.varint(block - last).varint(times);
    last = block;
    n++;
    instructions += times * blocks[block];
  }
};

/* A mark is cleared before its group is read: each increment of a thread that keeps running falls
 * into this slice or the next, never both and never neither. */
Vector take(Counters *c) {
  Vector vector;
  for (uint32_t group = 0; group * GROUP < blocks.size(); group++) {
    if (!__atomic_load_n(&c->marks[group], __ATOMIC_RELAXED) ||
        !__atomic_exchange_n(&c->marks[group], 0, __ATOMIC_SEQ_CST))
      continue;
    for (uint32_t b = group * GROUP; b < (group + 1) * GROUP && b < blocks.size(); b++) {
      uint64_t now = __atomic_load_n(&c->count[b], __ATOMIC_RELAXED);
      vector.add(b, now - c->cut[b]);
      c->cut[b] = now;
    }
  }
  return vector;
}

/* Counted separately, from the counters, not from the cuts. */
uint64_t instructions_of(const Thread *thread) {
  uint64_t whole = 0;
  for (uint32_t b = 0; b < blocks.size(); b++) whole += thread->counters->count[b] * blocks[b];
  return whole;
}

/* Releases a thread that ended, once its last vector is cut. */
bool retire(Thread *thread) {
  if (!thread->ended) return false;
  retired += instructions_of(thread);
  release_counters(thread->counters);
  delete thread;
  return true;
}

void cut(uint64_t slice) {
  uint64_t total = 0;
  for (Thread *thread : counted) {
    Vector vector = take(thread->counters);
    if (!vector.n) continue;
    Record record;
    record.varint(slice).varint(thread->number).varint(vector.n).varint(vector.instructions);
    std::vector<uint8_t> whole = record.bytes();
    whole.insert(whole.end(), vector.pairs.bytes().begin(), vector.pairs.bytes().end());
    stream.put_bytes(XP_CPU_BBV, whole, slice);
    total += vector.instructions;
  }
  counted.erase(std::remove_if(counted.begin(), counted.end(), retire), counted.end());
  stream.put(XP_CPU_CUT, Record().varint(slice).u64(xp_clock(raw_clock)).varint(total), slice);
  slices = slice + 1;
}

/* ---- the boundary: hooks on libxpuprof_rt --------------------------------------------------- */

/* Concurrent launches arrive in the order of their numbers: xpu_kernel_run holds its lock. */
void launched(ADDRINT slice) {
  PIN_GetLock(&lock, 1);
  cut(slice);
  PIN_ReleaseLock(&lock);
}

ADDRINT api_enters(THREADID id) {
  threads[id]->api_depth++;
  return reinterpret_cast<ADDRINT>(threads[id]->target(nobody));
}

ADDRINT api_leaves(THREADID id) {
  if (threads[id]->api_depth > 0) threads[id]->api_depth--;
  return reinterpret_cast<ADDRINT>(threads[id]->target(nobody));
}

/* Calls nest; user code called by the device runtime is counted: callbacks save the depth. */
ADDRINT callback_enters(THREADID id) {
  Thread *thread = threads[id];
  thread->saved_depths.push_back(thread->api_depth);
  thread->api_depth = 0;
  return reinterpret_cast<ADDRINT>(thread->target(nobody));
}

ADDRINT callback_leaves(THREADID id) {
  Thread *thread = threads[id];
  if (!thread->saved_depths.empty()) {
    thread->api_depth = thread->saved_depths.back();
    thread->saved_depths.pop_back();
  }
  return reinterpret_cast<ADDRINT>(thread->target(nobody));
}

void hook_switch(IMG image, const char *name, AFUNPTR function) {
  RTN found = routine(image, name);
  if (!RTN_Valid(found)) return;
  RTN_Open(found);
  RTN_InsertCall(found, IPOINT_BEFORE, function, IARG_THREAD_ID, IARG_RETURN_REGS,
                 counters_register, IARG_END);
  RTN_Close(found);
}

void hook_boundary(IMG image) {
  RTN boundary = routine(image, "xpu_cut");
  if (!RTN_Valid(boundary)) return;
  RTN_Open(boundary);
  RTN_InsertCall(boundary, IPOINT_BEFORE, AFUNPTR(launched), IARG_FUNCARG_ENTRYPOINT_VALUE, 0,
                 IARG_END);
  RTN_Close(boundary);
  hook_switch(image, "xpu_api_enter", AFUNPTR(api_enters));
  hook_switch(image, "xpu_api_leave", AFUNPTR(api_leaves));
  hook_switch(image, "xpu_callback_enter", AFUNPTR(callback_enters));
  hook_switch(image, "xpu_callback_leave", AFUNPTR(callback_leaves));
}

/* ---- GPU tools that know nothing of us ------------------------------------------------------ */

void main_begins(const CONTEXT *context, THREADID id) {
  if (gpu_tool_loaded || !loader.open()) return;
  gpu_tool_loaded = true;
  void *handle = 0;
  const char *path = knob_gpu_tool.Value().c_str();
  PIN_CallApplicationFunction(context, id, CALLINGSTD_DEFAULT, loader.open(), NULL,
                              PIN_PARG(void *), &handle, PIN_PARG(const char *), path,
                              PIN_PARG(int), APPLICATION_RTLD, PIN_PARG_END());
  if (!handle) {
    LOG("xpuprof: the application could not load " + knob_gpu_tool.Value() + "\n");
    return;
  }
  void *entry = 0;
  static const char *arguments[] = {"xpuprof"};
  PIN_CallApplicationFunction(context, id, CALLINGSTD_DEFAULT, loader.symbol(), NULL,
                              PIN_PARG(void *), &entry, PIN_PARG(void *), handle,
                              PIN_PARG(const char *), GTPIN_ENTRY, PIN_PARG_END());
  if (entry)
    PIN_CallApplicationFunction(context, id, CALLINGSTD_DEFAULT, AFUNPTR(entry), NULL,
                                PIN_PARG(void), PIN_PARG(int), 1, PIN_PARG(const char **),
                                arguments, PIN_PARG_END());
}

void hook_main(IMG image) {
  RTN found = routine(image, "main");
  if (knob_gpu_tool.Value().empty() || !IMG_IsMainExecutable(image) || !RTN_Valid(found)) return;
  RTN_Open(found);
  RTN_InsertCall(found, IPOINT_BEFORE, AFUNPTR(main_begins), IARG_CONST_CONTEXT, IARG_THREAD_ID,
                 IARG_END);
  RTN_Close(found);
}

/* ---- life ----------------------------------------------------------------------------------- */

void image_loaded(IMG image, void *) {
  UINT32 id = IMG_Id(image);
  Image loaded = {IMG_LowAddress(image), IMG_Name(image), is_counted(image), -1};
  PIN_GetLock(&lock, 1);
  images[id] = loaded;
  PIN_ReleaseLock(&lock);
  loader.image_loaded(image);
  hook_boundary(image);
  hook_main(image);
}

/* Another image may be mapped at these addresses: its blocks are not the old ones. */
void image_unloaded(IMG image, void *) {
  ADDRINT low = IMG_LowAddress(image), high = IMG_HighAddress(image);
  UINT32 id = IMG_Id(image);
  PIN_GetLock(&lock, 1);
  block_ids.erase(block_ids.lower_bound({low, 0}), block_ids.upper_bound({high, UINT32_MAX}));
  images.erase(id);
  PIN_ReleaseLock(&lock);
}

/* Of the kernel's headers, which do not compile with Pin's C library. */
enum { CLONE3 = 435, NEW_THREAD = 0x10000 };

/* Of clone and clone3; 0 for other calls. */
uint64_t clone_flags(const CONTEXT *context, SYSCALL_STANDARD standard) {
  ADDRINT number = PIN_GetSyscallNumber(context, standard);
  uint64_t flags = 0;
  if (number == SYS_clone)
    flags = PIN_GetSyscallArgument(context, standard, 0);
  else if (number == CLONE3) /* of struct clone_args, the first member */
    PIN_SafeCopy(&flags, reinterpret_cast<void *>(PIN_GetSyscallArgument(context, standard, 0)),
                 sizeof flags);
  return flags;
}

void system_call(THREADID id, CONTEXT *context, SYSCALL_STANDARD standard, void *) {
  threads[id]->creates = (clone_flags(context, standard) & NEW_THREAD) != 0;
}

Birth birth_of(OS_THREAD_ID child, const Thread *creator) {
  Birth birth = {!creator || (creator->counted && !creator->api_depth), 0};
  if (birth.counted) {
    birth.number = numbers++;
    stream.put(XP_CPU_THREAD, Record().varint(birth.number).varint(child));
  }
  return birth;
}

/* A thread may start when its creator has returned, left the device runtime and created another. */
void system_call_returns(THREADID id, CONTEXT *context, SYSCALL_STANDARD standard, void *) {
  if (!threads[id]->creates) return;
  OS_THREAD_ID child = static_cast<OS_THREAD_ID>(PIN_GetSyscallReturn(context, standard));
  bool failed = PIN_GetSyscallErrno(context, standard) != 0;
  PIN_GetLock(&lock, id + 1);
  if (threads[id]->creates && !failed) births[child] = birth_of(child, threads[id]);
  threads[id]->creates = false;
  PIN_ReleaseLock(&lock);
}

Birth take_birth(OS_THREAD_ID child, OS_THREAD_ID creator) {
  auto known = births.find(child);
  if (known != births.end()) {
    Birth birth = known->second;
    births.erase(known);
    return birth;
  }
  for (Thread *thread : threads)
    if (thread && thread->creates && thread->system_id == creator) { /* its call has not returned */
      thread->creates = false;
      return birth_of(child, thread);
    }
  return birth_of(child, 0);
}

void thread_starts(THREADID id, CONTEXT *context, INT32, void *) {
  OS_THREAD_ID system_id = PIN_GetTid(), creator = PIN_GetParentTid();
  Thread *thread = new Thread();
  thread->system_id = system_id;
  PIN_GetLock(&lock, id + 1);
  Birth birth = take_birth(system_id, creator);
  thread->number = birth.number;
  thread->counters = birth.counted ? reserve_counters() : 0;
  thread->counted = thread->counters != 0;
  if (birth.counted && !thread->counted) stream.fail("there is no memory for its counters");
  if (thread->counted) counted.push_back(thread);
  threads[id] = thread;
  PIN_ReleaseLock(&lock);
  PIN_SetContextReg(context, counters_register, reinterpret_cast<ADDRINT>(thread->target(nobody)));
}

void thread_ends(THREADID id, const CONTEXT *, INT32, void *) {
  PIN_GetLock(&lock, id + 1);
  threads[id]->ended = true;
  if (!threads[id]->counted) delete threads[id]; /* else its last vector is not cut yet */
  threads[id] = 0;
  PIN_ReleaseLock(&lock);
}

/* In the child, where no other thread will release the lock. */
void forked(THREADID, const CONTEXT *, void *) {
  PIN_InitLock(&lock);
  stream.abandon();
}

void finish(INT32, void *) {
  PIN_GetLock(&lock, 1);
  cut(slices);
  for (const Thread *thread : counted) retired += instructions_of(thread);
  stream.put(XP_CPU_END, Record().varint(slices).varint(retired));
  stream.close();
  PIN_ReleaseLock(&lock);
}

int usage() {
  LOG("xpuprof: the Pin tool was started with wrong options; use xpuprof, or see docs/pin.md\n");
  return 2;
}

}  // namespace

int main(int argc, char **argv) {
  PIN_InitSymbols();
  const char *folder = getenv(XPU_ENV_DIR);
  if (PIN_Init(argc, argv) || !folder) return usage();
  PIN_InitLock(&lock);
  counters_register = PIN_ClaimToolRegister();
  nobody = reserve_counters();
  if (!REG_valid(counters_register) || !nobody) return usage();
  const char *clock = getenv(XPU_ENV_CLOCK);
  raw_clock = clock && !strcmp(clock, "monotonic_raw");
  stream.open(folder); /* on failure the program continues without vectors */
  stream.meta("pid", std::to_string(PIN_GetPid()));
  stream.meta("engine", "pin");
  stream.meta("engine_version", PIN_Version());
  IMG_AddInstrumentFunction(image_loaded, 0);
  IMG_AddUnloadFunction(image_unloaded, 0);
  TRACE_AddInstrumentFunction(trace, 0);
  PIN_AddThreadStartFunction(thread_starts, 0);
  PIN_AddThreadFiniFunction(thread_ends, 0);
  PIN_AddSyscallEntryFunction(system_call, 0);
  PIN_AddSyscallExitFunction(system_call_returns, 0);
  PIN_AddForkFunction(FPOINT_AFTER_IN_CHILD, forked, 0);
  PIN_AddFiniFunction(finish, 0);
  PIN_StartProgram();
  return 0;
}
