/* SPDX-License-Identifier: Apache-2.0 */
/* The client `xpuprof` of DynamoRIO: its parts and their interfaces.
 *
 * Only the core interface is used, and no C library: a kit without extensions suffices, nothing is
 * shared with the program, and start-up does not pay for a second libc. Hold the lock unless noted
 * otherwise; instrumented code needs none. */
#ifndef XPUPROF_CLIENT_H
#define XPUPROF_CLIENT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dr_api.h"
#include "engine.h"
#include "xpuprof/boundary.h"
#include "xpuprof/nesting.h"

/* Maximum number of paths; with MAX_BLOCKS it sizes the per-thread reservations (memory is
 * committed when touched), in which block b counts in cell b, and path p in cell PATH_CELLS + p. */
enum { MAX_PATHS = 1 << 21 };
enum { PATH_CELLS = MAX_BLOCKS, CELLS = MAX_BLOCKS + MAX_PATHS, MARKS_OFFSET = 8 * CELLS };

/* ---- base.c: what a C library would give ------------------------------------------------------
 */
static inline bool call_failed(long result) { return result < 0 && result > -4096; }
void release(void *memory, size_t size);
/* Maps a whole file read-only; NULL on failure. */
const void *file_map(const char *path, size_t *size);
/* A file whose size is unknown, followed by two zeros; never freed. */
char *file_text(const char *path, char **text, size_t *room);
void file_unmap(const void *content, size_t size);

/* ---- layout.c ---------------------------------------------------------------------------------
 */
void layout_init(void);
void *reserve(size_t size); /* zeros, committed when touched; NULL */

/* ---- the linker's: where our code lies --------------------------------------------------------
 */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

/* ---- main.c -----------------------------------------------------------------------------------
 */
void lock(void);
void unlock(void);
struct stat;
/* The path, which leads to `file`, is the kernel's name for a process's executable,
 * /proc/self/exe; without the lock. */
bool names_own_file(long folder, long path, const struct stat *file);

void options_read(const char *folder); /* with dynamorio.options; NULL: none */

/* ---- images.c: files that code comes from -----------------------------------------------------
 */
code_place image_place(app_pc code);
bool image_holds(app_pc code);            /* the code comes from a file */
bool image_never_counts(app_pc code);     /* it comes from one of which nothing counts */
bool image_is_native_kernel(app_pc code); /* its entry, of one that runs outside DynamoRIO */
void image_loaded(const module_data_t *module, bool by_runtime);
void images_search(void); /* those that native code has loaded */
void image_unloaded(const module_data_t *module);

/* ---- routines.c: symbols of images, for the routine filter ------------------------------------
 */
typedef struct routines routines;
routines *routines_read(const char *path);
bool routines_chosen(const routines *r, uint64_t offset);

/* ---- paths.c: blocks that run one after the other in a trace ----------------------------------
 */
enum { NO_PATH = 0xffffffff };
uint32_t path_with(uint32_t before, uint32_t block); /* `before`, followed by the block */
size_t paths_known(void);
uint32_t path_before(uint32_t path);
uint32_t path_block(uint32_t path); /* its last one */
uint64_t path_instructions(uint32_t path);

/* ---- threads.c: counters of threads -----------------------------------------------------------
 */
bool threads_init(void);
/* By its creator: a thread of the program or of the device runtime, or a child that shares memory
 * until it execs. Call the next eight without the lock. */
void thread_announced(uint64_t stack, bool child, bool runtime);
void thread_not_created(uint64_t stack);
void threads_await_births(void *drcontext); /* before the thread ends */
void thread_starts(void *drcontext);
void thread_ends(void *drcontext);
bool thread_restores(void *drcontext, bool restore_memory, dr_restore_state_info_t *state);
void thread_enters(bool count); /* device runtime (false) or callback (true) */
void thread_leaves(void);
bool thread_is_off(void *drcontext);
uint64_t stack_pointer(void *drcontext);
bool thread_is_child(void *drcontext); /* of its own process, whose memory it shares */
void thread_nests(uint32_t depth, uint64_t off);
static inline uint64_t signal_bit(int number) { return (uint64_t)1 << (number - 1); }
uint64_t *thread_ignores(void *drcontext); /* by its process, signals' bits */
uint64_t *thread_handles(void *drcontext); /* the same */
typedef struct suspension {
  bool under_way; /* by ppoll() */
  reg_t arguments[5];
  uint64_t set; /* without DynamoRIO's signal; 0: the program's own is waited for */
} suspension;
suspension *thread_suspension(void *drcontext); /* NULL: not known */
uint64_t *thread_blocks(void *drcontext);       /* by its own calls; NULL: a child, or not known */
uint64_t *thread_mask(void *drcontext);         /* the same, of a child, too */
uint64_t thread_refuses(void *drcontext);       /* blocked or ignored; of a child, as it began */
bool threads_are_several(void);                 /* a hint unless the caller is the only one */
uint64_t *thread_held(void *drcontext);         /* of waited_hold(); NULL: not known */
void threads_count_start_up(void); /* the first thread counts from now on; without the lock */
/* Number of blocks of the trace the thread is building. */
unsigned thread_extends_trace(void *drcontext, void *tag);
void threads_turned(void);   /* the window has opened or closed */
void threads_mark_all(void); /* before the final reading of all counters */
void threads_forked(void *drcontext);
/* For the instrumented code: where a thread finds its counters. */
void thread_insert_base(void *drcontext, instrlist_t *code, instr_t *where, reg_id_t to);
int thread_base_at(void); /* where that code loads from, in its segment */
void thread_count(uint32_t cell, uint64_t executions); /* of the calling thread's */
void thread_keep(uint64_t value);                      /* a word of the calling thread's, for ... */
void thread_insert_keep(void *drcontext, instrlist_t *code, instr_t *where, reg_id_t from);
void thread_insert_kept(void *drcontext, instrlist_t *code, instr_t *where, reg_id_t to);
void thread_insert_compare_kept(void *drcontext, instrlist_t *code, instr_t *where); /* with 0 */
uint64_t thread_kept(void);

/* ---- live.c: what the program needs after an instruction --------------------------------------
 */
typedef struct live_set {
  uint32_t registers; /* LIVE_REGISTER(r) */
  uint32_t flags;     /* of EFLAGS_WRITE_6 */
} live_set;

#define LIVE_REGISTER(r) (1u << ((r)-DR_REG_RAX))

/* How many instructions to examine where the fragment's own do not decide. */
enum { SEARCH_COLD = 0, SEARCH_HOT = 50 };

live_set live_at(void *drcontext, instr_t *from, int search);
live_set live_from(void *drcontext, app_pc pc, int search);
/* False where no instruction can be read. */
bool decode_at(void *drcontext, app_pc pc, instr_t *i);
bool can_fault(instr_t *i); /* false: never, of the frequent ones */
/* Where a branch in the middle of a trace leaves it; `next` follows in the trace. */
app_pc way_out(void *drcontext, instr_t *branch, instr_t *next);

/* ---- counting.c --------------------------------------------------------------------------------
 */
typedef struct scratch {
  reg_id_t reg;
  bool is_free;
  dr_spill_slot_t slot;
} scratch;

scratch take_register(void *drcontext, instrlist_t *code, instr_t *where, live_set live,
                      uint32_t taken, dr_spill_slot_t slot);
void give_register_back(void *drcontext, instrlist_t *code, instr_t *where, scratch s);
void insert_mark(void *drcontext, instrlist_t *code, instr_t *where, reg_id_t base, uint32_t cell);
/* Code that counts is executed, or begins, at `pc`, as far as it shows. */
bool counting_is_under_way(const byte *pc);
/* cell += amount (a register, or else 1) without touching the flags; `value` is clobbered. */
void insert_add(void *drcontext, instrlist_t *code, instr_t *where, reg_id_t base, uint32_t cell,
                reg_id_t value, reg_id_t amount);
/* `waits`: the code waits for upper halves of vector registers (uppers.c). */
void insert_count(void *drcontext, instrlist_t *code, instr_t *where, live_set live, uint32_t cell,
                  bool mark, bool waits);
/* Before a branch that leaves here: its flags may be recomputed. `live` is what its target
 * reads. */
void insert_count_taken(void *drcontext, instrlist_t *code, instr_t *where, live_set live,
                        uint32_t cell, int branch);
/* Without touching the flags. */
void insert_store(void *drcontext, instrlist_t *code, instr_t *where, reg_id_t base, size_t at,
                  reg_id_t from);
void insert_address(void *drcontext, instrlist_t *code, instr_t *where, reg_id_t to,
                    const void *address);
/* A register from or to thread-local storage. */
void insert_segment_move(void *drcontext, instrlist_t *code, instr_t *where, bool store,
                         reg_id_t reg, reg_id_t segment, uint32_t at);
/* Encoded, not decoded: code built to translate a state requires it. */
instr_t *raw_instruction(void *drcontext, const byte *bytes, unsigned n);
void decode_raw(void *drcontext, instrlist_t *code);

/* ---- uppers.c: upper halves of vector registers ------------------------------------------------
 */
void uppers_init(void);
bool waits_for_uppers(instr_t *i);
/* If the zero flag is set, tells the processor that the upper halves are unused, where they are
 * zero; clobbers the flags. */
void insert_release_if_zero(void *drcontext, instrlist_t *code, instr_t *where);

/* ---- traces.c ----------------------------------------------------------------------------------
 */
void trace_label_block(void *drcontext, instrlist_t *code, instr_t *where, uint32_t id);
void trace_label_end(void *drcontext, instrlist_t *code, instr_t *where);
dr_custom_trace_action_t extend_trace(void *drcontext, void *tag, void *next_tag);
bool trace_has_marker(const byte *pc);
/* In a trace's code, the path executed but not counted at `fault`, or NO_PATH. */
uint32_t trace_pending(void *drcontext, byte *start, const byte *fault);
dr_emit_flags_t instrument_trace(void *drcontext, void *tag, instrlist_t *code, bool translating);

/* ---- faults.c ----------------------------------------------------------------------------------
 */
dr_signal_action_t count_until_fault(void *drcontext, dr_siginfo_t *signal);

/* ---- instrument.c ------------------------------------------------------------------------------
 */
dr_emit_flags_t instrument(void *drcontext, void *tag, instrlist_t *code, bool for_trace,
                           bool translating);

/* ---- calls.c: return addresses -----------------------------------------------------------------
 */
void split_call(void *drcontext, instrlist_t *code); /* the instruction that ends the block */

/* ---- boundary.c: libxpuprof_rt in the program --------------------------------------------------
 */
void boundary_loaded(const module_data_t *module);
void boundary_unloaded(const module_data_t *module);
/* Inserts a call of ours where a block starts at one of its functions. */
void boundary_insert(void *drcontext, app_pc start, instrlist_t *code);

/* ---- natively.c: code of the device runtime that runs outside DynamoRIO; without the lock -------
 */
void natively_init(void);
void natively_break_at(void *at);                                    /* libc's __curbrk */
void natively_sets_handler(int number, const void *action);          /* the program does */
void natively_run(xpu_native_call *call);                            /* at xpu_run_natively() */
void natively_go_on(xpu_native_call *call);                          /* at xpu_go_on_natively() */
void natively_loaded(const char *path);                              /* the program has this */
void natively_load(const char *path, uint64_t flags, app_pc dlopen); /* at dlopen() */
/* Native code did, as the raw state says: the thread is to go on there under DynamoRIO. */
bool natively_calls_zero(void *drcontext, dr_siginfo_t *signal);

/* ---- ignored.c: ignored signals, as children and executed programs find them; without the lock --
 */
void ignored_init(void);
void ignored_set(void *drcontext, int number, const void *action, size_t size); /* or NULL */
void ignored_before_child(void *drcontext);
void ignored_before_exec(void *drcontext);
void ignored_after_failed_exec(void *drcontext);

/* ---- creations.c: threads and processes that the program makes; without the lock ----------------
 */
void creation_begins(void *drcontext, int number);
void creation_ended(void *drcontext, int number);
void creations_forked(void);

/* ---- signal_stack.c: the stack of a thread's handlers; without the lock -------------------------
 */
void signal_stack_after_call(void *drcontext, void *told);

/* ---- environment.c: variables of DynamoRIO's; without the lock ---------------------------------
 */
void environment_mend(void);

/* ---- unwritable.c: pages with code that the kernel writes to; without the lock ------------------
 */
void unwritable_block(void); /* of no file */
void unwritable_before_call(void *drcontext, int number);
void unwritable_after_call(void *drcontext, int number);

/* ---- shared_code.c: code that changes without notice; without the lock --------------------------
 */
void shared_code_after_mmap(void *drcontext);
bool shared_code_has(app_pc code);
size_t shared_code_size(instrlist_t *code);
void shared_code_insert(void *drcontext, app_pc start, size_t size, instrlist_t *code);

/* ---- waited.c: signals that calls wait for; without the lock ------------------------------------
 */
void waited_init(void);
uint64_t waited_written(void);  /* what DynamoRIO writes to descriptors of signalfd() */
uint64_t waited_at_start(void); /* what the program was executed with */
/* Blocks signals in Linux until the call that follows returns. */
void waited_hold(void *drcontext, uint64_t set);
void waited_release(void *drcontext);
void waited_before_fork(void *drcontext);
void waited_before_exec(void *drcontext);
void waited_mask(void *drcontext, int how, const void *set, size_t size);
void waited_descriptor(const void *set, size_t size);
bool waited_answers(void *drcontext, const void *set, void *info, size_t size);
void waited_after_wait(void *drcontext, void *info);
void waited_suspends(void *drcontext);
void waited_after_suspension(void *drcontext);
void waited_after_pending(void *drcontext, void *set, size_t size);
bool waited_arrives(int number, const siginfo_t *info);
bool waited_was_answered(void *drcontext, int number);
void waited_thread_ends(void *drcontext);
void waited_forked(void);

/* ---- terminal.c: what processes in the background do there; without the lock --------------------
 */
void terminal_before_call(void *drcontext, int number);

/* ---- undisturbed.c: calls that no handler may interrupt but the program's
 * ------------------------
 */

bool undisturbed_wants(int number);
void undisturbed_before_call(void *drcontext, int number);

/* ---- sent.c: signals of faults' numbers that somebody sends; without the lock -------------------
 */
bool sent_seems_fault(int number, const siginfo_t *info); /* to DynamoRIO, in its own code */
void sent_begin(const byte *handler);                     /* DynamoRIO's */
bool sent_come_again(const siginfo_t *info, unsigned ms); /* to this thread; false: it cannot */
void sent_returns(siginfo_t *info); /* if it is one that comes again: as it was sent */
bool sent_too_early(const siginfo_t *info, const byte *pc);

/* ---- signals.c: a handler in front of DynamoRIO's; without the lock -----------------------------
 */
void signals_come_first(void);
void signals_changed(int i); /* by the program: signal i + 1 comes first again, where it did */
/* Of signal i + 1. */
void signal_action(int i, const xpu_signal_action *set, xpu_signal_action *get);
bool signal_is_dynamorios(const xpu_signal_action *action);
bool signal_is_of_code(int number);              /* as faults raise */
bool signal_at_zero(const dr_siginfo_t *signal); /* code at address 0 was called */

enum { SIGNAL_REGISTERS = 23 }; /* in a ucontext_t */
uint64_t signal_first_handler(void);
bool signal_came_between(uint64_t pc, const char *start, const char *end);
/* greg_t */
void signal_keep_registers(long long *to, const long long *from, const siginfo_t *info);
void signal_read_registers(dr_mcontext_t *context, const long long *from);

/* ---- start_up.c: the first thread until the first launch; without the lock ----------------------
 */
void start_up_init(void);
bool start_up_thread_starts(void *drcontext); /* with the lock; whether it is this one */
void start_up_thread_ends(void *drcontext);
/* Corrects a state in a block behind a system call. */
void start_up_restores(void *drcontext, dr_restore_state_info_t *state);
void start_up_forked(void *drcontext);
void start_up_before_call(void *drcontext, int number, long first);
void start_up_instrument(void *drcontext, app_pc start, instrlist_t *code, bool for_trace);
bool start_up_interrupted(int number, const siginfo_t *info, ucontext_t *context);
void start_up_unloaded(app_pc start, app_pc end); /* with the lock */
/* By libxpuprof_rt: prctl(XPU_PRCTL_..., runtime). */
void start_up_is_told(uint64_t what, xpu_start_up *runtime);

/* ---- kernels.c: kernels that run outside DynamoRIO; without the lock ----------------------------
 */
void kernels_init(void);
void kernels_expected(void); /* before the first */
bool kernels_are_possible(void);
/* Puts a call of ours in the place of the code, which starts at a kernel's entry. */
void kernel_insert(void *drcontext, app_pc start, instrlist_t *code);
bool kernels_run_natively(void); /* those met from now on */
/* In a handler: whether that was all, since the kernel will fault again. */
bool kernel_interrupted(int number, const siginfo_t *info, ucontext_t *context);
typedef struct kernel_call kernel_call;
kernel_call *kernels_thread_starts(void *drcontext); /* NULL: none runs natively */
void kernels_thread_ends(void *drcontext, kernel_call *c);
/* Corrects a state in the block of a kernel; false: it is no place to stop at. */
bool kernel_restores(const kernel_call *c, bool restore_memory, dr_restore_state_info_t *state);

/* ---- window.c: when and where is counted -------------------------------------------------------
 */
void window_init(void);
void window_turn(bool open);
bool window_is_open(void);
bool window_excludes_process(void);

#endif
