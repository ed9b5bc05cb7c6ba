/* SPDX-License-Identifier: Apache-2.0 */
/* xpuprof_pin.so: the CPU engine `pin`, JIT mode. Counts every basic block of every thread, exactly
 * and in 64 bits, and cuts all vectors when the device side reports a launch.
 *
 * The device side is libxpuprof_rt in the application. Its functions are stable symbols: we hook
 * xpu_kernel_run (cut) and the brackets around calls into the device runtime. Threads created
 * inside such a call belong to the device runtime. Our libraries and the GPU tool's are excluded by
 * image. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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

PIN_LOCK lock;
CpuStream stream;
REG counters_register;
Counters *nobody;
Thread *threads[PIN_MAX_THREADS]; /* by Pin's thread id; NULL: gone. Each reads its own unlocked. */
std::vector<Thread *> counted;    /* by number; never shrinks */
std::map<UINT32, Image> images;   /* by Pin's image id */
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

/* The block's dense id; a block keeps it when its code is retranslated. */
bool block_id(BBL bbl, uint32_t *id) {
  ADDRINT address = BBL_Address(bbl);
  uint32_t instructions = BBL_NumIns(bbl);
  IMG image = IMG_FindByAddress(address);
  if (IMG_Valid(image)) {
    auto known = images.find(IMG_Id(image));
    if (known == images.end() || !known->second.counted) return false;
  }
  auto key = std::make_pair(address, instructions);
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
  if (IMG_Valid(image)) {
    Image &where = images[IMG_Id(image)];
    record.varint(static_cast<uint64_t>(stream_image(&where))).varint(address - where.low);
  } else {
    std::vector<uint8_t> code(BBL_Size(bbl));
    PIN_SafeCopy(code.data(), reinterpret_cast<void *>(address), code.size());
    record.varint(static_cast<uint64_t>(stream_no_image()))
        .varint(hash_bytes(code.data(), code.size(), HASH_SEED));
  }
  stream.put(XP_CPU_BLOCK, record.varint(instructions));
  blocks.push_back(instructions);
  block_ids[key] = *id;
  return true;
}

void PIN_FAST_ANALYSIS_CALL count(Counters *counters, UINT32 id) {
  ++counters->count[id];
  counters->marks[id / GROUP] = 1;
}

void trace(TRACE trace, void *) {
  PIN_GetLock(&lock, 1);
  for (BBL bbl = TRACE_BblHead(trace); BBL_Valid(bbl); bbl = BBL_Next(bbl)) {
    uint32_t id;
    if (block_id(bbl, &id))
      BBL_InsertCall(bbl, IPOINT_ANYWHERE, AFUNPTR(count), IARG_FAST_ANALYSIS_CALL, IARG_REG_VALUE,
                     counters_register, IARG_UINT32, id, IARG_END);
  }
  PIN_ReleaseLock(&lock);
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
    if (!c->marks[group] || !__atomic_exchange_n(&c->marks[group], 0, __ATOMIC_SEQ_CST)) continue;
    for (uint32_t b = group * GROUP; b < (group + 1) * GROUP && b < blocks.size(); b++) {
      uint64_t now = *static_cast<volatile uint64_t *>(&c->count[b]);
      vector.add(b, now - c->cut[b]);
      c->cut[b] = now;
    }
  }
  return vector;
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
  stream.put(XP_CPU_CUT, Record().varint(slice).u64(xp_clock(raw_clock)).varint(total), slice);
  slices = slice + 1;
}

/* ---- the boundary: hooks on libxpuprof_rt --------------------------------------------------- */

void kernel_run_returns(ADDRINT launch) {
  PIN_GetLock(&lock, 1);
  if (launch >= slices) cut(launch); /* below: the runtime records and counts nothing */
  PIN_ReleaseLock(&lock);
}

ADDRINT change_depth(THREADID id, INT32 by) {
  Thread *thread = threads[id];
  thread->api_depth += by;
  if (thread->api_depth < 0) thread->api_depth = 0;
  return reinterpret_cast<ADDRINT>(thread->target(nobody));
}

/* Calls nest; user code called by the device runtime is counted: callbacks save the depth.
 */
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

void hook_depth(IMG image, const char *name, INT32 by) {
  RTN found = routine(image, name);
  if (!RTN_Valid(found)) return;
  RTN_Open(found);
  RTN_InsertCall(found, IPOINT_BEFORE, AFUNPTR(change_depth), IARG_THREAD_ID, IARG_UINT32, by,
                 IARG_RETURN_REGS, counters_register, IARG_END);
  RTN_Close(found);
}

void hook_callback(IMG image, const char *name, AFUNPTR function) {
  RTN found = routine(image, name);
  if (!RTN_Valid(found)) return;
  RTN_Open(found);
  RTN_InsertCall(found, IPOINT_BEFORE, function, IARG_THREAD_ID, IARG_RETURN_REGS,
                 counters_register, IARG_END);
  RTN_Close(found);
}

void hook_boundary(IMG image) {
  RTN run = routine(image, "xpu_kernel_run");
  if (!RTN_Valid(run)) return;
  RTN_Open(run);
  RTN_InsertCall(run, IPOINT_AFTER, AFUNPTR(kernel_run_returns), IARG_FUNCRET_EXITPOINT_VALUE,
                 IARG_END);
  RTN_Close(run);
  hook_depth(image, "xpu_api_enter", 1);
  hook_depth(image, "xpu_api_leave", -1);
  hook_callback(image, "xpu_callback_enter", AFUNPTR(callback_enters));
  hook_callback(image, "xpu_callback_leave", AFUNPTR(callback_leaves));
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
  PIN_GetLock(&lock, 1);
  images[IMG_Id(image)] = {IMG_LowAddress(image), IMG_Name(image), is_counted(image), -1};
  PIN_ReleaseLock(&lock);
  loader.image_loaded(image);
  hook_boundary(image);
  hook_main(image);
}

/* Another image may be mapped at these addresses: its blocks are not the old ones. */
void image_unloaded(IMG image, void *) {
  PIN_GetLock(&lock, 1);
  ADDRINT low = IMG_LowAddress(image), high = IMG_HighAddress(image);
  block_ids.erase(block_ids.lower_bound({low, 0}), block_ids.upper_bound({high, UINT32_MAX}));
  images.erase(IMG_Id(image));
  PIN_ReleaseLock(&lock);
}

void system_call(THREADID id, CONTEXT *context, SYSCALL_STANDARD standard, void *) {
  ADDRINT number = PIN_GetSyscallNumber(context, standard);
  if (number == SYS_clone || number == 435 /* clone3 */)
    threads[id]->clone_excluded = !threads[id]->counted || threads[id]->api_depth > 0;
}

bool created_by_device_runtime() {
  OS_THREAD_ID parent = PIN_GetParentTid();
  for (const Thread *thread : threads)
    if (thread && thread->system_id == parent) return thread->clone_excluded;
  return false;
}

void thread_starts(THREADID id, CONTEXT *context, INT32, void *) {
  PIN_GetLock(&lock, id + 1);
  Thread *thread = new Thread();
  thread->system_id = PIN_GetTid();
  thread->counted = !created_by_device_runtime();
  if (thread->counted) {
    thread->counters = reserve_counters();
    thread->number = static_cast<uint32_t>(counted.size());
    if (!thread->counters) {
      stream.fail("there is no memory for its counters");
      thread->counters = nobody;
    }
    stream.put(XP_CPU_THREAD, Record().varint(thread->number).varint(thread->system_id));
    counted.push_back(thread);
  }
  threads[id] = thread;
  PIN_SetContextReg(context, counters_register, reinterpret_cast<ADDRINT>(thread->target(nobody)));
  PIN_ReleaseLock(&lock);
}

void thread_ends(THREADID id, const CONTEXT *, INT32, void *) {
  PIN_GetLock(&lock, id + 1);
  if (!threads[id]->counted) delete threads[id];
  threads[id] = 0; /* a counted thread's vectors are not cut yet */
  PIN_ReleaseLock(&lock);
}

void forked(THREADID, const CONTEXT *, void *) { stream.abandon(); }

void finish(INT32, void *) {
  PIN_GetLock(&lock, 1);
  uint64_t whole = 0; /* counted separately, from the counters, not from the cuts */
  cut(slices);
  for (const Thread *thread : counted)
    for (uint32_t b = 0; b < blocks.size(); b++) whole += thread->counters->count[b] * blocks[b];
  stream.put(XP_CPU_END, Record().varint(slices).varint(whole));
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
  PIN_AddForkFunction(FPOINT_AFTER_IN_CHILD, forked, 0);
  PIN_AddFiniFunction(finish, 0);
  PIN_StartProgram();
  return 0;
}
