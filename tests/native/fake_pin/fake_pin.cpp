/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_pin.h"

#include <linux/sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <set>

static void broken(const char *rule) {
  fprintf(stderr, "the tool broke a rule: %s\n", rule);
  abort();
}

/* ---- locks ---------------------------------------------------------------------------------- */

static std::recursive_mutex internal; /* Pin's own */
static thread_local int held;         /* locks of the tool */

static void api() {
  if (held) broken("it calls Pin while it holds a lock of its own");
}

static void left() {
  if (held) broken("it returns to Pin with a lock of its own");
}

void PIN_InitLock(PIN_LOCK *lock) { lock->is = new std::mutex; }

void PIN_GetLock(PIN_LOCK *lock, INT32) {
  if (held) broken("a lock is not recursive");
  lock->is->lock();
  held++;
}

INT32 PIN_ReleaseLock(PIN_LOCK *lock) {
  held--;
  lock->is->unlock();
  return 0;
}

/* ---- what the tool registered --------------------------------------------------------------- */

template <typename Function>
struct Callback {
  Function function = nullptr;
  void *value = nullptr;
  template <typename... Arguments>
  void deliver(Arguments... arguments) {
    std::lock_guard<std::recursive_mutex> pins(internal);
    if (function) function(arguments..., value);
    left();
  }
};

static Callback<IMAGE_CALLBACK> image_loads, image_unloads;
static Callback<TRACE_CALLBACK> instruments;
static Callback<THREAD_START_CALLBACK> thread_starts;
static Callback<THREAD_FINI_CALLBACK> thread_ends;
static Callback<SYSCALL_CALLBACK> call_enters, call_returns;
static Callback<FORK_CALLBACK> forks;
static Callback<FINI_CALLBACK> finishes;

void IMG_AddInstrumentFunction(IMAGE_CALLBACK f, void *v) { image_loads = {f, v}; }
void IMG_AddUnloadFunction(IMAGE_CALLBACK f, void *v) { image_unloads = {f, v}; }
void TRACE_AddInstrumentFunction(TRACE_CALLBACK f, void *v) { instruments = {f, v}; }
void PIN_AddThreadStartFunction(THREAD_START_CALLBACK f, void *v) { thread_starts = {f, v}; }
void PIN_AddThreadFiniFunction(THREAD_FINI_CALLBACK f, void *v) { thread_ends = {f, v}; }
void PIN_AddSyscallEntryFunction(SYSCALL_CALLBACK f, void *v) { call_enters = {f, v}; }
void PIN_AddSyscallExitFunction(SYSCALL_CALLBACK f, void *v) { call_returns = {f, v}; }
void PIN_AddForkFunction(FPOINT, FORK_CALLBACK f, void *v) { forks = {f, v}; }
void PIN_AddFiniFunction(FINI_CALLBACK f, void *v) { finishes = {f, v}; }

/* ---- threads -------------------------------------------------------------------------------- */

struct Self {
  THREADID id;
  OS_THREAD_ID system_id, creator;
  CONTEXT context;
  std::map<ADDRINT, std::pair<unsigned, Trace *>> code; /* what this thread has translated */
};
static thread_local Self *self;
static std::set<THREADID> ids_in_use;
static std::atomic<OS_THREAD_ID> system_ids{1000};

OS_THREAD_ID this_thread() { return self->system_id; }

static void begins() {
  std::lock_guard<std::recursive_mutex> pins(internal);
  while (ids_in_use.count(self->id)) self->id++;
  if (self->id >= PIN_MAX_THREADS) abort();
  ids_in_use.insert(self->id);
  thread_starts.deliver(self->id, &self->context, 0);
  if (!self->context.tool_register) broken("a thread starts without counters");
}

static void ends() {
  Self *ending = self;
  auto told = [ending] {
    std::lock_guard<std::recursive_mutex> pins(internal);
    thread_ends.deliver(ending->id, static_cast<const CONTEXT *>(&ending->context), 0);
    ids_in_use.erase(ending->id);
  };
  if (ending->system_id % 2)
    std::thread(told).join();
  else
    told();
}

static void of_system_call(Callback<SYSCALL_CALLBACK> &told) {
  told.deliver(self->id, &self->context, SYSCALL_STANDARD_IA32E_LINUX);
}

static void enters_clone() {
  self->context.call = SYS_clone;
  self->context.argument = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND;
  of_system_call(call_enters);
}

static std::mutex gate;
static std::condition_variable gate_opens;
static bool open_gate;

void let_go() {
  std::lock_guard<std::mutex> hold(gate);
  open_gate = true;
  gate_opens.notify_all();
}

std::thread create(std::function<void()> body, Start start) {
  enters_clone();
  OS_THREAD_ID child = system_ids++, creator = self->system_id;
  auto started = std::make_shared<std::atomic<bool>>(false);
  std::thread thread([=] {
    if (start == LATE) {
      std::unique_lock<std::mutex> hold(gate);
      gate_opens.wait(hold, [] { return open_gate; });
    }
    Self me = {0, child, creator, {}, {}};
    self = &me;
    begins();
    *started = true;
    body();
    ends();
  });
  while (start == BEFORE_THE_CALL_RETURNS && !*started) std::this_thread::yield();
  self->context.result = child;
  of_system_call(call_returns);
  return thread;
}

bool creation_fails() {
  enters_clone();
  self->context.result = static_cast<ADDRINT>(-EAGAIN);
  of_system_call(call_returns);
  return call_returns.function != nullptr;
}

int fork_program(std::function<void()> body) {
  internal.lock(); /* no callback is under way */
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    new (&internal) std::recursive_mutex; /* another thread's id owns the copy */
    alarm(30);
    forks.deliver(self->id, static_cast<const CONTEXT *>(&self->context));
    body();
    finishes.deliver(0);
    fflush(stdout);
    _exit(0);
  }
  internal.unlock();
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- code ----------------------------------------------------------------------------------- */

static std::list<Loaded> images;
static std::list<Trace> translations;
static Trace *being_instrumented;
static Routine *open_routine;
static std::atomic<unsigned> code_version{0}; /* code translated before is discarded */

Loaded *load(const std::string &path, ADDRINT low, const std::vector<std::string> &routines,
             bool main) {
  std::lock_guard<std::recursive_mutex> pins(internal);
  static UINT32 ids;
  images.push_back({++ids, low, low + 0xffff, path, main, {}});
  for (const std::string &name : routines) images.back().routines.push_back({name, {}});
  image_loads.deliver(IMG{&images.back()});
  return &images.back();
}

void unload(Loaded *image) {
  std::lock_guard<std::recursive_mutex> pins(internal);
  image_unloads.deliver(IMG{image});
  images.remove_if([image](const Loaded &each) { return &each == image; });
  code_version++;
}

static void analyse(const Call &inserted, ADDRINT argument) {
  ADDRINT values[4] = {}, n = 0;
  bool returns = false;
  for (size_t i = 0; i < inserted.kinds.size(); i++) switch (inserted.kinds[i]) {
      case IARG_REG_VALUE:
        values[n++] = self->context.tool_register;
        break;
      case IARG_UINT32:
        values[n++] = inserted.values[i];
        break;
      case IARG_THREAD_ID:
        values[n++] = self->id;
        break;
      case IARG_FUNCARG_ENTRYPOINT_VALUE:
        values[n++] = argument;
        break;
      case IARG_CONST_CONTEXT:
        values[n++] = reinterpret_cast<ADDRINT>(&self->context);
        break;
      case IARG_RETURN_REGS:
        returns = true;
        break;
      default:
        break;
    }
  auto function =
      reinterpret_cast<ADDRINT (*)(ADDRINT, ADDRINT, ADDRINT, ADDRINT)>(inserted.function);
  ADDRINT result = function(values[0], values[1], values[2], values[3]);
  left();
  if (returns) self->context.tool_register = result;
}

void execute(const std::vector<Block> &blocks) {
  unsigned version = code_version.load(std::memory_order_relaxed);
  std::pair<unsigned, Trace *> &mine = self->code[blocks[0].address];
  if (!mine.second || mine.first != version) {
    std::lock_guard<std::recursive_mutex> pins(internal);
    translations.push_back({blocks, std::vector<std::vector<Call>>(blocks.size())});
    mine = {version, being_instrumented = &translations.back()};
    instruments.deliver(TRACE{being_instrumented});
    being_instrumented = nullptr;
  }
  for (const std::vector<Call> &calls : mine.second->calls)
    for (const Call &each : calls) analyse(each, 0);
}

void call(Loaded *image, const char *name, ADDRINT argument) {
  for (const Routine &each : image->routines)
    if (each.name == name)
      for (const Call &inserted : each.before) analyse(inserted, argument);
}

static Call of_arguments(AFUNPTR function, va_list list) {
  Call inserted = {function, {}, {}};
  for (;;) {
    IARG_TYPE kind = static_cast<IARG_TYPE>(va_arg(list, int));
    if (kind == IARG_END) return inserted;
    ADDRINT value = 0;
    if (kind == IARG_REG_VALUE || kind == IARG_RETURN_REGS)
      value = va_arg(list, REG).number;
    else if (kind == IARG_UINT32 || kind == IARG_FUNCARG_ENTRYPOINT_VALUE)
      value = va_arg(list, UINT32);
    inserted.kinds.push_back(kind);
    inserted.values.push_back(value);
  }
}

void BBL_InsertCall(BBL bbl, IPOINT, AFUNPTR function, ...) {
  api();
  if (bbl.trace != being_instrumented) broken("a block is instrumented with its trace");
  va_list list;
  va_start(list, function);
  bbl.trace->calls[bbl.number].push_back(of_arguments(function, list));
  va_end(list);
}

void RTN_Open(RTN routine) {
  api();
  if (open_routine) broken("one routine is open at a time");
  open_routine = routine.is;
}

void RTN_Close(RTN) {
  api();
  open_routine = nullptr;
}

void RTN_InsertCall(RTN routine, IPOINT, AFUNPTR function, ...) {
  api();
  if (routine.is != open_routine) broken("a routine is instrumented while it is open");
  va_list list;
  va_start(list, function);
  routine.is->before.push_back(of_arguments(function, list));
  va_end(list);
}

/* ---- questions ------------------------------------------------------------------------------ */

#define ANSWER(type, name, parameters, value) \
  type name parameters {                      \
    api();                                    \
    return value;                             \
  }
ANSWER(BOOL, IMG_Valid, (IMG image), image.is != nullptr)
ANSWER(UINT32, IMG_Id, (IMG image), image.is->id)
ANSWER(ADDRINT, IMG_LowAddress, (IMG image), image.is->low)
ANSWER(ADDRINT, IMG_HighAddress, (IMG image), image.is->high)
ANSWER(std::string, IMG_Name, (IMG image), image.is->path)
ANSWER(BOOL, IMG_IsMainExecutable, (IMG image), image.is->main)
ANSWER(BOOL, RTN_Valid, (RTN routine), routine.is != nullptr)
ANSWER(AFUNPTR, RTN_Funptr, (RTN), nullptr)
ANSWER(BBL, TRACE_BblHead, (TRACE trace), (BBL{trace.is, 0}))
ANSWER(BBL, BBL_Next, (BBL bbl), (BBL{bbl.trace, bbl.number + 1}))
ANSWER(BOOL, BBL_Valid, (BBL bbl), bbl.number < bbl.trace->blocks.size())
ANSWER(ADDRINT, BBL_Address, (BBL bbl), bbl.trace->blocks[bbl.number].address)
ANSWER(UINT32, BBL_NumIns, (BBL bbl), bbl.trace->blocks[bbl.number].instructions)
ANSWER(UINT32, BBL_Size, (BBL bbl), bbl.trace->blocks[bbl.number].bytes)
ANSWER(OS_THREAD_ID, PIN_GetTid, (), self->system_id)
ANSWER(OS_THREAD_ID, PIN_GetParentTid, (), self->creator)
ANSWER(INT32, PIN_GetPid, (), getpid())
ANSWER(REG, PIN_ClaimToolRegister, (), REG{1})
ANSWER(BOOL, REG_valid, (REG reg), reg.number == 1)
ANSWER(ADDRINT, PIN_GetSyscallNumber, (const CONTEXT *c, SYSCALL_STANDARD), c->call)
ANSWER(ADDRINT, PIN_GetSyscallArgument, (const CONTEXT *c, SYSCALL_STANDARD, UINT32), c->argument)
ANSWER(ADDRINT, PIN_GetSyscallReturn, (const CONTEXT *c, SYSCALL_STANDARD), c->result)
ANSWER(ADDRINT, PIN_GetSyscallErrno, (const CONTEXT *c, SYSCALL_STANDARD),
       static_cast<intptr_t>(c->result) < 0 ? -c->result : 0)

IMG IMG_FindByAddress(ADDRINT address) {
  api();
  for (Loaded &each : images)
    if (each.low <= address && address <= each.high) return {&each};
  return {nullptr};
}

RTN RTN_FindByName(IMG image, const CHAR *name) {
  api();
  for (Routine &each : image.is->routines)
    if (each.name == name) return {&each};
  return {nullptr};
}

void PIN_SetContextReg(CONTEXT *context, REG, ADDRINT value) {
  api();
  context->tool_register = value;
}

size_t PIN_SafeCopy(void *to, const void *from, size_t size) {
  api();
  memcpy(to, from, size);
  return size;
}

void PIN_CallApplicationFunction(const CONTEXT *, THREADID, CALLINGSTD_TYPE, AFUNPTR, void *, ...) {
  api();
}

void LOG(const std::string &text) { fputs(text.c_str(), stderr); }

/* ---- life ----------------------------------------------------------------------------------- */

static std::vector<std::string> words; /* of the command line */

std::vector<std::string> option(const std::string &name) {
  std::vector<std::string> found;
  for (size_t i = 0; i + 1 < words.size() && words[i] != "--"; i++)
    if (words[i] == "-" + name) found.push_back(words[i + 1]);
  return found;
}

void PIN_InitSymbols() {}

BOOL PIN_Init(INT32 argc, CHAR **argv) {
  words.assign(argv + 1, argv + argc);
  return false;
}

const std::string &PIN_Version() {
  static const std::string version = "a stand-in";
  return version;
}

void PIN_StartProgram() {
  api();
  std::vector<std::string> own = words;
  while (!own.empty() && own[0] != "--") own.erase(own.begin());
  if (!own.empty()) own.erase(own.begin());
  Self first = {0, system_ids++, 0, {}, {}};
  self = &first;
  begins();
  program(own);
  ends();
  finishes.deliver(0);
  exit(0);
}
